//! Helpers for a program that serves agents: logging, and a signal to stop.

/// Completes when this process receives Ctrl-C (`SIGINT`) or `SIGTERM`. From this call on, neither of them ends the
/// process by itself. Must be called inside a Tokio runtime.
///
/// [`Service::serve`](crate::Service::serve) does this for you; the function is for programs that call
/// [`Server::run`](crate::Server::run) themselves.
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
    sabir_server::stop_signal()
}

/// Writes the log to the standard error stream, as `sabir serve` does.
///
/// `SABIR_LOG` sets the filter, for example `debug` or `warn,sabir_engine=debug`; the default is `info`.
/// `SABIR_LOG_FORMAT=json` writes one JSON object per line. A program that has a `tracing` subscriber already keeps it:
/// this function then does nothing.
#[cfg(feature = "logging")]
pub fn init_logging() {
    sabir_server::init_logging("info");
}
