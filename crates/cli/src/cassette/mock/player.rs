//! The player: answers requests from the index of a cassette, in the time they took.

use super::index::{CassetteIndex, NoMatch, RequestKey};
use crate::cassette::card::{rewritten_card, split_interface_path};
use crate::cassette::{RecordedExchange, StreamEnd};
use crate::output::Output;
use crate::render::Node;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use sabir_client::Binding;
use sabir_server::local_server::{BodyBroken, ChunkStream, LocalBody, LocalHandler};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Answers requests with recorded answers.
pub(super) struct Player {
    index: Arc<CassetteIndex>,
    card: String,
    fast: bool,
    out: Output,
}

impl Player {
    pub(super) fn new(index: CassetteIndex, base: &str, fast: bool, out: Output) -> Self {
        let card = rewritten_card(index.head.card.get(), &index.head.interfaces, base);
        Self { index: Arc::new(index), card, fast, out }
    }

    async fn play(self: Arc<Self>, request: Request<Bytes>) -> Response<LocalBody> {
        let begun = Instant::now();
        if matches!(request.uri().path(), "/.well-known/agent-card.json" | "/.well-known/agent.json") {
            return json_response(StatusCode::OK, self.card.clone());
        }
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let known = split_interface_path(&path).filter(|(interface, _)| self.index.head.interfaces.contains(interface));
        let Some((interface, rest)) = known else {
            let words = "there is nothing here; see /.well-known/agent-card.json";
            return json_response(
                StatusCode::NOT_FOUND,
                json!({ "error": { "code": 404, "message": words } }).to_string(),
            );
        };
        let binding = self.index.binding(interface);
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let id = (binding == Some(Binding::JsonRpc)).then(|| body["id"].clone());
        let key = RequestKey::of(interface, binding, request.method().as_str(), rest, &body);
        match self.index.answer(&key) {
            Ok(exchange) => self.clone().respond(exchange, id, begun).await,
            Err(missing) => self.refuse(&missing, id),
        }
    }

    async fn respond(
        self: Arc<Self>,
        exchange: &RecordedExchange,
        id: Option<Value>,
        begun: Instant,
    ) -> Response<LocalBody> {
        let told = &exchange.response;
        if !self.fast {
            sleep_until(begun + Duration::from_millis(told.after)).await;
        }
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(told.status).unwrap_or(StatusCode::OK);
        for (name, value) in &told.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        let Some(frames) = &told.frames else {
            return response.map(|()| LocalBody::Whole(with_request_id(told.body.as_str(), id.as_ref()).into()));
        };
        // Encoded beforehand: the stream must not borrow from the index.
        let written: Vec<(u64, Bytes)> = frames
            .iter()
            .map(|frame| {
                (
                    frame.at,
                    sse_event(
                        frame.id.as_deref(),
                        frame.event.as_deref(),
                        &with_request_id(frame.data.as_str(), id.as_ref()),
                    ),
                )
            })
            .collect();
        let broken = told.ended == Some(StreamEnd::Broken);
        let mut pieces: Vec<(u64, Result<Bytes, BodyBroken>)> =
            written.into_iter().map(|(at, frame)| (at, Ok(frame))).collect();
        if broken {
            pieces.push((pieces.last().map_or(0, |(at, _)| *at), Err(BodyBroken)));
        }
        response.map(|()| LocalBody::Chunks(timed_body(pieces, self.fast)))
    }

    fn refuse(&self, missing: &NoMatch, id: Option<Value>) -> Response<LocalBody> {
        let (NoMatch::Operation(words) | NoMatch::Nearest(words)) = missing;
        self.out.note(&format!("refused: {words}"));
        let words = format!("this is a mock: {words}");
        match (id, missing) {
            (Some(id), NoMatch::Operation(_)) => json_response(StatusCode::OK, rpc_error(&id, -32601, &words)),
            (Some(id), NoMatch::Nearest(_)) => json_response(StatusCode::OK, rpc_error(&id, -32602, &words)),
            (None, _) => {
                let error = json!({ "code": 400, "status": "INVALID_ARGUMENT", "message": words, "details": [] });
                json_response(StatusCode::BAD_REQUEST, json!({ "error": error }).to_string())
            }
        }
    }
}

impl LocalHandler for Player {
    fn handle(
        self: Arc<Self>,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Response<LocalBody>> + Send + 'static>> {
        Box::pin(self.play(request))
    }
}

/// A body in pieces, each sent when its time has come.
fn timed_body(pieces: Vec<(u64, Result<Bytes, BodyBroken>)>, fast: bool) -> ChunkStream {
    let begun = Instant::now();
    let timed = stream::iter(pieces).then(move |(at, piece)| async move {
        if !fast {
            sleep_until(begun + Duration::from_millis(at)).await;
        }
        piece
    });
    Box::pin(timed)
}

fn sse_event(id: Option<&str>, kind: Option<&str>, data: &str) -> Bytes {
    let mut text = String::new();
    for (name, value) in [("id", id), ("event", kind)] {
        if let Some(value) = value {
            text += &format!("{name}: {value}\n");
        }
    }
    data.split('\n').for_each(|line| text += &format!("data: {line}\n"));
    (text + "\n").into()
}

/// An answer with the id of the request that it answers now; everything else as it was.
fn with_request_id(text: &str, id: Option<&Value>) -> String {
    let Some(id) = id else { return text.to_owned() };
    let members = Node::new(text).members();
    if members.is_empty() {
        return text.to_owned();
    }
    let written = members.into_iter().map(|(name, value)| match name.as_str() {
        "id" => format!("\"id\":{id}"),
        _ => format!("{}:{}", Value::String(name), value.raw()),
    });
    format!("{{{}}}", written.collect::<Vec<_>>().join(","))
}

fn rpc_error(id: &Value, code: i32, words: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": words } }).to_string()
}

fn json_response(status: StatusCode, body: String) -> Response<LocalBody> {
    let mut response = Response::new(LocalBody::Whole(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_id_of_its_request_and_is_otherwise_as_it_was() {
        let text = r#"{"jsonrpc":"2.0","id":"old","result":{"id":"t","n":1.10,"b":12345678901234567890123}}"#;
        assert_eq!(with_request_id(text, Some(&json!(7))), text.replace("\"old\"", "7"));
        assert_eq!(with_request_id(text, None), text);
        assert_eq!(with_request_id("no json", Some(&json!(7))), "no json");
    }

    #[test]
    fn events_are_framed() {
        assert_eq!(sse_event(Some("3"), None, "{\"a\":1}"), "id: 3\ndata: {\"a\":1}\n\n");
        assert_eq!(sse_event(None, Some("x"), "a\nb"), "event: x\ndata: a\ndata: b\n\n");
    }
}
