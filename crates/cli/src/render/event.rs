//! Events of a stream. Each starts with `Event: <kind>`.

use super::part::{message, metadata, status_message};
use super::task::{Detail, artifact, ids, task};
use super::{Fields, Node};
use crate::output::indented;

/// One `StreamResponse`.
pub(crate) fn event(fields: &mut Fields, event: Node<'_>, verbose: bool) {
    if let Some(whole) = event.get("task") {
        fields.field("Event", "task");
        task(fields, whole, &[], Detail { verbose, history: false });
    } else if let Some(said) = event.get("message") {
        fields.field("Event", "message");
        fields.maybe("Task ID", said.word("taskId").as_deref());
        fields.maybe("Context ID", said.word("contextId").as_deref());
        message(fields, said, verbose);
    } else if let Some(update) = event.get("statusUpdate") {
        fields.field("Event", "status");
        let status = update.get("status").unwrap_or(Node::new("{}"));
        let state = status.get("state").map(Node::shown);
        ids(fields, update.word("taskId").as_deref(), update.word("contextId").as_deref(), state.as_deref());
        fields.maybe("Updated", status.word("timestamp").as_deref());
        status_message(fields, status, verbose);
        if verbose {
            metadata(fields, update);
        }
    } else if let Some(update) = event.get("artifactUpdate") {
        fields.field("Event", "artifact");
        if verbose {
            fields.maybe("Task ID", update.word("taskId").as_deref());
            fields.maybe("Context ID", update.word("contextId").as_deref());
        }
        for (name, label) in [("append", "Append"), ("lastChunk", "Last chunk")] {
            if update.is(name) {
                fields.field(label, "yes");
            }
        }
        artifact(fields, update.get("artifact").unwrap_or(Node::new("{}")), verbose);
        if verbose {
            metadata(fields, update);
        }
    } else {
        // A kind of event that is younger than this tool.
        fields.field("Event", "unknown");
        fields.block("Data", &indented(event.raw()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut fields = Fields::new();
        event(&mut fields, Node::new(text), false);
        assert_eq!(fields.finish(), expected);
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
