//! What the agent asks of the interceptor: faults to inject into answers, which it recognises by an id that they
//! contain.
//!
//! Ids are the same bytes in JSON and in protobuf, so one search serves every binding. A task with an id that its
//! caller chose, as in 0.1, is not recognised; its answers pass unchanged.

use super::authorisations::DelayedAuthorisation;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc;

/// Most faults that are registered at a time. The oldest is dropped first: its scenario then looks like an ordinary
/// task.
const FAULTS_MAX: usize = 1024;
/// Most tasks that wait for a delayed authorisation.
const AUTHORISATIONS_MAX: usize = 1024;

/// What the interceptor does to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedFault {
    /// Responds with 401 instead, once.
    Refuse,
    /// Breaks the stream in the middle of an event, once.
    Cut,
    /// Shows the state as unknown, for as long as the [`FaultGuard`] lives.
    Blur,
}

/// The state that the demo agent and the interceptor share.
#[derive(Debug)]
pub(super) struct DemoControl {
    faults: Mutex<VecDeque<(InjectedFault, Arc<str>)>>,
    authorisations: mpsc::Sender<DelayedAuthorisation>,
    base: OnceLock<String>,
    /// A random text that only the extended card contains; the interceptor recognises the card by it.
    extended_card_mark: String,
}

/// Removes a registered fault when it is dropped.
#[derive(Debug)]
pub(super) struct FaultGuard<'a> {
    control: &'a DemoControl,
    fault: InjectedFault,
    id: Arc<str>,
}

impl Drop for FaultGuard<'_> {
    fn drop(&mut self) {
        self.control.lock().retain(|(trick, about)| *trick != self.fault || *about != self.id);
    }
}

impl DemoControl {
    pub(super) fn new() -> (Self, mpsc::Receiver<DelayedAuthorisation>) {
        let (grants, granted) = mpsc::channel(AUTHORISATIONS_MAX);
        let seal = format!("extended.{:016x}", rand::random::<u64>());
        (
            Self { faults: Mutex::default(), authorisations: grants, base: OnceLock::new(), extended_card_mark: seal },
            granted,
        )
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(InjectedFault, Arc<str>)>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a fault for the answer that contains this id. An answer that matches consumes it.
    pub(super) fn inject(&self, trick: InjectedFault, about: impl Into<Arc<str>>) {
        let mut wishes = self.lock();
        if wishes.len() >= FAULTS_MAX {
            wishes.pop_front();
        }
        wishes.push_back((trick, about.into()));
    }

    /// Registers a fault that ends when the guard is dropped.
    pub(super) fn inject_while(&self, trick: InjectedFault, about: String) -> FaultGuard<'_> {
        let about: Arc<str> = about.into();
        self.inject(trick, about.clone());
        FaultGuard { control: self, fault: trick, id: about }
    }

    /// Whether this fault is registered for an answer; a match consumes it.
    pub(super) fn take(&self, trick: InjectedFault, answer: &[u8]) -> bool {
        let mut wishes = self.lock();
        let found = wishes.iter().position(|(wished, about)| *wished == trick && contains(answer, about));
        found.is_some_and(|at| wishes.remove(at).is_some())
    }

    /// The ids for which this fault is registered.
    pub(super) fn injected(&self, trick: InjectedFault) -> Vec<Arc<str>> {
        self.lock().iter().filter(|(wished, _)| *wished == trick).map(|(_, about)| about.clone()).collect()
    }

    /// Queues a delayed authorisation. Where too many are queued, only a reply of the caller authorises the task.
    pub(super) fn authorise_later(&self, grant: DelayedAuthorisation) {
        if self.authorisations.try_send(grant).is_err() {
            tracing::warn!("too many tasks wait for their authorisation; this one waits for a reply");
        }
    }

    pub(super) fn extended_card_mark(&self) -> &str {
        &self.extended_card_mark
    }

    /// The URL of this server.
    pub(super) fn base(&self) -> &str {
        self.base.get().map_or("", String::as_str)
    }

    pub(super) fn set_base(&self, base: String) {
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
        let (edge, _grants) = DemoControl::new();
        let held = edge.inject_while(InjectedFault::Cut, "a-task".into());
        assert!(!edge.take(InjectedFault::Cut, b"another task") && !edge.take(InjectedFault::Refuse, b"id: a-task"));
        assert!(edge.take(InjectedFault::Cut, b"id: a-task") && !edge.take(InjectedFault::Cut, b"id: a-task"));
        drop(held);
        let held = edge.inject_while(InjectedFault::Blur, "a-task".into());
        assert_eq!(edge.injected(InjectedFault::Blur).len(), 1);
        drop(held);
        assert!(edge.injected(InjectedFault::Blur).is_empty());
    }

    #[test]
    fn wishes_do_not_pile_up() {
        let (edge, _grants) = DemoControl::new();
        for n in 0..=FAULTS_MAX {
            edge.inject(InjectedFault::Refuse, format!("<{n}>"));
        }
        assert!(!edge.take(InjectedFault::Refuse, b"<0>") && edge.take(InjectedFault::Refuse, b"<1>"));
    }
}
