//! One interface of the card, from the first contact to what it can be used for.

use super::access::first_contact;
use super::checks::DoctorCheck::{
    AuthRefused, GetLost, InterfaceReach, ListMissing, RestError, RestPath, RpcContent, RpcError, RpcId, RpcJson,
    RpcShape, RpcState, RpcUnversioned, RpcVersion, SendRefused, SendWait,
};
use super::probe::{AnswerMeaning, ProbeAnswer, ask, excerpt, unknown_task_call};
use super::{Examination, card, push, running_task, stream};
use sabir_client::{Agent, Binding, ChosenInterface, DiscoveredCard, text_message};
use sabir_proto::{Call, FaultCode, ListTasks, TaskState, Tenant, WireReply, WireTask};
use sabir_wire::{Dialect, codes};
use std::time::Duration;

/// The message that is sent. Short, so that the agent does little; polite, since a person may read it.
pub(super) const GREETING: &str = "Hello from sabir doctor. This is a test; a short answer is enough.";
/// How long an agent may think about a message.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// A version that no agent will ever speak.
const NO_VERSION: &str = "9.9";

/// The features of an interface that work.
#[derive(Debug, Default)]
struct UsableFeatures {
    streams: bool,
    pushes: bool,
}

/// Looks at one interface.
pub(super) async fn check(exam: &mut Examination<'_>, single: DiscoveredCard, chosen: &ChosenInterface) {
    exam.report.begin_interface(&card::interface_name(chosen));
    let used = examine(exam, single, chosen).await;
    if let Some(uses) = used {
        let binding = match chosen.binding {
            Binding::JsonRpc => "JSON-RPC",
            Binding::HttpJson => "HTTP+JSON",
            Binding::Grpc => "gRPC",
            Binding::Envelope => "envelopes",
        };
        let ways = match (uses.streams, uses.pushes) {
            (true, true) => " with streaming and push",
            (true, false) => " with streaming",
            (false, true) => " with push, polling",
            (false, false) => ", polling",
        };
        exam.report.add_use(format!("{} {binding}{ways}", chosen.dialect));
    }
    exam.report.done();
}

/// `None`: the interface cannot be used, and the report says so.
async fn examine(
    exam: &mut Examination<'_>,
    single: DiscoveredCard,
    chosen: &ChosenInterface,
) -> Option<UsableFeatures> {
    let (agent, unknown) = first_contact(exam, single, chosen).await?;
    let agent = &agent;
    judge_reading(exam, agent, &unknown)?;
    exam.report.set_step("sending a message");
    let sent = ask(agent, Call::Send(Box::new(text_message(GREETING))), None, MESSAGE_TIMEOUT).await;
    judge_version(exam, agent, &sent).await?;
    judge_errors(exam, agent, &unknown).await;
    let task = judge_sent(exam, agent, &sent)?;
    if let Some(task) = &task {
        judge_kept(exam, agent, task).await;
    }
    judge_list(exam, agent, task.as_ref()).await;
    let streams = stream::check(exam, agent).await;
    running_task::check(exam, agent).await;
    let pushes = push::check(exam, agent, task.as_ref()).await;
    Some(UsableFeatures { streams, pushes })
}

/// Checks what every answer must have. `None`: the answers cannot be used at all.
fn judge_reading(exam: &mut Examination<'_>, agent: &Agent, answer: &ProbeAnswer) -> Option<()> {
    match &answer.meaning {
        AnswerMeaning::NotJson(why) => {
            exam.report.report_fault(RpcJson, why.clone());
            exam.report.skip_remaining("the answers cannot be read");
            return None;
        }
        AnswerMeaning::OtherId(why) => {
            exam.report.report_fault(RpcId, why.clone());
            exam.report.skip_remaining("the answers are for other requests");
            return None;
        }
        AnswerMeaning::Malformed(why) => {
            exam.report.report_fault(RpcShape, why.clone());
            exam.report.skip_remaining("the answers cannot be read");
            return None;
        }
        _ => {}
    }
    if agent.binding() == Binding::Grpc {
        for check in [RpcJson, RpcId, RpcContent] {
            exam.report.skip(check, "gRPC is not JSON");
        }
    } else {
        exam.report.ok(RpcJson, "answers are JSON");
        if agent.binding() == Binding::JsonRpc {
            exam.report.ok(RpcId, "answers have the id of their request");
        }
        let kind = &answer.media_type;
        let is_json = kind == "application/json" || kind.ends_with("+json");
        exam.report.report_result(RpcContent, kind.clone(), (!is_json).then(|| format!("JSON sent as {kind:?}")));
    }
    Some(())
}

