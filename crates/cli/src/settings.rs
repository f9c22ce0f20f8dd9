//! Settings: every option that may also come from a variable or a file, in one table.
//!
//! From the table come the arguments of the parser, the variables, what `--help` says about defaults, `config show` and
//! the documentation; an option is added by adding a line. A value is looked for in five places, the nearest first:
//! flag, environment, local file, global file, built-in default. Where it was found is kept with it, because people ask.
//!
//! `--stream` is in the table so that it is documented, and its reach says that it comes from the command line alone.
//! What belongs to one operation only (`--validate`, `--status`) is an argument of its command and not here.

mod dotenv;
mod help;
mod kind;
mod layers;
mod resolve;
mod show;
mod table;

pub(crate) use help::{arguments, output_alone};
pub(crate) use kind::{Kind, duration};
pub(crate) use layers::Layers;
pub(crate) use resolve::{Settings, Source, Waiting, configured};
pub(crate) use show::{json, show};
pub(crate) use table::{SETTINGS, find};

/// One option.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The canonical long flag without its dashes, which is also its name everywhere else.
    pub(crate) flag: &'static str,
    pub(crate) short: Option<char>,
    /// Other long flags that mean the same. They have no variable of their own.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) reach: Reach,
    /// What is said where nothing was given; not a value to be parsed.
    pub(crate) default: &'static str,
    pub(crate) secret: bool,
    pub(crate) repeatable: bool,
    /// The commands that take it, as a person types them; none means every command that talks to an agent.
    pub(crate) commands: &'static [&'static str],
    pub(crate) help: &'static str,
}

/// Where a setting may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
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
        match self.reach {
            Reach::FlagOnly => None,
            Reach::Anywhere | Reach::NoFile => Some(format!("A2ACLI_{}", self.flag.replace('-', "_").to_uppercase())),
        }
    }

    /// Whether a command takes it.
    pub(crate) fn belongs_to(&self, command: &str) -> bool {
        self.commands.is_empty() || self.commands.contains(&command) || command == "config show"
    }
}
