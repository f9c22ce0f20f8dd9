//! The checks that are built in. Each asks one question; what it needs and cannot get makes it a skip.

use super::{Check, Level, Status};
use crate::render::Node;
use sabir_client::{Agent, Binding, Error, Follow, Found, Pace, message_id, text_message};
use sabir_proto::{
    Answer, CancelTask, Code, GetPush, GetTask, ListTasks, TaskRef, TaskState, Tenant, TheirEvent, TheirTask,
};
use std::time::Duration;

/// How long an agent may take for what it was asked. A smoke test is not the place to wait for hours.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a check found: nothing wrong, something wrong, or no way to tell.
enum Finding {
    Right,
    Wrong(String),
    Unknown(String),
}

use Finding::{Right, Unknown, Wrong};

fn check(id: &str, level: Level, binding: Option<Binding>, finding: Finding) -> Check {
    let (status, reason) = match finding {
        Right => (Status::Pass, None),
        Wrong(reason) => (Status::Fail, Some(reason)),
        Unknown(reason) => (Status::Skip, Some(reason)),
    };
    Check { id: id.to_owned(), level, binding: binding.map(|binding| binding.to_string()), status, reason }
}

/// What can be told from the card alone.
pub(super) fn of_card(found: &Found) -> Vec<Check> {
    let faults = crate::call::card_faults(found);
    let about = |part: &str| faults.iter().filter(|fault| fault.starts_with(part)).cloned().collect::<Vec<_>>();
    let judge = |wrong: Vec<String>| if wrong.is_empty() { Right } else { Wrong(wrong.join("; ")) };
    let rest = faults.iter().filter(|fault| !fault.starts_with("supportedInterfaces")).cloned().collect();
    let protocols =
        if found.card.supported_interfaces.is_empty() { Wrong("it lists no interface".into()) } else { Right };
    vec![
        check("CARD-DISC-001", Level::Must, None, Right),
        check("CARD-STRUCT-001", Level::Must, None, judge(rest)),
        check("CARD-PROTO-001", Level::Must, None, protocols),
        check("CARD-PROTO-002", Level::Must, None, judge(about("supportedInterfaces"))),
    ]
}

/// What has to be asked for.
pub(super) async fn of_binding(agent: &Agent, binding: Binding) -> Vec<Check> {
    let mut all = Vec::new();
    let mut note = |id: &str, finding: Finding| all.push(check(id, Level::Must, Some(binding), finding));
    let (finding, task) = sends(agent).await;
    note("CORE-SEND-001", finding);
    note("CORE-GET-001", reads_back(agent, task.as_ref()).await);
    note("CORE-GET-002", not_found(agent.task(&nobody()).await, Code::TaskNotFound));
    note("CORE-CANCEL-003", not_found(cancel(agent, nobody()).await, Code::TaskNotFound));
    let settled = task.as_ref().filter(|task| task.status.state.is_settled());
    note("CORE-SEND-002", refuses_more(agent, settled).await);
    note("CORE-CANCEL-002", refuses_cancel(agent, settled).await);
    let (token, artifacts) = lists(agent).await;
    note("CORE-LIST-004", token);
    note("CORE-LIST-005", artifacts);
    let (opens, ends) = streams(agent).await;
    note("CORE-STREAM-001", opens);
    note("CORE-STREAM-003", ends);
    note("STREAM-SUB-003", subscribes(agent, settled.map(|task| task.id.clone()), Code::UnsupportedOperation).await);
    note("STREAM-SUB-004", subscribes(agent, Some(nobody()), Code::TaskNotFound).await);
    note("PUSH-GET-002", no_config(agent, task.as_ref()).await);
    all
}

/// A task that does not exist.
fn nobody() -> TaskRef {
    TaskRef::parse(&format!("nobody-{}", message_id())).expect("a legal id")
}

/// Whether something was refused, and for the right reason.
fn not_found<T>(outcome: Result<T, Error>, expected: Code) -> Finding {
    let name = sabir_wire::codes::name(expected);
    match outcome {
        Ok(_) => Wrong(format!("{name} was due, and there was an answer")),
        Err(Error::Fault { fault, transport: Some(_), .. }) if fault.code() == expected => Right,
        Err(error @ (Error::CredentialsMissing { .. } | Error::AuthFailed { .. })) => Unknown(error.to_string()),
        Err(error) => Wrong(format!("{name} was due, and there was: {error}")),
    }
}

/// A failure that says nothing about the rule.
fn unable(error: &Error) -> Finding {
    match error {
        Error::CredentialsMissing { .. } | Error::AuthFailed { .. } => Unknown(error.to_string()),
        _ => Wrong(error.to_string()),
    }
}

/// Sends a message and waits for what comes of it.
async fn sends(agent: &Agent) -> (Finding, Option<TheirTask>) {
    let said = match tokio::time::timeout(PATIENCE, agent.send(text_message("echo hello from sabir"))).await {
        Ok(Ok(said)) => said,
        Ok(Err(error)) => return (unable(&error), None),
        Err(_) => return (Wrong(format!("no answer within {} s", PATIENCE.as_secs())), None),
    };
    match said.value {
        Answer::SentTask(task) if task.status.state.is_settled() => (Right, Some(*task)),
        Answer::SentTask(task) => {
            let waited = tokio::time::timeout(PATIENCE, agent.wait(task.id.clone(), Pace::default())).await;
            (Right, Some(waited.ok().and_then(Result::ok).map_or(*task, |said| said.value)))
        }
        Answer::SentMessage(_) => (Right, None),
        _ => (Wrong("the answer is neither a task nor a message".into()), None),
    }
}

