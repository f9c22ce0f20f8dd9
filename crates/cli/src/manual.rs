//! What is generated from the definitions of the commands: man pages and `docs/cli.md`.

mod markdown;

use crate::Invocation;
use crate::cli::{HelpLength, Verb, command};
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::settings::Layers;
use clap::{Args, Command, ValueEnum};
use std::path::{Path, PathBuf};

/// Write the manual: docs/cli.md to standard output, or man pages to a directory.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// What to write.
    form: Form,
    /// The directory for man pages.
    #[arg(long, value_name = "PATH", default_value = "docs/man")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    Markdown,
    Man,
}

impl Verb for Manual {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        // Nothing that happens to be configured here belongs in a manual.
        let root = command(&Layers::default(), HelpLength::Full);
        match self.form {
            Form::Markdown => out.payload(&markdown::page(&root))?,
            Form::Man => {
                let failed =
                    |error| Problem::internal(format!("cannot write man pages to {}: {error}", self.dir.display()));
                man_pages(&root, &self.dir).map_err(failed)?;
            }
        }
        Ok(Exit::Done)
    }
}

/// One page per command, named as `man sabir-task-get` finds it.
fn man_pages(root: &Command, directory: &Path) -> std::io::Result<()> {
    let mut root = root.clone();
    root.build();
    std::fs::create_dir_all(directory)?;
    for (path, command) in shown(&root) {
        let name = format!("sabir {path}").trim_end().replace(' ', "-");
        let mut page = Vec::new();
        let named = command.clone().name(leak(&name)).display_name(leak(&name));
        clap_mangen::Man::new(named)
            .date("")
            .manual("Sabir")
            .source(format!("sabir {}", env!("CARGO_PKG_VERSION")))
            .render(&mut page)?;
        std::fs::write(directory.join(format!("{name}.1")), page)?;
    }
    Ok(())
}

/// The parser wants names that live as long as the program, which this one soon does not.
fn leak(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

/// Every command that help shows, with its words, parents first.
fn shown(root: &Command) -> Vec<(String, &Command)> {
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
