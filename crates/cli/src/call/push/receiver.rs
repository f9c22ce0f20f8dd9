//! A small HTTP server that takes notifications and nothing else.
//!
//! A sender must know the token, which is compared in constant time. Requests that are not for the task, too large or
//! not JSON are refused, and a flood of requests waits: they are taken one at a time.

use crate::call::report;
use crate::http_listener::{RequestHandler, ResponseBody, constant_time_eq, empty_response, serve_sender};
use crate::problem::Stop;
use crate::render::Node;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use sabir_client::message_id;
use sabir_wire::{Dialect, Losses, read_push_payload, v1};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The largest notification, in bytes. A whole task with files inside it fits.
const BODY_BYTES_MAX: usize = 16 << 20;
/// The time that open connections get to finish when the receiver stops.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);
/// How many senders are listened to at once.
const SENDERS_MAX: usize = 32;
/// How many notifications wait to be printed.
const WAITING_MAX: usize = 64;
/// Where the token may stand: Python servers, Go servers.
const TOKEN_HEADERS: [&str; 2] = ["x-a2a-notification-token", "a2a-notification-token"];

/// The notifications that the receiver accepts.
#[derive(Clone)]
pub(super) struct NotificationRules {
    pub(super) token: String,
    /// The task that notifications must be about.
    pub(super) task: Option<String>,
}

/// A receiver that listens.
pub(super) struct NotificationReceiver {
    listener: TcpListener,
    address: SocketAddr,
    handler: RequestHandler,
    senders: JoinSet<()>,
    arrived: mpsc::Receiver<String>,
}

impl NotificationReceiver {
    pub(super) async fn bind(address: SocketAddr, rules: NotificationRules) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (sender, arrived) = mpsc::channel(WAITING_MAX);
        let rules = Arc::new(rules);
        let handler = move |request| Box::pin(answer(request, rules.clone(), sender.clone())) as BoxFuture<'static, _>;
        Ok(Self { listener, address, handler: Arc::new(handler), senders: JoinSet::new(), arrived })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the requests that are being answered.
    pub(super) async fn finish(mut self) {
        let answered = async { while self.senders.join_next().await.is_some() {} };
        _ = tokio::time::timeout(FINISH_TIMEOUT, answered).await;
    }

    /// The next accepted notification, as a stream event.
    pub(super) async fn next(&mut self) -> Result<String, Stop> {
        loop {
            tokio::select! {
                biased;
                Some(event) = self.arrived.recv() => return Ok(event),
                Some(_) = self.senders.join_next() => {}
                accepted = self.listener.accept(), if self.senders.len() < SENDERS_MAX => {
                    let Ok((stream, _)) = accepted else { continue };
                    self.senders.spawn(serve_sender(stream, self.handler.clone()));
                }
            }
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    rules: Arc<NotificationRules>,
    arrived: mpsc::Sender<String>,
) -> Response<ResponseBody> {
    let status = match read_notification(request, &rules).await {
        // A sender that comes too fast waits here until there is room.
        Ok(event) => match arrived.send(event).await {
            Ok(()) => StatusCode::NO_CONTENT,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE,
        },
        Err(status) => status,
    };
    let mut response = empty_response(status);
    // The command ends after the last answer, so no sender may keep its connection for another notification.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The notification in a request, or the status that refuses it.
async fn read_notification(request: Request<Incoming>, rules: &NotificationRules) -> Result<String, StatusCode> {
    if *request.method() != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !has_token(request.headers(), &rules.token) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST }
    })?;
    let text = String::from_utf8(body.to_bytes().to_vec()).map_err(|_| StatusCode::BAD_REQUEST)?;
    if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
        return Err(StatusCode::BAD_REQUEST);
    }
    let event = as_event(&text).ok_or(StatusCode::BAD_REQUEST)?;
    match (&rules.task, task_of(Node::new(&event))) {
        (Some(ours), Some(theirs)) if *ours == theirs => Ok(event),
        (None, _) => Ok(event),
        (Some(_), _) => Err(StatusCode::NOT_FOUND),
    }
}

/// Whether a request shows the token, in one of the places where servers put it.
fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let plain = TOKEN_HEADERS
        .iter()
        .filter_map(|name| headers.get(*name))
        .any(|value| constant_time_eq(value.as_bytes(), token.as_bytes()));
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        value.split_once(' ').is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case("bearer") && constant_time_eq(given.trim().as_bytes(), token.as_bytes())
        })
    });
    plain || bearer
}

/// A notification as a stream event of 1.0. Servers of older versions post what they have, which is mostly the task.
fn as_event(text: &str) -> Option<String> {
    let value = Node::new(text);
    let known = ["task", "message", "statusUpdate", "artifactUpdate"];
    let names: Vec<String> = value.members().into_iter().map(|(name, _)| name).collect();
    if names.iter().any(|name| known.contains(&name.as_str())) {
        return Some(text.to_owned());
    }
    if names.iter().any(|name| name == "id") && report::state_of(value).starts_with("TASK_STATE_") {
        return Some(format!(r#"{{"task":{text}}}"#));
    }
    let read = |dialect| read_push_payload(dialect, text, &mut message_id, &mut Losses::new()).ok();
    let older = Dialect::DISTINCT_VERSIONS.into_iter().filter(|dialect| !dialect.features().canonical_json);
    let event = older.into_iter().find_map(read)?;
    let mut out = Vec::new();
    v1::json::write_event(&event, &mut out);
    String::from_utf8(out).ok()
}

/// The task that an event is about.
fn task_of(event: Node<'_>) -> Option<String> {
    let of = |holder: &str, member: &str| event.get(holder).and_then(|holder| holder.word(member));
    of("task", "id")
        .or_else(|| of("statusUpdate", "taskId"))
        .or_else(|| of("artifactUpdate", "taskId"))
        .or_else(|| of("message", "taskId"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_looked_for_where_servers_put_it() {
        let check = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            has_token(&headers, "the-token")
        };
        assert!(check("x-a2a-notification-token", "the-token"));
        assert!(check("a2a-notification-token", "the-token"));
        assert!(check("authorization", "bearer the-token"));
        assert!(!check("authorization", "Basic the-token"));
        assert!(!check("x-a2a-notification-token", "the-token2"));
        assert!(!check("x-a2a-notification-token", "the-tokem"));
        assert!(!check("x-other", "the-token"));
    }

    #[test]
    fn a_notification_is_an_event_or_a_bare_task() {
        let status = r#"{"statusUpdate":{"taskId":"t"}}"#;
        assert_eq!(as_event(status).as_deref(), Some(status));
        assert_eq!(task_of(Node::new(status)).as_deref(), Some("t"));
        let bare = as_event(r#"{"id":"t","status":{"state":"TASK_STATE_WORKING"}}"#).unwrap();
        assert_eq!(task_of(Node::new(&bare)).as_deref(), Some("t"));
        let old = r#"{"kind":"task","id":"t","contextId":"c","status":{"state":"completed"}}"#;
        let old = as_event(old).unwrap();
        assert!(old.contains("TASK_STATE_COMPLETED"), "{old}");
        assert_eq!(task_of(Node::new(&old)).as_deref(), Some("t"));
        assert_eq!(as_event("[]"), None);
        assert_eq!(as_event(r#"{"hello":1}"#), None);
    }
}
