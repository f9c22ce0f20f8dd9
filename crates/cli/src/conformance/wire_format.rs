//! What the two HTTP bindings look like on the wire: media types, envelopes, error objects.

use super::operations::get_unknown_task;
use super::report::ConformanceReport;
use http::HeaderValue;
use sabir_client::{ANSWER_BYTES_MAX, Agent, Binding, RequestPreview};
use sabir_proto::{Call, ListTasks};
use serde_json::Value;

/// A version that no agent speaks.
const NO_VERSION: &str = "99.0";
const DOMAIN: &str = "a2a-protocol.org";

/// An answer, as far as it can be read.
struct WireAnswer {
    status: u16,
    media_type: String,
    json: Value,
}

pub(super) async fn check(agent: &Agent, report: &mut ConformanceReport<'_>) {
    match agent.binding() {
        Binding::JsonRpc => json_rpc(agent, report).await,
        Binding::HttpJson => http_json(agent, report).await,
        Binding::Grpc => report.skip("VER-SERVER-002", "it is not looked at over gRPC"),
        Binding::Envelope => report.skip("VER-SERVER-002", "envelopes have a version of their own"),
    }
}

/// Sends a call with a change.
async fn answer(agent: &Agent, call: Call, change: impl FnOnce(&mut RequestPreview)) -> Result<WireAnswer, String> {
    let mut written = agent.preview(call).map_err(|error| error.to_string())?;
    change(&mut written);
    let answer = agent.send_raw(written).await.map_err(|error| error.to_string())?;
    let (status, media_type) = (answer.status.as_u16(), answer.media_type());
    let body = answer.body(ANSWER_BYTES_MAX).await.map_err(|error| error.to_string())?;
    Ok(WireAnswer { status, media_type, json: serde_json::from_slice(&body).unwrap_or_default() })
}

fn set_unknown_version(written: &mut RequestPreview) {
    written.headers.insert("a2a-version", HeaderValue::from_static(NO_VERSION));
}

async fn json_rpc(agent: &Agent, report: &mut ConformanceReport<'_>) {
    let mut id = Value::Null;
    let refused = answer(agent, get_unknown_task(), |written| {
        let body = written.body.as_deref().and_then(|body| serde_json::from_str::<Value>(body).ok());
        id = body.map(|body| body["id"].clone()).unwrap_or_default();
    });
    match refused.await {
        Err(reason) => report.record("JSONRPC-ERR-001", Err(reason)),
        Ok(answer) => {
            report.record("JSONRPC-FMT-002", expect_equal(&answer.media_type, "application/json"));
            report.record("JSONRPC-ERR-001", error_object(&answer));
            report.record(
                "SABIR-JSONRPC-001",
                if answer.json["id"] == id { Ok(()) } else { Err(other_id(&answer, &id)) },
            );
            if let Some(code) = answer.json["error"]["code"].as_i64() {
                let in_range = (-32099..=-32001).contains(&code);
                report.record("JSONRPC-ERR-002", if in_range { Ok(()) } else { Err(format!("the code is {code}")) });
                report.record("JSONRPC-SSE-002", code_is(&answer, -32001));
            }
        }
    }
    let version =
        answer(agent, get_unknown_task(), set_unknown_version).await.and_then(|answer| code_is(&answer, -32009));
    report.record("VER-SERVER-002", version);
    let method = answer(agent, get_unknown_task(), |written| {
        written.body = written.body.take().map(|body| body.replace("\"GetTask\"", "\"NoSuchMethod\""));
    });
    report.record("SABIR-JSONRPC-002", method.await.and_then(|answer| code_is(&answer, -32601)));
    let garbage = answer(agent, get_unknown_task(), |written| written.body = Some("{\"jsonrpc\":".into()));
    report.record("SABIR-JSONRPC-003", garbage.await.and_then(|answer| code_is(&answer, -32700)));
}

