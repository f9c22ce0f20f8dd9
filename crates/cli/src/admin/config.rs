//! `sabir config check` and `sabir config schema`: the configuration of a server, before it starts.

use super::block_on;
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::run::serve::configured;
use clap::Args;
use sabir_server::{Config, Server};
use serde_json::json;
use std::path::PathBuf;

/// Check a configuration without starting the server.
///
/// The check builds the whole server on a store in memory, so it finds every mistake that a start would find. It does not
/// listen, and it does not open the store. A fallback that names an agent which is not in the file is an error as well,
/// because the server would find out only when it needs it. It also warns of what is legal and probably wrong.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir config check\n  \
    sabir config check deploy/sabir.toml --strict\n\n\
    Exit code 0: the server would start. 1: it would not, a fallback is not in the file, or --strict was given and there are \
    warnings.")]
pub(crate) struct ConfigCheck {
    /// The file; ./sabir.toml if there is one.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Fail on warnings too.
    #[arg(long)]
    strict: bool,
}

impl Verb for ConfigCheck {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let wrong = |text: String| Problem::new(ErrorCode::Vendor("SABIR_ERR_CONFIG"), text).hint(CONFIG_HINT);
        let config = configured(self.file.clone(), None).map_err(|error| wrong(format!("{error:#}")))?;
        let (agents, warnings, notes) = (config.agent.len(), config.warnings(), config.sources.notes());
        block_on(Server::check(config))?.map_err(|error| wrong(error.to_string()))?;
        if out.is_json() {
            out.document(&json!({"valid": true, "agents": agents, "warnings": warnings}).to_string())?;
        }
        out.text(|fields| {
            for note in &notes {
                fields.field("Note", note);
            }
            for warning in &warnings {
                fields.field("Warning", warning);
            }
            if agents == 0 {
                fields.field("Agents", "none; sabir serve starts the demo agents");
            } else {
                fields.field("Agents", &agents.to_string());
            }
            fields.field("Configuration", if warnings.is_empty() { "valid" } else { "valid, with warnings" });
        })?;
        Ok(if self.strict && !warnings.is_empty() { Exit::Failed } else { Exit::Done })
    }
}

const CONFIG_HINT: &str = "sabir.example.toml explains every key; sabir config schema gives editors the same";

/// Print the JSON Schema of sabir.toml, for editors.
///
/// Editors with a TOML language server complete and check keys when the first line of the file is
/// `#:schema ./sabir.schema.json`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sabir config schema > sabir.schema.json")]
pub(crate) struct ConfigSchema {}

impl Verb for ConfigSchema {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        out.document(&Config::json_schema().to_string())?;
        Ok(Exit::Done)
    }
}
