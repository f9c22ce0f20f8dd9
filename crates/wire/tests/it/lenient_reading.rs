//! Deviations of other software from the documents that are accepted. All of them were captured.

use crate::mint;
use sabir_proto::{Content, WireEvent, WireReply, WireTask};
use sabir_wire::{
    AnswerKind, Dialect, Facts, Losses, TextKind, convert, decode_request, read_answer, read_push_payload,
};

fn task(dialect: Dialect, result: &str) -> WireTask {
    match read_answer(dialect, AnswerKind::Task, result, &mut mint, &mut Losses::new()).unwrap() {
        WireReply::Task(task) => *task,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_artifact_kept_as_the_chunks_it_came_in_is_one_artifact() {
    let chunk = |text: &str, more: &str| format!(r#"{{"parts":[{{"type":"text","text":"{text}"}}],"index":0{more}}}"#);
    let chunks = [chunk("a", ""), chunk("b", r#","append":true"#), r#"{"parts":[],"index":1}"#.to_owned()].join(",");
    let read = task(Dialect::V01, &format!(r#"{{"id":"t","status":{{"state":"working"}},"artifacts":[{chunks}]}}"#));
    let shown: Vec<_> =
        read.artifacts.iter().map(|a| (a.artifact_id.as_str(), a.joined_text(), a.parts.len())).collect();
    assert_eq!(shown, [("0", "ab".to_owned(), 1), ("1", String::new(), 0)]);
}

#[test]
fn a_file_may_have_its_content_by_other_names() {
    let parts = r#"[{"type":"file","file":{"data":"aGk="}},{"type":"file","file":{"url":"https://x/"}}]"#;
    let history = format!(r#"[{{"role":"user","parts":{parts}}}]"#);
    let read = task(Dialect::V01, &format!(r#"{{"id":"t","status":{{"state":"working"}},"history":{history}}}"#));
    assert_eq!(read.history[0].parts[0].content, Content::Raw(b"hi".to_vec()));
    assert_eq!(read.history[0].parts[1].content, Content::Url("https://x/".into()));
}

#[test]
fn null_is_data_and_no_data_is_not() {
    let with = |part: &str| {
        let artifacts = format!(r#"[{{"artifactId":"a","parts":[{part}]}}]"#);
        format!(r#"{{"kind":"task","id":"t","status":{{"state":"working"}},"artifacts":{artifacts}}}"#)
    };
    let read = task(Dialect::V03, &with(r#"{"kind":"data","data":null}"#));
    let Content::Data(data) = &read.artifacts[0].parts[0].content else { panic!("data") };
    assert_eq!(data.as_str(), "null");
    let missing = with(r#"{"kind":"data"}"#);
    assert!(read_answer(Dialect::V03, AnswerKind::Task, &missing, &mut mint, &mut Losses::new()).is_err());
}

#[test]
fn an_answer_may_leave_its_null_out() {
    let bare = r#"{"id":7,"jsonrpc":"2.0"}"#;
    let told = convert(Dialect::V03, Dialect::V1, TextKind::Reply, bare, &mut mint, &mut Losses::new()).unwrap();
    assert_eq!(told, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
}

#[test]
fn a_webhook_of_0_3_may_be_told_an_event_of_1_0() {
    let body = r#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
    for dialect in [Dialect::V03, Dialect::V02] {
        let read = read_push_payload(dialect, body, &mut mint, &mut Losses::new()).unwrap();
        assert!(matches!(read, WireEvent::StatusUpdate(_)), "{read:?}");
    }
}

#[test]
fn nobody_in_0_1_needs_an_id() {
    let message = r#"{"role":"user","parts":[{"type":"text","text":"hi"}]}"#;
    let send =
        format!(r#"{{"jsonrpc":"2.0","id":null,"method":"tasks/send","params":{{"id":"t","message":{message}}}}}"#);
    let heard = decode_request(&Facts::default(), send.as_bytes(), &mut mint).unwrap();
    assert_eq!(heard.responder.dialect(), Dialect::V01);
    let refusal = heard.responder.refuse(&sabir_proto::Fault::Unavailable("later".into()));
    assert!(refusal.body.starts_with(br#"{"jsonrpc":"2.0","id":null,"error""#), "null is echoed");
    // Only the task tells the dialect of this request.
    for id in ["", r#""id":null,"#] {
        let get = format!(r#"{{"jsonrpc":"2.0",{id}"method":"tasks/get","params":{{"id":"mine"}}}}"#);
        let heard = decode_request(&Facts::default(), get.as_bytes(), &mut mint).unwrap();
        assert!(heard.task_deciding_dialect().is_some());
    }
    // 0.3 needs an id, if the request is certainly 0.3.
    let get = r#"{"jsonrpc":"2.0","id":null,"method":"tasks/get","params":{"id":"mine"}}"#;
    let facts = Facts { version: Some("0.3"), ..Facts::default() };
    assert!(decode_request(&facts, get.as_bytes(), &mut mint).is_err());
}

#[test]
fn a_webhook_is_set_with_the_words_of_0_2_and_the_members_of_0_1() {
    let params = r#"{"id":"t","pushNotificationConfig":{"url":"https://h/"}}"#;
    let set = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/set","params":{params}}}"#);
    let heard = decode_request(&Facts::default(), set.as_bytes(), &mut mint).unwrap();
    assert!(matches!(heard.call, sabir_proto::Call::CreatePush { .. }));
}
