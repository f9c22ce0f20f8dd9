//! HTTP/2 streams whose peer accepts no data: they are reset, and the other streams of the connection go on.
//!
//! A peer gives each stream a window and may leave it at zero, or open it by a byte now and then; pings and settings go
//! on meanwhile, so the connection looks healthy. So each stream has its own timeout: while it has data that exceeds
//! the peer's window, [`PROGRESS_BYTES_MIN`] must leave within each `write_seconds_max`. The whole connection is not
//! closed for it, because behind a proxy the streams of one connection belong to different callers.
//!
//! How a stall is detected: bodies send their data in [`DataChunks`]. hyper asks a body for its next chunk as soon as the
//! one before has found some window, and for the one after that when all of it has. While hyper polls a stream, the
//! body records here what it sent; if hyper does not come back for more, it waits for the peer.

use super::write_timeout::PROGRESS_BYTES_MIN;
use crate::tokio_host::ServerTasks;
use bytes::Bytes;
use hyper::rt::Executor;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The largest chunk that is sent at once, in bytes: no more than the default size of a frame.
const CHUNK_BYTES: usize = 16 << 10;
/// The largest last chunk, in bytes. After it is sent nothing watches it any more, so it is smaller than the memory of
/// the stream itself.
const LAST_CHUNK_BYTES: usize = 1 << 10;

/// The rest of some data, to be sent chunk by chunk.
#[derive(Debug, Default)]
pub(super) struct DataChunks {
    rest: Bytes,
    is_cut: bool,
}

impl DataChunks {
    pub(super) const fn of(data: Bytes) -> Self {
        Self { rest: data, is_cut: false }
    }

    pub(super) fn bytes_left(&self) -> usize {
        self.rest.len()
    }

    /// The next chunk; `None` when all of them were sent.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        match self.rest.len() {
            0 => None,
            1..=LAST_CHUNK_BYTES => {
                let last = std::mem::take(&mut self.rest);
                // A slice would keep all the data before it in memory.
                Some(if self.is_cut { Bytes::copy_from_slice(&last) } else { last })
            }
            length => {
                self.is_cut = true;
                Some(self.rest.split_to(CHUNK_BYTES.min(length - LAST_CHUNK_BYTES)))
            }
        }
    }
}

/// The progress of a stream's body.
#[derive(Debug, Clone, Copy, Default)]
struct BodyProgress {
    /// Whether its last chunk waits for the peer.
    waits: bool,
    /// The bytes that it sent in this period.
    bytes: usize,
}

thread_local! {
    /// The progress of the stream that is being polled.
    static PROGRESS: Cell<BodyProgress> = const { Cell::new(BodyProgress { waits: false, bytes: 0 }) };
}

/// The body of the polled stream sends data.
pub(super) fn record_data(bytes: usize) {
    PROGRESS.with(|progress| progress.set(BodyProgress { waits: true, bytes: progress.get().bytes + bytes }));
}

/// The body has no data now, and the peer accepted all of it.
pub(super) fn record_no_data() {
    PROGRESS.with(|progress| progress.set(BodyProgress::default()));
}

/// Runs the streams of connections, each for as long as its peer accepts data.
#[derive(Debug, Clone)]
pub(super) struct StreamExecutor {
    pub(super) time_max: Duration,
    pub(super) tasks: ServerTasks,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        self.tasks.spawn_connection(until_stalled(stream, self.time_max));
    }
}

/// Polls a stream until it ends or stalls. Dropping it then resets the stream.
async fn until_stalled(stream: impl Future<Output = ()>, time_max: Duration) {
    let mut stream = pin!(stream);
    let mut watch = StreamWatch { progress: BodyProgress::default(), until: None, time_max };
    poll_fn(|cx| {
        PROGRESS.set(watch.progress);
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        watch.progress = PROGRESS.get();
        watch.poll_stalled(cx)
    })
    .await;
}

struct StreamWatch {
    progress: BodyProgress,
    /// Set while a chunk waits for the peer.
    until: Option<Pin<Box<Sleep>>>,
    time_max: Duration,
}

impl StreamWatch {
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.progress.waits {
            self.until = None;
            return Poll::Pending;
        }
        let time_max = self.time_max;
        let until = self.until.get_or_insert_with(|| {
            // Bytes that were sent before the wait are no progress.
            self.progress.bytes = 0;
            Box::pin(sleep(time_max))
        });
        while until.as_mut().poll(cx).is_ready() {
            if self.progress.bytes < PROGRESS_BYTES_MIN {
                tracing::debug!("a stream is reset whose peer does not take its data");
                return Poll::Ready(());
            }
            self.progress.bytes = 0;
            until.as_mut().reset(Instant::now() + time_max);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_small_and_the_last_is_smaller_and_keeps_nothing_else() {
        let data = |length: usize| Bytes::from((0..length).map(|n| n.to_le_bytes()[0]).collect::<Vec<_>>());
        for length in [0, 1, LAST_CHUNK_BYTES, LAST_CHUNK_BYTES + 1, CHUNK_BYTES, 100_000] {
            let mut pieces = DataChunks::of(data(length));
            let mut all = Vec::new();
            let mut last = 0;
            while let Some(piece) = pieces.next() {
                assert!(piece.len() <= CHUNK_BYTES && !piece.is_empty(), "{length}");
                last = piece.len();
                all.extend_from_slice(&piece);
            }
            assert_eq!(all, data(length));
            assert!(last <= LAST_CHUNK_BYTES, "{length}: {last}");
        }
        let whole = data(100_000);
        let mut pieces = DataChunks::of(whole.clone());
        let last = std::iter::from_fn(|| pieces.next()).last();
        assert!(last.is_some() && whole.is_unique(), "the last piece is a copy");
    }
}
