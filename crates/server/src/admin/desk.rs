//! The operator's desk: what waits for somebody, and the switch that ends a family of tasks.
//!
//! Where a server runs it is asked through its socket, and where none does the file is opened here. Looking and canceling
//! work either way; an answer needs the agent that asked, and so its server. What is canceled without a server is canceled
//! in the log alone: agents elsewhere are not told.

use super::{AdminError, user};
use crate::config::{Config, store_path};
use crate::host::TokioHost;
use crate::operator;
use sabir_engine::{Engine, Limits, Metrics, Question};
use sabir_proto::{Fault, Json, Part, Stamp, TaskId, Timestamp};
use sabir_store::OpenError;
use sabir_store::sqlite::{self, SqliteLog};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Questions on one page, at most.
pub const QUESTIONS_MAX: usize = 200;

/// What an operator wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DeskOrder {
    /// What waits for somebody, the longest waiting first.
    Inbox {
        /// Only after this place.
        after: Option<u64>,
        /// At most so many, and never more than [`QUESTIONS_MAX`].
        limit: usize,
    },
    /// One question, with all that was said before it.
    Question {
        /// Its task.
        task: String,
    },
    /// Answer a question in its caller's place.
    Reply {
        /// Its task.
        task: String,
        /// The answer.
        text: String,
        /// Who answers.
        by: String,
    },
    /// Cancel a task, and everything of the family it belongs to.
    CancelTree {
        /// Any of its tasks.
        task: String,
    },
}

/// What an order comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DeskSaid {
    /// To a list.
    Inbox {
        /// The questions.
        questions: Vec<Waiting>,
        /// Where to go on; absent at the end.
        next: Option<u64>,
    },
    /// To a question.
    Question {
        /// It, in short.
        question: Box<Waiting>,
        /// The task, in the form of A2A 1.0.
        task: Json,
    },
    /// To an answer: where the task stands then.
    Replied {
        /// The task that heard it.
        task: String,
        /// Its state.
        state: String,
    },
    /// To a cancel: what was canceled.
    Canceled(Vec<Ended>),
    /// It could not be done.
    Failed(String),
}

/// A task that waits for somebody, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The task.
    pub task_id: String,
    /// Its conversation.
    pub context_id: String,
    /// The agent that asks.
    pub agent: String,
    /// Whose task it is.
    pub caller: String,
    /// `input-required` or `auth-required`.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// What is asked.
    pub question: String,
}

/// A task that was canceled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The task.
    pub task_id: String,
    /// The task it was opened for, unless it is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Its agent.
    pub agent: String,
}

impl From<&Question> for Waiting {
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

/// Who is at the keyboard, for answers.
pub fn whoever_sits_here() -> String {
    format!("operator:{}", user())
}

/// Has an order carried out, by the server if one runs.
pub async fn desk(config: &Config, order: DeskOrder) -> Result<DeskSaid, AdminError> {
    let path = store_path(config).map_err(AdminError::Url)?.ok_or(AdminError::Memory)?;
    if !path.exists() {
        return Err(AdminError::NoStore(path));
    }
    let durability = config.store.durability.into();
    let options = sqlite::Options { durability, writing: sqlite::Writing::Inline, metrics: Default::default() };
    Ok(match SqliteLog::open(&path, options) {
        Ok(log) => {
            let host = Arc::new(TokioHost);
            let engine = Engine::open(Arc::new(log), host, Limits::default(), Metrics::default()).await?;
            see_to(&engine, order).await
        }
        Err(OpenError::Locked(_)) => {
            let socket = operator::socket_beside(&path);
            operator::ask(&socket, &order).await.map_err(|reason| AdminError::Operator { socket, reason })?
        }
        Err(other) => return Err(other.into()),
    })
}

/// Carries out an order with an engine at hand.
pub(crate) async fn see_to(engine: &Engine, order: DeskOrder) -> DeskSaid {
    attempt(engine, order).await.unwrap_or_else(|fault| DeskSaid::Failed(fault.to_string()))
}

async fn attempt(engine: &Engine, order: DeskOrder) -> Result<DeskSaid, Fault> {
    Ok(match order {
        DeskOrder::Inbox { after, limit } => {
            let inbox = engine.inbox(after.map(Stamp::from_u64), limit.clamp(1, QUESTIONS_MAX)).await?;
            let questions = inbox.questions.iter().map(Waiting::from).collect();
            DeskSaid::Inbox { questions, next: inbox.next.map(Stamp::get) }
        }
        DeskOrder::Question { task } => {
            let question = engine.question(named(&task)?).await?;
            let task = Json::of(&question.task).map_err(|e| Fault::InvalidRequest(e.to_string()))?;
            DeskSaid::Question { question: Box::new(Waiting::from(&question)), task }
        }
        DeskOrder::Reply { task, text, by } => {
            let image = engine.answer(named(&task)?, vec![Part::text(text)], &by).await?;
            let task = image.id().map(|id| id.to_string()).unwrap_or(task);
            DeskSaid::Replied { task, state: image.state.to_string() }
        }
        DeskOrder::CancelTree { task } => {
            let ended = engine.cancel_tree(named(&task)?).await?.into_iter().map(|relative| Ended {
                task_id: relative.id.to_string(),
                parent_id: relative.parent.map(|parent| parent.to_string()),
                agent: relative.scope.agent.to_string(),
            });
            DeskSaid::Canceled(ended.collect())
        }
    })
}

fn named(task: &str) -> Result<TaskId, Fault> {
    TaskId::parse(task).ok_or_else(|| Fault::invalid("task", format!("{task:?} is not the id of a task")))
}
