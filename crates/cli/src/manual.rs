//! Generates documents from the definitions of the commands: manual pages and `docs/cli.md`.

mod markdown;

use crate::Invocation;
use crate::cli::{HelpLength, Verb, command};
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::settings::Layers;
use clap::{Args, Command};
use std::path::{Path, PathBuf};

/// Write the manual page of every command to a directory.
///
/// The pages go to PATH, one for each command, as `man` wants them. Copy them to the section 1 of a manual, for example
/// /usr/local/share/man/man1, or read one in place: man -l PATH/sabir-send.1
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The directory to write to; it is made if it does not exist.
    #[arg(value_name = "PATH")]
    directory: PathBuf,
}

impl Verb for Man {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let directory = self.directory.display();
        let failed = |error| Problem::usage(format!("cannot write manual pages to {directory}: {error}"));
        let pages = man_pages(&definitions(), &self.directory).map_err(failed)?;
        out.payload(&format!("wrote {pages} manual pages to {directory}\n"))?;
        Ok(Exit::Done)
    }
}

/// Write the page about all commands, docs/cli.md, to standard output.
#[derive(Debug, Args)]
pub(crate) struct Manual;

impl Verb for Manual {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        out.payload(&markdown::page(&definitions()))?;
        Ok(Exit::Done)
    }
}

/// The commands without settings: values that are configured on this machine do not belong in a manual.
fn definitions() -> Command {
    command(&Layers::default(), HelpLength::Full)
}

/// One page per command, named as `man sabir-task-get` finds it.
fn man_pages(root: &Command, directory: &Path) -> std::io::Result<usize> {
    let mut root = root.clone();
    root.build();
    std::fs::create_dir_all(directory)?;
    let commands = visible_commands(&root);
    for (path, command) in &commands {
        let name = format!("sabir {path}").trim_end().replace(' ', "-");
        let mut page = Vec::new();
        let named = (*command).clone().name(leak(&name)).display_name(leak(&name));
        clap_mangen::Man::new(named)
            .date("")
            .manual("Sabir")
            .source(format!("sabir {}", env!("CARGO_PKG_VERSION")))
            .render(&mut page)?;
        std::fs::write(directory.join(format!("{name}.1")), page)?;
    }
    Ok(commands.len())
}

/// The parser requires `'static` names. The program ends soon, so leaking them is harmless.
fn leak(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

/// Every command that help shows, with its words, parents first.
fn visible_commands(root: &Command) -> Vec<(String, &Command)> {
    fn walk<'a>(path: &str, command: &'a Command, found: &mut Vec<(String, &'a Command)>) {
        found.push((path.to_owned(), command));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
            walk(format!("{path} {}", below.get_name()).trim_start(), below, found);
        }
    }
    let mut found = Vec::new();
    walk("", root, &mut found);
    found
}
