//! Continuations: which remote agents turns wait for, as rows for readers of the file, written with the step.

use super::writer::TaskLogWriter;
use super::{key, salt};
use crate::{Continuation, Step};
use rusqlite::params;
use sabir_proto::{Event, TaskState};

/// Characters that are stored of a failure's text.
const ERROR_CHARS_MAX: usize = 300;

impl TaskLogWriter {
    /// Stores which agent a turn waits for, replacing the row before.
    pub(super) fn put_continuation(&self, k: i64, step: &Step, whom: &Continuation) -> rusqlite::Result<()> {
        let status = if whom.next.is_some() { "pending" } else { "processing" };
        let sql = "INSERT INTO continuation (id, k, salt, agent_name, agent_url, dedupe_key, a2a_task_id,
                       external_thread_id, status, attempts, next_check_at, error_message, created_at, updated_at)
                   SELECT ?1, ?2, ?3, scope.agent, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
                   FROM task JOIN scope ON scope.n = task.scope WHERE task.k = ?2
                   ON CONFLICT (id) DO UPDATE SET agent_url = ?4, dedupe_key = ?5, a2a_task_id = ?6,
                       external_thread_id = ?7, status = ?8, attempts = ?9, next_check_at = ?10, error_message = ?11,
                       created_at = ?12, updated_at = ?13, completed_at = NULL, terminal_delivery_kind = NULL";
        let next = whom.next.unwrap_or(whom.last_heard_at).millis();
        self.connection.prepare_cached(sql)?.execute(params![
            Continuation::id(step.task),
            k,
            salt(step.task),
            whom.url,
            whom.message,
            whom.task,
            whom.context,
            status,
            whom.attempts,
            next,
            whom.problem,
            whom.since.millis(),
            whom.last_heard_at.millis().max(whom.since.millis()),
        ])?;
        Ok(())
    }

    /// Ends the continuation of a turn that has ended. The row with the result stays until its task is deleted.
    pub(super) fn end_continuation(&self, k: i64, step: &Step) -> rusqlite::Result<()> {
        let Some(placement) = step.placement else { return Ok(()) };
        // A turn that asks its caller for input has its answer as well.
        let failed = matches!(placement.state, TaskState::Failed | TaskState::Canceled | TaskState::Rejected);
        let (status, kind) = if failed { ("failed", "failure") } else { ("completed", "success") };
        let why =
            if failed { Some(last_status_text(step).unwrap_or_else(|| placement.state.to_string())) } else { None };
        let sql =
            "UPDATE continuation SET status = ?2, terminal_delivery_kind = ?3, completed_at = ?4, updated_at = ?4,
                       dedupe_key = NULL, attempts = 0, error_message = ?5
                   WHERE k = ?1 AND completed_at IS NULL";
        let ended = params![k, status, kind, key(placement.position) >> 15, why];
        self.connection.prepare_cached(sql)?.execute(ended)?;
        Ok(())
    }
}

/// The text of the last status of a step.
fn last_status_text(step: &Step) -> Option<String> {
    let said = step.events.iter().rev().find_map(|event| match event.thaw()? {
        Event::StatusUpdate(update) => update.status.message,
        Event::Task(task) => task.status.message,
        Event::Message(_) | Event::ArtifactUpdate(_) => None,
    })?;
    let words: String = said.joined_text().chars().take(ERROR_CHARS_MAX).collect();
    Some(words).filter(|words| !words.is_empty())
}
