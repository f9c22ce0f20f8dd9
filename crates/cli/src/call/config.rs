//! `sabir config show`.

use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::Outcome;
use crate::settings;
use clap::Args;

/// Show every setting, its value and where it comes from.
///
/// Looks, in this order, at flags, the environment, the .env of this directory or a parent (or the file of --config), and
/// ~/.config/a2a-cli/.env. Secrets are not shown. Settings are changed with an editor; this tool never writes them.
#[derive(Debug, Args)]
pub(crate) struct ConfigShow {}

impl Verb for ConfigShow {
    fn run(self, Invocation { settings, out, .. }: Invocation) -> Outcome {
        if out.is_json() {
            out.document(&settings::json(&settings))?;
        } else {
            out.payload(&settings::show(&settings))?;
        }
        Ok(Exit::Done)
    }
}