/// Checks whether the declared operations exist. `None`: they do not; perhaps those of another version do.
async fn judge_version(exam: &mut Examination<'_>, agent: &Agent, sent: &ProbeAnswer) -> Option<()> {
    let unknown = matches!(sent.refusal(), Some(FaultCode::MethodNotFound | FaultCode::VersionNotSupported));
    if unknown && agent.binding() == Binding::HttpJson && sent.refusal() == Some(FaultCode::MethodNotFound) {
        let status = sent.status.unwrap_or_default();
        exam.report.report_fault(RestPath, format!("HTTP {status} at {}", path_of_send(agent)));
        exam.report.skip_remaining("the declared version is not spoken");
        return None;
    }
    // Some servers say of a method they do not know that the request is wrong.
    let unsure = matches!(sent.refusal(), Some(FaultCode::InvalidRequest | FaultCode::InvalidParams));
    let other = match agent.binding() {
        Binding::JsonRpc if unknown || unsure => spoken_instead(exam, agent).await,
        _ => None,
    };
    if !unknown && other.is_none() {
        if agent.binding() == Binding::HttpJson {
            exam.report.ok(RestPath, "at the paths of its version");
        }
        if sent.is_served() {
            exam.report.ok(RpcVersion, format!("speaks {}", agent.dialect()));
        }
        return Some(());
    }
    let which = other.map(|dialect| format!(". Speaks {dialect}")).unwrap_or_default();
    let said = reason_text(&sent.meaning);
    exam.report
        .report_fault(RpcVersion, format!("declares {}, and a message is refused: {said}{which}", agent.dialect()));
    exam.report.skip_remaining("the declared version is not spoken");
    if let Some(other) = other {
        exam.report.add_use(format!("{other} JSON-RPC, polling"));
    }
    None
}

/// The other version that answers at the same address.
async fn spoken_instead(exam: &Examination<'_>, agent: &Agent) -> Option<Dialect> {
    for other in Dialect::DISTINCT_VERSIONS {
        // From 0.1 to 0.3 only the sending of messages has changed its name.
        let is_old = |dialect: Dialect| dialect.features().newer_versions.is_some_and(|newer| newer > 0);
        let call = match is_old(other) && is_old(agent.dialect()) {
            true => Call::Send(Box::new(text_message(GREETING))),
            false => unknown_task_call(),
        };
        if other == agent.dialect() {
            continue;
        }
        let answer = ask(&exam.agent_in_dialect(agent, other)?, call, None, MESSAGE_TIMEOUT).await;
        match answer.refusal() {
            Some(FaultCode::TaskNotFound) => return Some(other),
            None if matches!(answer.meaning, AnswerMeaning::Answer(_)) => return Some(other),
            _ => {}
        }
    }
    None
}

fn path_of_send(agent: &Agent) -> String {
    let written = agent.preview(Call::Send(Box::new(text_message(GREETING))));
    written.map(|written| written.url).unwrap_or_default()
}

/// Checks how an unknown task is refused, and an unknown version.
async fn judge_errors(exam: &mut Examination<'_>, agent: &Agent, unknown: &ProbeAnswer) {
    let said = match &unknown.meaning {
        AnswerMeaning::Refused(fault) => fault.to_string(),
        _ => "an answer".into(),
    };
    let right = unknown.refusal() == Some(FaultCode::TaskNotFound);
    let features = agent.dialect().features();
    match agent.binding() {
        Binding::HttpJson if features.http_errors_specified => {
            let known = has_known_shape(&unknown.result);
            let wrong = (!right || !known).then(|| {
                format!("HTTP {} with {}", unknown.status.unwrap_or_default(), excerpt(&unknown.result.to_string()))
            });
            exam.report.report_result(RestError, "google.rpc.Status", wrong);
        }
        Binding::HttpJson => exam.report.skip(RestError, "0.3 does not say what errors look like"),
        _ if !features.answers_specified => exam.report.skip(RpcError, "the dialect has no rule for it"),
        _ if unknown.refusal() == Some(FaultCode::MethodNotFound) => {
            exam.report.skip(RpcError, "tasks cannot be asked for");
        }
        _ => {
            let wrong = (!right).then(|| format!("an unknown task is answered with {}", excerpt(&said)));
            let number = codes::json_rpc(FaultCode::TaskNotFound, agent.dialect());
            exam.report.report_result(RpcError, format!("an unknown task is {number}"), wrong);
        }
    }
    if !features.refuses_other_versions || agent.binding() == Binding::Grpc {
        exam.report.skip(RpcUnversioned, "only 1.0 over HTTP refuses by version");
        return;
    }
    let strange = ask(agent, unknown_task_call(), Some(NO_VERSION), exam.answer_timeout()).await;
    match strange.refusal() {
        Some(FaultCode::VersionNotSupported) => {
            exam.report.ok(RpcUnversioned, format!("A2A-Version: {NO_VERSION} is refused"))
        }
        Some(FaultCode::TaskNotFound) => {
            exam.report.report_fault(RpcUnversioned, format!("a request with A2A-Version: {NO_VERSION} is served"));
        }
        Some(other) => {
            exam.report.ok(RpcUnversioned, format!("A2A-Version: {NO_VERSION} is refused as {}", codes::name(other)));
        }
        None if matches!(strange.meaning, AnswerMeaning::Answer(_)) => {
            exam.report.report_fault(RpcUnversioned, format!("a request with A2A-Version: {NO_VERSION} is served"));
        }
        None => exam.report.skip(RpcUnversioned, "no answer that tells"),
    }
}

