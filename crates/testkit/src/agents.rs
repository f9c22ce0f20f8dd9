//! Scripted agents: each does one thing that an engine must handle.
//!
//! | Agent | Does | After a crash |
//! |---|---|---|
//! | [`Echo`] | answers at once, in place | starts over |
//! | [`Streams`] | streams one chunk at a time, each with a checkpoint | resumes |
//! | [`Asks`] | asks as many questions as the message says | resumes |
//! | [`Tells`] | asks once, then answers at such length that a snapshot falls due | resumes |
//! | [`Fragile`] | works for a while | is failed |
//! | [`Steady`] | replaces its one artifact again and again | starts over |
//! | [`Brief`] | makes its artifact within 100 ms, or a little later | starts over |
//! | [`Panics`] | panics after its first status | is failed |
//! | [`Floods`] | reports far more than may be uncommitted at once | starts over |
//! | [`Tardy`] | waits, and reports once more when it is stopped | is failed |
//! | [`Books`] | books, at once or after a hold; in the simulator only | resumes |
//! | [`Leads`] | delegates its work to another agent | resumes, or is failed |
//!
//! The number in the message says how much an agent does. All of them report to the [`Roster`], by which a test learns
//! that two turns overlap, or that an attempt was given another earlier task than the first.

mod books;
mod leads;

pub use books::{Books, VENUE};
pub use leads::Leads;

use bytes::Bytes;
use sabir_engine::{Agent, AnyAgent, Context, Ending, Failure, Nature, Recovery, Resident};
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
pub struct Roster(Arc<Mutex<Roll>>);

#[derive(Debug, Default)]
struct Roll {
    present: BTreeMap<String, u32>,
    doubles: Vec<String>,
    /// The task before each turn, as its first attempt was given it.
    pasts: BTreeMap<String, Option<Bytes>>,
    changed_pasts: Vec<String>,
}

impl Roster {
    fn lock(&self) -> MutexGuard<'_, Roll> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sign(&self, cx: &Context) -> Present {
        let turn = cx.turn_id();
        let mut roll = self.lock();
        let here = roll.present.entry(turn.clone()).or_default();
        *here += 1;
        if *here > 1 {
            roll.doubles.push(turn.clone());
        }
        let past = cx.before().map(|task| FrozenTask::freeze(task).json);
        let first = roll.pasts.entry(turn.clone()).or_insert_with(|| past.clone()).clone();
        if first != past {
            let detail = format!("attempt {} of {turn} was told {past:?} after {first:?}", cx.attempt());
            roll.changed_pasts.push(detail);
        }
        Present { roster: self.clone(), turn }
    }

    /// Turns that began while another attempt of the same turn was still at work.
    pub fn doubles(&self) -> Vec<String> {
        self.lock().doubles.clone()
    }

    /// Turns whose later attempt was given another earlier task than the first.
    pub fn changed_pasts(&self) -> Vec<String> {
        self.lock().changed_pasts.clone()
    }

    /// The number of turns at work.
    pub fn present(&self) -> usize {
        self.lock().present.len()
    }
}

/// Held by an agent while it works; dropping it removes the turn.
struct Present {
    roster: Roster,
    turn: String,
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut roll = self.roster.lock();
        if let Some(here) = roll.present.get_mut(&self.turn) {
            *here -= 1;
            if *here == 0 {
                roll.present.remove(&self.turn);
            }
        }
    }
}

/// All scripted agents, hosted. Every second one offers push notifications.
pub fn residents(roster: &Roster) -> Vec<Arc<Resident>> {
    let r = roster;
    let agents: [(&str, Arc<dyn AnyAgent>); 12] = [
        ("echo", Arc::new(Echo(r.clone()))),
        ("streams", Arc::new(Streams(r.clone()))),
        ("asks", Arc::new(Asks(r.clone()))),
        ("tells", Arc::new(Tells(r.clone()))),
        ("fragile", Arc::new(Fragile(r.clone()))),
        ("steady", Arc::new(Steady(r.clone()))),
        ("panics", Arc::new(Panics(r.clone()))),
        ("floods", Arc::new(Floods(r.clone()))),
        ("tardy", Arc::new(Tardy(r.clone()))),
        ("leads", Arc::new(Leads { roster: r.clone(), recovery: Recovery::Resume })),
        ("brief", Arc::new(Brief(r.clone()))),
        ("heads", Arc::new(Leads { roster: r.clone(), recovery: Recovery::Fail })),
    ];
    let resident = |(n, (name, agent)): (usize, (&str, Arc<dyn AnyAgent>))| {
        let name = AgentName::parse(name).expect("a plain word is a legal name");
        Arc::new(Resident { name, agent, push: n.is_multiple_of(2), tools: sabir_proto::ToolMode::Full })
    };
    agents.into_iter().enumerate().map(resident).collect()
}

/// The text that [`Streams`] has made after this many chunks.
pub fn streamed(chunks: u64) -> String {
    (0..chunks).map(chunk_text).collect()
}

/// Reads the number in a message; 1 without one.
pub fn wanted(text: &str) -> u64 {
    let digits: String = text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1)
}

fn asked_for(cx: &Context) -> u64 {
    wanted(&cx.message().joined_text())
}

fn chunk_text(n: u64) -> String {
    format!("[{n}]")
}

/// Reports a chunk, appended to the earlier ones or replacing them.
async fn say(cx: &Context, n: u64, append: bool) -> Result<(), Failure> {
    let id = ArtifactId::parse(ARTIFACT)?;
    Ok(cx.chunk(Artifact::new(id, vec![Part::text(chunk_text(n))]), append, false).await?)
}

