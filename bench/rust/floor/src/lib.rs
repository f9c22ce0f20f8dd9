//! Shared pieces of the reference ("floor") servers.
//!
//! These are not A2A servers: they do the least work that a correct one cannot
//! avoid, so that every peer can be read as a fraction of the possible.
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

pub const CARD: &str = r#"{"name":"floor","description":"reference server","version":"1.0.0","supportedInterfaces":[{"url":"http://127.0.0.1/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;

#[derive(Deserialize)]
pub struct Rpc<'a, P> {
    #[serde(borrow)]
    pub jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    pub id: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    pub params: P,
}

/// First pass: the envelope, with the parameters left as a slice of the input.
pub type Envelope<'a> = Rpc<'a, &'a serde_json::value::RawValue>;

#[derive(Deserialize, Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

#[derive(Deserialize, Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub message_id: String,
    pub role: String,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    #[serde(default)]
    pub return_immediately: bool,
}

#[derive(Deserialize)]
pub struct SendParams {
    pub message: Message,
    #[serde(default)]
    pub configuration: Config,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdParams<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
}

#[derive(Serialize, Clone)]
pub struct Status<'a> {
    pub state: &'a str,
    pub timestamp: String,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub artifact_id: String,
    pub parts: Vec<Part>,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub context_id: String,
    pub status: Status<'static>,
    pub artifacts: Vec<Artifact>,
    pub history: Vec<Message>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate<'a> {
    pub task_id: &'a str,
    pub context_id: &'a str,
    pub status: Status<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate<'a> {
    pub task_id: &'a str,
    pub context_id: &'a str,
    pub artifact: &'a Artifact,
    pub append: bool,
    pub last_chunk: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Payload<'a> {
    Task(&'a Task),
    StatusUpdate(StatusUpdate<'a>),
    ArtifactUpdate(ArtifactUpdate<'a>),
}

#[derive(Serialize)]
pub struct Reply<'a, R> {
    pub jsonrpc: &'static str,
    pub id: Option<&'a serde_json::value::RawValue>,
    pub result: R,
}

/// RFC 3339 with milliseconds, from the civil-date arithmetic rather than a
/// formatting crate, so that time stamping costs next to nothing.
pub fn now() -> String {
    let d = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (s, ms) = (d.as_secs() as i64, d.subsec_millis());
    let days = s.div_euclid(86400);
    let sod = s.rem_euclid(86400);
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let mut b = *b"0000-00-00T00:00:00.000Z";
    let mut put = |at: usize, len: usize, mut v: i64| {
        for i in (at..at + len).rev() {
            b[i] = b'0' + (v % 10) as u8;
            v /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, sod / 3600);
    put(14, 2, sod / 60 % 60);
    put(17, 2, sod % 60);
    put(20, 3, i64::from(ms));
    String::from_utf8(b.to_vec()).unwrap()
}

pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// The finished task an echo agent produces for one message.
pub fn echo_task(mut m: Message) -> Task {
    let id = new_id();
    let context_id = m.context_id.clone().unwrap_or_else(new_id);
    m.task_id = Some(id.clone());
    m.context_id = Some(context_id.clone());
    let parts = m.parts.clone();
    Task {
        id,
        context_id,
        status: Status { state: "TASK_STATE_COMPLETED", timestamp: now() },
        artifacts: vec![Artifact { artifact_id: "echo".into(), parts }],
        history: vec![m],
    }
}

pub fn text_of(m: &Message) -> &str {
    m.parts.first().and_then(|p| p.text.as_deref()).unwrap_or("")
}

/// Writes one SSE frame holding a JSON-RPC reply.
pub fn sse_frame(buf: &mut Vec<u8>, id: Option<&serde_json::value::RawValue>, p: Payload<'_>) {
    buf.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut *buf, &Reply { jsonrpc: "2.0", id, result: p }).unwrap();
    buf.extend_from_slice(b"\n\n");
}

/// The twelve frames of the streaming workload: one status, ten artifact
/// chunks, one final status.
pub fn stream_frames(id: Option<&serde_json::value::RawValue>, m: &Message) -> Vec<Vec<u8>> {
    let (tid, cid, text) = (new_id(), new_id(), text_of(m));
    let mut out = Vec::with_capacity(12);
    let mut frame = |p: Payload<'_>| {
        let mut b = Vec::with_capacity(384);
        sse_frame(&mut b, id, p);
        out.push(b);
    };
    let st = |s| Status { state: s, timestamp: now() };
    frame(Payload::StatusUpdate(StatusUpdate { task_id: &tid, context_id: &cid, status: st("TASK_STATE_WORKING") }));
    for i in 0..10 {
        let a = Artifact {
            artifact_id: "echo".into(),
            parts: vec![Part { text: Some(format!("chunk {i} of {text}")), media_type: None }],
        };
        frame(Payload::ArtifactUpdate(ArtifactUpdate {
            task_id: &tid,
            context_id: &cid,
            artifact: &a,
            append: i > 0,
            last_chunk: i == 9,
        }));
    }
    frame(Payload::StatusUpdate(StatusUpdate { task_id: &tid, context_id: &cid, status: st("TASK_STATE_COMPLETED") }));
    out
}

pub mod serve;
