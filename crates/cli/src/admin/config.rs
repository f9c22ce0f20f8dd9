//! `sabir config check` and `sabir config schema`: the configuration of a server, before it starts.

use super::wait_for;
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Code, Outcome, Problem};
use crate::run::serve::configured;
use clap::Args;
use sabir_server::{Config, Server};
use serde_json::json;
use std::path::PathBuf;

/// Check a configuration without starting the server.
///
/// The check builds the whole server on a store in memory, so it finds every mistake that a start would find. It does not
/// listen, and it does not open the store. It also warns of what is legal and probably wrong.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir config check\n  \
    sabir config check deploy/sabir.toml --strict\n\n\
    Exit code 0: the server would start. 1: it would not, or --strict was given and there are warnings.")]
pub(crate) struct Check {
    /// The file; ./sabir.toml if there is one.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Fail on warnings too.
    #[arg(long)]
    strict: bool,
}

impl Verb for Check {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let wrong = |text: String| Problem::new(Code::Vendor("SABIR_ERR_CONFIG"), text).hint(HINT);
        let config = configured(self.file.clone(), None).map_err(|error| wrong(format!("{error:#}")))?;
        let (agents, warnings, notes) = (config.agent.len(), config.warnings(), config.origins.notes());
        wait_for(Server::check(config))?.map_err(|error| wrong(error.to_string()))?;
        if out.is_json() {
            out.document(&json!({"valid": true, "agents": agents, "warnings": warnings}).to_string())?;
        }
        out.text(|floor| {
            for note in &notes {
                floor.field("Note", note);
            }
            for warning in &warnings {
                floor.field("Warning", warning);
            }
            if agents == 0 {
                floor.field("Agents", "none; sabir serve starts the demo agents");
            } else {
                floor.field("Agents", &agents.to_string());
            }
            floor.field("Configuration", if warnings.is_empty() { "valid" } else { "valid, with warnings" });
        })?;
        Ok(if self.strict && !warnings.is_empty() { Exit::Failed } else { Exit::Done })
    }
}

const HINT: &str = "sabir.example.toml explains every key; sabir config schema gives editors the same";

/// Print the JSON Schema of sabir.toml, for editors.
///
/// Editors with a TOML language server complete and check keys when the first line of the file is
/// `#:schema ./sabir.schema.json`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sabir config schema > sabir.schema.json")]
pub(crate) struct Schema {}

impl Verb for Schema {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        out.document(&Config::json_schema().to_string())?;
        Ok(Exit::Done)
    }
}
