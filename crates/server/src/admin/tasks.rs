//! Tasks of all callers: lists, counts, canceling a whole family, and what was said on the wire.
//!
//! A list has the newest task first. Its page token is good for one query of one store: it carries a digest of
//! both, so that a token of another list is refused and not misread.

use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use super::{AdminError, AdminErrorCode};
use sabir_gateway::exchange_log;
use sabir_proto::{AgentName, TaskId, TaskState, Timestamp};
use sabir_store::{AgentTaskCount, AllTasksQuery, AuditSubject, OpenError, TaskSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Maximum number of tasks on one page.
pub const TASKS_MAX: usize = 200;
/// Tasks on a page where a request names no number.
const TASKS_DEFAULT: usize = 50;
/// Longest text that is searched for, in characters.
const TEXT_CHARS_MAX: usize = 200;

const fn tasks_default() -> usize {
    TASKS_DEFAULT
}

/// Lists the tasks of all callers, the newest first. A page may be short and have a next one: each
/// looks at a bounded number of tasks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTasks {
    /// Only tasks of this agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// Only tasks in one of these states, such as `working`; all when empty.
    #[serde(default)]
    pub state: Vec<String>,
    /// Only tasks that were created at this time or later.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Only tasks that were created before this time.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub before: Option<Timestamp>,
    /// Only tasks with this text in their messages, artifacts or metadata.
    #[serde(default)]
    pub text: Option<String>,
    /// The token of the page before.
    #[serde(default)]
    pub after: Option<String>,
    /// Maximum number of tasks on the page.
    #[serde(default = "tasks_default")]
    pub limit: usize,
}

/// Counts the tasks of each agent by state.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountTasks {}

/// A page of tasks, the newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskList {
    pub tasks: Vec<TaskSummaryView>,
    /// The token of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A task without its content.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSummaryView {
    pub task_id: String,
    pub agent: String,
    /// The caller that owns the task.
    pub caller: String,
    /// The tenant within which the caller owns it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The state in words, such as `working`.
    pub state: String,
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// When its status changed last.
    #[schemars(with = "String")]
    pub changed_at: Timestamp,
}

/// The tasks of each agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskStatistics {
    pub agents: Vec<AgentStatistics>,
}

/// The tasks of one agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentStatistics {
    pub agent: String,
    /// How many tasks it has in all.
    pub tasks: u64,
    /// How many of them are in each state.
    pub states: BTreeMap<String, u64>,
}

impl From<TaskSummary> for TaskSummaryView {
    fn from(task: TaskSummary) -> Self {
        Self {
            task_id: task.id.to_string(),
            agent: task.scope.agent.to_string(),
            caller: task.scope.caller.name().to_owned(),
            tenant: task.scope.tenant.as_str().to_owned(),
            state: task.state.to_string(),
            created_at: task.id.stamp().time(),
            changed_at: task.changed_at,
        }
    }
}

impl Perform for ListTasks {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::get("/tasks", "List the tasks of all callers");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<TaskList, AdminError> {
        let queries = &service.tasks()?.queries;
        let seal = self.seal(queries.store_identity().await?);
        let after = self.after.as_deref().map(|token| read_token(token, &seal)).transpose()?;
        let query = AllTasksQuery { after, ..self.query()? };
        let page = queries.all_tasks(query).await?;
        let next = page.next.map(|task| format!("{task:016x}{seal}"));
        Ok(TaskList { tasks: page.tasks.into_iter().map(TaskSummaryView::from).collect(), next })
    }
}

