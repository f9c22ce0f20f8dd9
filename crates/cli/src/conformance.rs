//! `sabir conformance`: does an agent keep the rules of A2A 1.0?
//!
//! A smoke check, not a proof: what can be asked of any agent with an ordinary message is asked, over every binding its
//! card declares. What an agent gives no occasion for is a skip with its reason, and a skip is not a pass. What the
//! card does not offer is not asked for either: the official kit (`--tck`) checks how an agent refuses it.
//!
//! | Module | What it contains |
//! |---|---|
//! | `table` | every requirement: the kit's id, its level, what it says |
//! | `report` | results in the order of the table, as text and as JSON |
//! | `card` | the card and its headers |
//! | `operations` | send, get, list, cancel, and how they are refused |
//! | `streams` | streaming and subscribing |
//! | `wire_format` | what JSON-RPC and HTTP+JSON look like on the wire |
//! | `kit` | the official kit, where it is at hand |

mod card;
mod kit;
mod operations;
mod report;
mod streams;
mod table;
mod wire_format;

use crate::Invocation;
use crate::call::target::AgentArgument;
use crate::call::{InterruptHandling, Session, TrustedCard, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Stop};
use clap::Args;
use report::ConformanceReport;
use sabir_client::{Agent, Binding, DiscoveredCard, Error};
use std::path::PathBuf;
use table::{RequirementLevel, RequirementScope};

/// Check whether an agent keeps the rules of A2A 1.0.
///
/// Looks at the card, sends a few messages over every binding that the card declares, and reports each requirement by its
/// id in the official kit (ids that begin with SABIR are our own). What could not be seen is a skip, which is shown and
/// never counted as passed. The exit code says whether the check could be made; the verdict is in the output, and with
/// --strict in the exit code as well.
#[derive(Debug, Args)]
#[command(
    after_help = "What is sent is real work for the agent: choose a --text that costs little. Some requirements can only be seen\n\
    while an agent is busy; --slow-text makes it so.\n\n\
    Examples:\n  \
    sabir conformance -a https://agent.example\n  \
    sabir conformance -a https://agent.example --level should --strict\n  \
    sabir conformance -a http://127.0.0.1:4000 --text 'echo hi' --slow-text 'slow 30'\n  \
    sabir conformance -a http://127.0.0.1:4000 --tck ~/a2a-tck"
)]
pub(crate) struct Conformance {
    #[command(flatten)]
    target: AgentArgument,
    /// The lowest level that counts: must, should or may.
    #[arg(long, value_name = "LEVEL", default_value = "must")]
    level: RequirementLevel,
    /// Exit with 1 if the verdict is fail.
    #[arg(long)]
    strict: bool,
    /// What is said to the agent.
    #[arg(long, value_name = "TEXT", default_value = "Hello from sabir conformance")]
    text: String,
    /// What keeps the agent busy for some seconds; without it, requirements about running tasks may be skipped.
    #[arg(long, value_name = "TEXT")]
    slow_text: Option<String>,
    /// Directory of the official kit (a2a-tck); runs it afterwards and adds what it found.
    #[arg(long, value_name = "DIR")]
    tck: Option<PathBuf>,
}

impl Verb for Conformance {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.target.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.check(session).await)
    }
}

impl Conformance {
    async fn check(&self, session: &Session) -> Outcome {
        let reference = session.reference()?;
        let mut report = ConformanceReport::new(session, self.level)?;
        match session.client.card(&reference).await {
            Ok(found) => {
                card::check(session, &found, &mut report).await;
                report.end_part(RequirementScope::Card, None, "the card does not say")?;
                let found = session.require_trust(found).await?;
                self.bindings(session, &found, &mut report).await?;
            }
            // A card that is not there, or is none, is a finding. Everything else is a failure of the check.
            Err(error @ Error::CardNotFound { .. }) => self.no_card("CARD-DISC-001", &error, &mut report)?,
            Err(error @ Error::CardInvalid { .. }) => self.no_card("CARD-STRUCT-001", &error, &mut report)?,
            Err(error) => return Err(session.problem(error, None).into()),
        }
        if let Some(directory) = &self.tck {
            kit::run(session, directory, self.level, &mut report).await?;
        }
        let passed = report.finish()?;
        Ok(if self.strict && !passed { Exit::Failed } else { Exit::Done })
    }

    fn no_card(&self, id: &'static str, error: &Error, report: &mut ConformanceReport<'_>) -> Result<(), Stop> {
        report.record(id, Err(error.to_string()));
        report.end_part(RequirementScope::Card, None, "there is no card to look at")
    }

    /// Every binding of 1.0 that the card declares, or those of them that `--transport` names.
    async fn bindings(
        &self,
        session: &Session,
        found: &TrustedCard,
        report: &mut ConformanceReport<'_>,
    ) -> Result<(), Stop> {
        let wanted = session.settings.transport.list();
        let wanted = |binding: Binding| wanted.is_empty() || wanted.contains(&binding);
        // A booking network has its own rules, and no operations of A2A.
        let of_a2a = |binding: &Binding| Binding::ALL.contains(binding);
        for binding in declared(found).into_iter().filter(|binding| of_a2a(binding) && wanted(*binding)) {
            let mut only = found.clone();
            only.card.supported_interfaces.retain(|interface| {
                interface.protocol_binding.parse() == Ok(binding) && is_of_1_0(&interface.protocol_version)
            });
            let agent = session.unobserved_agent(only).await?;
            session.observer.set_activity(Some(format!("checking {}", binding.name())));
            let reason = self.binding(&agent, report).await;
            report.end_part(RequirementScope::Operations, Some(binding), &reason)?;
            let own = match binding {
                Binding::JsonRpc => RequirementScope::JsonRpc,
                Binding::HttpJson => RequirementScope::HttpJson,
                Binding::Grpc => RequirementScope::Grpc,
                Binding::Envelope => continue,
            };
            report.end_part(own, Some(binding), &reason)?;
        }
        Ok(())
    }

    /// Checks one binding. Requirements that could not be checked become skips with the reason.
    async fn binding(&self, agent: &Agent, report: &mut ConformanceReport<'_>) -> String {
        let slow = self.slow_text.as_deref().unwrap_or(&self.text);
        wire_format::check(agent, report).await;
        let Some(sent) = operations::check(agent, &self.text, report).await else {
            return "SendMessage did not work".into();
        };
        streams::check(agent, &self.text, sent.settled.as_ref(), report).await;
        operations::check_running(agent, slow, report).await;
        match sent.settled {
            Some(_) => "the agent gave no occasion".into(),
            None => "no task was settled; try another --text".into(),
        }
    }
}

/// The bindings of 1.0 in a card, in its order.
fn declared(found: &DiscoveredCard) -> Vec<Binding> {
    let mut bindings = Vec::new();
    for interface in &found.card.supported_interfaces {
        if let (Ok(binding), true) = (interface.protocol_binding.parse(), is_of_1_0(&interface.protocol_version))
            && !bindings.contains(&binding)
        {
            bindings.push(binding);
        }
    }
    bindings
}

fn is_of_1_0(version: &str) -> bool {
    version == "1.0" || version.starts_with("1.0.")
}
