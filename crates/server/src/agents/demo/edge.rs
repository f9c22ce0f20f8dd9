//! What the agent asks of the front: wishes about answers, recognised by an id that they contain.
//!
//! Ids are the same bytes in JSON and in protobuf, so one look serves every binding. A task that goes by a name of its
//! caller's choice, as in 0.1, is not recognised; its answers pass as they are.

use super::desk::Grant;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc;

/// Most wishes at a time. Beyond it the oldest is forgotten: its scenario then looks like an ordinary task.
const WISHES_MAX: usize = 1024;
/// Most tasks that wait for an authorisation from elsewhere.
const GRANTS_MAX: usize = 1024;

/// What is to be done to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trick {
    /// Answer with 401 instead. Once.
    Refuse,
    /// Break off in the middle of it. Once.
    Cut,
    /// Say that the state is not known, for as long as the wish lives.
    Blur,
}

/// Where agent and front meet.
#[derive(Debug)]
pub(super) struct Edge {
    wishes: Mutex<VecDeque<(Trick, Arc<str>)>>,
    grants: mpsc::Sender<Grant>,
    base: OnceLock<String>,
    /// Stands in the extended card and nowhere else; by it the front knows the card when it passes.
    seal: String,
}

/// A wish that ends with the work it belongs to.
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

    /// Wishes something for the answer with this id, until it comes by.
    pub(super) fn ask(&self, trick: Trick, about: impl Into<Arc<str>>) {
        let mut wishes = self.lock();
        if wishes.len() >= WISHES_MAX {
            wishes.pop_front();
        }
        wishes.push_back((trick, about.into()));
    }

    /// The same for no longer than the wish is held.
    pub(super) fn wish(&self, trick: Trick, about: String) -> Wish<'_> {
        let about: Arc<str> = about.into();
        self.ask(trick, about.clone());
        Wish { edge: self, trick, about }
    }

    /// Whether this is to be done to an answer; it is then done and not wished any more.
    pub(super) fn take(&self, trick: Trick, answer: &[u8]) -> bool {
        let mut wishes = self.lock();
        let found = wishes.iter().position(|(wished, about)| *wished == trick && contains(answer, about));
        found.is_some_and(|at| wishes.remove(at).is_some())
    }

    /// Everything this is wished for.
    pub(super) fn wished(&self, trick: Trick) -> Vec<Arc<str>> {
        self.lock().iter().filter(|(wished, _)| *wished == trick).map(|(_, about)| about.clone()).collect()
    }

    /// Has a task authorised by somebody else, later. Where too many wait already, only a reply will do.
    pub(super) fn authorise_later(&self, grant: Grant) {
        if self.grants.try_send(grant).is_err() {
            tracing::warn!("too many tasks wait for their authorisation; this one waits for a reply");
        }
    }

    pub(super) fn seal(&self) -> &str {
        &self.seal
    }

    /// Where this server is.
    pub(super) fn base(&self) -> &str {
        self.base.get().map_or("", String::as_str)
    }

    pub(super) fn reached_at(&self, base: String) {
        let first = self.base.set(base).is_ok();
        debug_assert!(first, "a server starts once");
    }
}

/// Whether these bytes have this text in them.
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
