//! The `sabir` binary: parse, run, exit code.

mod admin;
mod call;
mod cli;
mod exit;
mod habits;
mod look;
mod manual;
mod mcp;
mod output;
mod problem;
mod render;
mod run;
mod settings;

use exit::Exit;
use output::{Format, Output, report};
use problem::{Outcome, Problem, Stop};
use sabir_client::redact::{self, Redactor};
use settings::{Layers, Settings};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// The redactor of this process, where a panic finds it too.
static REDACTOR: OnceLock<Arc<Redactor>> = OnceLock::new();

/// What a command is started with: the settings of this run, and where to write.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) settings: Settings,
    pub(crate) out: Output,
    /// The command, as it is typed.
    pub(crate) path: &'static str,
}

fn main() -> ExitCode {
    let redactor = REDACTOR.get_or_init(Arc::default).clone();
    std::panic::set_hook(Box::new(panicked));
    let (arguments, scan) = match arguments() {
        Ok(read) => read,
        Err(problem) => {
            report(&problem, Format::Text, &redactor);
            return Exit::Usage.into();
        }
    };
    // A file that cannot be read is only the business of commands that take settings.
    let layers = Layers::load(scan.config.as_deref());
    let format = scan.output.or_else(|| match &layers {
        Ok(layers) => settings::format_of(layers),
        Err(_) => std::env::var("A2ACLI_OUTPUT").ok(),
    });
    let format = Format::read(format.as_deref());
    let ran = catch_unwind(AssertUnwindSafe(|| start(&arguments, layers, format, &redactor)));
    let outcome = ran.unwrap_or_else(|_| {
        Err(Problem::internal("something went wrong that should not have")
            .hint("add --debug and report what it says")
            .into())
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(Stop::ReaderGone) => Exit::Done.into(),
        Err(Stop::Problem(problem)) => {
            report(&problem, format, &redactor);
            problem.code.exit().into()
        }
    }
}

/// What was typed, in the words of today, and what has to be known before it is parsed.
fn arguments() -> Result<(Vec<String>, habits::Scan), Problem> {
    let typed: Result<Vec<String>, _> = std::env::args_os().map(std::ffi::OsString::into_string).collect();
    let typed =
        typed.map_err(|word| Problem::usage(format!("{} is not UTF-8", word.to_string_lossy())).hint("sabir help"))?;
    let arguments = habits::rewrite(typed);
    let scan = habits::Scan::of(&arguments);
    Ok((arguments, scan))
}

/// Parses, resolves the settings and hands over to the command.
fn start(arguments: &[String], layers: Result<Layers, Problem>, format: Format, redactor: &Arc<Redactor>) -> Outcome {
    let out = Output::new(format, redactor.clone());
    let nothing = Layers::default();
    let matches = match cli::command(layers.as_ref().unwrap_or(&nothing)).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        // However it was asked for, it is the version of the one program there is.
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion => {
            out.payload(concat!("sabir ", env!("CARGO_PKG_VERSION"), "\n"))?;
            return Ok(Exit::Done);
        }
        Err(error) if !error.use_stderr() => {
            out.payload(&error.to_string())?;
            return Ok(Exit::Done);
        }
        Err(error) => return Err(cli::refused(&error, arguments).into()),
    };
    let (entry, chain) = cli::chosen(&matches)?;
    let last = chain.last().copied().unwrap_or(&matches);
    if !entry.takes_settings() {
        let settings = Settings::resolve(&nothing, &[])?;
        return (entry.run)(last, Invocation { settings, out, path: entry.path });
    }
    let settings = Settings::resolve(&layers?, &chain)?;
    for one in settings.all().iter().filter(|one| one.setting.secret) {
        one.values.iter().for_each(|value| redactor.learn(value));
    }
    let (lines, verbose) = (settings.on("stream"), settings.on("verbose"));
    let out = Output { format: settings.format(), lines, verbose, ..out };
    settings.warnings.iter().for_each(|warning| out.warn(warning));
    (entry.run)(last, Invocation { settings, out, path: entry.path })
}

/// A panic is a fault of ours; its message may quote what it was working on.
fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    let plain = Output::new(Format::Text, REDACTOR.get_or_init(Arc::default).clone());
    plain.note(&format!("panicked: {info}"));
}
