//! The inbox: all tasks that wait for input or credentials, across agents and owners.
//!
//! For operators, who work on the machine and may read the log anyway. A task that asks on behalf of its child is one
//! question, not two: the inbox shows the outermost task, and its agent passes the answer down as if its caller had
//! given it. The answer records who gave it.

use crate::engine::Engine;
use crate::machine;
use crate::subtasks::send_request;
use sabir_proto::{Fault, FrozenTask, Message, Object, Part, Role, ServiceParameters, Stamp, Task, TaskId};
use sabir_store::{ParentLink, Scope, StoreError, StoredTask};
use std::sync::Arc;

/// The metadata member with the name of the operator who answered.
pub const ANSWERED_BY: &str = "urn:sabir:ext:inbox:v1";

/// A task that waits for input or credentials.
#[derive(Debug, Clone)]
pub struct Question {
    /// The task, with its history.
    pub task: Task,
    pub scope: Arc<Scope>,
    /// Since when it waits; also the cursor after which a listing continues.
    pub since: Stamp,
}

/// A page of the inbox.
#[derive(Debug, Clone, Default)]
pub struct Inbox {
    /// The questions, the longest waiting first.
    pub questions: Vec<Question>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<Stamp>,
}

impl Engine {
    /// Lists at most `limit` questions after a cursor, the longest waiting first.
    pub async fn inbox(&self, after: Option<Stamp>, limit: usize) -> Result<Inbox, Fault> {
        let fault = |e: StoreError| self.core.store_fault("reading the inbox", &e);
        let mut inbox = Inbox { questions: Vec::new(), next: after };
        while inbox.questions.len() < limit {
            let page = self.core.log.interrupted(inbox.next, limit).await.map_err(fault)?;
            let is_last = page.len() < limit;
            for one in page {
                if inbox.questions.len() == limit {
                    return Ok(inbox);
                }
                inbox.next = Some(one.since);
                if self.interrupted_parent(&one.task).await?.is_none() {
                    let task = self.thaw_task(&one.task)?;
                    inbox.questions.push(Question { task, scope: one.task.scope.clone(), since: one.since });
                }
            }
            if is_last {
                inbox.next = None;
                break;
            }
        }
        Ok(inbox)
    }

    /// Finds a question by its task, or by a child that asks through it.
    pub async fn question(&self, id: TaskId) -> Result<Question, Fault> {
        let mut stored = self.load_task(id).await?;
        while let Some(parent) = self.interrupted_parent(&stored).await? {
            stored = self.load_task(parent).await?;
        }
        let task = self.thaw_task(&stored)?;
        let since = task.status.timestamp.map(Stamp::first_of).unwrap_or_default();
        Ok(Question { task, scope: stored.scope, since })
    }

    /// Answers a question in place of its caller, and returns the task. Fails like a caller's answer where the task
    /// does not ask.
    pub async fn answer(&self, id: TaskId, parts: Vec<Part>, by: &str) -> Result<FrozenTask, Fault> {
        let question = self.question(id).await?;
        let agent = &question.scope.agent;
        let resident = self.core.find_agent(agent).ok_or_else(|| {
            Fault::UnsupportedOperation(format!("agent {agent} is not here to hear the answer; start its server"))
        })?;
        let mut said = Message::text(self.new_message_id(), Role::User, "");
        said.parts = parts;
        said.task_id = Some(question.task.id.into());
        let note = serde_json::Map::from_iter([(ANSWERED_BY.to_owned(), serde_json::json!({"by": by}))]);
        said.metadata = Object::from_map(&note).ok();
        let mut request = send_request(said);
        request.configuration.return_immediately = true;
        self.send(&resident, question.scope.clone(), request, &ServiceParameters::default()).await?;
        self.load_image(&question.scope, question.task.id).await
    }

    /// The parent of a task, if that asks as well: it asks on behalf of its child.
    async fn interrupted_parent(&self, stored: &StoredTask) -> Result<Option<TaskId>, Fault> {
        if !stored.is_child {
            return Ok(None);
        }
        let fault = |e: StoreError| self.core.store_fault("reading the inbox", &e);
        let Some(ParentLink { parent, .. }) = self.core.log.parent_link(stored.id).await.map_err(fault)? else {
            return Ok(None);
        };
        let state = self.core.log.load(parent).await.map_err(fault)?.map(|parent| parent.state);
        Ok(state.is_some_and(sabir_proto::TaskState::is_interrupted).then_some(parent))
    }

    async fn load_task(&self, id: TaskId) -> Result<StoredTask, Fault> {
        let stored = self.core.log.load(id).await.map_err(|e| self.core.store_fault("reading a task", &e))?;
        stored.ok_or(Fault::TaskNotFound(id.into()))
    }

    fn thaw_task(&self, stored: &StoredTask) -> Result<Task, Fault> {
        machine::thaw(stored).ok_or_else(|| self.core.internal("reading a task", &"damaged record"))
    }
}
