//! What every binding offers alike: send, get, list, cancel, and how they are refused.

use super::report::ConformanceReport;
use super::streams;
use sabir_client::{Agent, AgentResponse, Binding, Error, message_id, send_message, text_message};
use sabir_proto::{
    Call, CancelTask, ContextId, FaultCode, GetTask, ListTasks, Message, Role, SendMessage, TaskRef, Tenant, Timestamp,
    WireReply, WireTask,
};
use serde_json::Value;

/// The result of the first messages.
pub(super) struct SendResult {
    /// A task that has settled.
    pub(super) settled: Option<WireTask>,
}

/// A name that no task has.
pub(super) fn unknown_task() -> TaskRef {
    TaskRef::parse(&message_id().to_string()).expect("a fresh id is a name")
}

/// Whether a call was refused in the words that were expected.
pub(super) fn expect_refusal<T>(outcome: Result<T, Error>, expected: FaultCode) -> Result<(), String> {
    let name = sabir_wire::codes::name(expected);
    match outcome {
        Ok(_) => Err(format!("{name} was expected, and it was answered")),
        Err(Error::Fault { fault, .. }) if fault.code() == expected => Ok(()),
        Err(Error::Fault { fault, .. }) => {
            Err(format!("{name} was expected: {}: {fault}", sabir_wire::codes::name(fault.code())))
        }
        Err(other) => Err(format!("{name} was expected: {other}")),
    }
}

/// A message about a task.
pub(super) fn message_about(text: &str, task: Option<TaskRef>, context: Option<ContextId>) -> SendMessage {
    let mut message = Message::text(message_id(), Role::User, text);
    (message.task_id, message.context_id) = (task, context);
    send_message(message)
}

/// Sends, and looks at what becomes of it. `None` if nothing can be sent.
pub(super) async fn check(agent: &Agent, text: &str, report: &mut ConformanceReport<'_>) -> Option<SendResult> {
    refusals(agent, text, report).await;
    let said = match agent.send(text_message(text)).await {
        Ok(said) => said,
        Err(error) => {
            report.record("CORE-SEND-001", Err(error.to_string()));
            return None;
        }
    };
    report.record("CORE-SEND-001", Ok(()));
    let task = match said.value {
        WireReply::SentTask(task) => *task,
        WireReply::SentMessage(message) => {
            let kept = message.context_id.map(drop).ok_or("the message has no contextId".to_owned());
            report.record("CORE-MULTI-001a", kept);
            return Some(SendResult { settled: None });
        }
        _ => return None,
    };
    report.record("CORE-MULTI-001a", task.context_id.clone().map(drop).ok_or("the task has no contextId".into()));
    let state = task.status.state;
    let done = state.is_settled() || state.is_interrupted();
    report.record("CORE-EXECUTION-MODE-001", if done { Ok(()) } else { Err(format!("the task is still {state}")) });
    get(agent, &task, report).await;
    list(agent, &task, text, report).await;
    let settled = if state.is_settled() { Some(task) } else { settle(agent, &task, report).await };
    if let Some(settled) = &settled {
        let outcome = agent.send(message_about(text, Some(settled.id.clone()), None)).await;
        report.record("CORE-SEND-002", expect_refusal(outcome, FaultCode::UnsupportedOperation));
        report
            .record("CORE-CANCEL-002", expect_refusal(cancel(agent, &settled.id).await, FaultCode::TaskNotCancelable));
    }
    Some(SendResult { settled })
}

/// What every agent has to refuse.
async fn refusals(agent: &Agent, text: &str, report: &mut ConformanceReport<'_>) {
    let outcome = agent.task(&unknown_task()).await;
    if agent.binding() == Binding::Grpc {
        let status = match &outcome {
            Err(Error::Fault { transport: Some(code), .. }) if code.to_string() == "NOT_FOUND" => Ok(()),
            Err(Error::Fault { transport: Some(code), .. }) => Err(format!("the status is {code}")),
            Err(other) => Err(other.to_string()),
            Ok(_) => Err("it was answered".to_owned()),
        };
        report.record("GRPC-ERR-002", status);
    }
    report.record("CORE-GET-002", expect_refusal(outcome, FaultCode::TaskNotFound));
    report.record("CORE-CANCEL-003", expect_refusal(cancel(agent, &unknown_task()).await, FaultCode::TaskNotFound));
    let outcome = agent.send(message_about(text, Some(unknown_task()), None)).await;
    report.record("CORE-MULTI-004", expect_refusal(outcome, FaultCode::TaskNotFound));
    let mut empty = text_message(text);
    empty.message.parts.clear();
    report.record("CORE-ERR-002", expect_any_refusal(agent.send(empty).await));
    let capabilities = &agent.card().capabilities;
    let unasked = "what the card does not offer is not asked for; the kit does (--tck)";
    for (id, offered) in [
        ("CORE-CAP-001", capabilities.push_notifications),
        ("CORE-CAP-002", capabilities.streaming),
        ("CORE-CAP-003", capabilities.extended_agent_card),
    ] {
        report.skip(id, if offered == Some(true) { "the card offers it" } else { unasked });
    }
}

