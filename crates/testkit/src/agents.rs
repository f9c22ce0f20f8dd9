//! Scripted agents: each does one thing that an engine must handle.
//!
//! | Agent | Does | After a crash |
//! |---|---|---|
//! | [`EchoAgent`] | answers at once, in place | starts over |
//! | [`StreamingAgent`] | streams one chunk at a time, each with a checkpoint | resumes |
//! | [`AskingAgent`] | asks as many questions as the message says | resumes |
//! | [`LongAnswerAgent`] | asks once, then answers at such length that a snapshot falls due | resumes |
//! | [`UnrecoverableAgent`] | works for a while | is failed |
//! | [`RestartingAgent`] | replaces its one artifact again and again | starts over |
//! | [`DeferredOpenAgent`] | makes its artifact within 100 ms, or a little later | starts over |
//! | [`PanickingAgent`] | panics after its first status | is failed |
//! | [`FloodingAgent`] | reports far more than may be uncommitted at once | starts over |
//! | [`LateReportAgent`] | waits, and reports once more when it is stopped | is failed |
//! | [`BookingAgent`] | books, at once or after a hold; in the simulator only | resumes |
//! | [`DelegatingAgent`] | delegates its work to another agent | resumes, or is failed |
//!
//! The number in the message says how much an agent does. All of them report to the [`TurnTracker`], by which a test learns
//! that two turns overlap, or that an attempt was given another earlier task than the first.

mod booking;
mod delegating;

pub use booking::{BookingAgent, VENUE};
pub use delegating::DelegatingAgent;

use bytes::Bytes;
use sabir_engine::{Agent, AnyAgent, Context, Ending, Execution, Failure, HostedAgent, Recovery};
use sabir_proto::{AgentName, Artifact, ArtifactId, FrozenTask, Part};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// The name of the one artifact that scripted agents make.
pub const ARTIFACT: &str = "out";

/// The turns at work: records overlapping attempts of one turn, and the earlier task that each attempt was given.
#[derive(Debug, Clone, Default)]
pub struct TurnTracker(Arc<Mutex<TurnRecords>>);

#[derive(Debug, Default)]
struct TurnRecords {
    active: BTreeMap<String, u32>,
    concurrent: Vec<String>,
    /// The task before each turn, as its first attempt was given it.
    first_pasts: BTreeMap<String, Option<Bytes>>,
    changed_pasts: Vec<String>,
}

impl TurnTracker {
    fn lock(&self) -> MutexGuard<'_, TurnRecords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_turn(&self, cx: &Context) -> TurnGuard {
        let turn = cx.turn_id();
        let mut roll = self.lock();
        let here = roll.active.entry(turn.clone()).or_default();
        *here += 1;
        if *here > 1 {
            roll.concurrent.push(turn.clone());
        }
        let past = cx.before().map(|task| FrozenTask::freeze(task).json);
        let first = roll.first_pasts.entry(turn.clone()).or_insert_with(|| past.clone()).clone();
        if first != past {
            let detail = format!("attempt {} of {turn} was told {past:?} after {first:?}", cx.attempt());
            roll.changed_pasts.push(detail);
        }
        TurnGuard { roster: self.clone(), turn }
    }

    /// Turns that began while another attempt of the same turn was still at work.
    pub fn concurrent_turns(&self) -> Vec<String> {
        self.lock().concurrent.clone()
    }

    /// Turns whose later attempt was given another earlier task than the first.
    pub fn changed_pasts(&self) -> Vec<String> {
        self.lock().changed_pasts.clone()
    }

    /// The number of turns at work.
    pub fn active_turns(&self) -> usize {
        self.lock().active.len()
    }
}

/// Held by an agent while it works; dropping it removes the turn.
struct TurnGuard {
    roster: TurnTracker,
    turn: String,
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        let mut roll = self.roster.lock();
        if let Some(here) = roll.active.get_mut(&self.turn) {
            *here -= 1;
            if *here == 0 {
                roll.active.remove(&self.turn);
            }
        }
    }
}

