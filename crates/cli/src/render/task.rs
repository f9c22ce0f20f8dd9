//! Tasks, lists of tasks and push configurations.

use super::part::{message, metadata, parts, status_message};
use super::{Fields, Node};
use crate::redact::REDACTED;

/// How much of a task is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Detail {
    /// Everything that was exchanged.
    pub(crate) verbose: bool,
    /// The messages of its history.
    pub(crate) history: bool,
}

/// The three things every answer about a task names. `task` may be a task or an event about one.
pub(crate) fn ids(fields: &mut Fields, id: Option<&str>, context: Option<&str>, state: Option<&str>) {
    fields.field("Task ID", id.unwrap_or("-"));
    fields.field("Context ID", context.unwrap_or("-"));
    fields.field("State", state.unwrap_or("TASK_STATE_UNSPECIFIED"));
}

/// A task. `resume` is the command to go on with.
pub(crate) fn task(fields: &mut Fields, task: Node<'_>, resume: &[String], detail: Detail) {
    let status = task.get("status").unwrap_or(Node::new("{}"));
    head(fields, task);
    status_message(fields, status, detail.verbose);
    resume.iter().for_each(|way| fields.field("Resume", way));
    for artifact in task.list("artifacts") {
        self::artifact(fields, artifact, detail.verbose);
    }
    let history = task.list("history");
    if !history.is_empty() {
        fields.field("History", &history.len().to_string());
    }
    if detail.history || detail.verbose {
        for said in history {
            message(fields, said, detail.verbose);
        }
    }
    if detail.verbose {
        metadata(fields, task);
    }
}

/// A task in a line or two: what a list shows.
fn head(fields: &mut Fields, task: Node<'_>) {
    let status = task.get("status").unwrap_or(Node::new("{}"));
    let state = status.get("state").map(Node::shown);
    ids(fields, task.word("id").as_deref(), task.word("contextId").as_deref(), state.as_deref());
    fields.maybe("Updated", status.word("timestamp").as_deref());
}

/// Shows an artifact as fields.
pub(super) fn artifact(fields: &mut Fields, artifact: Node<'_>, verbose: bool) {
    fields.field("Artifact ID", &artifact.word("artifactId").unwrap_or_default());
    fields.maybe("Artifact name", artifact.word("name").as_deref());
    fields.maybe("Artifact description", artifact.word("description").as_deref());
    parts(fields, artifact, verbose);
    if verbose {
        metadata(fields, artifact);
    }
}

/// Shows a page of a task list as fields.
pub(crate) fn page(fields: &mut Fields, page: Node<'_>, detail: Detail) {
    for one in page.list("tasks") {
        if detail.verbose || detail.history {
            task(fields, one, &[], detail);
        } else {
            head(fields, one);
            for artifact in one.list("artifacts") {
                self::artifact(fields, artifact, false);
            }
        }
    }
    if let Some(total) = page.get("totalSize") {
        fields.field("Total", &total.shown());
    }
    fields.maybe("Next page token", page.word("nextPageToken").as_deref());
}

/// A push configuration. Its secrets are the agent's to know and not the screen's to show.
pub(crate) fn push_config(fields: &mut Fields, config: Node<'_>) {
    fields.field("Task ID", &config.word("taskId").unwrap_or_default());
    fields.field("Config ID", &config.word("id").unwrap_or_default());
    fields.field("URL", &config.word("url").unwrap_or_default());
    if config.word("token").is_some() {
        fields.field("Token", REDACTED);
    }
    if let Some(authentication) = config.get("authentication") {
        fields.maybe("Scheme", authentication.word("scheme").as_deref());
        if authentication.word("credentials").is_some() {
            fields.field("Credentials", REDACTED);
        }
    }
}

/// A page of push configurations.
pub(crate) fn push_page(fields: &mut Fields, page: Node<'_>) {
    let configs = page.list("configs");
    for config in &configs {
        push_config(fields, *config);
    }
    fields.field("Total", &configs.len().to_string());
    fields.maybe("Next page token", page.word("nextPageToken").as_deref());
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = r#"{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED",
        "timestamp":"2026-09-01T08:14:22.310Z","message":{"messageId":"s","role":"ROLE_AGENT","parts":[{"text":"done"}]}},
        "artifacts":[{"artifactId":"a-1","name":"summary","parts":[{"text":"March"}]}],
        "history":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}],"metadata":{"k":1}}"#;

    fn shown(detail: Detail) -> String {
        let mut fields = Fields::new();
        task(&mut fields, Node::new(TASK), &["sabir x".to_owned()], detail);
        fields.finish()
    }

    #[test]
    fn a_task_names_itself_its_context_and_its_state() {
        let concise = "Task ID: t-1\nContext ID: c-1\nState: TASK_STATE_COMPLETED\nUpdated: 2026-09-01T08:14:22.310Z\n\
            Status message:\n  done\n\nResume: sabir x\nArtifact ID: a-1\nArtifact name: summary\nText:\n  March\n\n\
            History: 1\n";
        assert_eq!(shown(Detail::default()), concise);
        let history = format!("{concise}Message ID: m\nRole: ROLE_USER\nText:\n  hi\n\n");
        assert_eq!(shown(Detail { history: true, verbose: false }), history);
        let verbose = format!("{history}Metadata:\n  {{\n    \"k\": 1\n  }}\n\n");
        assert_eq!(shown(Detail { history: false, verbose: true }), verbose);
    }

    #[test]
    fn a_task_without_context_or_state_still_has_all_three_lines() {
        let mut fields = Fields::new();
        task(&mut fields, Node::new(r#"{"id":"t"}"#), &[], Detail::default());
        assert_eq!(fields.finish(), "Task ID: t\nContext ID: -\nState: TASK_STATE_UNSPECIFIED\n");
    }

    #[test]
    fn a_page_ends_with_its_total_and_the_next_token() {
        let mut fields = Fields::new();
        let text =
            r#"{"tasks":[{"id":"t","status":{"state":"TASK_STATE_WORKING"}}],"nextPageToken":"n","totalSize":7}"#;
        page(&mut fields, Node::new(text), Detail::default());
        assert_eq!(
            fields.finish(),
            "Task ID: t\nContext ID: -\nState: TASK_STATE_WORKING\nTotal: 7\nNext page token: n\n"
        );
    }

    #[test]
    fn a_push_configuration_keeps_its_secrets() {
        let mut fields = Fields::new();
        let text = r#"{"taskId":"t","id":"c","url":"https://a.example","token":"secret","authentication":{"scheme":"Bearer","credentials":"secret"}}"#;
        push_config(&mut fields, Node::new(text));
        let shown = fields.finish();
        assert!(!shown.contains("secret") && shown.contains("Credentials: [redacted]"), "{shown}");
    }
}