async fn cancel(agent: &Agent, id: &TaskRef) -> Result<AgentResponse<WireTask>, Error> {
    agent.cancel(CancelTask { tenant: Tenant::none(), id: id.clone(), metadata: None }).await
}

async fn get(agent: &Agent, task: &WireTask, report: &mut ConformanceReport<'_>) {
    let ask = |history_length| GetTask { tenant: Tenant::none(), id: task.id.clone(), history_length };
    let kept = match agent.get(ask(None)).await {
        Err(error) => Err(error.to_string()),
        Ok(said) if said.value.id != task.id => Err(format!("it is another task, {}", said.value.id)),
        Ok(said) if said.value.status.state != task.status.state => {
            Err(format!("it is {} and was {}", said.value.status.state, task.status.state))
        }
        Ok(_) => Ok(()),
    };
    report.record("CORE-GET-001", kept);
    for (id, length) in [("CORE-HIST-001", 0), ("CORE-HIST-002", 1)] {
        let kept = match agent.get(ask(Some(length))).await {
            Err(error) => Err(error.to_string()),
            Ok(said) => match said.value.history.len() {
                found if found > length.unsigned_abs() as usize => Err(format!("there are {found} messages")),
                _ => Ok(()),
            },
        };
        report.record(id, kept);
    }
}

/// Lists the tasks of a context that holds two of them.
async fn list(agent: &Agent, task: &WireTask, text: &str, report: &mut ConformanceReport<'_>) {
    let Some(context) = task.context_id.clone() else { return };
    match agent.send(message_about(text, None, Some(context.clone()))).await.map(|said| said.value) {
        Ok(WireReply::SentTask(second)) => {
            let own = if second.id == task.id { Err("the second task has the id of the first") } else { Ok(()) };
            report.record("CORE-MULTI-003", own.map_err(str::to_owned));
            let same = second.context_id.as_ref() == Some(&context);
            report.record("CORE-MULTI-002", if same { Ok(()) } else { Err("the answer has another context".into()) });
        }
        Ok(_) => return,
        // An agent need not take a context that it did not make; this one it made itself.
        Err(error) => return report.record("CORE-MULTI-002", Err(error.to_string())),
    }
    let ask = |page_size, page_token: String| ListTasks {
        context_id: Some(context.clone()),
        page_size,
        page_token,
        ..ListTasks::default()
    };
    let whole = match page(agent, ask(None, String::new())).await {
        Ok(whole) => whole,
        Err(reason) => {
            for id in ["CORE-LIST-002", "CORE-LIST-003", "CORE-LIST-004", "CORE-LIST-005"] {
                report.record(id, Err(reason.clone()));
            }
            return;
        }
    };
    let (tasks, times) = (&whole.tasks, &whole.times);
    let token = match (whole.token.as_deref(), agent.binding()) {
        // In protobuf an empty text and none are the same.
        (_, Binding::Grpc) => None,
        (Some(""), _) => Some(Ok(())),
        (Some(_), _) => Some(Err("nextPageToken is set on a page that holds everything".to_owned())),
        (None, _) => Some(Err("there is no nextPageToken".to_owned())),
    };
    match token {
        Some(token) => report.record("CORE-LIST-004", token),
        None => report.skip("CORE-LIST-004", "it cannot be seen over gRPC"),
    }
    let with_artifacts = tasks.iter().any(|task| task.get("artifacts").is_some());
    report.record("CORE-LIST-005", if with_artifacts { Err("they are there".into()) } else { Ok(()) });
    if times.len() == tasks.len() && times.len() > 1 {
        let sorted = times.is_sorted_by(|a, b| a >= b);
        report.record("CORE-LIST-003", if sorted { Ok(()) } else { Err(format!("the order is {times:?}")) });
    } else {
        report.skip("CORE-LIST-003", "there are no two tasks with a timestamp");
    }
    report.record("CORE-LIST-002", pages(agent, ask, tasks.len()).await);
}

