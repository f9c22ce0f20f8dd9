//! Conversations: the messages of earlier tasks with the same context id, for an agent that asks for them.
//!
//! Most agents complete a task with every answer, so a conversation is a series of tasks with one `contextId`. An agent
//! that needs the earlier messages reads them from the log, newest first, up to a limit. Only settled tasks of the same
//! owner at the same agent count: callers choose context ids, and two of them may choose the same.
//! A note replaces each file. A conversation is read again for each of its messages, and no model reads archives.

use crate::agent::Context;
use crate::machine;
use bytes::Bytes;
use sabir_proto::{Artifact, Content, Fault, Message, MessageId, Part, Role, Stamp, Task, TaskId, TaskState};
use sabir_store::{Effect, StateSet, TaskListQuery};
use std::collections::VecDeque;

/// Tasks per page. Each may be as large as a task may be, so not many.
const PAGE_TASKS: usize = 2;
/// Reading stops after this many bytes of stored tasks, however little of each is given: files count here, and become
/// notes later.
const READ_BYTES_MAX: usize = 16 << 20;
/// The longest media type that is kept, in bytes; real ones are far shorter.
const MEDIA_TYPE_BYTES_MAX: usize = 256;
/// A message that does not fit is shortened, unless fewer bytes than this are left for it.
const SHORTENED_BYTES_MIN: usize = 256;

/// Limits of the messages that an agent gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationLimits {
    /// Messages of all earlier tasks together; 0 gives none.
    pub messages_max: usize,
    /// Bytes of those messages and of the data that the agent kept with the tasks; 0 gives none.
    pub bytes_max: usize,
}

impl Default for ConversationLimits {
    fn default() -> Self {
        Self { messages_max: 40, bytes_max: 64 << 10 }
    }
}

/// An earlier task of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTask {
    pub id: TaskId,
    /// The state in which it settled.
    pub state: TaskState,
    /// The messages of the caller and the agent, oldest first. Each artifact is a message of the agent, each file is a
    /// note, and metadata is left out.
    pub messages: Vec<Message>,
    /// The data that the agent kept with the task, see [`Context::keep`]; absent where `messages` is not complete.
    pub data: Option<Bytes>,
}

impl Context {
    /// The earlier tasks of this conversation, oldest first, within the usual limits; see [`ConversationLimits`].
    pub async fn conversation(&self) -> Result<Vec<PastTask>, Fault> {
        self.conversation_within(ConversationLimits::default()).await
    }

    /// The newest earlier tasks of this conversation that fit into the limits, oldest first: settled tasks of the same
    /// context, owner and agent.
    pub async fn conversation_within(&self, limits: ConversationLimits) -> Result<Vec<PastTask>, Fault> {
        let (core, mut room) = (&self.turn.core, limits);
        let fault = |e| core.store_fault("reading a conversation", &e);
        let (mut past, mut token, mut read_bytes) = (VecDeque::new(), None, 0);
        while room.is_left() && read_bytes < READ_BYTES_MAX {
            let listing = TaskListQuery {
                scope: self.turn.scope().clone(),
                context: Some(self.context_id().clone()),
                state: Some(TaskState::ALL.into_iter().filter(|state| state.is_settled()).collect::<StateSet>()),
                // Everything. With a time given, the store bounds its count of all matches.
                since: Some(Stamp::default()),
                limit: PAGE_TASKS,
                bytes_max: READ_BYTES_MAX,
                token,
            };
            let page = core.log.list(listing).await.map_err(fault)?;
            for stored in &page.tasks {
                read_bytes += stored.bytes();
                let Some(task) = machine::thaw(stored) else { continue };
                let data = core.log.agent_data(task.id).await.map_err(fault)?;
                if !room.is_left() {
                    break;
                }
                past.push_front(room.take(task, data));
            }
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        Ok(past.into_iter().filter(|task| !task.messages.is_empty()).collect())
    }

    /// Stores data with the task for its later turns and for later tasks of the conversation, replacing earlier data.
    /// It is committed with the next step, survives the end of the task, and callers never see it.
    pub fn keep(&self, data: impl Into<Bytes>) {
        self.add_effect(Effect::StoreAgentData(data.into()));
    }

    /// The data that the agent stored with this task in earlier turns.
    pub async fn kept(&self) -> Result<Option<Bytes>, Fault> {
        let core = &self.turn.core;
        core.log.agent_data(self.task_id()).await.map_err(|e| core.store_fault("reading what an agent kept", &e))
    }
}

impl ConversationLimits {
    const fn is_left(self) -> bool {
        self.messages_max > 0 && self.bytes_max > 0
    }

