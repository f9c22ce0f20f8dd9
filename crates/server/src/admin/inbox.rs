//! The inbox of the operator: the tasks that wait for an answer.
//!
//! Reading works without a server. An answer needs the agent that asked, and so its server.

use super::AdminError;
use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use super::tasks::parse_task_id;
use sabir_engine::Question;
use sabir_proto::{Fault, Json, Part, Stamp, Timestamp};
use sabir_store::AuditSubject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of questions on one page.
pub const QUESTIONS_MAX: usize = 200;

const fn questions_default() -> usize {
    QUESTIONS_MAX
}

/// Lists the tasks that wait for an answer, the longest waiting first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListInbox {
    /// Only tasks after this cursor.
    #[serde(default)]
    pub after: Option<u64>,
    /// Maximum number of tasks in the response.
    #[serde(default = "questions_default")]
    pub limit: usize,
}

/// Shows one question, with the whole task.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowQuestion {
    /// The id of the waiting task.
    pub task: String,
}

/// Answers a question in place of its caller.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyToQuestion {
    /// The id of the waiting task.
    pub task: String,
    /// The text of the answer.
    pub text: String,
}

/// A page of the inbox.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct InboxPage {
    pub questions: Vec<WaitingTaskView>,
    /// The cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A question with its task.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct QuestionView {
    /// The question in short.
    pub question: WaitingTaskView,
    /// The task, in the JSON of A2A 1.0.
    #[schemars(with = "Value")]
    pub task: Json,
}

/// The state of a task after the answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepliedTask {
    pub task_id: String,
    pub state: String,
}

/// A task that waits for an answer, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The text of the question.
    pub question: String,
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

impl Perform for ListInbox {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::get("/inbox", "List the tasks that wait for an answer");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<InboxPage, AdminError> {
        let (after, limit) = (self.after.map(Stamp::from_u64), self.limit.clamp(1, QUESTIONS_MAX));
        let inbox = service.tasks()?.engine.inbox(after, limit).await?;
        let questions = inbox.questions.iter().map(WaitingTaskView::from).collect();
        Ok(InboxPage { questions, next: inbox.next.map(Stamp::get) })
    }
}

impl Perform for ShowQuestion {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::get("/inbox/{task}", "Show a question with its task");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<QuestionView, AdminError> {
        let question = service.tasks()?.engine.question(parse_task_id(&self.task)?).await?;
        let task = Json::of(&question.task).map_err(|error| Fault::InvalidRequest(error.to_string()))?;
        Ok(QuestionView { question: WaitingTaskView::from(&question), task })
    }
}

impl Perform for ReplyToQuestion {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::post("/inbox/{task}/reply", "Answer a question in place of its caller");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<RepliedTask, AdminError> {
        let id = parse_task_id(&self.task)?;
        let image = service.tasks()?.engine.answer(id, vec![Part::text(self.text)], operator.name()).await?;
        service.record_change(operator, "inbox.reply", Some(AuditSubject::Task(id))).await?;
        let task_id = image.id().map_or(self.task, |id| id.to_string());
        Ok(RepliedTask { task_id, state: image.state.to_string() })
    }
}
