//! Scripted agents: each does one thing that an engine has to cope with.
//!
//! | Agent | Does | After a crash |
//! |---|---|---|
//! | [`Echo`] | answers at once, in place | starts over |
//! | [`Streams`] | one chunk at a time, each with a checkpoint | goes on where it was |
//! | [`Asks`] | asks as many questions as it is told to | goes on where it was |
//! | [`Tells`] | asks once, and answers the answer at such length that a snapshot falls due | goes on where it was |
//! | [`Fragile`] | works for a while | is failed |
//! | [`Steady`] | replaces its one artifact again and again | starts over |
//! | [`Brief`] | makes its artifact in a moment, or soon after | starts over |
//! | [`Panics`] | breaks down at its second word | is failed |
//! | [`Floods`] | reports far more than may be on its way at once | starts over |
//! | [`Tardy`] | waits, and reports once more when it is stopped | is failed |
//! | [`Books`] | books, at once or after a hold; in the simulator only | goes on where it was |
//! | [`Leads`] | leaves the work to another agent | goes on where it was, or is failed |
//!
//! How much each does is the number in the message it answers. All of them sign the [`Roster`], which is how a test
//! learns that two of them are at work on the same turn, or that a turn was begun again with another past.

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

/// Who is at work on which turn right now, whether that was ever more than one, and what they were told had been before.
#[derive(Debug, Clone, Default)]
pub struct Roster(Arc<Mutex<Roll>>);

#[derive(Debug, Default)]
struct Roll {
    present: BTreeMap<String, u32>,
    doubles: Vec<String>,
    /// The task as it stood before each turn, as its first attempt was told.
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

    /// Turns that somebody began while somebody else was still at work on them.
    pub fn doubles(&self) -> Vec<String> {
        self.lock().doubles.clone()
    }

    /// Turns of which a later attempt was told another past than the first.
    pub fn changed_pasts(&self) -> Vec<String> {
        self.lock().changed_pasts.clone()
    }

    /// How many are at work.
    pub fn present(&self) -> usize {
        self.lock().present.len()
    }
}

/// Held by an agent while it works; dropping it signs out.
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

/// All of them, as an engine takes them. Every second one offers push notifications.
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

/// What [`Streams`] has made once it is done with so many chunks.
pub fn streamed(chunks: u64) -> String {
    (0..chunks).map(chunk_text).collect()
}

/// The number in a message.
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

/// Says a chunk, after those before it or instead of them.
async fn say(cx: &Context, n: u64, append: bool) -> Result<(), Failure> {
    let id = ArtifactId::parse(ARTIFACT)?;
    Ok(cx.chunk(Artifact::new(id, vec![Part::text(chunk_text(n))]), append, false).await?)
}

/// What an agent noted in its last checkpoint.
fn noted(cx: &Context) -> u64 {
    cx.checkpoint().and_then(|data| data.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn pause(cx: &Context, n: u64) -> impl Future<Output = ()> + Send + use<> {
    // Uneven, so that agents do not march in step.
    cx.sleep(Duration::from_millis(7 + 40 * (n % 5)))
}

const fn nature(recovery: Recovery) -> Nature {
    Nature { instant: false, brief: false, answers_directly: false, recovery }
}

/// Says back what it hears, at once.
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
            // Never from the beginning again: what is said twice shows.
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

/// Asks until it has asked often enough, then completes. The first message says how often.
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

/// Asks what to tell, and then tells [`TALE_CHUNKS`] chunks of it, a few at a time.
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

/// Idempotent: whatever it did before a crash, it does again to the same end.
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

/// Says nothing before it ends, which is in a moment for some and takes longer for others.
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

/// Breaks down at work.
#[derive(Debug)]
pub struct Panics(pub Roster);

impl Agent for Panics {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.sign(cx);
        cx.status("so far so good").await?;
        pause(cx, 1).await;
        // Like `panic!`, without a page of output for every one of them.
        std::panic::resume_unwind(Box::new("planned"))
    }
}

/// Reports without ever pausing, many times what may be on its way at once.
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

/// Waits to be canceled, and still has something to say then.
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

/// Reports when it is dropped. Nobody waits for a destructor, so the report is only tried.
struct LastWord<'a>(&'a Context);

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        let report = pin!(self.0.status("one more thing"));
        // Refused once the task has ended, kept while the turn still runs; either way there is nothing left to do.
        let _ = report.poll(&mut std::task::Context::from_waker(Waker::noop()));
    }
}
