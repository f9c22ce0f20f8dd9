//! `sabir backup` and `sabir restore`: a copy of everything a server keeps, and putting it back.

use super::{ServerFiles, problem, progress_reporter};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem, Stop};
use clap::Args;
use sabir_server::admin::{self, CopyReport};
use serde_json::json;
use std::path::PathBuf;

/// Copy everything a server keeps, while it runs or not.
///
/// Two files are written, FILE with the tasks and FILE.guard with keys, organisations and the audit, as they stood at one
/// moment each. The copy is checked before it gets its name, and can be opened like any store. Configuration, certificates
/// and what secrets are read from are not in it; tokens and credentials of webhooks are, in clear. Nothing is written over.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir backup /var/backups/sabir/monday.db\n  \
    sabir backup \"copies/$(date +%F).db\" --data /srv/sabir")]
pub(crate) struct Backup {
    /// The file to write the copy to.
    file: PathBuf,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for Backup {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        let copied = admin::backup(&config, &self.file, &mut progress_reporter(&out)).map_err(problem)?;
        print_copy(&out, "Copy", &copied)?;
        Ok(Exit::Done)
    }
}

/// Put a copy of `sabir backup` where a server keeps its store.
///
/// The copy is checked first, and stays as it is. A server that runs on the store is never touched: stop it before. With
/// --replace, a store that is there is put aside under another name; without, it is left alone and this is an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir restore /var/backups/sabir/monday.db\n  \
    sabir restore /var/backups/sabir/monday.db --replace --data /srv/sabir")]
pub(crate) struct Restore {
    /// The copy; its FILE.guard must be beside it.
    file: PathBuf,
    /// Put an existing store aside.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for Restore {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let config = self.server.config()?;
        if admin::is_store(&config, &self.file) {
            return Err(Problem::usage(format!("{} is the store itself", self.file.display())).into());
        }
        let copied =
            admin::restore(&config, &self.file, self.replace, &mut progress_reporter(&out)).map_err(problem)?;
        print_copy(&out, "Store", &copied)?;
        Ok(Exit::Done)
    }
}

fn print_copy(out: &Output, label: &str, copied: &CopyReport) -> Result<(), Stop> {
    let CopyReport { path, guard, bytes, check_report: checked, aside } = copied;
    if out.is_json() {
        let said = json!({
            "file": path, "guard": guard, "bytes": bytes, "tasks": checked.tasks,
            "events": checked.events, "auditEntries": checked.audit, "aside": aside,
        });
        return out.document(&said.to_string());
    }
    out.text(|fields| {
        fields.field(label, &path.display().to_string());
        fields.field("Guard", &guard.display().to_string());
        fields.field("Bytes", &bytes.to_string());
        fields.field("Tasks", &checked.tasks.to_string());
        fields.field("Audit entries", &checked.audit.to_string());
        fields.maybe("Put aside", aside.as_ref().map(|aside| aside.display().to_string()).as_deref());
    })
}
