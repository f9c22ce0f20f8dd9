//! `sabir bench`: puts a bounded load on an agent and measures how long callers wait.
//!
//! A number of senders each send one message after the other and wait for the end of its task. So the load follows the
//! agent: one that slows down is sent less. The measured time is what a caller waits.
//!
//! | Module | What it contains |
//! |---|---|
//! | `load` | the senders, and when they stop |
//! | `histogram` | counting durations |
//! | `report` | the result, as text and as JSON |

mod histogram;
mod load;
mod report;

use crate::Invocation;
use crate::call::target::is_address;
use crate::call::{InterruptHandling, Session, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::settings::duration;
use clap::Args;
use load::{Load, Measurement, StopCondition};
use sabir_client::{Agent, is_loopback};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Most messages under way at once: with more, this tool measures itself.
const CONCURRENCY_MAX: u16 = 1000;
/// Most messages of one run.
const COUNT_MAX: u64 = 10_000_000;
/// The message that is sent unless another one is given.
const TEXT_DEFAULT: &str = "Hello";
/// The longest run.
const DURATION_MAX: Duration = Duration::from_secs(3600);

/// Put an agent under load and measure how long callers wait.
///
/// Sends the same message again and again from a number of senders, each of which waits for the end of its task before it
/// sends the next one. Reports latencies, throughput, the states of the tasks and failures by their codes; with --stream
/// also the time to the first event. Ctrl-C ends the run early and still reports.
///
/// Load on a machine of another owner is an attack. Agents beyond this machine are refused unless you say that you are
/// entitled to it.
#[derive(Debug, Args)]
#[command(after_help = "Every message is real work for the agent, and may cost money.\n\n\
    Examples:\n  \
    sabir bench -a http://127.0.0.1:4000\n  \
    sabir bench -a http://127.0.0.1:4000 'echo hi' -c 64 -d 30s\n  \
    sabir bench -a http://127.0.0.1:4000 'slow 1' -n 1000 --stream -o json\n  \
    sabir bench -a https://staging.example.com --target-is-mine -c 8 -d 1m")]
pub(crate) struct Bench {
    /// What is sent [default: Hello], with the agent before it unless --agent-card names it.
    #[arg(value_names = ["AGENT", "TEXT"], num_args = 0..=2)]
    words: Vec<String>,
    /// How many messages are under way at once, 1 to 1000. Over HTTP/1.1 each has a connection of its own.
    #[arg(short, long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=i64::from(CONCURRENCY_MAX)))]
    concurrency: u16,
    /// End after this many messages, at most ten million.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: Option<u64>,
    /// End after this time (30s, 1m30s), at most an hour [default: 10s].
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// The agent is not on this machine, and it is mine to put under load.
    #[arg(long)]
    target_is_mine: bool,
}

impl Verb for Bench {
    fn run(self, invocation: Invocation) -> Outcome {
        let until = self.stop_condition()?;
        let invocation = invocation.with_agent(self.agent_and_text().0)?;
        run_session(invocation, InterruptHandling::ByCommand, async |session| self.measure(session, until).await)
    }
}

impl Bench {
    /// The agent, if it was typed, and the text to send.
    fn agent_and_text(&self) -> (Option<&str>, &str) {
        match self.words.as_slice() {
            [agent, text] => (Some(agent), text),
            [word] if is_address(word) => (Some(word), TEXT_DEFAULT),
            [text, ..] => (None, text),
            [] => (None, TEXT_DEFAULT),
        }
    }

    fn stop_condition(&self) -> Result<StopCondition, Problem> {
        match (self.count, self.duration) {
            (Some(count), _) => Ok(StopCondition::Count(count)),
            (None, Some(duration)) if duration > DURATION_MAX => {
                Err(Problem::usage("a run takes at most an hour").hint("sabir bench -d 1h …"))
            }
            (None, duration) => Ok(StopCondition::Elapsed(duration.unwrap_or(Duration::from_secs(10)))),
        }
    }

    async fn measure(&self, session: &Session, until: StopCondition) -> Outcome {
        let interrupts = signal(SignalKind::interrupt());
        let mut interrupts =
            interrupts.map_err(|error| Problem::internal(format!("cannot listen for Ctrl-C: {error}")))?;
        let found = session.require_trust(session.card().await?).await?;
        let agent = session.unobserved_agent(found).await?;
        self.check_entitled(&agent)?;
        let load = Load {
            agent,
            text: self.agent_and_text().1.to_owned(),
            streams: session.settings.stream.is_on(),
            patience: session.settings.timeout.copied(),
            until,
        };
        if load.streams && !load.agent.streams() {
            let words = "the agent's card does not offer streaming";
            return Err(Problem::new(ErrorCode::Protocol("UnsupportedOperationError"), words)
                .hint("measure without --stream")
                .into());
        }
        // One message goes first, so that a failure of every message is reported once, not ten thousand times.
        let first = tokio::select! {
            biased;
            first = load.send_one() => Some(first),
            _ = interrupts.recv() => None,
        };
        let (measured, interrupted) = match first {
            None => (Measurement::empty(), true),
            Some(Err(error)) => return Err(session.problem(error, Some(load.agent.discovered_card())).into()),
            Some(Ok(_)) => load.run(self.concurrency, session, &mut interrupts).await,
        };
        report::print(&session.out, &load.agent, self.concurrency, &measured)?;
        Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
    }

    /// Refuses an agent on another machine unless the user claims it with --target-is-mine.
    fn check_entitled(&self, agent: &Agent) -> Result<(), Problem> {
        let url = &agent.chosen_interface().url;
        if self.target_is_mine || is_loopback(url) {
            return Ok(());
        }
        let host = url.host_str().unwrap_or_default();
        Err(Problem::usage(format!("{host} is not this machine, and load on a machine of others is an attack"))
            .hint("if you are entitled to it: sabir bench --target-is-mine …"))
    }
}
