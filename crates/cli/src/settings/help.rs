//! The arguments of the parser, made from the table.

use super::{Layers, SETTINGS, Setting, ValueKind};
use clap::{Arg, ArgAction, Command};

/// Under what settings that every command takes are listed.
const GLOBAL: &str = "Global options";

/// A command with the settings it takes. What is configured now is shown as the default, with its source.
pub(crate) fn arguments(command: Command, path: &str, layers: &Layers) -> Command {
    let taken = SETTINGS.iter().filter(|setting| setting.belongs_to(path));
    command.args(taken.map(|setting| argument(setting, layers)))
}

/// A command with the form of its result, and no other setting.
pub(crate) fn output_alone(command: Command, layers: &Layers) -> Command {
    let forms = SETTINGS.iter().filter_map(|setting| match setting.kind {
        ValueKind::Format => Some(argument(setting, layers).value_parser(["text", "json", "pretty"])),
        ValueKind::Color => Some(argument(setting, layers).value_parser(["auto", "always", "never"])),
        _ => None,
    });
    command.args(forms)
}

fn argument(setting: &'static Setting, layers: &Layers) -> Arg {
    let mut arg = Arg::new(setting.flag).long(setting.flag).help(text(setting, layers));
    arg = setting.aliases.iter().fold(arg, |arg, alias| arg.alias(*alias));
    if let Some(letter) = setting.short {
        arg = arg.short(letter);
    }
    if setting.commands.is_empty() {
        arg = arg.help_heading(GLOBAL);
    }
    match setting.kind {
        ValueKind::Switch => arg.action(ArgAction::SetTrue),
        kind => {
            let action = if setting.repeatable { ArgAction::Append } else { ArgAction::Set };
            arg.action(action).value_name(kind.placeholder())
        }
    }
}

/// What help says about a setting: its meaning, its variable and what is in force.
fn text(setting: &Setting, layers: &Layers) -> String {
    let mut text = setting.help.to_owned();
    if let [alias, ..] = setting.aliases {
        text += &format!(" [also: --{alias}]");
    }
    if let Some(variable) = setting.variable() {
        text += &format!(" [env: {variable}]");
    }
    match layers.find(setting) {
        Some((_, source)) if setting.secret => text += &format!(" [now: [redacted], from {source}]"),
        Some((value, source)) => {
            text += &format!(" [now: {}, from {source}]", super::show::shown_value(setting, &value))
        }
        None => text += &format!(" [default: {}]", setting.default),
    }
    text
}
