//! A hyper HTTP/1 accept loop around a request function.
use bytes::Bytes;
use futures_util::Stream;
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

pub type BoxStream = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;
pub type Body = Either<Full<Bytes>, StreamBody<BoxStream>>;

pub fn json(b: impl Into<Bytes>) -> Response<Body> {
    let mut r = Response::new(Either::Left(Full::new(b.into())));
    r.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    r
}

pub fn sse(s: BoxStream) -> Response<Body> {
    let mut r = Response::new(Either::Right(StreamBody::new(s)));
    r.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    r
}

/// Frames that are already complete, delivered one body frame at a time.
pub fn frames(v: Vec<Vec<u8>>) -> BoxStream {
    Box::pin(futures_util::stream::iter(v.into_iter().map(|b| Ok(Frame::data(Bytes::from(b))))))
}

/// One frame and then silence, for the idle-stream memory test.
pub fn hold(first: Vec<u8>) -> BoxStream {
    use futures_util::StreamExt;
    Box::pin(futures_util::stream::iter([Ok(Frame::data(Bytes::from(first)))]).chain(futures_util::stream::pending()))
}

pub async fn body(req: Request<Incoming>) -> Bytes {
    req.into_body().collect().await.map(|c| c.to_bytes()).unwrap_or_default()
}

pub async fn run<F, Fut>(addr: String, f: F)
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    let l = tokio::net::TcpListener::bind(addr).await.unwrap();
    loop {
        let Ok((s, _)) = l.accept().await else { continue };
        let _ = s.set_nodelay(true);
        let f = f.clone();
        tokio::spawn(async move {
            let svc = hyper::service::service_fn(move |r| {
                let fut = f(r);
                async move { Ok::<_, Infallible>(fut.await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(hyper_util::rt::TokioIo::new(s), svc)
                .await;
        });
    }
}
