//! Events of a stream. Each starts with `Event: <kind>`.

use super::part::{message, metadata, status_message};
use super::task::{Detail, artifact, ids, task};
use super::{Floor, Node};
use crate::output::indented;

/// One `StreamResponse`.
pub(crate) fn event(floor: &mut Floor, event: Node<'_>, verbose: bool) {
    if let Some(whole) = event.get("task") {
        floor.field("Event", "task");
        task(floor, whole, &[], Detail { verbose, history: false });
    } else if let Some(said) = event.get("message") {
        floor.field("Event", "message");
        floor.maybe("Task ID", said.word("taskId").as_deref());
        floor.maybe("Context ID", said.word("contextId").as_deref());
        message(floor, said, verbose);
    } else if let Some(update) = event.get("statusUpdate") {
        floor.field("Event", "status");
        let status = update.get("status").unwrap_or(Node::new("{}"));
        let state = status.get("state").map(Node::shown);
        ids(floor, update.word("taskId").as_deref(), update.word("contextId").as_deref(), state.as_deref());
        floor.maybe("Updated", status.word("timestamp").as_deref());
        status_message(floor, status, verbose);
        if verbose {
            metadata(floor, update);
        }
    } else if let Some(update) = event.get("artifactUpdate") {
        floor.field("Event", "artifact");
        if verbose {
            floor.maybe("Task ID", update.word("taskId").as_deref());
            floor.maybe("Context ID", update.word("contextId").as_deref());
        }
        for (name, label) in [("append", "Append"), ("lastChunk", "Last chunk")] {
            if update.is(name) {
                floor.field(label, "yes");
            }
        }
        artifact(floor, update.get("artifact").unwrap_or(Node::new("{}")), verbose);
        if verbose {
            metadata(floor, update);
        }
    } else {
        // A kind of event that is younger than this tool.
        floor.field("Event", "unknown");
        floor.block("Data", &indented(event.raw()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut floor = Floor::new();
        event(&mut floor, Node::new(text), false);
        assert_eq!(floor.finish(), expected);
    }

    #[test]
    fn events_are_shown_by_kind() {
        check(
            r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#,
            "Event: status\nTask ID: t\nContext ID: c\nState: TASK_STATE_WORKING\n",
        );
        check(
            r#"{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"x"}]},"append":true,"lastChunk":false}}"#,
            "Event: artifact\nAppend: yes\nArtifact ID: a\nText:\n  x\n\n",
        );
        check(
            r#"{"message":{"messageId":"m","role":"ROLE_AGENT","contextId":"c","parts":[{"text":"x"}]}}"#,
            "Event: message\nContext ID: c\nMessage ID: m\nRole: ROLE_AGENT\nText:\n  x\n\n",
        );
        check(r#"{"new":1}"#, "Event: unknown\nData:\n  {\n    \"new\": 1\n  }\n\n");
    }
}
