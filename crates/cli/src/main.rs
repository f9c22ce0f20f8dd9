//! The `sabir` binary: parse, run, exit code.

mod look;
mod run;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Agents of every dialect behind one door, on one durable task log.
#[derive(Debug, Parser)]
#[command(name = "sabir", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(run::serve::Serve),
    DemoServer(run::demo::DemoServer),
    Convert(look::convert::Convert),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::DemoServer(demo) => demo.run(),
        Command::Convert(convert) => convert.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sabir: {error:#}");
            ExitCode::FAILURE
        }
    }
}
