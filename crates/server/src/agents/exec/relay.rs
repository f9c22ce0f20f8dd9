//! Relays the output of a running command to the caller, in a defined order.
//!
//! Standard output and descriptor 3 are two pipes, and no one can tell which of two simultaneous lines came first. Text
//! that was printed before an event was read goes out before that event; more is not promised. A caller that reads
//! slowly slows the command down: no pipe is read while the engine takes no more reports.
//!
//! Three phases: the command runs; the command has exited, and the processes that it left are ended; all processes are
//! gone, and the pipes are emptied. A process that left the group may hold a pipe open for ever, so the last phase has
//! a time limit.

use super::events::{self, CommandEvent, CommandNeed, STDOUT};
use super::group::{Pipes, ProcessGroup};
use super::text::{self, Tail};
use crate::agents::chunks::{ChunkLimits, TextChunks};
use sabir_engine::{Context, Failure};
use sabir_gateway::redact;
use sabir_proto::ArtifactId;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::sleep;

/// Bytes of one event. A larger artifact belongs in a file.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line of standard error in the log.
const LOG_BYTES_MAX: usize = 4 << 10;
/// Bytes that one read asks for.
const READ_BYTES: usize = 16 << 10;
/// How long a pipe may be silent after all processes are gone; then it counts as ended.
const SILENCE_MAX: Duration = Duration::from_millis(200);
/// Bytes read after all processes are gone. A pipe holds at most 1 MiB; more comes from a process that left the group.
const LATE_BYTES_MAX: usize = 4 << 20;

/// The result of a command that has ended.
#[derive(Debug)]
pub(super) struct CommandOutcome {
    pub(super) status: ExitStatus,
    pub(super) need: Option<CommandNeed>,
    /// The last line it printed.
    pub(super) last_line: String,
    /// The end of its standard error.
    pub(super) stderr: String,
}

/// Relays all output until the command and the processes it started are gone.
pub(super) async fn relay(
    cx: &Context,
    group: &mut ProcessGroup,
    pipes: Pipes,
    limits: ChunkLimits,
) -> Result<CommandOutcome, Failure> {
    let stdout = ArtifactId::parse(STDOUT).expect("a plain word is a legal id");
    let mut relay = Relay {
        cx,
        chunks: TextChunks::new(cx, stdout, limits),
        stdout: Pipe::new(pipes.stdout),
        stderr: Pipe::new(pipes.stderr),
        events: Pipe::new(pipes.events),
        need: None,
        stdout_ended: false,
        stdout_tail: Tail::default(),
        stderr_tail: Tail::default(),
    };
    let outcome = relay.run(group).await;
    if outcome.is_err() {
        // The caller gets what was printed before the turn failed. The call fails if the task has ended, which is
        // harmless.
        drop(relay.chunks.flush().await);
        group.end_and_wait().await;
    }
    let (asked, printed, stderr) = (relay.need, relay.stdout_tail.text(), relay.stderr_tail.text());
    let clean = |said: &str| redact::process_redactor().agent_text(said).into_owned();
    let (stderr, last_line) = (clean(&stderr), clean(text::last_line(&printed).unwrap_or_default()));
    outcome.map(|status| CommandOutcome { status, need: asked, last_line, stderr })
}

struct Relay<'a> {
    cx: &'a Context,
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    events: Pipe<pipe::Receiver>,
    chunks: TextChunks<'a>,
    need: Option<CommandNeed>,
    /// The end of standard output was reached and reported.
    stdout_ended: bool,
    /// The end of its standard output.
    stdout_tail: Tail,
    stderr_tail: Tail,
}

/// The progress of a command.
#[derive(Clone, Copy)]
enum Phase {
    Running,
    Ending(ExitStatus),
    Emptying(ExitStatus),
    Silent(ExitStatus),
}

