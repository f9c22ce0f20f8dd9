//! What a program that serves needs besides its agents: a log, and an orderly end.

use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Completes when this process receives Ctrl-C (`SIGINT`) or `SIGTERM`. From this call on, neither of them ends the
/// process by itself. Must be called inside a Tokio runtime.
///
/// [`Service::serve`](crate::Service::serve) does this for you; the function is for programs that call
/// [`Server::run`](crate::Server::run) themselves.
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    })
}

/// Writes the log to the standard error stream, as `sabir serve` does.
///
/// `SABIR_LOG` sets the filter, for example `debug` or `warn,sabir_engine=debug`; the default is `info`.
/// `SABIR_LOG_FORMAT=json` writes one JSON object per line. A program that has a `tracing` subscriber already keeps it:
/// this function then does nothing.
#[cfg(feature = "logging")]
pub fn init_logging() {
    use std::io::IsTerminal;
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("SABIR_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A full disk must cost lines of the log, not the process.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let started = if std::env::var("SABIR_LOG_FORMAT").is_ok_and(|format| format == "json") {
        log.json().try_init()
    } else {
        log.try_init()
    };
    // The error says that there is a subscriber already, which the documentation promises to keep.
    drop(started);
}
