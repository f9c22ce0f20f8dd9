//! What the agent asks of the interceptor: faults to inject into answers, which it recognises by an id that they
//! contain.
//!
//! Ids are the same bytes in JSON and in protobuf, so one search serves every binding. A task with an id that its
//! caller chose, as in 0.1, is not recognised; its answers pass unchanged.

use super::desk::Grant;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc;

/// Most faults that are registered at a time. The oldest is dropped first: its scenario then looks like an ordinary
/// task.
const WISHES_MAX: usize = 1024;
/// Most tasks that wait for a delayed authorisation.
const GRANTS_MAX: usize = 1024;

/// What the interceptor does to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trick {
    /// Responds with 401 instead, once.
    Refuse,
    /// Breaks the stream in the middle of an event, once.
    Cut,
    /// Shows the state as unknown, for as long as the [`FaultGuard`] lives.
    Blur,
}

/// The state that the demo agent and the interceptor share.
#[derive(Debug)]
pub(super) struct Edge {
    wishes: Mutex<VecDeque<(Trick, Arc<str>)>>,
    grants: mpsc::Sender<Grant>,
    base: OnceLock<String>,
    /// A random text that only the extended card contains; the interceptor recognises the card by it.
    seal: String,
}

/// Removes a registered fault when it is dropped.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    edge: &'a Edge,
    trick: Trick,
    about: Arc<str>,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.edge.lock().retain(|(trick, about)| *trick != self.trick || *about != self.about);
    }
}

impl Edge {
    pub(super) fn new() -> (Self, mpsc::Receiver<Grant>) {
        let (grants, granted) = mpsc::channel(GRANTS_MAX);
        let seal = format!("extended.{:016x}", rand::random::<u64>());
        (Self { wishes: Mutex::default(), grants, base: OnceLock::new(), seal }, granted)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Trick, Arc<str>)>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a fault for the answer that contains this id. An answer that matches consumes it.
    pub(super) fn ask(&self, trick: Trick, about: impl Into<Arc<str>>) {
        let mut wishes = self.lock();
        if wishes.len() >= WISHES_MAX {
            wishes.pop_front();
        }
        wishes.push_back((trick, about.into()));
    }

    /// Registers a fault that ends when the guard is dropped.
    pub(super) fn wish(&self, trick: Trick, about: String) -> Wish<'_> {
        let about: Arc<str> = about.into();
        self.ask(trick, about.clone());
        Wish { edge: self, trick, about }
    }

    /// Whether this fault is registered for an answer; a match consumes it.
    pub(super) fn take(&self, trick: Trick, answer: &[u8]) -> bool {
        let mut wishes = self.lock();
        let found = wishes.iter().position(|(wished, about)| *wished == trick && contains(answer, about));
        found.is_some_and(|at| wishes.remove(at).is_some())
    }

    /// The ids for which this fault is registered.
    pub(super) fn wished(&self, trick: Trick) -> Vec<Arc<str>> {
        self.lock().iter().filter(|(wished, _)| *wished == trick).map(|(_, about)| about.clone()).collect()
    }

    /// Queues a delayed authorisation. Where too many are queued, only a reply of the caller authorises the task.
    pub(super) fn authorise_later(&self, grant: Grant) {
        if self.grants.try_send(grant).is_err() {
            tracing::warn!("too many tasks wait for their authorisation; this one waits for a reply");
        }
    }

    pub(super) fn seal(&self) -> &str {
        &self.seal
    }

    /// The URL of this server.
    pub(super) fn base(&self) -> &str {
        self.base.get().map_or("", String::as_str)
    }

    pub(super) fn reached_at(&self, base: String) {
        let first = self.base.set(base).is_ok();
        debug_assert!(first, "a server starts once");
    }
}

/// Whether the bytes contain the text.
pub(super) fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_granted_once_and_ends_with_its_holder() {
        let (edge, _grants) = Edge::new();
        let held = edge.wish(Trick::Cut, "a-task".into());
        assert!(!edge.take(Trick::Cut, b"another task") && !edge.take(Trick::Refuse, b"id: a-task"));
        assert!(edge.take(Trick::Cut, b"id: a-task") && !edge.take(Trick::Cut, b"id: a-task"));
        drop(held);
        let held = edge.wish(Trick::Blur, "a-task".into());
        assert_eq!(edge.wished(Trick::Blur).len(), 1);
        drop(held);
        assert!(edge.wished(Trick::Blur).is_empty());
    }

    #[test]
    fn wishes_do_not_pile_up() {
        let (edge, _grants) = Edge::new();
        for n in 0..=WISHES_MAX {
            edge.ask(Trick::Refuse, format!("<{n}>"));
        }
        assert!(!edge.take(Trick::Refuse, b"<0>") && edge.take(Trick::Refuse, b"<1>"));
    }
}