async fn reads_back(agent: &Agent, task: Option<&TheirTask>) -> Finding {
    let Some(task) = task else { return Unknown("there is no task to read".into()) };
    let request = GetTask { tenant: Tenant::none(), id: task.id.clone(), history_length: Some(0) };
    match agent.get(request).await {
        Ok(said) if said.value.id == task.id => Right,
        Ok(said) => Wrong(format!("asked for task {}, got {}", task.id, said.value.id)),
        Err(error) => unable(&error),
    }
}

async fn cancel(agent: &Agent, id: TaskRef) -> Result<(), Error> {
    agent.cancel(CancelTask { tenant: Tenant::none(), id, metadata: None }).await.map(drop)
}

async fn refuses_more(agent: &Agent, settled: Option<&TheirTask>) -> Finding {
    let Some(task) = settled else { return Unknown("there is no settled task".into()) };
    let mut request = text_message("echo one more thing");
    request.message.task_id = Some(task.id.clone());
    request.message.context_id.clone_from(&task.context_id);
    not_found(agent.send(request).await, Code::UnsupportedOperation)
}

async fn refuses_cancel(agent: &Agent, settled: Option<&TheirTask>) -> Finding {
    match settled {
        None => Unknown("there is no settled task".into()),
        // Cancelling twice may count as done.
        Some(task) if task.status.state == TaskState::Canceled => Unknown("the task was cancelled by itself".into()),
        Some(task) => not_found(cancel(agent, task.id.clone()).await, Code::TaskNotCancelable),
    }
}

/// The token is always there, artifacts only when they are asked for.
async fn lists(agent: &Agent) -> (Finding, Finding) {
    let request = ListTasks { page_size: Some(5), ..ListTasks::default() };
    let said = match agent.list(request).await {
        Ok(said) => said,
        Err(error) => return (unable(&error), Unknown("there is no list".into())),
    };
    let page = Node::new(said.json());
    let token = if page.get("nextPageToken").is_some() { Right } else { Wrong("nextPageToken is missing".into()) };
    let tasks = page.list("tasks");
    let with = tasks.iter().filter(|task| !task.list("artifacts").is_empty()).count();
    let artifacts = match (tasks.len(), with) {
        (0, _) => Unknown("the list is empty".into()),
        (_, 0) => Right,
        (_, with) => Wrong(format!("{with} tasks come with artifacts, which nobody asked for")),
    };
    (token, artifacts)
}

/// A stream opens with a task or is a single message, and ends when the task does.
async fn streams(agent: &Agent) -> (Finding, Finding) {
    if !agent.streams() {
        return (Unknown("the card does not offer it".into()), Unknown("the card does not offer it".into()));
    }
    let follow = Follow { resume: false, ..Follow::default() };
    let mut events = match agent.stream(text_message("echo hello from sabir"), follow).await {
        Ok(events) => events,
        Err(error) => return (unable(&error), Unknown("there is no stream".into())),
    };
    let walk = async {
        let mut first = None;
        let mut last = None;
        while let Some(next) = events.next().await {
            let said = next?;
            first.get_or_insert_with(|| said.value.clone());
            last = Some(said.value);
        }
        Ok::<_, Error>((first, last))
    };
    match tokio::time::timeout(PATIENCE, walk).await {
        Err(_) => (Right, Wrong(format!("it did not end within {} s", PATIENCE.as_secs()))),
        Ok(Err(error)) => (Right, Wrong(error.to_string())),
        Ok(Ok((None, _))) => (Wrong("it ended without an event".into()), Unknown("there was no event".into())),
        Ok(Ok((Some(TheirEvent::Message(_)), _))) => (Right, Unknown("the agent answers with a message".into())),
        Ok(Ok((Some(TheirEvent::Task(_)), _))) => (Right, Right),
        Ok(Ok((Some(_), _))) => (Right, Wrong("the first event is not the task".into())),
    }
}

async fn subscribes(agent: &Agent, task: Option<TaskRef>, expected: Code) -> Finding {
    if !agent.streams() {
        return Unknown("the card does not offer it".into());
    }
    let Some(task) = task else { return Unknown("there is no settled task".into()) };
    let follow = Follow { resume: false, ..Follow::default() };
    match agent.subscribe(task, follow).await {
        Err(error) => not_found::<()>(Err(error), expected),
        // Some servers open the stream first and refuse in it.
        Ok(mut events) => match tokio::time::timeout(PATIENCE, events.next()).await {
            Ok(Some(Err(error))) => not_found::<()>(Err(error), expected),
            Ok(_) => not_found(Ok(()), expected),
            Err(_) => Wrong(format!("nothing within {} s", PATIENCE.as_secs())),
        },
    }
}

async fn no_config(agent: &Agent, task: Option<&TheirTask>) -> Finding {
    if !agent.card().capabilities.push_notifications.unwrap_or(false) {
        return Unknown("the card does not offer it".into());
    }
    let Some(task) = task else { return Unknown("there is no task to ask about".into()) };
    let request = GetPush { tenant: Tenant::none(), task_id: task.id.clone(), id: format!("nobody-{}", message_id()) };
    match agent.get_push(request).await {
        Ok(_) => Wrong("a registration that nobody made was found".into()),
        Err(Error::Fault { transport: Some(_), .. }) => Right,
        Err(error) => unable(&error),
    }
}
