//! The inbox of the operator: the tasks that wait for an answer, and the cancel of a whole family of tasks.
//!
//! If a server runs, the command sends the request to its socket; otherwise the command opens the file itself. Reading
//! and canceling work either way. An answer needs the agent that asked, and so its server. A cancel without a server
//! changes the log alone: remote agents do not get it.

use super::open_or_ask::{OpenedOrAnswered, existing_store, open_or_ask};
use super::{AdminError, user};
use crate::config::Config;
use crate::tokio_host::TokioHost;
use sabir_engine::{Engine, Limits, Metrics, Question};
use sabir_proto::{Fault, Json, Part, Stamp, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of questions on one page.
pub const QUESTIONS_MAX: usize = 200;

/// An operator's request about waiting tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum InboxRequest {
    /// List the tasks that wait for an answer, the longest waiting first.
    Inbox {
        /// Only tasks after this cursor.
        after: Option<u64>,
        /// Maximum number of tasks in the response, capped at [`QUESTIONS_MAX`].
        limit: usize,
    },
    /// Show one question, with the whole task.
    Question {
        /// The id of the waiting task.
        task: String,
    },
    /// Answer a question in place of its caller.
    Reply {
        /// The id of the waiting task.
        task: String,
        /// The text of the answer.
        text: String,
        /// The name of the operator.
        by: String,
    },
    /// Cancel a task and all tasks of its family: its root and all subtasks of that.
    CancelTree {
        /// The id of any of these tasks.
        task: String,
    },
}

/// The response to an [`InboxRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum InboxResponse {
    /// The response to `Inbox`.
    Inbox {
        questions: Vec<WaitingTaskView>,
        /// The cursor of the next page; absent at the end.
        next: Option<u64>,
    },
    /// The response to `Question`.
    Question {
        /// The question in short.
        question: Box<WaitingTaskView>,
        /// The task, in the JSON of A2A 1.0.
        task: Json,
    },
    /// The response to `Reply`: the state of the task after the answer.
    Replied {
        /// The id of the task that got the answer.
        task: String,
        state: String,
    },
    /// The response to `CancelTree`: the canceled tasks.
    Canceled(Vec<CanceledTaskView>),
    /// The request failed, for this reason.
    Failed(String),
}

/// A task that waits for an answer, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingTaskView {
    pub task_id: String,
    pub context_id: String,
    /// The agent that asks.
    pub agent: String,
    /// The caller that owns the task.
    pub caller: String,
    /// `input-required` or `auth-required`.
    pub state: String,
    /// When the agent asked.
    pub since: Timestamp,
    /// The text of the question.
    pub question: String,
}

/// A task that was canceled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanceledTaskView {
    pub task_id: String,
    /// The parent task; absent for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    pub agent: String,
}

impl From<&Question> for WaitingTaskView {
    fn from(question: &Question) -> Self {
        let Question { task, scope, .. } = question;
        Self {
            task_id: task.id.to_string(),
            context_id: task.context_id.to_string(),
            agent: scope.agent.to_string(),
            caller: scope.caller.name().to_owned(),
            state: task.status.state.to_string(),
            since: task.status.timestamp.unwrap_or_else(|| task.id.stamp().time()),
            question: task.status.message.as_ref().map(sabir_proto::Message::joined_text).unwrap_or_default(),
        }
    }
}

/// The name under which the user at this machine answers.
pub fn operator_name() -> String {
    format!("operator:{}", user())
}

/// Runs a request: in the server if one runs, otherwise on the opened store.
pub async fn run_inbox_request(config: &Config, order: InboxRequest) -> Result<InboxResponse, AdminError> {
    existing_store(config)?;
    Ok(match open_or_ask(config, &order).await? {
        OpenedOrAnswered::Opened(tasks) => {
            let engine = Engine::open(tasks.log, Arc::new(TokioHost), Limits::default(), Metrics::default()).await?;
            handle_inbox_request(&engine, order).await
        }
        OpenedOrAnswered::Answered(response) => response,
    })
}

/// Handles a request with an open engine.
pub(crate) async fn handle_inbox_request(engine: &Engine, order: InboxRequest) -> InboxResponse {
    try_handle(engine, order).await.unwrap_or_else(|fault| InboxResponse::Failed(fault.to_string()))
}

async fn try_handle(engine: &Engine, order: InboxRequest) -> Result<InboxResponse, Fault> {
    Ok(match order {
        InboxRequest::Inbox { after, limit } => {
            let inbox = engine.inbox(after.map(Stamp::from_u64), limit.clamp(1, QUESTIONS_MAX)).await?;
            let questions = inbox.questions.iter().map(WaitingTaskView::from).collect();
            InboxResponse::Inbox { questions, next: inbox.next.map(Stamp::get) }
        }
        InboxRequest::Question { task } => {
            let question = engine.question(parse_task_id(&task)?).await?;
            let task = Json::of(&question.task).map_err(|e| Fault::InvalidRequest(e.to_string()))?;
            InboxResponse::Question { question: Box::new(WaitingTaskView::from(&question)), task }
        }
        InboxRequest::Reply { task, text, by } => {
            let image = engine.answer(parse_task_id(&task)?, vec![Part::text(text)], &by).await?;
            let task = image.id().map(|id| id.to_string()).unwrap_or(task);
            InboxResponse::Replied { task, state: image.state.to_string() }
        }
        InboxRequest::CancelTree { task } => {
            let ended = engine.cancel_tree(parse_task_id(&task)?).await?.into_iter().map(|relative| CanceledTaskView {
                task_id: relative.id.to_string(),
                parent_id: relative.parent.map(|parent| parent.to_string()),
                agent: relative.scope.agent.to_string(),
            });
            InboxResponse::Canceled(ended.collect())
        }
    })
}

fn parse_task_id(task: &str) -> Result<TaskId, Fault> {
    TaskId::parse(task).ok_or_else(|| Fault::invalid("task", format!("{task:?} is not the id of a task")))
}
