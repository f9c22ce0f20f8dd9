//! Bodies that are not what they should be: broken, cut off, deep, doubled, too large, not UTF-8.
//!
//! JSON-RPC answers with its own codes and HTTP 200, HTTP+JSON with a status; both with the same reason.

use crate::http_client::{HttpConnection, Request};
use crate::rpc_client::{ErrorRow, PARAMS, PARSE, ProtocolError, send_params};
use crate::test_server::{TestServer, shared_server};
use serde_json::{Value, json};

const INVALID_REQUEST: ErrorRow = (-32600, 400, "INVALID_REQUEST");

/// A JSON-RPC body that is refused before there is anything to echo an id from, or with the id it had.
#[track_caller]
fn check(sabir: &TestServer, body: &[u8], row: ErrorRow, id: &Value) {
    let reply = sabir.ask(&Request::post("/", body));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let envelope = reply.json();
    assert_eq!(ProtocolError::from_rpc(&envelope).code_and_reason(), (row.0, row.2), "{envelope}");
    assert_eq!(envelope["id"], *id, "{envelope}");
    sabir.still_serves();
}

/// A body of `message:send`, refused by HTTP+JSON.
#[track_caller]
fn check_rest(sabir: &TestServer, body: &[u8], row: ErrorRow) {
    sabir.expect_rest_error(&Request::post("/message:send", body), row);
    sabir.still_serves();
}

/// Parameters that both bindings refuse, naming the same member.
#[track_caller]
fn check_field(sabir: &TestServer, params: &str, field: &str) {
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{params}}}"#);
    let envelope = sabir.ask(&Request::post("/", body)).json();
    let reply = sabir.ask(&Request::post("/message:send", params));
    for (problem, code) in
        [(ProtocolError::from_rpc(&envelope), PARAMS.0), (ProtocolError::from_rest(&reply), PARAMS.1)]
    {
        assert_eq!(
            (problem.code_and_reason(), &problem.fields[..]),
            ((code, PARAMS.2), &[field.to_owned()][..]),
            "{envelope}"
        );
    }
    sabir.still_serves();
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

fn with_data(data: &str) -> String {
    format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":{data}}}]}}}}"#)
}

#[test]
fn a_body_that_is_not_json_is_a_parse_error() {
    let sabir = shared_server();
    for body in [&b""[..], b" ", b"{", b"nonsense", b"{\"jsonrpc\":\"2.0\",}", b"{'a':1}", b"\xef\xbb\xbf{}", b"\0"] {
        check(&sabir, body, PARSE, &Value::Null);
        check_rest(&sabir, body, PARSE);
    }
}

#[test]
fn a_body_that_is_cut_off_anywhere_is_a_parse_error() {
    let sabir = shared_server();
    let whole = crate::rpc_client::envelope("SendMessage", &send_params("whole"));
    for length in 0..whole.len() {
        let reply = sabir.ask(&Request::post("/", &whole[..length]));
        assert_eq!(
            ProtocolError::from_rpc(&reply.json()).code_and_reason(),
            (PARSE.0, PARSE.2),
            "{}",
            &whole[..length]
        );
    }
    let whole = send_params("whole").to_string();
    for length in 0..whole.len() {
        sabir.expect_rest_error(&Request::post("/message:send", &whole[..length]), PARSE);
    }
    sabir.still_serves();
}

