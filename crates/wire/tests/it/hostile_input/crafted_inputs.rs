//! Crafted inputs: deep, long, contradictory, of another dialect.

use super::{all, bounded, check_text, serve};
use crate::mint;
use sabir_proto::{Call, Fault};
use sabir_wire::{
    AnswerKind, DecodedRequest, Dialect, EndpointPath, Facts, Losses, TextKind, convert, decode_request, read_answer,
    read_event,
};

fn nested(open: &str, close: &str, levels: usize) -> String {
    format!("{}null{}", open.repeat(levels), close.repeat(levels))
}

/// Values of types that a reader does not expect.
fn values() -> Vec<String> {
    let mut values: Vec<String> = [
        "null",
        "true",
        "0",
        "-1",
        "0.5",
        "-0.0",
        "1e308",
        "1e999",
        "-1e999",
        "99999999999999999999",
        "\"\"",
        "\" \"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud83c\\udf0d\"",
        "\"a\\nb\"",
        "[]",
        "{}",
        "[null]",
        "[[]]",
        "[{}]",
        "{\"\":{}}",
        "{\"a\":1,\"a\":2}",
        "{\"kind\":\"text\",\"type\":\"text\"}",
        "{\"message\":{}}",
        "{\"parts\":[{}]}",
        "\"TASK_STATE_WORKING\"",
        "\"working\"",
        "\"2026-13-45T99:99:99Z\"",
        "{\"data_part_compat\":true}",
        "1 2",
        "{",
        "]",
    ]
    .map(str::to_owned)
    .into();
    values.push(format!("\"{}\"", "x".repeat(2000)));
    values.push(nested("[", "]", 200));
    values.push(nested("{\"a\":", "}", 200));
    values
}

/// Texts with a placeholder for such a value.
const PLACES: [&str; 46] = [
    "@",
    r#"{"jsonrpc":@,"id":1,"method":"message/send","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"tasks/get","params":{"id":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"GetTask","params":{"id":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":@,"params":{"id":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":@}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":@,"role":"user","parts":[]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":@,"parts":[]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":@}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":[@]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[{"type":@}]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[{"kind":"text","text":@}]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[{"type":"data","data":@}]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[{"type":"file","file":@}]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[{"type":"file","file":{"bytes":@}}]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":[],"metadata":@}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":[]},"configuration":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":[]},"configuration":{"historyLength":@}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[]},"async":@,"idempotencyKey":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[]},"xpr:callerAccount":@,"metadata":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{"message":{"role":"user","parts":[]},"id":@,"contextId":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":@,"message":{"role":"user","parts":[]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t","sessionId":@,"message":{"role":"user","parts":[]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{"id":"t","message":{"role":"user","parts":[]},"pushNotification":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotification/set","params":{"id":"t","pushNotificationConfig":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/set","params":{"taskId":"t","pushNotificationConfig":{"url":@}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/get","params":{"id":"t","pushNotificationConfigId":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"actions/invoke","params":{"action":@,"input":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[@]}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"status":@,"pageSize":@}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":@}"#,
    r#"{"jsonrpc":"2.0","id":1,"error":@}"#,
    r#"{"code":@,"message":@,"data":@}"#,
    r#"{"code":-32001,"message":"no","data":[{"domain":"a2a-protocol.org","reason":@,"metadata":{"taskId":@}}]}"#,
    r#"{"id":"t","status":@}"#,
    r#"{"id":"t","status":{"state":@}}"#,
    r#"{"kind":"task","id":@,"contextId":@,"status":{"state":"working","timestamp":@}}"#,
    r#"{"id":"t","sessionId":@,"status":{"state":"working"},"artifacts":[{"index":@,"parts":[]}]}"#,
    r#"{"id":"t","status":{"state":"working"},"artifacts":@,"history":@,"metadata":@}"#,
    r#"{"kind":@,"taskId":"t","contextId":"c","status":{"state":"working"},"final":@}"#,
    r#"{"kind":"artifact-update","taskId":"t","artifact":{"artifactId":@,"parts":[@]},"append":@,"lastChunk":@}"#,
    r#"{"task":@,"message":@}"#,
    r#"{"statusUpdate":{"taskId":"t","status":{"state":@,"message":@}}}"#,
    r#"{"name":"n","url":"https://x/","version":"1","capabilities":@,"skills":@,"authentication":@}"#,
    r#"{"name":@,"supportedInterfaces":@,"securitySchemes":{"a":@},"security":@,"skills":[@],"xpr:account":@}"#,
];