/// Whether an error of HTTP+JSON is one that clients can branch on.
fn has_known_shape(body: &serde_json::Value) -> bool {
    let error = &body["error"];
    error["status"].is_string() || error["details"].is_array() || body["type"].is_string() || error["code"].is_i64()
}

/// Checks the answer to a message. Returns the task, if there is one; `None` where further calls make no sense.
fn judge_sent(exam: &mut Examination<'_>, agent: &Agent, sent: &ProbeAnswer) -> Option<Option<WireTask>> {
    match &sent.meaning {
        AnswerMeaning::Refused(fault) => {
            exam.report.report_fault(SendRefused, excerpt(&fault.to_string()));
            exam.report.skip_remaining("no message was accepted");
            None
        }
        AnswerMeaning::TimedOut => {
            exam.report.skip(SendWait, format!("no answer within {} s; it may be at work", MESSAGE_TIMEOUT.as_secs()));
            exam.report.skip_remaining("the agent is too slow to be examined");
            None
        }
        AnswerMeaning::Unauthorized(why) => {
            exam.report.report_fault(AuthRefused, format!("reading is allowed, sending is not: {why}"));
            exam.report.skip_remaining("the credential is not accepted");
            None
        }
        AnswerMeaning::Answer(answer) => {
            exam.report.ok(SendRefused, "a text is accepted");
            exam.report.ok(RpcShape, "a task or a message");
            let wrong = invalid_state(agent.dialect(), &sent.result);
            let readable = wrong.is_none();
            match (&**answer, agent.binding()) {
                (WireReply::SentTask(_), Binding::JsonRpc | Binding::HttpJson) => {
                    exam.report.report_result(RpcState, "states of its version", wrong);
                }
                _ => exam.report.skip(RpcState, "no state in writing"),
            }
            judge_waited(exam, agent, answer);
            readable.then(|| match &**answer {
                WireReply::SentTask(task) => Some((**task).clone()),
                _ => None,
            })
        }
        AnswerMeaning::Malformed(why) => {
            match invalid_state(agent.dialect(), &sent.result) {
                Some(strange) => exam.report.report_fault(RpcState, strange),
                None if sent.result.get("status").is_some() => {
                    exam.report.report_fault(RpcShape, "the result is the bare task, not {\"task\": …}");
                }
                None => exam.report.report_fault(RpcShape, why.clone()),
            }
            exam.report.skip_remaining("the answers cannot be read");
            None
        }
        AnswerMeaning::NotJson(why) => {
            exam.report.report_fault(RpcJson, why.clone());
            exam.report.skip_remaining("the answers cannot be read");
            None
        }
        AnswerMeaning::OtherId(why) => {
            exam.report.report_fault(RpcId, why.clone());
            exam.report.skip_remaining("the answers are for other requests");
            None
        }
        AnswerMeaning::Unreachable(why) => {
            exam.report.report_fault(InterfaceReach, why.clone());
            exam.report.skip_remaining("no interface answers");
            None
        }
    }
}