impl ListTasks {
    fn query(&self) -> Result<AllTasksQuery, AdminError> {
        let agent = self.agent.as_deref().map(AgentName::parse).transpose();
        let agent = agent.map_err(|fault| AdminError::invalid(format!("agent: the name {fault}")))?;
        let state = |text: &String| {
            let state = TaskState::ALL.into_iter().find(|state| state.to_string() == *text);
            state.ok_or_else(|| {
                let known: Vec<String> = TaskState::ALL.iter().map(ToString::to_string).collect();
                AdminError::invalid(format!("{text:?} is no state of a task; there are {}", known.join(", ")))
            })
        };
        let states: Vec<TaskState> = self.state.iter().map(state).collect::<Result<_, _>>()?;
        if self.text.as_ref().is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX) {
            return Err(AdminError::invalid(format!("text has at most {TEXT_CHARS_MAX} characters")));
        }
        Ok(AllTasksQuery {
            agent,
            states: (!states.is_empty()).then(|| states.into_iter().collect()),
            since: self.since,
            before: self.before,
            text: self.text.clone().filter(|text| !text.is_empty()),
            limit: self.limit.clamp(1, TASKS_MAX),
            after: None,
        })
    }

    /// What binds a page token to this query of this store: 16 digits. The size of a page may change in between.
    fn seal(&self, store: u64) -> String {
        let Self { agent, state, since, before, text, after: _, limit: _ } = self;
        let query = json!([store, agent, state, since, before, text]).to_string();
        sabir_proto::digest::hex(&Sha256::digest(query)[..8])
    }
}

/// Reads a page token, if it is of the query and the store with this seal.
fn read_token(token: &str, seal: &str) -> Result<u64, AdminError> {
    let wrong =
        || AdminError::new(AdminErrorCode::PageToken, "this is the page token of another query or of another store");
    let (task, of) = token.split_at_checked(16).ok_or_else(wrong)?;
    let task = u64::from_str_radix(task, 16).ok().filter(|task| i64::try_from(*task).is_ok() && of == seal);
    task.ok_or_else(wrong)
}

impl Perform for CountTasks {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::get("/statistics", "Count the tasks of each agent by state");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<TaskStatistics, AdminError> {
        let mut agents: BTreeMap<String, AgentStatistics> = BTreeMap::new();
        for AgentTaskCount { agent, state, count } in service.tasks()?.queries.task_counts().await? {
            let agent = agent.to_string();
            let new = || AgentStatistics { agent: agent.clone(), tasks: 0, states: BTreeMap::new() };
            let entry = agents.entry(agent.clone()).or_insert_with(new);
            entry.tasks += count;
            entry.states.insert(state.to_string(), count);
        }
        Ok(TaskStatistics { agents: agents.into_values().collect() })
    }
}

/// Cancels a task and all tasks of its family: its root and all subtasks of that. Without a server the log alone is
/// changed: remote agents do not hear of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTree {
    /// The id of any of these tasks.
    pub task: String,
}

/// Shows the recorded requests and responses about a task.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListExchanges {
    pub task: String,
}

/// The tasks that were canceled.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CanceledTasks {
    pub canceled: Vec<CanceledTaskView>,
}

/// A task that was canceled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanceledTaskView {
    pub task_id: String,
    /// The parent task; absent for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    pub agent: String,
}

/// Recorded requests and responses, oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExchangeList {
    pub exchanges: Vec<Value>,
}

impl Perform for CancelTree {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::post("/tasks/{task}/cancel", "Cancel a task with its whole family");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<CanceledTasks, AdminError> {
        let id = parse_task_id(&self.task)?;
        let ended = service.tasks()?.engine.cancel_tree(id).await?;
        service.record_change(operator, "task.cancel", Some(AuditSubject::Task(id))).await?;
        let canceled = ended.into_iter().map(|relative| CanceledTaskView {
            task_id: relative.id.to_string(),
            parent_id: relative.parent.map(|parent| parent.to_string()),
            agent: relative.scope.agent.to_string(),
        });
        Ok(CanceledTasks { canceled: canceled.collect() })
    }
}

impl Perform for ListExchanges {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::get("/tasks/{task}/exchanges", "Show what was said on the wire about a task");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<ExchangeList, AdminError> {
        let wrong = |problem| AdminError::new(AdminErrorCode::NoStore, problem);
        let path = service.config.exchange_log_directory().map_err(wrong)?.ok_or(OpenError::InMemory)?;
        let read = exchange_log::read_exchanges(&path, &self.task);
        Ok(ExchangeList { exchanges: read.map_err(|e| OpenError::Io { path, reason: e.to_string() })? })
    }
}

/// Parses the id of a task.
pub(super) fn parse_task_id(task: &str) -> Result<TaskId, AdminError> {
    TaskId::parse(task).ok_or_else(|| AdminError::refused(format!("{task:?} is not the id of a task")))
}