#[test]
fn anything_may_stand_anywhere() {
    bounded(|| {
        for place in PLACES {
            for value in values() {
                all(place.replace('@', &value).as_bytes());
            }
        }
    });
}

fn at(entry: EndpointPath, version: Option<&'static str>) -> Facts<'static> {
    Facts { endpoint: entry, version, xpr_headers: false }
}

fn refusal(facts: &Facts<'_>, body: &str) -> Fault {
    match decode_request(facts, body.as_bytes(), &mut mint) {
        Err(unheard) => unheard.fault,
        Ok(heard) => panic!("was heard: {:?}", heard.call),
    }
}

/// Checks that a send with this part is refused with this member and this reason.
#[track_caller]
fn refused(facts: &Facts<'_>, params: &str, field: &str, words: &str) {
    let method = if facts.version == Some("1.0") { "SendMessage" } else { "message/send" };
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    match refusal(facts, &body) {
        Fault::InvalidParams(wrong) => {
            assert_eq!(wrong[0].field, field, "{}", wrong[0].description);
            assert!(wrong[0].description.contains(words), "{}", wrong[0].description);
        }
        other => panic!("{other:?}"),
    }
}

fn message(part: &str) -> String {
    format!(r#"{{"message":{{"messageId":"m","role":"user","parts":[{part}]}}}}"#)
}

#[test]
fn a_part_is_refused_by_its_place_and_its_reason() {
    let root = at(EndpointPath::Root, None);
    for (part, words) in [
        (r#"{"kind":"text","type":"data","text":"a"}"#, "disagree"),
        (r#"{"text":"a"}"#, "needs a kind"),
        (r#"{"kind":"file","file":{"bytes":"%%%"}}"#, "not base64"),
        (r#"{"kind":"file","file":{"bytes":"aGk=","uri":"https://x/"}}"#, "exactly one of bytes and uri"),
        (r#"{"kind":"file","file":{}}"#, "exactly one of bytes and uri"),
        (r#"{"kind":"text"}"#, "needs the member text"),
        (r#"{"kind":"data"}"#, "needs the member data"),
        (r#"{"kind":"video"}"#, "unknown part"),
    ] {
        refused(&root, &message(part), "message.parts[0]", words);
    }
    let twice = r#"{"message":{"messageId":"m","role":"user","parts":[]},"message":{"messageId":"m","role":"user","parts":[]}}"#;
    refused(&root, twice, "", "duplicate");
    let good = message(r#"{"kind":"text","type":"text","text":"a"}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{good}}}"#);
    assert!(decode_request(&root, body.as_bytes(), &mut mint).is_ok(), "both tags are fine where they agree");
}

#[test]
fn words_of_another_dialect_are_not_guessed_at() {
    let (older, newer) = (at(EndpointPath::Root, Some("0.3")), at(EndpointPath::Root, Some("1.0")));
    let user =
        |role: &str, part: &str| format!(r#"{{"message":{{"messageId":"m","role":"{role}","parts":[{part}]}}}}"#);
    refused(&older, &user("ROLE_USER", r#"{"kind":"text","text":"a"}"#), "message.role", "role of 1.0");
    refused(&older, &user("user", r#"{"raw":"aGk="}"#), "message.parts[0]", "needs a kind");
    refused(&newer, &user("user", r#"{"text":"a"}"#), "message.role", "unknown role");
    refused(&newer, &user("ROLE_USER", r#"{"kind":"data"}"#), "message.parts[0]", "has none");
    let reply = |dialect, text: &str| read_answer(dialect, AnswerKind::Task, text, &mut mint, &mut Losses::new());
    let newest = r#"{"kind":"task","id":"t","status":{"state":"TASK_STATE_WORKING"}}"#;
    let older = r#"{"id":"t","status":{"state":"working"}}"#;
    for (dialect, text) in [(Dialect::V03, newest), (Dialect::V01, newest), (Dialect::V1, older)] {
        match reply(dialect, text) {
            Err(Fault::InvalidAgentResponse(words)) => assert!(words.contains("unknown task state"), "{words}"),
            other => panic!("{dialect}: {other:?}"),
        }
    }
}

/// Derived readers accept a list of an object's members in order, which no sender means.
#[test]
fn a_list_is_not_an_object() {
    let request =
        |method: &str, params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let config = r#"["c","https://h/",null,null]"#;
    let message = r#""message":{"messageId":"m","role":"user","parts":[]}"#;
    for (method, params) in [
        ("message/send", r#"[{"messageId":"m","role":"user","parts":[]}]"#.to_owned()),
        ("message/send", r#"{"message":["message","m",null,null,"user",[],null,[],[]]}"#.to_owned()),
        ("message/send", format!(r#"{{{message},"configuration":[[],true,1,null]}}"#)),
        ("message/send", format!(r#"{{{message},"configuration":{{"pushNotificationConfig":{config}}}}}"#)),
        ("tasks/pushNotificationConfig/set", format!(r#"{{"taskId":"t","pushNotificationConfig":{config}}}"#)),
        ("tasks/pushNotification/set", format!(r#"{{"id":"t","pushNotificationConfig":{config}}}"#)),
        (
            "tasks/pushNotification/set",
            r#"{"id":"t","pushNotificationConfig":{"url":"https://h/","authentication":[["Bearer"],"c"]}}"#.to_owned(),
        ),
    ] {
        let fault = refusal(&at(EndpointPath::Root, None), &request(method, &params));
        assert!(matches!(&fault, Fault::InvalidParams(_)), "{params}: {fault:?}");
    }
    let status = r#"["working",null,null]"#;
    let said = r#"["message","m",null,null,"user",[],null,[],[]]"#;
    for result in [
        r#"["t",null,null,{"state":"working"},[],[],null]"#.to_owned(),
        format!(r#"{{"id":"t","status":{status}}}"#),
        format!(r#"{{"id":"t","status":{{"state":"working","message":{said}}}}}"#),
        format!(r#"{{"id":"t","status":{{"state":"working"}},"history":[{said}]}}"#),
        r#"{"id":"t","status":{"state":"working"},"artifacts":[["a",null,null,null,null,[],null,[],null,null]]}"#
            .to_owned(),
    ] {
        for dialect in [Dialect::V03, Dialect::V01, Dialect::Native, Dialect::Xpr] {
            let read = read_answer(dialect, AnswerKind::Task, &result, &mut mint, &mut Losses::new());
            assert!(matches!(&read, Err(Fault::InvalidAgentResponse(_))), "{dialect}, {result}: {read:?}");
        }
    }
}

#[test]
fn two_names_for_one_conversation_must_agree() {
    let send = |sessions: &str| {
        let message = r#"{"role":"user","parts":[{"type":"text","text":"a"}]}"#;
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{{"id":"t",{sessions},"message":{message}}}}}"#
        )
    };
    let heard = |sessions: &str| -> DecodedRequest {
        decode_request(&at(EndpointPath::Root, None), send(sessions).as_bytes(), &mut mint).unwrap()
    };
    let Call::Send(sent) = heard(r#""sessionId":"s","contextId":"s""#).call else { panic!("a send") };
    assert_eq!(sent.message.context_id.unwrap().to_string(), "s");
    let fault = refusal(&at(EndpointPath::Root, None), &send(r#""sessionId":"s","contextId":"c""#));
    assert!(matches!(&fault, Fault::InvalidParams(wrong) if wrong[0].field == "sessionId"), "{fault:?}");
    let task = r#"{"id":"t","sessionId":"s","contextId":"c","status":{"state":"working"}}"#;
    let read = read_answer(Dialect::V01, AnswerKind::Task, task, &mut mint, &mut Losses::new());
    assert!(matches!(&read, Err(Fault::InvalidAgentResponse(words)) if words.starts_with("sessionId: ")), "{read:?}");
}

#[test]
fn ten_thousand_levels_are_refused_and_do_not_overflow() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = nested(open, close, 10_000);
        for place in PLACES.iter().filter(|place| place.matches('@').count() == 1) {
            let text = place.replace('@', &deep);
            serve(text.as_bytes());
            for kind in TextKind::ALL {
                let told = convert(Dialect::V03, Dialect::V1, kind, &text, &mut mint, &mut Losses::new());
                told.err().iter().for_each(check_text);
            }
        }
        let body = message(&format!(r#"{{"kind":"data","data":{deep}}}"#));
        refused(&at(EndpointPath::Root, None), &body, "message.parts[0].data", "deep");
    }
}

#[test]
fn ten_thousand_parts_are_read_and_their_losses_counted() {
    let parts = vec![r#"{"text":"a","filename":"b"}"#; 10_000].join(",");
    let task = format!(
        r#"{{"id":"t","status":{{"state":"TASK_STATE_WORKING"}},"artifacts":[{{"artifactId":"a","parts":[{parts}]}}]}}"#
    );
    for to in Dialect::ALL {
        let mut losses = Losses::new();
        let told = convert(Dialect::V1, to, TextKind::Reply, &task, &mut mint, &mut losses).unwrap();
        assert_eq!(told.matches("\"text\":\"a\"").count(), 10_000);
        let lost = losses.notes().len() + losses.omitted();
        assert!(
            to == Dialect::V1 || (lost >= 10_000 && losses.notes().len() == sabir_wire::LOSSES_MAX),
            "{to}: {lost}"
        );
    }
}

#[test]
fn many_chunks_do_not_cost_their_square() {
    let chunks: Vec<_> = (0..40_000).map(|i| format!(r#"{{"parts":[],"index":{i},"append":true}}"#)).collect();
    let task = format!(r#"{{"id":"t","status":{{"state":"working"}},"artifacts":[{}]}}"#, chunks.join(","));
    bounded(|| {
        let read = read_answer(Dialect::V01, AnswerKind::Task, &task, &mut mint, &mut Losses::new()).unwrap();
        let sabir_proto::WireReply::Task(task) = read else { panic!("a task") };
        assert_eq!(task.artifacts.len(), 40_000);
    });
}

#[test]
fn a_megabyte_is_carried_and_not_repeated_in_a_refusal() {
    let long = "x".repeat(1 << 20);
    let part = format!(r#"{{"kind":"text","text":"{long}"}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}}"#, message(&part));
    let heard = decode_request(&at(EndpointPath::Root, None), body.as_bytes(), &mut mint).unwrap();
    let Call::Send(sent) = heard.call else { panic!("a send") };
    assert_eq!(sent.message.joined_text().len(), 1 << 20);
    let quoted = format!("\"{long}\"");
    let twice = format!("{{{quoted}:1,{quoted}:2}}");
    for place in PLACES.iter().filter(|place| place.matches('@').count() == 1) {
        for value in [&quoted, &twice] {
            let text = place.replace('@', value);
            for facts in [
                at(EndpointPath::Root, None),
                at(EndpointPath::Root, Some("1.0")),
                at(EndpointPath::Native, None),
                at(EndpointPath::A2a, None),
            ] {
                if let Err(unheard) = decode_request(&facts, text.as_bytes(), &mut mint) {
                    check_text(&unheard.fault);
                }
            }
            for dialect in Dialect::ALL {
                let read = read_answer(dialect, AnswerKind::Send, &text, &mut mint, &mut Losses::new());
                read.err().iter().for_each(check_text);
                read_event(dialect, &text, &mut mint, &mut Losses::new()).err().iter().for_each(check_text);
            }
            sabir_wire::card::read(text.as_bytes()).err().iter().for_each(check_text);
        }
    }
}

#[test]
fn numbers_are_whole_and_within_their_bounds() {
    let get = |length: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{{"id":"t","historyLength":{length}}}}}"#)
    };
    for (length, expected) in [("5", Some(5)), ("5.0", Some(5)), ("\"5\"", Some(5)), ("-1", Some(-1)), ("null", None)] {
        for version in ["0.3", "0.2"] {
            let heard =
                decode_request(&at(EndpointPath::Root, Some(version)), get(length).as_bytes(), &mut mint).unwrap();
            let Call::Get(call) = heard.call else { panic!("a get") };
            assert_eq!(call.history_length, expected, "{length}");
        }
    }
    for length in ["0.5", "1e10", "99999999999999999999", "-99999999999", "\"x\"", "true", "[]", "1e999"] {
        for version in ["0.3", "0.1"] {
            let fault = refusal(&at(EndpointPath::Root, Some(version)), &get(length));
            assert!(
                matches!(&fault, Fault::InvalidParams(wrong) if wrong[0].field == "historyLength"),
                "{length}: {fault:?}"
            );
        }
    }
}
