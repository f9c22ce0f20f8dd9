//! The bodies of webhooks: 1.0 sends the event, all older dialects the task as it stands.
//!
//! This follows what servers do, which differs from some of the specifications; the fixtures have it from nine of them.
//! The dialect is the one in which the webhook was registered, because its receiver was written together with that
//! client.

use crate::decoded_request::AnswerKind;
use crate::responder::Responder;
use crate::{Dialect, Losses, client_codec, v1};
use sabir_proto::{Fault, FrozenEvent, FrozenTask, MessageId, View, WireEvent, WireReply, WireTask};
use serde::Deserialize;
use std::sync::Arc;

/// The media type of a body, and the body.
pub type PushBody = (&'static str, Vec<u8>);

/// The media type of an event in 1.0.
const EVENT: &str = "application/a2a+json";

/// Writes the body of a webhook in 1.0: an event.
pub fn write_push_event(event: &FrozenEvent) -> PushBody {
    (EVENT, v1::json::event_bytes(event).into_owned())
}

/// Writes the body of a webhook in a dialect that sends whole tasks. `name` is the client's own id for the task, where
/// clients choose the ids.
pub fn write_push_task(
    to: Dialect,
    task: &FrozenTask,
    name: Option<Arc<str>>,
    losses: &mut Losses,
) -> Result<PushBody, Fault> {
    let task = task.to_wire(View::WHOLE).ok_or_else(|| Fault::Internal("damaged-record".into()))?;
    write_task(to, task, name, losses)
}

/// Writes the body of a webhook for an event of another server: the event in 1.0, the task as it stands in all older
/// dialects.
pub fn write_push_payload(
    to: Dialect,
    event: &WireEvent,
    task: &WireTask,
    losses: &mut Losses,
) -> Result<PushBody, Fault> {
    if to != Dialect::V1 {
        return write_task(to, task.clone(), None, losses);
    }
    let (mut event, mut out) = (event.clone(), Vec::new());
    v1::json::hide_transferred_in_event(&mut event, losses);
    v1::json::write_event(&event, &mut out);
    Ok((EVENT, out))
}

fn write_task(to: Dialect, task: WireTask, name: Option<Arc<str>>, losses: &mut Losses) -> Result<PushBody, Fault> {
    let responder = Responder::new(to, None);
    let responder = if to == Dialect::V01 { responder.in_v01(name) } else { responder };
    let mut out = Vec::new();
    responder.write(WireReply::Task(Box::new(task)), losses, &mut out)?;
    Ok(("application/json", out))
}

/// Reads the body of a webhook.
pub fn read_push_payload(
    from: Dialect,
    body: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireEvent, Fault> {
    match from {
        // The Python SDK 1.x posts events of 1.0 to every webhook, in whichever dialect it was registered.
        Dialect::V03 | Dialect::V02 if is_wrapped(body) => client_codec::read_event(Dialect::V1, body, mint, losses),
        // A webhook gets a task in these dialects, never an event; in 0.1, a task without artifacts looks like a status
        // event.
        Dialect::V01 | Dialect::Xpr => match client_codec::read_answer(from, AnswerKind::Task, body, mint, losses)? {
            WireReply::Task(task) => Ok(WireEvent::Task(*task)),
            _ => Err(Fault::InvalidAgentResponse("expected a task".into())),
        },
        _ => client_codec::read_event(from, body, mint, losses),
    }
}

/// Whether a body names its event by the member that is set, as in 1.0, rather than by `kind`.
fn is_wrapped(body: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct EventMembers {
        #[serde(default)]
        task: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        message: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        status_update: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        artifact_update: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_str::<EventMembers>(body).is_ok_and(|seen| {
        seen.task.is_some() || seen.message.is_some() || seen.status_update.is_some() || seen.artifact_update.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{Seq, TaskState};
    use serde_json::Value;

    fn task() -> FrozenTask {
        let json = r#"{"id":"0198c0de-0000-7000-8000-000000000001","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED",
            "timestamp":"2026-11-15T12:00:00.000Z"},"artifacts":[{"artifactId":"a","parts":[{"text":"done"}]}]}"#;
        let task: sabir_proto::Task = serde_json::from_str(json).unwrap();
        FrozenTask::freeze(&task)
    }

    fn told(to: Dialect, name: Option<&str>) -> (&'static str, Value, Losses) {
        let mut losses = Losses::new();
        let (media_type, body) = write_push_task(to, &task(), name.map(Into::into), &mut losses).unwrap();
        (media_type, serde_json::from_slice(&body).unwrap(), losses)
    }

    #[test]
    fn before_1_0_a_webhook_gets_the_whole_task() {
        for to in [Dialect::V03, Dialect::V02] {
            let (media_type, body, losses) = told(to, Some("mine"));
            assert_eq!(
                (media_type, &body["kind"], &body["contextId"]),
                ("application/json", &"task".into(), &"c1".into())
            );
            assert_eq!(
                (&body["status"]["state"], &body["artifacts"][0]["parts"][0]["kind"]),
                (&"completed".into(), &"text".into())
            );
            assert_eq!(body["id"], "0198c0de-0000-7000-8000-000000000001");
            assert!(losses.is_empty());
        }
    }

    #[test]
    fn who_names_its_tasks_hears_its_own_names() {
        let (_, body, _) = told(Dialect::V01, Some("mine"));
        assert_eq!((&body["id"], &body["sessionId"]), (&"mine".into(), &"c1".into()));
        assert_eq!(body["artifacts"][0]["parts"][0]["type"], "text");
        assert_eq!(told(Dialect::V01, None).1["id"], "0198c0de-0000-7000-8000-000000000001");
    }

    #[test]
    fn since_1_0_it_gets_the_event_as_streams_show_it() {
        let json = r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_TRANSFERRED"}}}"#;
        let event = FrozenEvent { seq: Seq(2), state: Some(TaskState::Transferred), json: json.into(), input: None };
        let (media_type, body) = write_push_event(&event);
        assert_eq!(media_type, "application/a2a+json");
        assert_eq!(String::from_utf8(body).unwrap(), json.replace("TRANSFERRED", "COMPLETED"));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut mint = || MessageId::parse("m").unwrap();
        for to in [Dialect::V03, Dialect::V02, Dialect::V01] {
            let (_, body) = write_push_task(to, &task(), None, &mut Losses::new()).unwrap();
            let body = String::from_utf8(body).unwrap();
            let read = read_push_payload(to, &body, &mut mint, &mut Losses::new()).unwrap();
            assert!(matches!(&read, WireEvent::Task(task) if task.artifacts.len() == 1), "{read:?}");
        }
    }
}
