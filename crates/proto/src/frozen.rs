//! Tasks and events as committed: stored as bytes, parsed on request.
//!
//! A stored task is mostly only read. Its canonical JSON is at once the log record, the answer to *get* and an element
//! of *list*, so it is carried as bytes, with the offsets that are needed to cut members off its end.

use crate::{Event, Message, Seq, Task, TaskId, TaskState, WireEvent, WireTask};
use bytes::Bytes;

/// A task as canonical JSON, with the offsets of the members that a reader may leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenTask {
    /// The task as canonical JSON.
    pub json: Bytes,
    /// The state, so that readers need not parse the JSON for it.
    pub state: TaskState,
    /// Offset of `,"history"`, or of what follows where there is none.
    pub history_at: u32,
    /// Offset of `,"artifacts"`, or of the closing brace.
    pub artifacts_at: u32,
}

/// Which of a task's members a caller asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// At most this many of the latest messages; `None` for all.
    pub history: Option<u32>,
    /// Whether artifacts are wanted.
    pub artifacts: bool,
}

impl View {
    /// The view with all members.
    pub const WHOLE: Self = Self { history: None, artifacts: true };

    /// The view with all members and at most this much history.
    pub const fn with_history(history: Option<u32>) -> Self {
        Self { history, artifacts: true }
    }
}

impl FrozenTask {
    /// Serialises a task.
    ///
    /// # Panics
    /// Never for a task made of our types, whose serialisation cannot fail.
    pub fn freeze(task: &Task) -> Self {
        // Written by hand and not by the derived serialiser, because this yields the offsets for free. A test compares
        // the bytes of the two.
        let mut json = Vec::with_capacity(640);
        write_head(&mut json, task);
        let history_at = offset(&json);
        if !task.history.is_empty() {
            member(&mut json, HISTORY, &task.history);
        }
        let artifacts_at = offset(&json);
        if !task.artifacts.is_empty() {
            member(&mut json, b",\"artifacts\":", &task.artifacts);
        }
        json.push(b'}');
        Self { json: json.into(), state: task.status.state, history_at, artifacts_at }
    }

    /// Parses the task again. `None` for bytes that are not a task, i.e. a damaged store.
    pub fn thaw(&self) -> Option<Task> {
        serde_json::from_slice(&self.json).ok()
    }

    /// Parses the task without its history and its artifacts, which are most of a large one.
    pub fn thaw_head(&self) -> Option<Task> {
        let mut head = self.json.get(..self.history_at as usize)?.to_vec();
        head.push(b'}');
        serde_json::from_slice(&head).ok()
    }

    /// The next version of the task: the head of `after`, this history followed by that of `after`, and the same
    /// artifacts. It copies the bytes and does not parse them.
    #[must_use]
    pub fn with_update(&self, after: &Task) -> Self {
        let (history_at, artifacts_at) = (self.history_at as usize, self.artifacts_at as usize);
        let (history, artifacts) = (&self.json[history_at..artifacts_at], &self.json[artifacts_at..]);
        let mut json = Vec::with_capacity(self.json.len() + 640);
        write_head(&mut json, after);
        let history_at = offset(&json);
        match (history.strip_suffix(b"]"), &after.history[..]) {
            (_, []) => json.extend_from_slice(history),
            (None, added) => member(&mut json, HISTORY, &added),
            (Some(history), added) => {
                json.extend_from_slice(history);
                for message in added {
                    member(&mut json, b",", message);
                }
                json.push(b']');
            }
        }
        let artifacts_at = offset(&json);
        json.extend_from_slice(artifacts);
        Self { json: json.into(), state: after.status.state, history_at, artifacts_at }
    }

    /// Parses the task into its wire form, with the members that `view` includes.
    pub fn to_wire(&self, view: View) -> Option<WireTask> {
        let mut task: WireTask = serde_json::from_slice(&self.json).ok()?;
        if let Some(keep) = view.history {
            task.history.drain(..task.history.len().saturating_sub(keep as usize));
        }
        if !view.artifacts {
            task.artifacts.clear();
        }
        Some(task)
    }

    /// Reads the id without parsing the rest.
    pub fn id(&self) -> Option<TaskId> {
        first_id(&self.json)
    }

