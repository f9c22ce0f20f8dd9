//! `sabir mock`: an agent made from a cassette, which says what was recorded and nothing else.

mod index;
mod player;

use super::{Cassette, DamagePolicy};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use clap::Args;
use index::CassetteIndex;
use player::Player;
use sabir_server::local_server::LocalServer;
use std::path::PathBuf;
use std::sync::Arc;

/// Serve a cassette as an agent that always says the same.
///
/// Listens on this machine with the card that was recorded. A request is answered with what was recorded for it: the same
/// method with the same parameters, whatever its message id. Where the same was asked several times, the answers come in
/// their order and the last one repeats. Streams come in the time in which they were recorded. A request that was never
/// recorded is refused, with the recorded one that is nearest to it. Ctrl-C stops it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir mock trip.cassette --port 4100\n  \
    sabir mock trip.cassette --fast &\n  \
    sabir send -a http://127.0.0.1:4100 'Plan a trip'")]
pub(crate) struct Mock {
    /// The cassette.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Port to listen on; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Do not wait: answers and events come as fast as they can.
    #[arg(long)]
    fast: bool,
    /// Go on without lines that cannot be read.
    #[arg(long)]
    skip_damaged: bool,
}

impl Verb for Mock {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let damage = if self.skip_damaged { DamagePolicy::Skip } else { DamagePolicy::Refuse };
        let cassette = Cassette::read(&self.file, damage)?;
        cassette.damage.iter().for_each(|words| out.warn(&format!("{words}; going on without it")));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Problem::internal(format!("cannot start: {error}")))?;
        runtime.block_on(async {
            let stage = LocalServer::open(self.port).await.map_err(|error| {
                Problem::new(
                    ErrorCode::Vendor("SABIR_ERR_SERVE"),
                    format!("cannot listen on port {}: {error}", self.port),
                )
                .hint("choose another --port, or 0 for any")
            })?;
            let base = format!("http://{}", stage.address());
            // Before the address is printed: a stop may follow at once.
            let stop = sabir_server::stop_signal()
                .map_err(|error| Problem::internal(format!("cannot listen for signals: {error}")))?;
            let player = Player::new(CassetteIndex::new(cassette), &base, self.fast, out.clone());
            out.payload(&format!("Listening: {base}\n"))?;
            stage.run(Arc::new(player), stop).await;
            Ok(Exit::Done)
        })
    }
}
