//! Gathers the text that an agent streams into chunks of a sensible size.
//!
//! Each chunk is an event and a commit, and a model's token is a few bytes. So the first chunk leaves at once, because
//! that is what a person waits for, and later text waits a moment for more of it.

use crate::config::LimitsConfig;
use crate::config::agent::AgentLimits;
use sabir_engine::{Context, Failure};
use sabir_gateway::{EndpointResponse, Error};
use sabir_proto::{Artifact, ArtifactId, Object, Part};
use sabir_wire::sse::Frame;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Bytes after which the first chunk waits no longer, whatever its delay is.
const FIRST_CHUNK_BYTES_MAX: usize = 32 << 10;

/// How long text waits for more text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkLimits {
    /// The longest wait of the first chunk of an artifact, from the arrival of its text.
    pub(crate) first_delay: Duration,
    /// The longest wait of a later chunk, from the arrival of its text.
    pub(crate) delay: Duration,
    /// The size in bytes at which a later chunk waits no longer.
    pub(crate) bytes: usize,
}

impl ChunkLimits {
    /// The limits of one agent: its own settings, else those of the server.
    pub(crate) fn new(usual: &LimitsConfig, own: &AgentLimits) -> Self {
        let delay = Duration::from_millis(own.chunk_delay_ms.unwrap_or(usual.chunk_delay_ms));
        let bytes = own.chunk_bytes.unwrap_or(usual.chunk_bytes);
        Self { first_delay: Duration::ZERO, delay, bytes }
    }
}

/// The text of one artifact while it streams.
pub(super) struct TextChunks<'a> {
    cx: &'a Context,
    artifact: ArtifactId,
    limits: ChunkLimits,
    /// Text that was not reported yet.
    text: String,
    /// When that text has to be reported.
    due: Option<Instant>,
    /// A chunk was reported, so that later ones are appended to it.
    is_begun: bool,
    /// The last part that was reported is plain text, which an empty chunk extends by nothing.
    ends_in_text: bool,
}

impl<'a> TextChunks<'a> {
    pub(super) const fn new(cx: &'a Context, artifact: ArtifactId, limits: ChunkLimits) -> Self {
        Self { cx, artifact, limits, text: String::new(), due: None, is_begun: false, ends_in_text: true }
    }

    /// Whether there is text, reported or not.
    pub(super) const fn has_text(&self) -> bool {
        self.is_begun || !self.text.is_empty()
    }

    /// Adds text, and reports it where it does not have to wait.
    pub(super) async fn push(&mut self, text: &str) -> Result<(), Failure> {
        self.hold(text);
        if self.text.is_empty() {
            return Ok(());
        }
        let delay = if self.is_begun { self.limits.delay } else { self.limits.first_delay };
        let bytes_max = if self.is_begun { self.limits.bytes } else { FIRST_CHUNK_BYTES_MAX };
        let is_full = self.text.len() >= bytes_max;
        if is_full || delay.is_zero() {
            return self.flush().await;
        }
        self.due.get_or_insert_with(|| Instant::now() + delay);
        Ok(())
    }

    /// Adds text that waits for what follows: the caller knows that more is there already, or the end.
    pub(super) fn hold(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds parts. What is no plain text is reported at once, after the text before it.
    pub(super) async fn push_parts(&mut self, parts: Vec<Part>) -> Result<(), Failure> {
        if let [part] = &parts[..]
            && part.is_plain_text()
            && part.media_type.is_none()
            && let Some(text) = part.as_text()
        {
            return self.push(text).await;
        }
        self.flush().await?;
        self.report(parts, None, false).await
    }

    /// Waits until gathered text has to be reported; for ever while there is none. Cancel-safe.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the next frame of a stream. Text that has to be reported meanwhile is reported.
    pub(super) async fn next_frame(
        &mut self,
        answer: &mut EndpointResponse,
    ) -> Result<Result<Option<Frame>, Error>, Failure> {
        loop {
            tokio::select! {
                biased;
                () = self.due() => self.flush().await?,
                frame = answer.next_event() => return Ok(frame),
            }
        }
    }

    /// Reports the text that was gathered.
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        if self.text.is_empty() {
            return Ok(());
        }
        let text = std::mem::take(&mut self.text);
        self.report(vec![Part::text(text)], None, false).await
    }

    /// Reports the last of the text; an empty chunk where all of it was reported, so that readers learn of the end.
    pub(super) async fn finish(&mut self, metadata: Option<Object>) -> Result<(), Failure> {
        let adds_nothing = self.text.is_empty() && !self.ends_in_text && metadata.is_none();
        if !self.has_text() || adds_nothing {
            return Ok(());
        }
        let text = std::mem::take(&mut self.text);
        self.report(vec![Part::text(text)], metadata, true).await
    }

    async fn report(&mut self, parts: Vec<Part>, metadata: Option<Object>, is_last: bool) -> Result<(), Failure> {
        self.due = None;
        self.ends_in_text = parts.last().is_some_and(|part| part.is_plain_text() && part.media_type.is_none());
        let artifact = Artifact { metadata, ..Artifact::new(self.artifact.clone(), parts) };
        self.cx.chunk(artifact, self.is_begun, is_last).await?;
        self.is_begun = true;
        Ok(())
    }
}