impl Relay<'_> {
    async fn run(&mut self, group: &mut ProcessGroup) -> Result<ExitStatus, Failure> {
        let mut phase = Phase::Running;
        let mut late = 0;
        loop {
            let ended = match phase {
                Phase::Running | Phase::Ending(_) => None,
                Phase::Emptying(status) => (!self.is_open() || late > LATE_BYTES_MAX).then_some(status),
                Phase::Silent(status) => Some(status),
            };
            if let Some(status) = ended {
                self.finish().await?;
                return Ok(status);
            }
            // In this order: the end of a command is noticed however much its children print, an event goes before the
            // text if both are there, and gathered text is reported in time however much follows.
            let read = tokio::select! {
                biased;
                next = advance(phase, group) => { phase = next?; 0 }
                read = self.events.fill(EVENT_BYTES_MAX) => { self.read_events(read).await?; read }
                () = self.chunks.due() => { self.chunks.flush().await?; 0 }
                read = self.stdout.fill(READ_BYTES) => { self.read_stdout(read).await?; read }
                read = self.stderr.fill(LOG_BYTES_MAX) => { self.read_stderr(read); read }
            };
            if let Phase::Emptying(_) = phase {
                late += read;
            }
        }
    }

    const fn is_open(&self) -> bool {
        self.stdout.is_open() || self.stderr.is_open() || self.events.is_open()
    }

    /// Handles the rest where a pipe was not read to its end.
    async fn finish(&mut self) -> Result<(), Failure> {
        self.read_events(0).await?;
        self.read_stdout(0).await?;
        self.read_stderr(0);
        Ok(())
    }

    /// Handles bytes read from descriptor 3; zero is the end.
    async fn read_events(&mut self, read: usize) -> Result<(), Failure> {
        let buffer = &mut self.events.buffer;
        let ready = match buffer.iter().rposition(|b| *b == b'\n') {
            _ if read == 0 => buffer.len(),
            Some(at) => at + 1,
            None if buffer.len() >= EVENT_BYTES_MAX => {
                let problem = format!("it has more than {EVENT_BYTES_MAX} bytes; put large things into $A2A_OUT_DIR");
                return Err(Failure(events::refused(buffer, &problem)));
            }
            None => 0,
        };
        let lines: Vec<u8> = buffer.drain(..ready).collect();
        for line in lines.split(|b| *b == b'\n') {
            self.handle_event(line).await?;
        }
        Ok(())
    }

    async fn handle_event(&mut self, line: &[u8]) -> Result<(), Failure> {
        let Some(event) = events::read_event(line).map_err(Failure)? else { return Ok(()) };
        self.chunks.flush().await?;
        match event {
            CommandEvent::Status(text) => self.cx.status(text).await?,
            CommandEvent::Artifact { artifact, append, last_chunk } => {
                self.cx.chunk(artifact, append, last_chunk).await?
            }
            CommandEvent::Ask(ask) => self.need = Some(ask),
        }
        Ok(())
    }

    /// Handles bytes read from standard output; zero is the end. An incomplete character waits for its other bytes.
    async fn read_stdout(&mut self, read: usize) -> Result<(), Failure> {
        let buffer = &mut self.stdout.buffer;
        let ready = buffer.len() - if read == 0 { 0 } else { text::incomplete_char_bytes(buffer) };
        let bytes: Vec<u8> = buffer.drain(..ready).collect();
        self.stdout_tail.push(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        if read > 0 {
            return self.chunks.push(&text).await;
        }
        if !self.stdout_ended {
            self.stdout_ended = true;
            self.chunks.hold(&text);
            self.chunks.finish(None).await?;
        }
        Ok(())
    }

    /// Handles bytes read from standard error.
    fn read_stderr(&mut self, read: usize) {
        let buffer = &mut self.stderr.buffer;
        self.stderr_tail.push(&buffer[buffer.len() - read..]);
        let ready = match buffer.iter().rposition(|b| *b == b'\n') {
            Some(at) => at + 1,
            None if read == 0 || buffer.len() >= LOG_BYTES_MAX => buffer.len(),
            None => 0,
        };
        let bytes: Vec<u8> = buffer.drain(..ready).collect();
        for line in text::printable(&bytes).lines() {
            tracing::debug!(task = %self.cx.task_id(), line, "stderr of a command");
        }
    }
}

/// Waits for the next phase. Cancel-safe; a cancel begins a silence anew.
async fn advance(phase: Phase, group: &mut ProcessGroup) -> Result<Phase, Failure> {
    match phase {
        Phase::Running => Ok(Phase::Ending(group.wait_for_exit().await?)),
        Phase::Ending(status) => {
            group.end_and_wait().await;
            Ok(Phase::Emptying(status))
        }
        Phase::Emptying(status) | Phase::Silent(status) => {
            sleep(SILENCE_MAX).await;
            Ok(Phase::Silent(status))
        }
    }
}

/// One end of a pipe, with the bytes that were read and not handled yet.
struct Pipe<R> {
    source: Option<R>,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    const fn new(source: R) -> Self {
        Self { source: Some(source), buffer: Vec::new() }
    }

    const fn is_open(&self) -> bool {
        self.source.is_some()
    }

    /// Waits for more, up to `bytes_max` bytes in the buffer. Returns the number of new bytes: zero once, at the end.
    /// Cancel-safe.
    async fn fill(&mut self, bytes_max: usize) -> usize {
        let Some(source) = &mut self.source else { return std::future::pending().await };
        let wanted = bytes_max.saturating_sub(self.buffer.len()).clamp(1, READ_BYTES);
        self.buffer.reserve(wanted);
        match source.take(wanted as u64).read_buf(&mut self.buffer).await {
            Ok(read) if read > 0 => read,
            // A pipe that cannot be read counts as ended.
            Ok(_) | Err(_) => {
                self.source = None;
                0
            }
        }
    }
}