/// Walks the pages one task at a time: all tasks, none twice.
async fn pages(agent: &Agent, ask: impl Fn(Option<i32>, String) -> ListTasks, total: usize) -> Result<(), String> {
    let (mut seen, mut token) = (Vec::new(), String::new());
    for _ in 0..=total {
        let page = page(agent, ask(Some(1), token)).await?;
        if page.tasks.len() > 1 {
            return Err(format!("a page of one holds {}", page.tasks.len()));
        }
        for task in page.tasks {
            let id = task["id"].as_str().unwrap_or_default().to_owned();
            if seen.contains(&id) {
                return Err(format!("{id} is on two pages"));
            }
            seen.push(id);
        }
        token = page.token.unwrap_or_default();
        if token.is_empty() {
            let all = seen.len() >= total;
            return if all { Ok(()) } else { Err(format!("{} of {total} tasks are on the pages", seen.len())) };
        }
    }
    Err("the pages have no end".into())
}

/// A page: as it was written, and what can only be compared once it is understood.
struct ListedPage {
    tasks: Vec<Value>,
    times: Vec<Timestamp>,
    token: Option<String>,
}

async fn page(agent: &Agent, request: ListTasks) -> Result<ListedPage, String> {
    let said = agent.list(request).await.map_err(|error| error.to_string())?;
    let json: Value = serde_json::from_str(said.json()).map_err(|error| error.to_string())?;
    let times = match &said.value {
        WireReply::Tasks { tasks, .. } => tasks.iter().filter_map(|task| task.status.timestamp).collect(),
        _ => return Err("it is not a page of tasks".into()),
    };
    let token = json["nextPageToken"].as_str().map(str::to_owned);
    Ok(ListedPage { tasks: json["tasks"].as_array().cloned().unwrap_or_default(), times, token })
}

/// Ends a task that waits for input, so that there is a settled one.
async fn settle(agent: &Agent, task: &WireTask, report: &mut ConformanceReport<'_>) -> Option<WireTask> {
    check_wrong_context(agent, task, report).await;
    let canceled = canceled(cancel(agent, &task.id).await, report)?;
    canceled.status.state.is_settled().then_some(canceled)
}

/// Speaks to a task in a context that is not its own.
async fn check_wrong_context(agent: &Agent, task: &WireTask, report: &mut ConformanceReport<'_>) {
    if task.context_id.is_none() {
        return;
    }
    let context = ContextId::parse(&message_id().to_string()).ok();
    report.record(
        "CORE-MULTI-006",
        expect_any_refusal(agent.send(message_about("?", Some(task.id.clone()), context)).await),
    );
}

/// Whether a call was refused at all: the specification leaves open with which code.
fn expect_any_refusal<T>(outcome: Result<T, Error>) -> Result<(), String> {
    match outcome {
        Ok(_) => Err("it was taken".into()),
        Err(Error::Fault { fault, .. }) if fault.code() != FaultCode::Internal => Ok(()),
        Err(other) => Err(other.to_string()),
    }
}

fn canceled(outcome: Result<AgentResponse<WireTask>, Error>, report: &mut ConformanceReport<'_>) -> Option<WireTask> {
    match outcome {
        Ok(said) => {
            report.record("CORE-CANCEL-001", Ok(()));
            Some(said.value)
        }
        // An agent may be unable to stop what it does; that is for it to say, and nothing was seen.
        Err(Error::Fault { fault, .. }) if fault.code() == FaultCode::TaskNotCancelable => {
            report.skip("CORE-CANCEL-001", "the agent says that the task cannot be cancelled");
            None
        }
        Err(error) => {
            report.record("CORE-CANCEL-001", Err(error.to_string()));
            None
        }
    }
}

/// What can only be seen while the agent is at work.
pub(super) async fn check_running(agent: &Agent, text: &str, report: &mut ConformanceReport<'_>) {
    let mut request = text_message(text);
    request.configuration.return_immediately = true;
    let task = match agent.send(request).await.map(|said| said.value) {
        Ok(WireReply::SentTask(task)) => task,
        Ok(_) => return,
        Err(error) => return report.record("CORE-EXECUTION-MODE-002", Err(error.to_string())),
    };
    let state = task.status.state;
    if state.is_settled() || state.is_interrupted() {
        let quick = "the task was done at once; keep the agent busy with --slow-text";
        for id in ["CORE-EXECUTION-MODE-002", "CORE-CANCEL-001", "STREAM-SUB-001", "STREAM-SUB-002"] {
            report.skip(id, quick);
        }
        return;
    }
    report.record("CORE-EXECUTION-MODE-002", Ok(()));
    let subscribed = if agent.streams() { streams::subscribe(agent, &task.id, report).await } else { None };
    check_wrong_context(agent, &task, report).await;
    canceled(cancel(agent, &task.id).await, report);
    if let Some(subscribed) = subscribed {
        subscribed.check_closes("STREAM-SUB-002", report).await;
    }
}

/// A call that reads a task which does not exist.
pub(super) fn get_unknown_task() -> Call {
    Call::Get(GetTask { tenant: Tenant::none(), id: unknown_task(), history_length: None })
}
