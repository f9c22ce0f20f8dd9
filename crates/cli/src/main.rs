//! The sabir binary: parses the arguments, runs the command, returns the exit code.

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "doc comments of arguments are help texts: [agent] is a section of the configuration, <name> a value"
)]

mod admin;
mod bench;
mod call;
mod cassette;
mod cli;
mod completion;
mod conformance;
mod convert;
mod doctor;
mod exit;
#[cfg(test)]
mod guides;
mod http_listener;
mod input;
mod lattice;
mod legacy_commands;
mod manual;
mod mcp;
mod output;
mod problem;
mod raw_call;
mod render;
mod run;
mod settings;

use cli::HelpLength;
use exit::Exit;
use output::{Format, Output};
use problem::{Outcome, Problem, Stop};
use render::ColorChoice;
use sabir_client::redact;
use settings::{Layers, Settings};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// The input of a command: the settings of this run, and the output writers.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) settings: Settings,
    pub(crate) out: Output,
    /// The words of the command, such as `task get`.
    pub(crate) path: &'static str,
}

impl Invocation {
    /// Sets the agent that was given as an argument. An agent that was given by a flag must be the same one.
    pub(crate) fn with_agent(mut self, agent: Option<&str>) -> Result<Self, Problem> {
        let Some(agent) = agent else { return Ok(self) };
        if self.settings.agent_card.is_typed() && self.settings.agent_card.text() != Some(agent) {
            return Err(Problem::usage("two different agents were given, one as an argument and one by --agent-card")
                .hint(format!("give one of them; sabir {} --help", self.path)));
        }
        self.settings.agent_card.set(agent);
        Ok(self)
    }
}

fn main() -> ExitCode {
    if completion::answered() {
        return Exit::Done.into();
    }
    let redactor = redact::process_redactor().clone();
    std::panic::set_hook(Box::new(panicked));
    let (arguments, scan) = match arguments() {
        Ok(read) => read,
        Err(problem) => {
            Output::plain(redactor).report(&problem);
            return Exit::Usage.into();
        }
    };
    // A settings file that cannot be read is an error only for commands that take settings.
    let layers = Layers::load(scan.config.as_deref());
    let configured = |typed: Option<String>, flag: &str, variable: &str| {
        typed.or_else(|| match &layers {
            Ok(layers) => settings::configured(layers, flag),
            Err(_) => std::env::var(variable).ok(),
        })
    };
    let format = Format::read(configured(scan.output, "output", "A2ACLI_OUTPUT").as_deref());
    let color = ColorChoice::read(configured(scan.color, "color", "A2ACLI_COLOR").as_deref());
    let out = Output::new(format, color, redactor);
    let ran = catch_unwind(AssertUnwindSafe(|| start(&arguments, layers, out.clone())));
    let outcome = ran.unwrap_or_else(|_| {
        Err(Problem::internal("something went wrong that should not have")
            .hint("add --debug and report what it says")
            .into())
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(Stop::ReaderGone) => Exit::Done.into(),
        Err(Stop::Problem(problem)) => {
            out.report(&problem);
            problem.code.exit().into()
        }
    }
}

/// The typed arguments in today's syntax, and the options that are read before parsing.
fn arguments() -> Result<(Vec<String>, legacy_commands::EarlyOptions), Problem> {
    let typed: Result<Vec<String>, _> = std::env::args_os().map(std::ffi::OsString::into_string).collect();
    let typed =
        typed.map_err(|word| Problem::usage(format!("{} is not UTF-8", word.to_string_lossy())).hint("sabir help"))?;
    let arguments = legacy_commands::rewrite(typed);
    let scan = legacy_commands::EarlyOptions::of(&arguments);
    Ok((arguments, scan))
}

/// Parses, resolves the settings and hands over to the command.
fn start(arguments: &[String], layers: Result<Layers, Problem>, out: Output) -> Outcome {
    let nothing = Layers::default();
    let known = layers.as_ref().unwrap_or(&nothing);
    if cli::wants_full_help(arguments) {
        out.payload(&cli::command(known, HelpLength::Full).render_help().to_string())?;
        return Ok(Exit::Done);
    }
    if arguments.len() < 2 {
        out.payload(&cli::command(known, HelpLength::Short).render_help().to_string())?;
        return Ok(Exit::Done);
    }
    let matches = match cli::command(known, HelpLength::Short).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        // Every way to ask for the version prints the version of this program.
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion => {
            out.payload(concat!("sabir ", env!("CARGO_PKG_VERSION"), "\n"))?;
            return Ok(Exit::Done);
        }
        Err(error) if !error.use_stderr() => {
            out.payload(&error.to_string())?;
            return Ok(Exit::Done);
        }
        Err(error) => return Err(cli::parse_problem(&error, arguments).into()),
    };
    let (entry, chain) = cli::chosen_command(&matches)?;
    let last = chain.last().copied().unwrap_or(&matches);
    if !entry.takes_settings() {
        let settings = Settings::resolve(&nothing, &[])?;
        return (entry.run)(last, Invocation { settings, out, path: entry.path });
    }
    let settings = Settings::resolve(&layers?, &chain)?;
    for one in settings.all().iter().filter(|one| one.setting.secret) {
        one.values.iter().for_each(|value| out.redactor.learn(value));
    }
    let (lines, verbose, quiet) = (settings.stream.is_on(), settings.verbose.is_on(), settings.quiet.is_on());
    if quiet && out.is_json() {
        return Err(Problem::usage("--quiet prints the answer as text, and -o json prints an object")
            .hint("leave one of them out")
            .into());
    }
    let out = Output { lines, verbose, quiet, ..out };
    settings.warnings.iter().for_each(|warning| out.warn(warning));
    (entry.run)(last, Invocation { settings, out, path: entry.path })
}

/// Reports a panic with secrets redacted: its message may quote the data that was being processed.
fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    Output::plain(redact::process_redactor().clone()).note(&format!("panicked: {info}"));
}