/// The number in the agent's last checkpoint.
fn noted(cx: &Context) -> u64 {
    cx.checkpoint().and_then(|data| data.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn pause(cx: &Context, n: u64) -> impl Future<Output = ()> + Send + use<> {
    // Uneven, so that agents do not run in step.
    cx.sleep(Duration::from_millis(7 + 40 * (n % 5)))
}

const fn nature(recovery: Recovery) -> Nature {
    Nature { instant: false, brief: false, answers_directly: false, recovery }
}

/// Returns the message as an artifact, at once.
#[derive(Debug)]
pub struct Echo(pub Roster);

impl Agent for Echo {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        cx.artifact(ARTIFACT, cx.message().parts.clone()).await?;
        Ok(Ending::complete())
    }

    fn nature(&self) -> Nature {
        Nature { instant: true, recovery: Recovery::Restart, ..Nature::default() }
    }
}

/// Makes its artifact chunk by chunk; chunk and checkpoint are one step, so a crash neither loses nor repeats any.
#[derive(Debug)]
pub struct Streams(pub Roster);

impl Agent for Streams {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        for n in noted(cx)..asked_for(cx) {
            if n % 4 == 3 {
                cx.status(format!("{n} so far")).await?;
            }
            // Always appended, so that a repeated chunk is visible.
            say(cx, n, true).await?;
            cx.set_checkpoint((n + 1).to_be_bytes().to_vec());
            pause(cx, n).await;
        }
        Ok(Ending::complete())
    }

    fn nature(&self) -> Nature {
        nature(Recovery::Resume)
    }
}

/// Asks the number of questions in its first message, then completes.
#[derive(Debug)]
pub struct Asks(pub Roster);

impl Agent for Asks {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        let first = cx.before().and_then(|task| task.history.first().map(sabir_proto::Message::joined_text));
        let questions = first.map_or_else(|| asked_for(cx), |text| wanted(&text));
        let asked = noted(cx);
        pause(cx, asked).await;
        if asked >= questions {
            return Ok(Ending::complete_with("thank you"));
        }
        cx.set_checkpoint((asked + 1).to_be_bytes().to_vec());
        Ok(Ending::ask_input(format!("question {asked}")))
    }

    fn nature(&self) -> Nature {
        nature(Recovery::Resume)
    }
}

/// Asks once, and then answers with [`TALE_CHUNKS`] chunks, eight at a time.
#[derive(Debug)]
pub struct Tells(pub Roster);

/// More than the events after which a snapshot is due, so that one is taken in the middle of a turn.
pub const TALE_CHUNKS: u64 = 72;

impl Agent for Tells {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        if cx.before().is_none() {
            return Ok(Ending::ask_input("of whom?"));
        }
        for n in noted(cx)..TALE_CHUNKS {
            say(cx, n, true).await?;
            cx.set_checkpoint((n + 1).to_be_bytes().to_vec());
            if n % 8 == 7 {
                pause(cx, n).await;
            }
        }
        Ok(Ending::complete())
    }

    fn nature(&self) -> Nature {
        nature(Recovery::Resume)
    }
}

/// Works for a while and cannot go on after a crash.
#[derive(Debug)]
pub struct Fragile(pub Roster);

impl Agent for Fragile {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        for n in 0..asked_for(cx) {
            say(cx, n, true).await?;
            pause(cx, n).await;
        }
        Ok(Ending::complete_with("done"))
    }

    fn nature(&self) -> Nature {
        nature(Recovery::Fail)
    }
}

/// Idempotent: repeats its work after a crash with the same result.
#[derive(Debug)]
pub struct Steady(pub Roster);

impl Agent for Steady {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        for n in 1..=asked_for(cx) {
            cx.artifact(ARTIFACT, vec![Part::text(streamed(n))]).await?;
            pause(cx, n).await;
        }
        Ok(Ending::complete())
    }

    fn nature(&self) -> Nature {
        nature(Recovery::Restart)
    }
}

/// Reports nothing before its end, which comes at once for some messages and later for others.
#[derive(Debug)]
pub struct Brief(pub Roster);

impl Agent for Brief {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        let chunks = asked_for(cx);
        pause(cx, chunks).await;
        cx.artifact(ARTIFACT, vec![Part::text(streamed(chunks))]).await?;
        Ok(Ending::complete())
    }

    fn nature(&self) -> Nature {
        Nature { instant: true, brief: true, recovery: Recovery::Restart, ..Nature::default() }
    }
}

/// Panics in the middle of its turn.
#[derive(Debug)]
pub struct Panics(pub Roster);

impl Agent for Panics {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        cx.status("so far so good").await?;
        pause(cx, 1).await;
        // Like `panic!`, without its output.
        std::panic::resume_unwind(Box::new("planned"))
    }
}

/// Reports without a pause, many times what may be uncommitted at once.
#[derive(Debug)]
pub struct Floods(pub Roster);

impl Agent for Floods {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        for n in 0..asked_for(cx) * 10 {
            say(cx, n, n > 0).await?;
        }
        Ok(Ending::complete())
    }

    fn nature(&self) -> Nature {
        nature(Recovery::Restart)
    }
}

/// Waits to be canceled, and reports once more when it is stopped.
#[derive(Debug)]
pub struct Tardy(pub Roster);

impl Agent for Tardy {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        let _last = LastWord(cx);
        cx.status("waiting").await?;
        cx.sleep(Duration::from_secs(20)).await;
        Ok(Ending::complete())
    }
}

/// Reports when it is dropped. A destructor cannot wait, so the report is polled once.
struct LastWord<'a>(&'a Context);

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        let report = pin!(self.0.status("one more thing"));
        // Refused once the task has ended, accepted while the turn still runs; the result is ignored.
        let _ = report.poll(&mut std::task::Context::from_waker(Waker::noop()));
    }
}
