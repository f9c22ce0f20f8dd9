//! Records the kinds of values that the properties were run on. A kind that never occurred proves nothing, so it fails
//! the test.

use sabir_proto::{Artifact, Call, Content, Message, Part, TaskRef, TaskStatus, WireEvent, WireTask};
use sabir_wire::{Dialect, Loss, LossKind};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of values, and how many of the conversions of each pair lost nothing.
#[derive(Default)]
pub(crate) struct Coverage {
    seen: RefCell<BTreeSet<String>>,
    lost: RefCell<BTreeSet<(Dialect, LossKind)>>,
    whole: RefCell<BTreeMap<(Dialect, Dialect), (usize, usize)>>,
}

impl Coverage {
    pub(crate) fn note(&self, what: &str) {
        if !self.seen.borrow().contains(what) {
            self.seen.borrow_mut().insert(what.to_owned());
        }
    }

    /// Records a conversion into `to` with these losses.
    pub(crate) fn translated(&self, from: Dialect, to: Dialect, losses: &[Loss]) {
        let mut lost = self.lost.borrow_mut();
        lost.extend(losses.iter().map(|loss| (to, loss.kind)));
        let mut whole = self.whole.borrow_mut();
        let (all, without) = whole.entry((from, to)).or_default();
        *all += 1;
        *without += usize::from(losses.is_empty());
    }

    fn attributes(&self, part: &Part) {
        let word = match &part.content {
            Content::Text(_) => "text",
            Content::Raw(_) => "raw",
            Content::Url(_) => "url",
            Content::Data(json) if json.as_str().starts_with('{') => "object",
            Content::Data(_) => "other data",
        };
        let present = |name: &str, is: bool| format!("{word} {} {name}", if is { "with" } else { "without" });
        self.note(&present("metadata", part.metadata.is_some()));
        self.note(&present("filename", part.filename.is_some()));
        self.note(&present("mediaType", part.media_type.is_some()));
    }

    pub(crate) fn message(&self, message: &Message) {
        self.note(if message.task_id.is_some() { "message of a task" } else { "message of no task" });
        self.note(if message.context_id.is_some() { "message in context" } else { "message without context" });
        message.parts.iter().for_each(|part| self.attributes(part));
    }

    fn status(&self, status: &TaskStatus) {
        self.note(status.state.name());
        self.note(if status.timestamp.is_some() { "timestamp" } else { "no timestamp" });
        match &status.message {
            None => self.note("no words"),
            Some(message) => {
                self.note("words");
                self.message(message);
            }
        }
    }

    fn artifact(&self, artifact: &Artifact) {
        artifact.parts.iter().for_each(|part| self.attributes(part));
    }

    pub(crate) fn task(&self, task: &WireTask) {
        self.note(if matches!(task.id, TaskRef::Id(_)) { "id" } else { "alias" });
        self.note(if task.context_id.is_some() { "context" } else { "no context" });
        self.note(if task.metadata.is_some() { "metadata" } else { "no metadata" });
        self.status(&task.status);
        task.history.iter().for_each(|message| self.message(message));
        task.artifacts.iter().for_each(|artifact| self.artifact(artifact));
    }

    pub(crate) fn call(&self, call: &Call) {
        self.note(call.operation());
        if let Call::Send(send) | Call::Stream(send) = call {
            self.message(&send.message);
            let push = send.configuration.task_push_notification_config.is_some();
            self.note(if push { "inline push" } else { "no inline push" });
            self.note(if send.configuration.return_immediately { "returns" } else { "waits" });
        }
    }

    pub(crate) fn event(&self, event: &WireEvent) {
        match event {
            WireEvent::Task(task) => {
                self.note("task");
                self.task(task);
            }
            WireEvent::Message(message) => {
                self.note("message");
                self.message(message);
            }
            WireEvent::StatusUpdate(update) => {
                self.note("statusUpdate");
                self.status(&update.status);
            }
            WireEvent::ArtifactUpdate(update) => {
                self.note(if update.append { "artifactUpdate that appends" } else { "artifactUpdate that replaces" });
                self.artifact(&update.artifact);
            }
        }
    }

    /// Fails if a kind of value never occurred.
    #[track_caller]
    pub(crate) fn must_have_seen(&self, groups: &[&[&str]]) {
        let seen = self.seen.borrow();
        let never: Vec<_> = groups.concat().into_iter().filter(|what| !seen.contains(*what)).collect();
        assert!(never.is_empty(), "never tried on {never:?}");
    }

    /// Fails unless exactly these kinds of losses occurred in each dialect: a missing one was never tried, and a new
    /// one is not expected.
    #[track_caller]
    pub(crate) fn must_have_lost(&self, expected: &[(Dialect, &[LossKind])]) {
        let met = self.lost.borrow();
        for (dialect, kinds) in expected {
            let found: BTreeSet<_> = met.iter().filter(|(d, _)| d == dialect).map(|(_, kind)| *kind).collect();
            assert_eq!(found, kinds.iter().copied().collect(), "losses in {dialect}");
        }
    }

    /// Fails if a pair that can convert without loss never did.
    #[track_caller]
    pub(crate) fn must_have_been_whole(&self, pairs: impl IntoIterator<Item = (Dialect, Dialect)>) {
        let whole = self.whole.borrow();
        for pair in pairs {
            let (all, without) = whole.get(&pair).copied().unwrap_or_default();
            assert!(without > 0, "{} to {}: none of {all} translations without loss", pair.0, pair.1);
        }
    }
}

/// Every content of a part, with and without each other member of a part.
pub(crate) const PARTS: [&str; 30] = [
    "text with metadata",
    "text with filename",
    "text with mediaType",
    "text without metadata",
    "text without filename",
    "text without mediaType",
    "raw with metadata",
    "raw with filename",
    "raw with mediaType",
    "raw without metadata",
    "raw without filename",
    "raw without mediaType",
    "url with metadata",
    "url with filename",
    "url with mediaType",
    "url without metadata",
    "url without filename",
    "url without mediaType",
    "object with metadata",
    "object with filename",
    "object with mediaType",
    "object without metadata",
    "object without filename",
    "object without mediaType",
    "other data with metadata",
    "other data with filename",
    "other data with mediaType",
    "other data without metadata",
    "other data without filename",
    "other data without mediaType",
];

pub(crate) const MESSAGES: [&str; 4] =
    ["message of a task", "message of no task", "message in context", "message without context"];

pub(crate) const STATES: [&str; 12] = [
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
    "words",
    "no words",
    "timestamp",
    "no timestamp",
];

pub(crate) const TASKS: [&str; 6] = ["id", "alias", "context", "no context", "metadata", "no metadata"];

pub(crate) const CALLS: [&str; 15] = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
    "inline push",
    "no inline push",
    "returns",
    "waits",
];

pub(crate) const EVENTS: [&str; 5] =
    ["task", "message", "statusUpdate", "artifactUpdate that appends", "artifactUpdate that replaces"];
