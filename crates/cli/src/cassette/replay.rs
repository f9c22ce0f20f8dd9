//! `sabir replay`: asks an agent again what was asked when a cassette was recorded, and compares the answers.

mod replayer;
mod report;

use super::{Cassette, DamagePolicy};
use crate::Invocation;
use crate::call::{InterruptHandling, Session, TrustedCard, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem, Stop};
use clap::Args;
use replayer::Replayer;
use report::ReplayReport;
use sabir_client::AgentReference;
use std::path::PathBuf;

/// Ask an agent again what a cassette holds, and compare the answers.
///
/// Sends the recorded requests in their order and compares each answer with the recorded one. Ids and times that a server
/// makes up may differ, as long as they differ in the same way throughout; requests that name a recorded task name the
/// task of today. Every other difference is printed, and the exit code is 1 if there is any.
#[derive(Debug, Args)]
#[command(after_help = "Without --against or --agent-card, the agent that was recorded is asked again.\n\n\
    Examples:\n  \
    sabir replay trip.cassette --against http://127.0.0.1:4000\n  \
    sabir replay trip.cassette --against https://staging.example.com --ignore text\n  \
    sabir replay trip.cassette -o json")]
pub(crate) struct Replay {
    /// The cassette.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The agent to ask; the same as --agent-card.
    #[arg(long, value_name = "AGENT")]
    against: Option<String>,
    /// Do not compare members of this name, such as text; repeatable.
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    /// Go on without lines that cannot be read.
    #[arg(long)]
    skip_damaged: bool,
}

impl Verb for Replay {
    fn run(self, invocation: Invocation) -> Outcome {
        let damage = if self.skip_damaged { DamagePolicy::Skip } else { DamagePolicy::Refuse };
        let cassette = Cassette::read(&self.file, damage)?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.replay(session, cassette).await)
    }
}

impl Replay {
    async fn replay(&self, session: &Session, cassette: Cassette) -> Outcome {
        cassette.damage.iter().for_each(|words| session.out.warn(&format!("{words}; going on without it")));
        let (agent, found) = self.agent(session, &cassette.head.agent).await?;
        let mut report = ReplayReport::new(&session.out, agent)?;
        let mut replayer = Replayer::new(session, found, self.ignore.clone());
        for exchange in &cassette.exchanges {
            let outcome = replayer.ask(exchange).await?;
            report.add(exchange, outcome)?;
        }
        let same = report.finish()?;
        Ok(if same { Exit::Done } else { Exit::Failed })
    }

    async fn agent(&self, session: &Session, recorded: &str) -> Result<(String, TrustedCard), Stop> {
        let named = session.settings.agent_card.text();
        if let (Some(against), true) = (&self.against, session.settings.agent_card.is_typed()) {
            return Err(Problem::usage(format!("--against {against} and --agent-card say the same thing"))
                .hint("leave one of them out")
                .into());
        }
        let text = self.against.as_deref().or(named).unwrap_or(recorded).to_owned();
        let reference = AgentReference::parse(&text).map_err(|error| session.problem(error, None))?;
        let found = session.client.card(&reference).await.map_err(|error| session.problem(error, None))?;
        Ok((text, session.require_trust(found).await?))
    }
}