#[test]
fn text_that_is_not_utf8_is_a_parse_error() {
    let sabir = shared_server();
    for bad in [&b"\xff"[..], b"\xc3\x28", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"a\x80"] {
        let around = |before: &str, after: &str| [before.as_bytes(), bad, after.as_bytes()].concat();
        let params = around(r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""#, r#""}]}}"#);
        check_rest(&sabir, &params, PARSE);
        let body = [&br#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":"#[..], &params, b"}"].concat();
        check(&sabir, &body, PARSE, &Value::Null);
        check(&sabir, &around(r#"{"jsonrpc":"2.0","id":1,"method":""#, r#""}"#), PARSE, &Value::Null);
        check(&sabir, &around(r#"{"jsonrpc":"2.0","id":""#, r#"","method":"GetTask"}"#), PARSE, &Value::Null);
    }
}

#[test]
fn json_that_is_no_request_is_an_invalid_request() {
    let sabir = shared_server();
    let none = Value::Null;
    for body in ["3", "null", "\"text\"", "true", "[]", "{}"] {
        check(&sabir, body.as_bytes(), INVALID_REQUEST, &none);
    }
    check(&sabir, br#"{"id":"a","method":"ListTasks"}"#, INVALID_REQUEST, &json!("a"));
    check(&sabir, br#"{"jsonrpc":"1.0","id":"a","method":"ListTasks"}"#, INVALID_REQUEST, &json!("a"));
    check(&sabir, br#"{"jsonrpc":2.0,"id":"a","method":"ListTasks"}"#, INVALID_REQUEST, &none);
    check(&sabir, br#"{"jsonrpc":"2.0","id":"a"}"#, INVALID_REQUEST, &json!("a"));
    check(&sabir, br#"{"jsonrpc":"2.0","id":"a","method":""}"#, INVALID_REQUEST, &json!("a"));
    check(&sabir, br#"{"jsonrpc":"2.0","id":"a","method":7}"#, INVALID_REQUEST, &none);
    check(&sabir, br#"{"jsonrpc":"2.0","method":"ListTasks"}"#, INVALID_REQUEST, &none);
    check(&sabir, br#"[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]"#, INVALID_REQUEST, &none);
    for id in ["null", "true", "[]", "{}", "[1]", &nested(50_000)] {
        check(
            &sabir,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ListTasks"}}"#).as_bytes(),
            INVALID_REQUEST,
            &none,
        );
    }
}

#[test]
fn parameters_that_are_no_object_are_invalid_parameters() {
    let sabir = shared_server();
    for params in [json!([]), json!([1]), json!("text"), json!(3), json!(true)] {
        sabir.expect_error("/", "SendMessage", &params, PARAMS);
        sabir.expect_rest_error(&Request::post("/message:send", params.to_string()), PARAMS);
    }
    // Members by position are no object either, however well they would fit.
    let by_position = json!(["m-1", "", "", "ROLE_USER", [{"text": "x"}], null, [], []]);
    sabir.expect_error("/", "SendMessage", &json!({"message": by_position}), PARAMS);
    sabir.expect_error("/", "SendMessage", &json!(["", send_params("x")["message"], {}, null]), PARAMS);
    sabir.expect_error(
        "/",
        "SendMessage",
        &json!({"message": send_params("x")["message"], "configuration": [[], null, null, true]}),
        PARAMS,
    );
    sabir.expect_error("/", "ListTasks", &json!([]), PARAMS);
    sabir.expect_error("/", "GetTask", &json!(["", "x", 1]), PARAMS);
    sabir.still_serves();
}

#[test]
fn deep_nesting_is_refused_wherever_it_is() {
    let sabir = shared_server();
    // 64 levels are the limit of free-form values; the others must hold out against any number.
    for levels in [65, 1_000, 100_000] {
        check_field(&sabir, &with_data(&nested(levels)), "message.parts[0].data");
        let objects = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        check_field(&sabir, &with_data(&objects), "message.parts[0].data");
        let metadata = format!(r#"{{"metadata":{objects},"message":{}}}"#, send_params("x")["message"]);
        check_field(&sabir, &metadata, "metadata");
    }
    let deep = nested(100_000);
    check_rest(&sabir, format!(r#"{{"message":{deep}}}"#).as_bytes(), PARAMS);
    check_rest(
        &sabir,
        format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":{deep}}}}}"#).as_bytes(),
        PARAMS,
    );
    check(&sabir, deep.as_bytes(), INVALID_REQUEST, &Value::Null);
}

#[test]
fn nesting_within_the_limit_comes_back_as_it_was() {
    let sabir = shared_server();
    let params: Value = serde_json::from_str(&with_data(&nested(64))).unwrap();
    let task = sabir.send("/", &params);
    assert_eq!(task["artifacts"][0]["parts"][0]["data"].to_string(), nested(64));
}

#[test]
fn a_member_given_twice_is_refused() {
    let sabir = shared_server();
    let part =
        |members: &str| format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{{members}}}]}}}}"#);
    let message = |members: &str| {
        format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"x"}}],{members}}}}}"#)
    };
    check(&sabir, br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ListTasks"}"#, INVALID_REQUEST, &Value::Null);
    check(
        &sabir,
        br#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","method":"GetTask"}"#,
        INVALID_REQUEST,
        &Value::Null,
    );
    check(
        &sabir,
        br#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{},"params":{}}"#,
        INVALID_REQUEST,
        &Value::Null,
    );
    check_field(&sabir, &message(r#""messageId":"n""#), "message");
    check_field(&sabir, &message(r#""contextId":"a","contextId":"b""#), "message");
    // One member under the two names that readers take.
    check_field(&sabir, &message(r#""contextId":"a","context_id":"b""#), "message");
    check_field(&sabir, &message(r#""metadata":{"k":1,"k":2}"#), "message.metadata");
    check_field(&sabir, &message(r#""metadata":{"k":1,"\u006b":2}"#), "message.metadata");
    check_field(&sabir, &part(r#""text":"a","text":"b""#), "message.parts[0]");
    check_field(&sabir, &part(r#""data":{"a":{"k":1,"k":1}}"#), "message.parts[0].data");
    check_field(&sabir, &part(r#""text":"a","filename":"x","filename":"y""#), "message.parts[0]");
    check_field(&sabir, &part(r#""text":"a","mediaType":"text/plain","media_type":"image/png""#), "message.parts[0]");
    check_field(&sabir, &part(r#""text":"a","metadata":{"a":1},"metadata":{"b":1}"#), "message.parts[0]");
}

#[test]
fn a_body_over_the_limit_is_refused_by_its_declared_length() {
    let sabir = TestServer::start(&format!("[limits]\nbody_bytes_max = 10000\n{}", ECHO));
    for (path, code) in [("/", -32600), ("/message:send", 413)] {
        // Not a byte of the body is sent, and still there is an answer.
        for length in ["10001", "99999999999"] {
            let mut wire = HttpConnection::open(sabir.address);
            wire.write(&Request::post(path, "").with("Content-Length", length).head(sabir.address));
            let reply = wire.response();
            assert_eq!(reply.status, 413, "{}", reply.text());
            let problem =
                if path == "/" { ProtocolError::from_rpc(&reply.json()) } else { ProtocolError::from_rest(&reply) };
            assert_eq!(problem.code_and_reason(), (code, "INVALID_REQUEST"));
            assert!(reply.text().contains("10000 bytes"), "the limit is named: {}", reply.text());
        }
        let mut wire = HttpConnection::open(sabir.address);
        wire.write(&Request::post(path, "").with("Content-Length", "18446744073709551615").head(sabir.address));
        assert!([413, 431].contains(&wire.response().status), "more than anybody can count");
    }
    sabir.still_serves();
}

#[test]
fn a_body_that_grows_over_the_limit_is_refused_while_it_grows() {
    let sabir = TestServer::start(&format!("[limits]\nbody_bytes_max = 10000\n{}", ECHO));
    for path in ["/", "/message:send"] {
        let mut wire = HttpConnection::open(sabir.address);
        wire.write(&Request::post(path, "").with("Transfer-Encoding", "chunked").head(sabir.address));
        for _ in 0..11 {
            // The last chunks may come after the server has answered and closed.
            let _ = wire.try_write(format!("3e8\r\n{}\r\n", " ".repeat(1000)).as_bytes());
        }
        assert_eq!(wire.response().status, 413);
    }
    // Exactly the limit is within it.
    let text = send_params("").to_string();
    let padded = format!("{text}{}", " ".repeat(10_000 - text.len()));
    assert_eq!(sabir.ask(&Request::post("/message:send", padded)).status, 200);
    sabir.still_serves();
}

#[test]
fn a_content_length_that_makes_no_sense_is_a_bad_request() {
    let sabir = shared_server();
    for length in ["-1", "abc", "1.5", "99999999999999999999999", "0x10", ""] {
        let mut wire = HttpConnection::open(sabir.address);
        wire.write(&Request::post("/", "").with("Content-Length", length).head(sabir.address));
        wire.half_close();
        assert_eq!(wire.response().status, 400, "{length}");
    }
    sabir.still_serves();
}

#[test]
fn characters_that_need_care_come_back_as_they_were() {
    let sabir = shared_server();
    let text = "\u{0}\u{1b}[31m\r\n\t\"\\ \u{7f}\u{85}\u{2028} \u{1f680} \u{fffd} </script> data: x\n\nid: 9";
    let frames = sabir.stream("/", "SendStreamingMessage", &send_params(text)).rest();
    assert_eq!(frames.iter().find_map(|f| f.chunk()), Some(text));
    assert_eq!(sabir.send("/", &send_params(text))["artifacts"][0]["parts"][0]["text"], text);
}

const ECHO: &str = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true";
