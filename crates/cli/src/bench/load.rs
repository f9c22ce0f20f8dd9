//! The senders: each waits for the end of one message before it sends the next.

use super::histogram::Histogram;
use crate::call::Session;
use sabir_client::{Agent, Error, FollowOptions, text_message};
use sabir_proto::{WireEvent, WireReply};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::Signal;
use tokio::task::JoinSet;

/// How long messages that are under way may take when no more are sent. Messages that take longer count as unfinished.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause of a sender after a failure, so that an agent that is gone is not flooded with connections.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// The interval of the progress line.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// When no more messages are sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum StopCondition {
    Count(u64),
    Elapsed(Duration),
}

/// What the senders send, and for how long.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) agent: Agent,
    pub(super) text: String,
    pub(super) streams: bool,
    /// The longest that one message may take.
    pub(super) patience: Option<Duration>,
    pub(super) until: StopCondition,
}

/// The result of one message.
pub(super) struct SentMessage {
    /// The state of its task, or that there was none.
    pub(super) end: &'static str,
    pub(super) first_event: Option<Duration>,
    pub(super) took: Duration,
}

/// The results of all messages.
pub(super) struct Measurement {
    pub(super) latency: Histogram,
    pub(super) first_event: Histogram,
    pub(super) ends: BTreeMap<&'static str, u64>,
    pub(super) failures: BTreeMap<&'static str, u64>,
    pub(super) unfinished: u64,
    pub(super) elapsed: Duration,
}

impl Measurement {
    pub(super) fn empty() -> Self {
        Self {
            latency: Histogram::new(),
            first_event: Histogram::new(),
            ends: BTreeMap::new(),
            failures: BTreeMap::new(),
            unfinished: 0,
            elapsed: Duration::ZERO,
        }
    }

    pub(super) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

/// What the senders share.
struct SharedState {
    load: Load,
    /// Messages that may still be sent.
    left: AtomicU64,
    stopped: AtomicBool,
    under_way: AtomicU64,
    measured: Mutex<Measurement>,
}

impl Load {
    /// Sends one message and waits for its end.
    pub(super) async fn send_one(&self) -> Result<SentMessage, Error> {
        let message = async { if self.streams { self.send_streaming().await } else { self.send_and_wait().await } };
        match self.patience {
            None => message.await,
            Some(after) => match tokio::time::timeout(after, message).await {
                Ok(sent) => sent,
                Err(_) => Err(Error::Timeout { what: "a message", after }),
            },
        }
    }

    async fn send_and_wait(&self) -> Result<SentMessage, Error> {
        let begun = Instant::now();
        let said = self.agent.send(text_message(self.text.as_str())).await?;
        let end = match said.value {
            WireReply::SentTask(task) => task.status.state.name(),
            _ => "message",
        };
        Ok(SentMessage { end, first_event: None, took: begun.elapsed() })
    }

    async fn send_streaming(&self) -> Result<SentMessage, Error> {
        let begun = Instant::now();
        let follow = FollowOptions { resume: false, ..FollowOptions::default() };
        let mut events = self.agent.stream(text_message(self.text.as_str()), follow).await?;
        let (mut first_event, mut end) = (None, "message");
        while let Some(event) = events.next().await {
            let event = event?;
            first_event.get_or_insert_with(|| begun.elapsed());
            if !matches!(event.value, WireEvent::Message(_)) {
                end = events.task().map_or(end, |task| task.status.state.name());
            }
        }
        Ok(SentMessage { end, first_event, took: begun.elapsed() })
    }

    /// Runs the senders until they are done or until Ctrl-C. Returns true for Ctrl-C.
    pub(super) async fn run(&self, senders: u16, session: &Session, interrupts: &mut Signal) -> (Measurement, bool) {
        let count = match self.until {
            StopCondition::Count(count) => count,
            StopCondition::Elapsed(_) => u64::MAX,
        };
        let shared = Arc::new(SharedState {
            load: self.clone(),
            left: AtomicU64::new(count),
            stopped: AtomicBool::new(false),
            under_way: AtomicU64::new(0),
            measured: Mutex::new(Measurement::empty()),
        });
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..senders {
            tasks.spawn(send(shared.clone()));
        }
        let time_up = async {
            match self.until {
                StopCondition::Elapsed(duration) => tokio::time::sleep(duration).await,
                StopCondition::Count(_) => std::future::pending().await,
            }
            shared.stopped.store(true, Ordering::Relaxed);
            tokio::time::sleep(DRAIN_TIMEOUT).await;
        };
        let interrupted = tokio::select! {
            biased;
            () = joined(&mut tasks) => false,
            _ = interrupts.recv() => true,
            () = time_up => false,
            () = progress(&shared, session, begun) => false,
        };
        session.out.clear_progress();
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        let measured = std::mem::replace(&mut *shared.lock(), Measurement::empty());
        let unfinished = shared.under_way.load(Ordering::Relaxed);
        (Measurement { unfinished, elapsed: begun.elapsed(), ..measured }, interrupted)
    }
}

async fn joined(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Shows the progress every second. Never returns.
async fn progress(shared: &SharedState, session: &Session, begun: Instant) {
    if !session.out.shows_progress() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(PROGRESS_INTERVAL).await;
        let (done, failed) = {
            let measured = shared.lock();
            (measured.latency.total(), measured.failed())
        };
        let seconds = begun.elapsed().as_secs();
        match shared.load.until {
            StopCondition::Count(count) => {
                session.out.bar(done, count, &format!("messages, {failed} failed, {seconds} s"))
            }
            StopCondition::Elapsed(all) => {
                session.out.bar(seconds, all.as_secs(), &format!("s, {done} messages, {failed} failed"));
            }
        }
    }
}

/// One sender: sends messages until the run ends.
async fn send(shared: Arc<SharedState>) {
    while shared.may_send() {
        shared.under_way.fetch_add(1, Ordering::Relaxed);
        let sent = shared.load.send_one().await;
        shared.under_way.fetch_sub(1, Ordering::Relaxed);
        let failed = sent.is_err();
        shared.record(sent);
        if failed {
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
    }
}

impl SharedState {
    fn may_send(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        !self.stopped.load(Ordering::Relaxed)
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Measurement> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, sent: Result<SentMessage, Error>) {
        let mut measured = self.lock();
        match sent {
            Ok(sent) => {
                measured.latency.record(sent.took);
                if let Some(first) = sent.first_event {
                    measured.first_event.record(first);
                }
                *measured.ends.entry(sent.end).or_default() += 1;
            }
            Err(error) => {
                let code = crate::call::problem_of(&error).code.name();
                *measured.failures.entry(code).or_default() += 1;
            }
        }
    }
}
