//! A task that is still at work: whether a second client can follow it, and whether it can be cancelled.

use super::Examination;
use super::checks::DoctorCheck::{CancelIgnored, CancelMissing, SubscribeMissing};
use super::interface::{GREETING, MESSAGE_TIMEOUT, reason_text};
use super::probe::{AnswerMeaning, excerpt};
use sabir_client::{Agent, FollowOptions, text_message};
use sabir_proto::{CancelTask, FaultCode, TaskRef, TaskState, Tenant, WireReply};
use std::time::{Duration, Instant};

/// The pause before a cancelled task is looked at again.
const RECHECK_DELAY: Duration = Duration::from_secs(1);
/// The time that a cancel may take if the agent only promises it at first.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends a message without waiting, follows its task, and cancels it.
pub(super) async fn check(exam: &mut Examination<'_>, agent: &Agent) {
    exam.report.set_step("cancelling a task");
    let mut request = text_message(GREETING);
    request.configuration.return_immediately = true;
    let sent = tokio::time::timeout(MESSAGE_TIMEOUT, agent.send(request)).await;
    let task = match sent.map(|sent| sent.map(|said| said.value)) {
        Ok(Ok(WireReply::SentTask(task))) if !task.status.state.is_settled() => task.id,
        Ok(Ok(WireReply::SentTask(_))) => return skip_checks(exam, "the task was done too soon"),
        Ok(Ok(_)) => return skip_checks(exam, "the agent answers without a task"),
        Ok(Err(error)) => return skip_checks(exam, &error.to_string()),
        Err(_) => return skip_checks(exam, "no answer in time"),
    };
    follow(exam, agent, &task).await;
    cancel(exam, agent, task).await;
}

fn skip_checks(exam: &mut Examination<'_>, why: &str) {
    for check in [SubscribeMissing, CancelMissing, CancelIgnored] {
        exam.report.skip(check, why);
    }
}

async fn follow(exam: &mut Examination<'_>, agent: &Agent, task: &TaskRef) {
    if !agent.streams() || !agent.dialect().features().resubscribes {
        exam.report.skip(SubscribeMissing, "there are no streams");
        return;
    }
    let watching = FollowOptions { resume: false, ..FollowOptions::default() };
    let opened = exam.within_timeout(agent.subscribe(task.clone(), watching)).await;
    let missing = match opened {
        Ok(mut events) => match tokio::time::timeout(exam.gap, events.next()).await {
            Ok(Some(Ok(_))) => return exam.report.ok(SubscribeMissing, "a running task can be followed"),
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => "it ends at once".into(),
            Err(_) => "it opens and says nothing".into(),
        },
        Err(AnswerMeaning::Refused(fault)) => fault.to_string(),
        Err(other) => {
            exam.report.skip(SubscribeMissing, format!("cannot be told: {}", reason_text(&other)));
            return;
        }
    };
    match state(exam, agent, task).await {
        Some(state) if !state.is_settled() => exam.report.report_fault(SubscribeMissing, excerpt(&missing)),
        _ => exam.report.skip(SubscribeMissing, "the task was done too soon"),
    }
}

async fn cancel(exam: &mut Examination<'_>, agent: &Agent, id: TaskRef) {
    let request = CancelTask { tenant: Tenant::none(), id: id.clone(), metadata: None };
    let said = match exam.within_timeout(agent.cancel(request)).await {
        Ok(said) => said.value.status.state,
        Err(AnswerMeaning::Refused(fault)) => {
            return check_refusal(exam, agent, &id, fault.code(), &fault.to_string()).await;
        }
        Err(other) => {
            for check in [CancelMissing, CancelIgnored] {
                exam.report.skip(check, format!("cannot be told: {}", reason_text(&other)));
            }
            return;
        }
    };
    exam.report.ok(CancelMissing, format!("answered with {said}"));
    if said == TaskState::Canceled {
        tokio::time::sleep(RECHECK_DELAY).await;
        return match state(exam, agent, &id).await {
            Some(TaskState::Canceled) => exam.report.ok(CancelIgnored, "stays canceled"),
            Some(later) => {
                exam.report.report_fault(CancelIgnored, format!("said canceled, and is {later} a second later"))
            }
            None => exam.report.skip(CancelIgnored, "the task cannot be read afterwards"),
        };
    }
    // Only promised: the agent stops when it can.
    let begun = Instant::now();
    let limit = exam.gap.max(CANCEL_TIMEOUT);
    while begun.elapsed() < limit {
        match state(exam, agent, &id).await {
            Some(TaskState::Canceled) => return exam.report.ok(CancelIgnored, "cancelled a little later"),
            Some(done) if done.is_settled() => {
                return exam.report.skip(CancelIgnored, format!("the task was {done} too soon"));
            }
            Some(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            None => return exam.report.skip(CancelIgnored, "the task cannot be read afterwards"),
        }
    }
    exam.report.report_fault(CancelIgnored, format!("still at work {} s after it was cancelled", limit.as_secs()));
}

async fn check_refusal(exam: &mut Examination<'_>, agent: &Agent, id: &TaskRef, code: FaultCode, said: &str) {
    let done = state(exam, agent, id).await.is_none_or(TaskState::is_settled);
    match code {
        _ if done => {
            for check in [CancelMissing, CancelIgnored] {
                exam.report.skip(check, "the task was done too soon");
            }
        }
        FaultCode::MethodNotFound | FaultCode::UnsupportedOperation => {
            exam.report.report_fault(CancelMissing, excerpt(said));
        }
        _ => {
            exam.report.ok(CancelMissing, format!("refused: {}", excerpt(said)));
            exam.report.skip(CancelIgnored, "the agent does not cancel this task");
        }
    }
}

async fn state(exam: &Examination<'_>, agent: &Agent, id: &TaskRef) -> Option<TaskState> {
    exam.within_timeout(agent.task(id)).await.ok().map(|said| said.value.status.state)
}
