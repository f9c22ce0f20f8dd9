//! Sockets: accepting, limiting, and stopping in an orderly way.

use crate::app::App;
use crate::stack;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Accepts until `stop` completes, then lets what is running finish for a while.
pub(crate) async fn serve(app: Arc<App>, listener: TcpListener, stop: impl Future<Output = ()>, drain: Duration) {
    let slots = Arc::new(Semaphore::new(app.limits.connections_max));
    let builder = Arc::new(builder(&app));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        // A slot first: beyond the limit, connections wait in the kernel's queue instead of in our memory.
        let slot = tokio::select! {
            biased;
            () = &mut stop => break,
            slot = slots.clone().acquire_owned() => slot,
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely; a pause lets some of them close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Nagle's algorithm holds the second of two small writes back for 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it began");
            continue;
        }
        let (app, builder) = (app.clone(), builder.clone());
        let gauge = app.metrics.connection();
        let service = service_fn(move |request| {
            let app = app.clone();
            async move { Ok::<_, Infallible>(stack::serve(app, request).await) }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke off");
            }
            drop((gauge, slot));
        });
    }
    drop(listener);
    app.begin_stop();
    let finished = tokio::time::timeout(drain, graceful.shutdown()).await;
    if finished.is_err() {
        tracing::info!("some streams were still open after the time to drain; they can be taken up again");
    }
}

fn builder(app: &App) -> Builder<TokioExecutor> {
    let limits = &app.limits;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.header_seconds_max))
        .max_buf_size(limits.header_bytes_max.max(8192))
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams_max)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        // Dead peers are found within a minute, so that their streams do not stay.
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}
