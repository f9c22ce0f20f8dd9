//! A translation notes what it loses and nothing else: one line for each that was once wrong.

use crate::mint;
use sabir_wire::{Dialect, Losses, TextKind, convert, read_push_payload, write_push_payload};

/// Converts a text and returns it with its losses, as `sabir convert` prints them.
#[track_caller]
fn told(from: Dialect, to: Dialect, kind: TextKind, text: &str) -> (String, Vec<String>) {
    let mut losses = Losses::new();
    let told = convert(from, to, kind, text, &mut mint, &mut losses).unwrap();
    (told, losses.notes().iter().map(ToString::to_string).collect())
}

/// Checks that the conversion contains this text and has these losses.
#[track_caller]
fn check(from: Dialect, to: Dialect, kind: TextKind, text: &str, has: &str, lost: &[&str]) {
    let (told, losses) = told(from, to, kind, text);
    assert!(told.contains(has), "{told}");
    assert_eq!(losses, lost, "{told}");
}

/// A request with these parameters.
fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

/// An answer with this result.
fn answer(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)
}

#[test]
fn a_name_that_a_caller_gave_to_its_task() {
    let send = request("tasks/send", r#"{"id":"mine","message":{"role":"user","parts":[]}}"#);
    let lost = ["task-id: message.taskId"];
    check(Dialect::V01, Dialect::V1, TextKind::Request, &send, "SendMessage", &lost);
    check(Dialect::V01, Dialect::V03, TextKind::Request, &send, "message/send", &lost);
    let lost = ["configuration: configuration.historyLength", "message-id: message.messageId"];
    check(Dialect::V01, Dialect::Xpr, TextKind::Request, &send, r#""id":"mine""#, &lost);
}

#[test]
fn how_much_history_is_wanted() {
    let get = |length: &str| request("GetTask", &format!(r#"{{"id":"t"{length}}}"#));
    let lost = ["history: historyLength"];
    check(Dialect::V1, Dialect::V01, TextKind::Request, &get(""), r#"{"id":"t"}"#, &lost);
    check(Dialect::V1, Dialect::V01, TextKind::Request, &get(r#","historyLength":0"#), r#"{"id":"t"}"#, &[]);
    check(Dialect::V1, Dialect::V01, TextKind::Request, &get(r#","historyLength":5"#), r#""historyLength":5"#, &[]);
}

#[test]
fn how_much_history_a_resubscription_wants() {
    let resubscribe = request("tasks/resubscribe", r#"{"id":"t","historyLength":1}"#);
    check(Dialect::V01, Dialect::V1, TextKind::Request, &resubscribe, "SubscribeToTask", &["history: historyLength"]);
}

#[test]
fn the_first_of_a_tasks_webhooks() {
    let first = request("tasks/pushNotification/get", r#"{"id":"t"}"#);
    check(Dialect::V01, Dialect::V01, TextKind::Request, &first, "tasks/pushNotification/get", &[]);
    check(Dialect::V01, Dialect::V03, TextKind::Request, &first, "tasks/pushNotificationConfig/get", &[]);
    check(Dialect::V01, Dialect::V1, TextKind::Request, &first, r#""pageSize":1"#, &[]);
    let first = request("tasks/pushNotificationConfig/get", r#"{"id":"t"}"#);
    check(Dialect::V03, Dialect::V01, TextKind::Request, &first, "tasks/pushNotification/get", &[]);
}

#[test]
fn pages_and_names_of_webhooks_that_the_older_dialects_imply() {
    let list = request("tasks/pushNotificationConfig/list", r#"{"id":"t"}"#);
    check(Dialect::V03, Dialect::V03, TextKind::Request, &list, "list", &[]);
    let paged = request("ListTaskPushNotificationConfigs", r#"{"taskId":"t","pageSize":2,"pageToken":"x"}"#);
    check(Dialect::V1, Dialect::V03, TextKind::Request, &paged, "list", &["paging: pageSize", "paging: pageToken"]);
    let set = request("tasks/pushNotification/set", r#"{"id":"t","pushNotificationConfig":{"url":"https://h/"}}"#);
    check(Dialect::V01, Dialect::V01, TextKind::Request, &set, "set", &[]);
    check(Dialect::V01, Dialect::V1, TextKind::Request, &set, r#""id":"t""#, &[]);
}

#[test]
fn data_that_looks_wrapped_and_is_not() {
    let send = |part: &str| {
        let message = format!(r#"{{"messageId":"m","role":"ROLE_USER","parts":[{part}]}}"#);
        request("SendMessage", &format!(r#"{{"message":{message}}}"#))
    };
    let marked = send(r#"{"data":{"value":1},"metadata":{"data_part_compat":true}}"#);
    let lost = ["metadata: message.parts[0].metadata"];
    let (there, losses) = told(Dialect::V1, Dialect::V03, TextKind::Request, &marked);
    assert_eq!(losses, lost);
    check(Dialect::V03, Dialect::V1, TextKind::Request, &there, r#""data":{"value":1}"#, &[]);
    let other = send(r#"{"data":{"value":1},"metadata":{"data_part_compat":"no"}}"#);
    check(Dialect::V1, Dialect::V03, TextKind::Request, &other, r#""data":{"value":1}"#, &[]);
}

#[test]
fn what_stands_beside_a_message_in_xpr() {
    let message = r#"{"messageId":"m","role":"ROLE_USER","parts":[],"metadata":{"xpr:callerAccount":7}}"#;
    let send = request("SendMessage", &format!(r#"{{"message":{message}}}"#));
    let lost = ["message-id: message.messageId"];
    check(Dialect::V1, Dialect::Xpr, TextKind::Request, &send, r#""metadata":{"xpr:callerAccount":7}"#, &lost);
    let said = r#"{"messageId":"m","role":"ROLE_USER","parts":[],"metadata":{"xpr:jobId":42}}"#;
    let task = |metadata: &str| {
        answer(&format!(r#"{{"id":"t","status":{{"state":"TASK_STATE_WORKING"}},"history":[{said}]{metadata}}}"#))
    };
    let lost = ["message-id: history[0].messageId", "metadata: metadata"];
    check(Dialect::V1, Dialect::Xpr, TextKind::Reply, &task(""), r#""metadata":{"xpr:jobId":42}"#, &lost);
    let own = task(r#","metadata":{"xpr:jobId":42}"#);
    check(Dialect::V1, Dialect::Xpr, TextKind::Reply, &own, r#""metadata":{"xpr:jobId":42}"#, &lost[..1]);
}

#[test]
fn answers_that_are_nothing_but_a_yes() {
    check(Dialect::V1, Dialect::V03, TextKind::Reply, &answer("{}"), r#""result":null"#, &[]);
    check(Dialect::V03, Dialect::V1, TextKind::Reply, &answer("null"), r#""result":{}"#, &[]);
    check(Dialect::V03, Dialect::V02, TextKind::Reply, &answer("null"), r#""result":null"#, &[]);
}

#[test]
fn a_task_at_a_webhook_is_a_task_also_when_it_has_only_a_status() {
    let body = r#"{"id":"t","sessionId":"s","status":{"state":"working"}}"#;
    let read = read_push_payload(Dialect::V01, body, &mut mint, &mut Losses::new()).unwrap();
    assert!(matches!(read, sabir_proto::WireEvent::Task(_)), "{read:?}");
}

#[test]
fn what_an_error_says_beside_its_number() {
    let detailed = r#"{"error":{"code":-32602,"message":"no","data":[{"@type":"type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations":[{"field":"a","description":"b"}]}]}}"#;
    check(Dialect::V1, Dialect::V03, TextKind::Error, detailed, "-32602", &["error-details: data"]);
    let newer = r#"{"error":{"code":-32009,"message":"no"}}"#;
    let lost = ["error-details: code", "error-details: data"];
    check(Dialect::V1, Dialect::V03, TextKind::Error, newer, "-32004", &lost);
    let unknown = r#"{"error":{"code":-32050,"message":"own"}}"#;
    check(Dialect::V03, Dialect::V1, TextKind::Error, unknown, "-32603", &["error-details: code"]);
    let of_task = r#"{"error":{"code":-32001,"message":"no","data":{"taskId":"t"}}}"#;
    check(Dialect::V01, Dialect::V1, TextKind::Error, of_task, r#""taskId":"t""#, &[]);
    check(Dialect::V01, Dialect::V03, TextKind::Error, of_task, r#""taskId":"t""#, &[]);
    check(Dialect::V01, Dialect::Native, TextKind::Error, of_task, "-32001", &["error-details: data"]);
    let settled = r#"{"error":{"code":-32002,"message":"no","data":{"taskId":"t"}}}"#;
    check(Dialect::V01, Dialect::V1, TextKind::Error, settled, r#""taskId":"t""#, &[]);
    check(Dialect::V01, Dialect::V03, TextKind::Error, settled, "-32002", &["error-details: data"]);
}

#[test]
fn what_an_event_says_that_only_events_say() {
    let artifact =
        r#"{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[]},"append":true,"lastChunk":true}"#;
    let update = answer(&format!(r#"{{"artifactUpdate":{artifact}}}"#));
    let lost = ["part: artifactUpdate.append", "part: artifactUpdate.lastChunk", "state: task.status"];
    check(Dialect::V1, Dialect::Native, TextKind::Event, &update, r#""artifacts":[{"#, &lost);
    let lost = ["context-id: artifactUpdate.contextId"];
    check(Dialect::V1, Dialect::V01, TextKind::Event, &update, r#""append":true"#, &lost);
    let status = r#"{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"metadata":{"k":1}}"#;
    let update = answer(&format!(r#"{{"statusUpdate":{status}}}"#));
    let lost = ["metadata: statusUpdate.metadata"];
    check(Dialect::V1, Dialect::Native, TextKind::Event, &update, r#""state":"working""#, &lost);
    let said = r#"[{"messageId":"m","role":"ROLE_USER","parts":[]}]"#;
    let task = format!(r#"{{"id":"t","status":{{"state":"TASK_STATE_WORKING"}},"history":{said}}}"#);
    let whole = answer(&format!(r#"{{"task":{task}}}"#));
    check(Dialect::V1, Dialect::V01, TextKind::Event, &whole, r#""final":false"#, &["history: task.history"]);
}

#[test]
fn a_direct_reply_is_not_swallowed_by_who_has_none() {
    let reply = answer(r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}"#);
    for to in [Dialect::V01, Dialect::Native] {
        let (told, losses) = told(Dialect::V1, to, TextKind::Event, &reply);
        assert!(told.contains(r#""state":"completed""#), "{told}");
        assert!(losses.contains(&"answer-place: ".to_owned()), "{losses:?}");
        assert_eq!(told.contains(r#""final":true"#), to == Dialect::V01, "{told}");
    }
}

#[test]
fn what_only_the_older_dialects_say() {
    let task = |status: &str| answer(&format!(r#"{{"kind":"task","id":"t","contextId":"c","status":{status}}}"#));
    let strange = task(r#"{"state":"half-done"}"#);
    check(Dialect::V03, Dialect::V1, TextKind::Reply, &strange, "TASK_STATE_UNSPECIFIED", &["state: status.state"]);
    let vague = task(r#"{"state":"working","timestamp":"yesterday"}"#);
    check(Dialect::V03, Dialect::V1, TextKind::Reply, &vague, "TASK_STATE_WORKING", &["timestamp: status.timestamp"]);
    let config = r#"{"url":"https://h/","authentication":{"schemes":["Bearer","Basic"],"credentials":"c"}}"#;
    let set =
        request("tasks/pushNotificationConfig/set", &format!(r#"{{"taskId":"t","pushNotificationConfig":{config}}}"#));
    let lost = ["push-authentication: authentication"];
    check(Dialect::V03, Dialect::V1, TextKind::Request, &set, r#""scheme":"Bearer""#, &lost);
}

#[test]
fn a_state_that_nobody_knows() {
    let (words, name) = (r#""state":"unknown""#, r#""state":"TASK_STATE_UNSPECIFIED""#);
    let older = answer(&format!(r#"{{"kind":"task","id":"t","contextId":"c","status":{{{words}}}}}"#));
    let newer = answer(&format!(r#"{{"id":"t","contextId":"c","status":{{{name}}}}}"#));
    for dialect in [Dialect::V03, Dialect::V02] {
        check(dialect, Dialect::V1, TextKind::Reply, &older, name, &[]);
        check(Dialect::V1, dialect, TextKind::Reply, &newer, words, &[]);
    }
    let working = r#""state":"working""#;
    check(Dialect::V03, Dialect::Xpr, TextKind::Reply, &older, working, &["state: status.state"]);
}

#[test]
fn a_state_that_is_ours_alone() {
    let status = r#"{"state":"TASK_STATE_TRANSFERRED"}"#;
    let task = format!(r#"{{"id":"t","status":{status}}}"#);
    let whole: sabir_proto::WireTask = serde_json::from_str(&task).unwrap();
    let update = format!(r#"{{"statusUpdate":{{"taskId":"t","status":{status}}}}}"#);
    let event: sabir_proto::WireEvent = serde_json::from_str(&update).unwrap();
    for to in Dialect::ALL {
        let (told, losses) = told(Dialect::V1, to, TextKind::Reply, &answer(&task));
        assert!(told.to_lowercase().contains("completed"), "{told}");
        assert_eq!(losses[0], "state: status.state", "{to}");
        if to.features().streams {
            let (told, losses) = self::told(Dialect::V1, to, TextKind::Event, &answer(&update));
            assert!(told.to_lowercase().contains("completed"), "{told}");
            assert!(losses[0].starts_with("state: "), "{to}: {losses:?}");
        }
        let mut losses = Losses::new();
        let (_, body) = write_push_payload(to, &event, &whole, &mut losses).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(body.to_lowercase().contains("completed") && !losses.is_empty(), "{to}: {body}");
    }
}