/// All scripted agents, hosted. Every second one offers push notifications.
pub fn scripted_agents(roster: &TurnTracker) -> Vec<Arc<HostedAgent>> {
    let r = roster;
    let agents: [(&str, Arc<dyn AnyAgent>); 12] = [
        ("echo", Arc::new(EchoAgent(r.clone()))),
        ("streams", Arc::new(StreamingAgent(r.clone()))),
        ("asks", Arc::new(AskingAgent(r.clone()))),
        ("tells", Arc::new(LongAnswerAgent(r.clone()))),
        ("fragile", Arc::new(UnrecoverableAgent(r.clone()))),
        ("steady", Arc::new(RestartingAgent(r.clone()))),
        ("panics", Arc::new(PanickingAgent(r.clone()))),
        ("floods", Arc::new(FloodingAgent(r.clone()))),
        ("tardy", Arc::new(LateReportAgent(r.clone()))),
        ("leads", Arc::new(DelegatingAgent { tracker: r.clone(), recovery: Recovery::Resume })),
        ("brief", Arc::new(DeferredOpenAgent(r.clone()))),
        ("heads", Arc::new(DelegatingAgent { tracker: r.clone(), recovery: Recovery::Fail })),
    ];
    let resident = |(n, (name, agent)): (usize, (&str, Arc<dyn AnyAgent>))| {
        let name = AgentName::parse(name).expect("a plain word is a legal name");
        Arc::new(HostedAgent { name, agent, push: n.is_multiple_of(2), tool_mode: sabir_proto::ToolMode::Full })
    };
    agents.into_iter().enumerate().map(resident).collect()
}

/// The text that [`StreamingAgent`] has made after this many chunks.
pub fn streamed_text(chunks: u64) -> String {
    (0..chunks).map(chunk_text).collect()
}

/// Reads the number in a message; 1 without one.
pub fn requested_count(text: &str) -> u64 {
    let digits: String = text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}

fn requested_chunks(cx: &Context) -> u64 {
    requested_count(&cx.message().joined_text())
}

fn chunk_text(n: u64) -> String {
    format!("[{n}]")
}

/// Reports a chunk, appended to the earlier ones or replacing them.
async fn report_chunk(cx: &Context, n: u64, append: bool) -> Result<(), Failure> {
    let id = ArtifactId::parse(ARTIFACT)?;
    Ok(cx.chunk(Artifact::new(id, vec![Part::text(chunk_text(n))]), append, false).await?)
}

/// The number in the agent's last checkpoint.
fn checkpoint_number(cx: &Context) -> u64 {
    cx.checkpoint().and_then(|data| data.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn pause(cx: &Context, n: u64) -> impl Future<Output = ()> + Send + use<> {
    // Uneven, so that agents do not run in step.
    cx.sleep(Duration::from_millis(7 + 40 * (n % 5)))
}

const fn execution_with(recovery: Recovery) -> Execution {
    Execution { instant: false, defer_open: false, answers_directly: false, recovery }
}

/// Returns the message as an artifact, at once.
#[derive(Debug)]
pub struct EchoAgent(pub TurnTracker);

impl Agent for EchoAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        cx.artifact(ARTIFACT, cx.message().parts.clone()).await?;
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        Execution { instant: true, recovery: Recovery::Restart, ..Execution::default() }
    }
}

/// Makes its artifact chunk by chunk; chunk and checkpoint are one step, so a crash neither loses nor repeats any.
#[derive(Debug)]
pub struct StreamingAgent(pub TurnTracker);

impl Agent for StreamingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        for n in checkpoint_number(cx)..requested_chunks(cx) {
            if n % 4 == 3 {
                cx.status(format!("{n} so far")).await?;
            }
            // Always appended, so that a repeated chunk is visible.
            report_chunk(cx, n, true).await?;
            cx.set_checkpoint((n + 1).to_be_bytes().to_vec());
            pause(cx, n).await;
        }
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        execution_with(Recovery::Resume)
    }
}

/// Asks the number of questions in its first message, then completes.
#[derive(Debug)]
pub struct AskingAgent(pub TurnTracker);