    /// Reads the context id without parsing the rest.
    pub fn context(&self) -> Option<crate::ContextId> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            context_id: crate::ContextId,
        }
        serde_json::from_slice::<Head>(&self.json).ok().map(|head| head.context_id)
    }

    /// Writes the JSON of the task with the members that `view` includes.
    pub fn write(&self, view: View, out: &mut Vec<u8>) {
        let json = &self.json[..];
        let (history_at, artifacts_at) = (self.history_at as usize, self.artifacts_at as usize);
        match view.history {
            None => out.extend_from_slice(&json[..artifacts_at]),
            Some(0) => out.extend_from_slice(&json[..history_at]),
            Some(keep) => {
                out.extend_from_slice(&json[..history_at]);
                self.write_last_messages(keep as usize, out);
            }
        }
        if view.artifacts {
            out.extend_from_slice(&json[artifacts_at..]);
        } else {
            out.push(b'}');
        }
    }

    fn write_last_messages(&self, keep: usize, out: &mut Vec<u8>) {
        let Some(section) = self.json[self.history_at as usize..self.artifacts_at as usize].strip_prefix(HISTORY)
        else {
            return;
        };
        let messages: Vec<&serde_json::value::RawValue> = serde_json::from_slice(section).unwrap_or_default();
        for (i, message) in messages[messages.len().saturating_sub(keep)..].iter().enumerate() {
            out.extend_from_slice(if i == 0 { b",\"history\":[" } else { b"," });
            out.extend_from_slice(message.get().as_bytes());
        }
        if !messages.is_empty() && keep > 0 {
            out.push(b']');
        }
    }
}

/// The first id of a task or an event, which is the task's: its member is written before all others.
fn first_id(json: &[u8]) -> Option<TaskId> {
    let head = String::from_utf8_lossy(&json[..json.len().min(96)]);
    let at = head.find("d\":\"")? + 4;
    TaskId::parse(head.get(at..at + 36)?)
}

const HISTORY: &[u8] = b",\"history\":";

/// Writes everything before the history.
fn write_head(json: &mut Vec<u8>, task: &Task) {
    member(json, b"{\"id\":", &task.id);
    member(json, b",\"contextId\":", &task.context_id);
    member(json, b",\"status\":", &task.status);
    if let Some(metadata) = &task.metadata {
        member(json, b",\"metadata\":", metadata);
    }
}

fn member<T: serde::Serialize + ?Sized>(json: &mut Vec<u8>, name: &[u8], value: &T) {
    json.extend_from_slice(name);
    serde_json::to_writer(json, value).expect("our types serialise");
}

/// Offsets fit 32 bits: bodies are bounded far below 4 GiB by the server's `body_bytes_max`.
fn offset(json: &[u8]) -> u32 {
    u32::try_from(json.len()).unwrap_or(u32::MAX)
}

/// An event with its number, as committed: the v1.0 `StreamResponse` on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenEvent {
    /// The number of the event in the log of its task.
    pub seq: Seq,
    /// The state that the event puts the task in, if it has one.
    pub state: Option<TaskState>,
    /// The event as canonical JSON.
    pub json: Bytes,
    /// The caller's message that this event answers, if there is one. The specification has no event for it, so streams
    /// do not show it; the log stores it, because the history is folded from the log alone.
    pub input: Option<Bytes>,
}

impl FrozenEvent {
    /// Serialises an event.
    ///
    /// # Panics
    /// Never for an event made of our types, whose serialisation cannot fail.
    pub fn freeze(seq: Seq, event: &Event) -> Self {
        let mut json = Vec::with_capacity(256);
        serde_json::to_writer(&mut json, event).expect("our types serialise");
        // Shrinks the buffer: a live task keeps its latest events in memory.
        Self { seq, state: event.state(), json: json.into_boxed_slice().into(), input: None }
    }

    /// The same event with the caller's message that it answers.
    ///
    /// # Panics
    /// Never for a message made of our types, whose serialisation cannot fail.
    #[must_use]
    pub fn with_input(mut self, message: &Message) -> Self {
        self.input = Some(serde_json::to_vec(message).expect("our types serialise").into());
        self
    }

    /// The size of the event and of the message that it answers, in bytes.
    pub fn bytes(&self) -> usize {
        self.json.len() + self.input.as_ref().map_or(0, Bytes::len)
    }