async fn http_json(agent: &Agent, report: &mut ConformanceReport<'_>) {
    match answer(agent, get_unknown_task(), |_| {}).await {
        Err(reason) => report.record("HTTP_JSON-ERR-001", Err(reason)),
        Ok(answer) => {
            let status = if answer.status == 404 { Ok(()) } else { Err(format!("the status is {}", answer.status)) };
            report.record("HTTP_JSON-STATUS-001", status);
            report.record("HTTP_JSON-ERR-001", aip_193(&answer));
            report.record("HTTP_JSON-ERR-002", error_info(&answer, "TASK_NOT_FOUND"));
        }
    }
    let version = answer(agent, get_unknown_task(), set_unknown_version).await;
    report.record("VER-SERVER-002", version.and_then(|answer| error_info(&answer, "VERSION_NOT_SUPPORTED")));
    match answer(agent, Call::List(ListTasks::default()), |_| {}).await {
        Ok(answer) if answer.status == 200 => {
            report.record("HTTP_JSON-SVC-001", expect_equal(&answer.media_type, "application/a2a+json"));
        }
        Ok(answer) => report.skip("HTTP_JSON-SVC-001", &format!("ListTasks is HTTP {}", answer.status)),
        Err(reason) => report.skip("HTTP_JSON-SVC-001", &reason),
    }
}

fn expect_equal(found: &str, expected: &str) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("it is {found:?}")) }
}

fn other_id(answer: &WireAnswer, id: &Value) -> String {
    format!("the id is {} and was {id}", answer.json["id"])
}

fn error_object(answer: &WireAnswer) -> Result<(), String> {
    let error = &answer.json["error"];
    let sound = answer.json["jsonrpc"] == "2.0" && error["code"].is_i64() && error["message"].is_string();
    if sound { Ok(()) } else { Err(format!("HTTP {} with {}", answer.status, excerpt(&answer.json))) }
}

fn code_is(answer: &WireAnswer, expected: i64) -> Result<(), String> {
    match answer.json["error"]["code"].as_i64() {
        Some(code) if code == expected => Ok(()),
        Some(code) => Err(format!("the code is {code}")),
        None => Err(format!("HTTP {} with {}", answer.status, excerpt(&answer.json))),
    }
}

fn aip_193(answer: &WireAnswer) -> Result<(), String> {
    let error = &answer.json["error"];
    let sound = error["code"].is_i64() && error["status"].is_string() && error["message"].is_string();
    if sound { Ok(()) } else { Err(format!("HTTP {} with {}", answer.status, excerpt(&answer.json))) }
}

fn error_info(answer: &WireAnswer, reason: &str) -> Result<(), String> {
    let details = answer.json["error"]["details"].as_array().cloned().unwrap_or_default();
    let info = details.iter().find(|detail| detail["reason"].is_string());
    match info {
        Some(info) if info["reason"] == reason && info["domain"] == DOMAIN => Ok(()),
        Some(info) => Err(format!("it says {} of {}", info["reason"], info["domain"])),
        None => Err(format!("HTTP {} with {}", answer.status, excerpt(&answer.json))),
    }
}

fn excerpt(json: &Value) -> String {
    match json {
        Value::Null => "no JSON".to_owned(),
        json => json.to_string().chars().take(160).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(json: Value) -> WireAnswer {
        WireAnswer { status: 404, media_type: "application/json".into(), json }
    }

    #[test]
    fn error_objects_are_judged_by_their_form() {
        let good = json!({"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}});
        assert_eq!(error_object(&answer(good.clone())), Ok(()));
        assert_eq!(code_is(&answer(good), -32001), Ok(()));
        for bad in [json!(null), json!({"error":{"code":-32001,"message":"no"}}), json!({"jsonrpc":"2.0","error":{}})] {
            assert!(error_object(&answer(bad.clone())).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_of_http_says_why_and_in_whose_words() {
        let good = json!({"error":{"code":404,"status":"NOT_FOUND","message":"no","details":[
            {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":DOMAIN}]}});
        assert_eq!(aip_193(&answer(good.clone())), Ok(()));
        assert_eq!(error_info(&answer(good.clone()), "TASK_NOT_FOUND"), Ok(()));
        assert!(error_info(&answer(good), "VERSION_NOT_SUPPORTED").is_err());
        assert!(aip_193(&answer(json!({"detail":"Not Found"}))).is_err());
    }
}
