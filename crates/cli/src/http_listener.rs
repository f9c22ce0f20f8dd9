//! A small HTTP listener, with which `sabir mcp`, `sabir task push-config listen` and `sabir doctor` answer requests.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How long a sender of notifications may take for the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a sender of notifications may take for everything.
const SENDER_TIME_MAX: Duration = Duration::from_secs(60);

pub(crate) type ResponseBody = BoxBody<Bytes, Infallible>;

/// Answers one request.
pub(crate) type RequestHandler =
    Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<ResponseBody>> + Send + Sync>;

/// Answers the requests of each connection until this is dropped.
pub(crate) async fn serve(listener: TcpListener, connections_max: usize, handler: RequestHandler) {
    let mut open = JoinSet::new();
    loop {
        while open.len() >= connections_max {
            open.join_next().await;
        }
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors; some come back when a connection ends.
            open.join_next().await;
            continue;
        };
        open.spawn(serve_connection(stream, handler.clone()));
    }
}

async fn serve_connection(stream: TcpStream, handler: RequestHandler) {
    // A client that breaks off is no fault of the server.
    _ = Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service_fn(|request| answer(&handler, request)))
        .await;
}

/// Answers the requests of one sender of notifications, who has a limited time.
pub(crate) async fn serve_sender(stream: TcpStream, handler: RequestHandler) {
    let mut server = Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let connection = server.serve_connection(TokioIo::new(stream), service_fn(|request| answer(&handler, request)));
    // A failed connection of an unknown sender is not reported.
    _ = tokio::time::timeout(SENDER_TIME_MAX, connection).await;
}

fn answer(
    handler: &RequestHandler,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<ResponseBody>, Infallible>> + Send + 'static + use<> {
    let response = handler(request);
    async move { Ok(response.await) }
}

/// A response without a body.
pub(crate) fn empty_response(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(Empty::new().boxed());
    *response.status_mut() = status;
    response
}

/// Compares in a time that tells nothing about where two texts differ.
pub(crate) fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |differs, (l, r)| differs | (l ^ r)) == 0
}