    /// Writes a line of the log. Compact JSON contains neither tabs nor line breaks, so both can be separators.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.json);
        if let Some(heard) = &self.input {
            out.push(b'\t');
            out.extend_from_slice(heard);
        }
    }

    /// Parses a line of the log.
    pub fn read_line(seq: Seq, line: Bytes) -> Option<Self> {
        let (json, heard) = match line.iter().position(|b| *b == b'\t') {
            Some(tab) => (line.slice(..tab), Some(line.slice(tab + 1..))),
            None => (line, None),
        };
        let event: Event = serde_json::from_slice(&json).ok()?;
        Some(Self { seq, state: event.state(), json, input: heard })
    }

    /// Parses the message that [`FrozenEvent::with_input`] stored.
    pub fn thaw_input(&self) -> Option<Message> {
        serde_json::from_slice(self.input.as_ref()?).ok()
    }

    /// The first event of a task that is only stored whole: `{"task":…}`.
    pub fn of_task(seq: Seq, task: &FrozenTask) -> Self {
        let mut json = Vec::with_capacity(task.json.len() + 9);
        json.extend_from_slice(b"{\"task\":");
        json.extend_from_slice(&task.json);
        json.push(b'}');
        Self { seq, state: Some(task.state), json: json.into(), input: None }
    }

    /// Parses the event again. `None` for bytes that are not an event, i.e. a damaged store.
    pub fn thaw(&self) -> Option<Event> {
        serde_json::from_slice(&self.json).ok()
    }

    /// Reads the id of the task without parsing the rest.
    pub fn task_id(&self) -> Option<TaskId> {
        first_id(&self.json)
    }

    /// Parses the event into its wire form.
    pub fn to_wire(&self) -> Option<WireEvent> {
        serde_json::from_slice(&self.json).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Artifact, ArtifactId, ContextId, MessageId, Part, Role, Stamp, TaskId, TaskStatus, Timestamp};

    fn task(messages: usize, artifacts: usize) -> Task {
        let stamp = Stamp::first_of(Timestamp::from_millis(1_780_308_000_000));
        let message = |n| Message::text(MessageId::parse(&format!("m{n}")).unwrap(), Role::User, "quo\"te é");
        let artifact = |n| Artifact::new(ArtifactId::parse(&format!("a{n}")).unwrap(), vec![Part::text("x")]);
        Task {
            id: TaskId::new(stamp, 1),
            context_id: ContextId::new(stamp, 2),
            status: TaskStatus { state: TaskState::Completed, message: None, timestamp: Some(stamp.time()) },
            metadata: None,
            history: (0..messages).map(message).collect(),
            artifacts: (0..artifacts).map(artifact).collect(),
        }
    }

    #[test]
    fn a_task_that_is_continued_has_the_bytes_of_the_whole_task() {
        for (messages, artifacts, added) in [(0, 0, 0), (0, 0, 2), (0, 2, 1), (3, 0, 0), (3, 0, 2), (3, 2, 2)] {
            let mut whole = task(messages, artifacts);
            let frozen = FrozenTask::freeze(&whole);
            let mut head = frozen.thaw_head().unwrap();
            assert_eq!((head.history.len(), head.artifacts.len()), (0, 0));
            head.status.state = TaskState::Working;
            head.history = task(added, 0).history;
            whole.status.state = TaskState::Working;
            whole.history.extend(head.history.clone());
            assert_eq!(frozen.with_update(&head), FrozenTask::freeze(&whole), "{messages} {artifacts} {added}");
        }
    }

    #[test]
    fn a_view_equals_the_task_with_those_members_removed() {
        for (messages, artifacts) in [(0, 0), (1, 0), (0, 2), (3, 2)] {
            let whole = task(messages, artifacts);
            let frozen = FrozenTask::freeze(&whole);
            assert_eq!(frozen.json, serde_json::to_vec(&whole).unwrap());
            assert_eq!(frozen.thaw().unwrap(), whole);
            for history in [None, Some(0), Some(1), Some(2), Some(9)] {
                for wanted in [true, false] {
                    let mut expected = whole.clone();
                    if let Some(keep) = history {
                        let from = messages.saturating_sub(keep as usize);
                        expected.history.drain(..from);
                    }
                    if !wanted {
                        expected.artifacts.clear();
                    }
                    let mut out = Vec::new();
                    frozen.write(View { history, artifacts: wanted }, &mut out);
                    assert_eq!(serde_json::from_slice::<Task>(&out).unwrap(), expected);
                }
            }
        }
    }
}