/// A state that is not one of the declared version.
fn invalid_state(dialect: Dialect, result: &serde_json::Value) -> Option<String> {
    let task = result.get("task").unwrap_or(result);
    let state = task["status"]["state"].as_str()?;
    let features = dialect.features();
    let is_small = || state == "unknown" || TaskState::ALL.iter().any(|known| known.to_string() == state);
    let known = match (features.proto_state_names, features.small_state_names) {
        (true, true) => TaskState::of_peer(state).is_some() || is_small(),
        (true, false) => TaskState::of_peer(state).is_some(),
        (false, true) => is_small(),
        // The other dialects have too few rules.
        (false, false) => true,
    };
    (!known).then(|| format!("{state:?} is no state of {dialect}"))
}

fn judge_waited(exam: &mut Examination<'_>, agent: &Agent, answer: &WireReply) {
    match answer {
        _ if !agent.dialect().features().answers_specified => {
            exam.report.skip(SendWait, "the dialect has no rule for it");
        }
        WireReply::SentTask(task) if task.status.state.is_settled() || task.status.state.is_interrupted() => {
            exam.report.ok(SendWait, task.status.state.to_string());
        }
        WireReply::SentTask(task) => {
            exam.report.report_fault(SendWait, format!("answered while the task was {}", task.status.state));
        }
        _ => exam.report.ok(SendWait, "answered with a message"),
    }
}

async fn judge_kept(exam: &mut Examination<'_>, agent: &Agent, task: &WireTask) {
    exam.report.set_step("reading the task back");
    match exam.within_timeout(agent.task(&task.id)).await {
        Ok(_) => exam.report.ok(GetLost, format!("task {} can be read", task.id)),
        Err(AnswerMeaning::Refused(fault))
            if matches!(
                fault.code(),
                FaultCode::TaskNotFound | FaultCode::MethodNotFound | FaultCode::UnsupportedOperation
            ) =>
        {
            exam.report.report_fault(GetLost, format!("GetTask of {} right after it was made: {fault}", task.id));
        }
        Err(other) => exam.report.skip(GetLost, format!("cannot be told: {}", reason_text(&other))),
    }
}

async fn judge_list(exam: &mut Examination<'_>, agent: &Agent, task: Option<&WireTask>) {
    if !agent.dialect().features().lists_tasks {
        exam.report.skip(ListMissing, format!("{} has no such operation", agent.dialect()));
        return;
    }
    exam.report.set_step("listing tasks");
    let context_id = task.and_then(|task| task.context_id.clone());
    let request = ListTasks { tenant: Tenant::none(), context_id, page_size: Some(1), ..ListTasks::default() };
    match exam.within_timeout(agent.list(request)).await {
        Ok(_) => exam.report.ok(ListMissing, "tasks can be listed"),
        Err(AnswerMeaning::Refused(fault))
            if matches!(fault.code(), FaultCode::MethodNotFound | FaultCode::UnsupportedOperation) =>
        {
            exam.report.report_fault(ListMissing, excerpt(&fault.to_string()));
        }
        Err(other) => exam.report.skip(ListMissing, format!("cannot be told: {}", reason_text(&other))),
    }
}

/// The reason for a failure, in words.
pub(super) fn reason_text(meaning: &AnswerMeaning) -> String {
    match meaning {
        AnswerMeaning::Refused(fault) => excerpt(&fault.to_string()),
        AnswerMeaning::Unauthorized(why)
        | AnswerMeaning::NotJson(why)
        | AnswerMeaning::Malformed(why)
        | AnswerMeaning::OtherId(why)
        | AnswerMeaning::Unreachable(why) => why.clone(),
        AnswerMeaning::TimedOut => "no answer in time".into(),
        AnswerMeaning::Answer(_) => "an answer to another question".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_state_of_another_version_is_noticed() {
        let one = json!({"task": {"status": {"state": "completed"}}});
        let old = json!({"kind": "task", "status": {"state": "completed"}});
        assert!(invalid_state(Dialect::V1, &one).is_some());
        assert!(invalid_state(Dialect::V03, &old).is_none());
        assert!(invalid_state(Dialect::V1, &json!({"task": {"status": {"state": "TASK_STATE_WORKING"}}})).is_none());
        assert!(invalid_state(Dialect::V1, &json!({"message": {}})).is_none());
    }

    #[test]
    fn errors_that_clients_can_branch_on_are_known() {
        assert!(has_known_shape(&json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "no"}})));
        assert!(has_known_shape(&json!({"type": "https://a2a-protocol.org/errors/task-not-found"})));
        assert!(!has_known_shape(&json!({"message": "nope"})));
    }
}
