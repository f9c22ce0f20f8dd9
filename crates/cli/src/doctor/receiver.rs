//! A webhook on this machine: listens, keeps the headers of the requests, and answers each with 200.

use crate::http_listener::{RequestHandler, ResponseBody, empty_response, serve_sender};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use sabir_client::message_id;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How much of a body is read, in bytes; what matters stands in the headers.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How many requests are remembered.
const REMEMBERED_MAX: usize = 64;

/// Listens until it is dropped.
pub(super) struct WebhookReceiver {
    address: SocketAddr,
    path: String,
    arrived: Arc<Mutex<Vec<HeaderMap>>>,
    /// The listening task and its readers, which end when this is dropped.
    _listening: JoinSet<()>,
}

impl WebhookReceiver {
    /// Listens at a free port and a random path.
    pub(super) async fn open() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let path = format!("/{}", message_id());
        let arrived: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
        let (wanted, deliveries) = (path.clone(), Arc::clone(&arrived));
        let handler =
            move |request| Box::pin(receive(request, wanted.clone(), Arc::clone(&deliveries))) as BoxFuture<'static, _>;
        let mut listening = JoinSet::new();
        listening.spawn(listen(listener, Arc::new(handler)));
        Ok(Self { address, path, arrived, _listening: listening })
    }

    /// The URL of the webhook.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// The headers of the first delivery, if there was one.
    pub(super) fn first_delivery(&self) -> Option<HeaderMap> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }
}

async fn listen(listener: TcpListener, handler: RequestHandler) {
    let mut senders = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        senders.spawn(serve_sender(stream, handler.clone()));
        while senders.try_join_next().is_some() {}
    }
}

/// Remembers a delivery. A sender that hangs up has delivered nothing.
async fn receive(
    request: Request<Incoming>,
    wanted: String,
    arrived: Arc<Mutex<Vec<HeaderMap>>>,
) -> Response<ResponseBody> {
    let (head, body) = request.into_parts();
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Err(error) if !error.is::<LengthLimitError>() => return empty_response(StatusCode::BAD_REQUEST),
        _ => {}
    }
    let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
    if head.method == Method::POST && head.uri.path() == wanted && arrived.len() < REMEMBERED_MAX {
        arrived.push(head.headers);
    }
    let mut response = empty_response(StatusCode::OK);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn a_delivery_is_remembered_and_others_are_not() {
        let receiver = WebhookReceiver::open().await.unwrap();
        for path in ["/elsewhere", &receiver.path] {
            let mut stream = TcpStream::connect(receiver.address).await.unwrap();
            let request = format!("POST {path} HTTP/1.1\r\nX-Token: t\r\nContent-Length: 2\r\n\r\n{{}}");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let head = receiver.first_delivery().unwrap();
        assert_eq!(head.get("x-token").unwrap(), "t");
        assert!(head.get("x-other").is_none());
        assert_eq!(receiver.arrived.lock().unwrap().len(), 1);
    }
}
