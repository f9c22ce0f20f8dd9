//! Direct messages that the log stores as completed tasks.
//!
//! A remote agent may answer with a message instead of a task. The log has only tasks, so the answer is stored as a
//! task that completed with this message, and the metadata of the task marks it. A caller whose dialect has direct
//! replies gets the message alone; a caller that reads or lists the task sees a completed one.

use crate::{FrozenTask, Json, Message, Object, Task, TaskState};

/// The metadata member that marks a status update or a task whose message was a direct reply.
pub const DIRECT_MESSAGE: &str = "urn:sabir:ext:direct-message:v1";

/// Adds the mark to metadata, and keeps the other members.
pub fn mark(metadata: Option<&Object>) -> Option<Object> {
    let mut map = metadata.map(Object::to_map).unwrap_or_default();
    map.insert(DIRECT_MESSAGE.to_owned(), true.into());
    Object::new(Json::of(&map).ok()?).ok()
}

/// Whether the metadata contains the mark.
pub fn is_marked(metadata: Option<&Object>) -> bool {
    metadata.is_some_and(|metadata| metadata.get(DIRECT_MESSAGE) == Some(true.into()))
}

/// The direct reply that a task stands for: in its context, without a task id.
pub fn message(task: &FrozenTask) -> Option<Message> {
    // Searches the bytes first: almost no task is marked, and parsing a large one costs more than a search.
    let metadata_end = usize::try_from(task.history_at).ok()?.min(task.json.len());
    let head = &task.json[..metadata_end];
    if task.state != TaskState::Completed || !contains(head, DIRECT_MESSAGE.as_bytes()) {
        return None;
    }
    let Task { metadata, status, .. } = task.thaw()?;
    let message = status.message.filter(|_| is_marked(metadata.as_ref()))?;
    Some(Message { task_id: None, ..message })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextId, MessageId, Role, Stamp, TaskId, TaskStatus, Timestamp};

    fn task(state: TaskState, metadata: Option<Object>, text: &str) -> FrozenTask {
        let stamp = Stamp::first_of(Timestamp::from_millis(1_780_308_000_000));
        let id = TaskId::new(stamp, 1);
        let mut message = Message::text(MessageId::parse("m-1").unwrap(), Role::Agent, text);
        message.task_id = Some(id.into());
        let status = TaskStatus { state, message: Some(message), timestamp: None };
        let context_id = ContextId::new(stamp, 2);
        FrozenTask::freeze(&Task { id, context_id, status, metadata, history: Vec::new(), artifacts: Vec::new() })
    }

    #[test]
    fn only_a_completed_task_with_the_mark_stands_for_a_message() {
        let other = Object::new(Json::parse(r#"{"a":1}"#).unwrap()).unwrap();
        let found = message(&task(TaskState::Completed, mark(Some(&other)), "hi")).unwrap();
        assert_eq!((found.joined_text(), found.task_id), ("hi".into(), None));
        for (state, metadata, text) in [
            (TaskState::Completed, Some(other), "hi"),
            (TaskState::Completed, None, DIRECT_MESSAGE),
            (TaskState::Failed, mark(None), "hi"),
        ] {
            assert_eq!(message(&task(state, metadata, text)), None);
        }
    }
}
