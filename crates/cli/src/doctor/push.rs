//! Webhooks: registered at the agent, delivered to a receiver of ours on this machine.

use super::Examination;
use super::checks::DoctorCheck::{PushDeclared, PushSilent, PushToken};
use super::interface::{GREETING, MESSAGE_TIMEOUT, reason_text};
use super::probe::{AnswerMeaning, excerpt};
use super::receiver::WebhookReceiver;
use http::HeaderMap;
use sabir_client::{Agent, is_loopback, message_id, text_message};
use sabir_proto::{FaultCode, ListPush, PushConfig, TaskRef, Tenant, WireReply, WireTask};
use std::time::{Duration, Instant};

/// The pause between two looks at the deliveries.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Registers a webhook and waits for a delivery. Returns whether there was one. Webhooks belong to the agent and not to
/// the interface, so they are tried once.
pub(super) async fn check(exam: &mut Examination<'_>, agent: &Agent, task: Option<&WireTask>) -> bool {
    let declared = agent.card().capabilities.push_notifications.unwrap_or(false);
    let why = match (declared, agent.dialect().features().push) {
        (false, _) => "the card does not declare it",
        (true, false) => "the dialect has none",
        (true, true) if exam.push_works.is_some() => return exam.push_works == Some(true),
        (true, true) => "",
    };
    if !why.is_empty() {
        for check in [PushDeclared, PushSilent, PushToken] {
            exam.report.skip(check, why);
        }
        return false;
    }
    let works = if is_loopback(&agent.chosen_interface().url) {
        deliver(exam, agent).await
    } else {
        check_list_support(exam, agent, task).await
    };
    exam.push_works = Some(works);
    works
}

/// An agent on another machine cannot reach the receiver, but its answer still tells whether it supports webhooks.
async fn check_list_support(exam: &mut Examination<'_>, agent: &Agent, task: Option<&WireTask>) -> bool {
    let elsewhere = "the agent is on another machine and cannot reach a receiver on this one; \
                     try sabir task push-config listen";
    match task {
        None => exam.report.skip(PushDeclared, "there is no task to ask about"),
        Some(task) => match list(exam, agent, &task.id).await {
            Err(AnswerMeaning::Refused(fault)) if fault.code() == FaultCode::PushNotificationNotSupported => {
                exam.report.report_fault(PushDeclared, excerpt(&fault.to_string()));
            }
            Err(other) => exam.report.skip(PushDeclared, format!("cannot be told: {}", reason_text(&other))),
            Ok(_) => exam.report.ok(PushDeclared, "configurations can be listed"),
        },
    }
    for check in [PushSilent, PushToken] {
        exam.report.skip(check, elsewhere);
    }
    false
}

async fn deliver(exam: &mut Examination<'_>, agent: &Agent) -> bool {
    exam.report.set_step("waiting for a notification");
    let receiver = match WebhookReceiver::open().await {
        Ok(receiver) => receiver,
        Err(error) => {
            exam.report.skip(PushDeclared, format!("no port to receive at: {error}"));
            return false;
        }
    };
    let token = message_id().to_string();
    let config = PushConfig {
        id: Some(message_id().to_string()),
        url: receiver.url(),
        token: Some(token.clone()),
        authentication: None,
    };
    let mut request = text_message(GREETING);
    request.configuration.return_immediately = true;
    request.configuration.task_push_notification_config = Some(config);
    let sent = tokio::time::timeout(MESSAGE_TIMEOUT, agent.send(request)).await;
    let task = match sent {
        Ok(Ok(said)) => match said.value {
            WireReply::SentTask(task) => *task,
            _ => return skip_checks(exam, "the agent answers without a task"),
        },
        Ok(Err(error)) => {
            return match super::probe::of_error(error) {
                AnswerMeaning::Refused(fault) if fault.code() == FaultCode::PushNotificationNotSupported => {
                    exam.report.report_fault(PushDeclared, format!("refused: {}", excerpt(&fault.to_string())));
                    false
                }
                // Many agents do not call loopback addresses, and they are right.
                other => skip_checks(exam, &format!("a webhook on this machine is refused: {}", reason_text(&other))),
            };
        }
        Err(_) => return skip_checks(exam, "no answer in time"),
    };
    exam.report.ok(PushDeclared, "a webhook is accepted");
    let head = wait_for_delivery(exam, agent, &receiver, &task).await;
    let Some(head) = head else {
        // A configuration that came with the message may have been passed over.
        match list(exam, agent, &task.id).await {
            Ok(0) => exam.report.skip(PushSilent, "the agent passes over configurations that come with a message"),
            _ => exam
                .report
                .report_fault(PushSilent, format!("nothing arrived within {} after the task", exam.gap_text())),
        }
        exam.report.skip(PushToken, "nothing was delivered");
        return false;
    };
    exam.report.ok(PushSilent, "an event was delivered");
    let places = ["x-a2a-notification-token", "a2a-notification-token", "authorization"];
    let shown = places.map(|name| head.get(name).and_then(|value| value.to_str().ok()));
    let known = shown.iter().flatten().any(|value| value.contains(&token));
    exam.report.report_result(PushToken, "with its token", (!known).then(|| "delivered without the token".to_owned()));
    true
}

fn skip_checks(exam: &mut Examination<'_>, why: &str) -> bool {
    for check in [PushDeclared, PushSilent, PushToken] {
        exam.report.skip(check, why);
    }
    false
}

/// Waits for a delivery, as long as the task is at work and a gap beyond.
async fn wait_for_delivery(
    exam: &Examination<'_>,
    agent: &Agent,
    receiver: &WebhookReceiver,
    task: &WireTask,
) -> Option<HeaderMap> {
    let begun = Instant::now();
    let mut done_since = task.status.state.is_settled().then(Instant::now);
    let mut asked = Instant::now();
    loop {
        if let Some(head) = receiver.first_delivery() {
            return Some(head);
        }
        if done_since.is_some_and(|since| since.elapsed() > exam.gap) || begun.elapsed() > MESSAGE_TIMEOUT {
            return None;
        }
        if done_since.is_none() && asked.elapsed() > exam.gap.min(Duration::from_secs(1)) {
            asked = Instant::now();
            let state = exam.within_timeout(agent.task(&task.id)).await.map(|said| said.value.status.state);
            done_since = state.is_ok_and(|state| state.is_settled() || state.is_interrupted()).then(Instant::now);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// How many configurations a task has.
async fn list(exam: &Examination<'_>, agent: &Agent, task: &TaskRef) -> Result<usize, AnswerMeaning> {
    let request =
        ListPush { tenant: Tenant::none(), task_id: task.clone(), page_size: None, page_token: String::new() };
    exam.within_timeout(agent.list_push(request)).await.map(|said| said.value.configs.len())
}