impl Agent for AskingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        let first = cx.before().and_then(|task| task.history.first().map(sabir_proto::Message::joined_text));
        let questions = first.map_or_else(|| requested_chunks(cx), |text| requested_count(&text));
        let asked = checkpoint_number(cx);
        pause(cx, asked).await;
        if asked >= questions {
            return Ok(Ending::complete_with("thank you"));
        }
        cx.set_checkpoint((asked + 1).to_be_bytes().to_vec());
        Ok(Ending::ask_input(format!("question {asked}")))
    }

    fn execution(&self) -> Execution {
        execution_with(Recovery::Resume)
    }
}

/// Asks once, and then answers with [`LONG_ANSWER_CHUNKS`] chunks, eight at a time.
#[derive(Debug)]
pub struct LongAnswerAgent(pub TurnTracker);

/// More than the events after which a snapshot is due, so that one is taken in the middle of a turn.
pub const LONG_ANSWER_CHUNKS: u64 = 72;

impl Agent for LongAnswerAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        if cx.before().is_none() {
            return Ok(Ending::ask_input("of whom?"));
        }
        for n in checkpoint_number(cx)..LONG_ANSWER_CHUNKS {
            report_chunk(cx, n, true).await?;
            cx.set_checkpoint((n + 1).to_be_bytes().to_vec());
            if n % 8 == 7 {
                pause(cx, n).await;
            }
        }
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        execution_with(Recovery::Resume)
    }
}

/// Works for a while and cannot go on after a crash.
#[derive(Debug)]
pub struct UnrecoverableAgent(pub TurnTracker);

impl Agent for UnrecoverableAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        for n in 0..requested_chunks(cx) {
            report_chunk(cx, n, true).await?;
            pause(cx, n).await;
        }
        Ok(Ending::complete_with("done"))
    }

    fn execution(&self) -> Execution {
        execution_with(Recovery::Fail)
    }
}

/// Idempotent: repeats its work after a crash with the same result.
#[derive(Debug)]
pub struct RestartingAgent(pub TurnTracker);

impl Agent for RestartingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        for n in 1..=requested_chunks(cx) {
            cx.artifact(ARTIFACT, vec![Part::text(streamed_text(n))]).await?;
            pause(cx, n).await;
        }
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        execution_with(Recovery::Restart)
    }
}

/// Reports nothing before its end, which comes at once for some messages and later for others.
#[derive(Debug)]
pub struct DeferredOpenAgent(pub TurnTracker);

impl Agent for DeferredOpenAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        let chunks = requested_chunks(cx);
        pause(cx, chunks).await;
        cx.artifact(ARTIFACT, vec![Part::text(streamed_text(chunks))]).await?;
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        Execution { instant: true, defer_open: true, recovery: Recovery::Restart, ..Execution::default() }
    }
}

/// Panics in the middle of its turn.
#[derive(Debug)]
pub struct PanickingAgent(pub TurnTracker);

impl Agent for PanickingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        cx.status("so far so good").await?;
        pause(cx, 1).await;
        // Like `panic!`, without its output.
        std::panic::resume_unwind(Box::new("planned"))
    }
}

/// Reports without a pause, many times what may be uncommitted at once.
#[derive(Debug)]
pub struct FloodingAgent(pub TurnTracker);

impl Agent for FloodingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        for n in 0..requested_chunks(cx) * 10 {
            report_chunk(cx, n, n > 0).await?;
        }
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        execution_with(Recovery::Restart)
    }
}

/// Waits to be canceled, and reports once more when it is stopped.
#[derive(Debug)]
pub struct LateReportAgent(pub TurnTracker);

impl Agent for LateReportAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        let _last = ReportOnDrop(cx);
        cx.status("waiting").await?;
        cx.sleep(Duration::from_secs(20)).await;
        Ok(Ending::complete())
    }
}

/// Reports when it is dropped. A destructor cannot wait, so the report is polled once.
struct ReportOnDrop<'a>(&'a Context);

impl Drop for ReportOnDrop<'_> {
    fn drop(&mut self) {
        let report = pin!(self.0.status("one more thing"));
        // Refused once the task has ended, accepted while the turn still runs; the result is ignored.
        let _ = report.poll(&mut std::task::Context::from_waker(Waker::noop()));
    }
}