    /// Takes as much of a task as the limits allow, and reduces the limits by it.
    fn take(&mut self, task: Task, data: Option<Bytes>) -> PastTask {
        let (id, state) = (task.id, task.status.state);
        let (mut messages, mut is_whole) = (VecDeque::new(), true);
        let data_bytes = data.as_ref().map_or(0, Bytes::len);
        let said = messages_of(task);
        // The agent's data is dropped before the messages: it is useless without them, but they are useful without it.
        let all: usize = said.iter().map(bytes_of).sum();
        let fits = said.len() <= self.messages_max && all + data_bytes <= self.bytes_max;
        for mut message in said.into_iter().rev() {
            if !self.is_left() || !shorten(&mut message, self.bytes_max) {
                is_whole = false;
                (self.messages_max, self.bytes_max) = (0, 0);
                break;
            }
            self.messages_max -= 1;
            self.bytes_max = self.bytes_max.saturating_sub(bytes_of(&message));
            messages.push_front(message);
        }
        let data = data.filter(|_| is_whole && fits);
        self.bytes_max = self.bytes_max.saturating_sub(data.as_ref().map_or(0, Bytes::len));
        PastTask { id, state, messages: messages.into(), data }
    }
}

/// All messages of a task in order: its history, its artifacts, and its closing words.
fn messages_of(task: Task) -> Vec<Message> {
    let (id, state) = (task.id, task.status.state);
    let mut messages = task.history;
    for artifact in task.artifacts {
        // An artifact's id may be too long or not legal as a message id; the task's own is.
        let name =
            MessageId::parse(&format!("{id}/{}", artifact.artifact_id)).or_else(|_| MessageId::parse(&id.to_string()));
        let mut message = Message::text(name.expect("a UUID is a legal id"), Role::Agent, "");
        // Chunks of text that were stored separately become one text.
        let mut whole = Artifact::new(artifact.artifact_id.clone(), Vec::new());
        for part in artifact.parts {
            whole.append(Artifact::new(artifact.artifact_id.clone(), vec![part]));
        }
        message.parts = whole.parts;
        messages.push(message);
    }
    // The cause of a failure is for the caller: a model would take it for its own words.
    messages.extend(task.status.message.filter(|_| state != TaskState::Failed));
    for message in &mut messages {
        // Only the content counts against the limits, so nothing else is given.
        message.metadata = None;
        message.extensions.clear();
        message.reference_task_ids.clear();
        message.parts.iter_mut().for_each(replace_file_with_note);
    }
    messages.retain(|message| !message.parts.is_empty());
    messages
}

/// Replaces a file by a note, and removes the metadata of a part.
fn replace_file_with_note(part: &mut Part) {
    if let Content::Raw(_) = part.content {
        *part = Part::text(part.described());
    }
    part.metadata = None;
    part.filename = None;
    part.media_type.take_if(|media_type| media_type.len() > MEDIA_TYPE_BYTES_MAX);
}

fn bytes_of(message: &Message) -> usize {
    message.parts.iter().map(|part| part.described().len()).sum()
}

/// Cuts a message to this many bytes of text; false where too little would be left.
fn shorten(message: &mut Message, bytes_max: usize) -> bool {
    let bytes = bytes_of(message);
    if bytes <= bytes_max {
        return true;
    }
    if bytes_max < SHORTENED_BYTES_MIN {
        return false;
    }
    let mut text = message.text_with(sabir_proto::NonText::Describe);
    let note = format!(" [the first part of {bytes} bytes]");
    text.truncate(text.floor_char_boundary(bytes_max - note.len()));
    text.push_str(&note);
    message.parts = vec![Part::text(text)];
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::ArtifactId;

    fn task(question: &str, answer: &str) -> Task {
        let json = r#"{"id":"018bcfe5-687b-7000-8000-000000000000","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}"#;
        let mut task: Task = serde_json::from_str(json).expect("a task");
        task.history.push(Message::text(MessageId::parse("m").expect("an id"), Role::User, question));
        task.artifacts.push(Artifact::new(ArtifactId::parse("a").expect("an id"), vec![Part::text(answer)]));
        task
    }

    fn taken(room: &mut ConversationLimits, task: Task, data: &'static str) -> (Vec<String>, bool) {
        let past = room.take(task, Some(data.into()));
        (past.messages.iter().map(Message::joined_text).collect(), past.data.is_some())
    }

    #[test]
    fn what_fits_is_taken_with_what_the_agent_kept() {
        let mut room = ConversationLimits { messages_max: 4, bytes_max: 100 };
        assert_eq!(taken(&mut room, task("hi", "there"), "tools"), (vec!["hi".into(), "there".into()], true));
        assert_eq!(room, ConversationLimits { messages_max: 2, bytes_max: 88 });
    }

    #[test]
    fn the_newest_messages_are_kept_and_a_long_one_is_shortened() {
        let mut room = ConversationLimits { messages_max: 1, bytes_max: 1000 };
        assert_eq!(taken(&mut room, task("hi", "there"), "tools"), (vec!["there".into()], false));
        assert!(!room.is_left());
        let mut room = ConversationLimits { messages_max: 9, bytes_max: 300 };
        let (messages, data) = taken(&mut room, task("hi", &"é".repeat(500)), "tools");
        assert_eq!((messages.len(), data), (1, false), "{messages:?}");
        assert!(messages[0].len() <= 300 && messages[0].ends_with("[the first part of 1000 bytes]"), "{messages:?}");
    }

    #[test]
    fn chunks_are_one_text_and_metadata_is_left_out() {
        let mut task = task("hi", "un");
        task.artifacts[0].parts.push(Part::text("believable"));
        task.history[0].metadata = serde_json::from_str(r#"{"large":"x"}"#).ok();
        task.history[0].parts[0].metadata = serde_json::from_str(r#"{"large":"x"}"#).ok();
        let messages = messages_of(task);
        assert_eq!(messages[1].parts, [Part::text("unbelievable")]);
        assert!(messages[0].metadata.is_none() && messages[0].parts == [Part::text("hi")], "{messages:?}");
    }

    #[test]
    fn files_become_notes_and_failures_are_not_the_agents_words() {
        let mut failed = task("hi", "par");
        failed.status.state = TaskState::Failed;
        failed.status.message = Some(Message::text(MessageId::parse("f").expect("an id"), Role::Agent, "no route"));
        failed.history[0].parts.push(Part::new(Content::Raw(vec![0; 1 << 20])));
        let messages = messages_of(failed);
        let texts: Vec<_> = messages.iter().map(Message::joined_text).collect();
        assert_eq!(texts, ["hi\n[a file, application/octet-stream, 1048576 bytes]", "par"]);
    }
}
