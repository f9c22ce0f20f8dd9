//! The command `cargo xtask`. The work is in the library; here are the arguments and the exit code.

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  protogen           write crates/wire/src/pb from crates/wire/proto
  protogen --check   fail if that would change anything
  counts             print how large the repository is, and what tells of its shape
  tidy               check what reviewers should not have to";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["protogen"] => protogen(),
        ["protogen", "--check"] => protogen_check(),
        ["counts"] => counts(),
        ["tidy"] => tidy(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason:#}");
            ExitCode::FAILURE
        }
    }
}

fn protogen() -> Result<()> {
    let written = xtask::protogen::write(&xtask::workspace_root()?)?;
    if written.is_empty() {
        println!("nothing to do, all files are up to date");
    }
    for file in written {
        println!("wrote {file}");
    }
    Ok(())
}

fn protogen_check() -> Result<()> {
    let stale = xtask::protogen::stale(&xtask::workspace_root()?)?;
    if !stale.is_empty() {
        bail!("not what the .proto files give: {}; run `cargo xtask protogen`", stale.join(", "));
    }
    Ok(())
}

fn counts() -> Result<()> {
    print!("{}", xtask::counts::count(&xtask::workspace_root()?)?);
    Ok(())
}

fn tidy() -> Result<()> {
    let report = xtask::tidy(&xtask::workspace_root()?);
    for note in &report.notes {
        println!("note: {note}");
    }
    for error in &report.errors {
        eprintln!("error: {error}");
    }
    if !report.errors.is_empty() {
        bail!("tidy found {} thing(s) to put right", report.errors.len());
    }
    Ok(())
}
