//! Settings: every option that may also come from a variable or a file, in one table.
//!
//! The arguments of the parser, the variables, the defaults in `--help`, `config show` and the documentation all come
//! from the table; a new line adds an option, and the field of [`Settings`] with its value. A value is looked for in five places, the nearest first: flag, environment,
//! local file, global file, built-in default. The place is kept with the value, so that `config show` can print it.
//!
//! `--stream` is in the table so that it is documented; its `AllowedSources` permits only the command line. An option of
//! a single operation (`--validate`, `--status`) is an argument of its command and not in the table.

mod dotenv;
mod help;
mod kind;
mod layers;
mod resolve;
mod show;
mod table;
mod value;

pub(crate) use help::{arguments, output_alone};
pub(crate) use kind::{ValueKind, duration, span};
pub(crate) use layers::Layers;
pub(crate) use resolve::{SettingSource, WaitMode, configured};
pub(crate) use show::{json, show};
pub(crate) use table::{SETTINGS, Settings, find};
pub(crate) use value::SettingValue;

/// One option of the table.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The canonical long flag without its dashes, which is also its name everywhere else.
    pub(crate) flag: &'static str,
    pub(crate) short: Option<char>,
    /// Other long flags that mean the same. They have no variable of their own.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: ValueKind,
    pub(crate) sources: AllowedSources,
    /// The description of the built-in default; not a value to be parsed.
    pub(crate) default: &'static str,
    pub(crate) secret: bool,
    pub(crate) repeatable: bool,
    /// The commands that take it, as a person types them; none means every command that talks to an agent.
    pub(crate) commands: &'static [&'static str],
    pub(crate) help: &'static str,
}

/// The places that may set an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedSources {
    /// All five places.
    Anywhere,
    /// Flag or variable: `--config`, since a file that names another file would have no end.
    NoFile,
    /// The command line and nowhere else: `--stream`, since a script must see from its text what shape it gets.
    FlagOnly,
}

impl Setting {
    /// The variable that sets it: the flag in capitals, with the prefix all implementations share.
    pub(crate) fn variable(&self) -> Option<String> {
        match self.sources {
            AllowedSources::FlagOnly => None,
            AllowedSources::Anywhere | AllowedSources::NoFile => {
                Some(format!("A2ACLI_{}", self.flag.replace('-', "_").to_uppercase()))
            }
        }
    }

    /// Whether a command takes it.
    pub(crate) fn belongs_to(&self, command: &str) -> bool {
        self.commands.is_empty() || self.commands.contains(&command) || command == "config show"
    }
}
