//! What a serving process needs from the system: open files, stop signals, and a log.

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

/// Raises the limit of open files to the maximum of this process, and returns that limit if there is one.
///
/// The usual soft limit exists for programs that cannot handle more. A server with that limit stops accepting after a
/// thousand connections in and out, whatever its own limits are. Commands of agents inherit the new limit.
pub fn raise_file_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, ?current, ?maximum, "the number of open files cannot be raised");
            current
        }
    }
}

/// Lets a write beyond the file size limit (`ulimit -f`, `LimitFSIZE=`) fail, as a write to a full disk does. Otherwise
/// the system would end the process with `SIGXFSZ` at any point. Commands of agents do not inherit this. Must be called
/// inside a Tokio runtime.
pub fn survive_file_size_limit() {
    // To register the handler is enough, and lasts for the life of the process; the listener is not needed.
    if let Err(error) = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())) {
        tracing::warn!(%error, "a limit of the size of files would end this process");
    }
}

/// Completes when this process receives Ctrl-C (`SIGINT`) or `SIGTERM`. From this call on, neither of them ends the
/// process by itself. Must be called inside a Tokio runtime.
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

/// Whether `SABIR_LOG_FORMAT` asks for one JSON object per line of the log.
pub fn is_json_log() -> bool {
    std::env::var("SABIR_LOG_FORMAT").is_ok_and(|format| format == "json")
}

/// Writes the log to the standard error stream. `SABIR_LOG` sets the filter, and `default_filter` applies without it. A
/// program with its own `tracing` subscriber keeps that.
#[cfg(feature = "logging")]
pub fn init_logging(default_filter: &str) {
    use std::io::IsTerminal;
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("SABIR_LOG").unwrap_or_else(|_| EnvFilter::new(default_filter));
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    // A full disk must cost lines of the log and not the process: reporting the error to the same stream would panic.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(!is_plain && std::io::stderr().is_terminal())
        .with_writer(|| LogWriter(std::io::stderr()))
        .log_internal_errors(false);
    // An error means that a subscriber exists already.
    drop(if is_json_log() { log.json().try_init() } else { log.try_init() });
}

/// The standard error stream with all secrets redacted. The subscriber writes whole lines, so no secret is split.
#[cfg(feature = "logging")]
struct LogWriter<W>(W);

#[cfg(feature = "logging")]
impl<W: std::io::Write> std::io::Write for LogWriter<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(sabir_gateway::redact::process_redactor().log_line(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "logging")]
    #[test]
    fn a_line_of_the_log_holds_no_secret() {
        use std::io::Write as _;
        sabir_gateway::redact::process_redactor().learn("a-secret-of-this-test");
        let mut written = Vec::new();
        LogWriter(&mut written).write_all(b"said \"a-secret-of-this-test\"\n").unwrap();
        assert_eq!(written, b"said \"[redacted]\"\n");
    }

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Lowered first, to the usual value, but not below what other tests have open.
        setrlimit(Resource::Nofile, Rlimit { current: Some(1024), maximum }).unwrap();
        assert_eq!(raise_file_limit(), maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
