//! Peers that do not read: a connection that waits to write and gets rid of too little ends.
//!
//! Only what the operating system does not take counts as waiting, so a peer with nothing to read may stay silent for as
//! long as it likes. A peer that takes one byte a minute makes no progress: within each `write_seconds_max` it has to take
//! [`TAKEN_BYTES_MIN`], or all that there is. The guard is below TLS, so it sees every byte that leaves.
//!
//! HTTP/2 has windows of its own above this one, see `stalled_stream.rs`.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// What a peer has to take within `write_seconds_max` while something waits for it, in bytes. A modem of the last century
/// is quicker.
pub(super) const TAKEN_BYTES_MIN: usize = 16 << 10;

/// A socket whose peer has to read.
#[derive(Debug)]
pub(super) struct WriteTimeout {
    stream: TcpStream,
    time_max: Duration,
    /// While something waits to be written. Made when that begins: most connections never wait.
    waiting: Option<Box<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    until: Pin<Box<Sleep>>,
    /// What the peer has taken since the time began.
    taken: usize,
}

impl WriteTimeout {
    pub(super) const fn new(stream: TcpStream, time_max: Duration) -> Self {
        Self { stream, time_max, waiting: None }
    }

    /// Looks at what became of a write of so many bytes.
    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) if bytes < offered => {
                if let Some(waiting) = &mut self.waiting {
                    waiting.taken += bytes;
                }
                written
            }
            Poll::Ready(_) => {
                self.waiting = None;
                written
            }
            Poll::Pending => {
                ready!(self.poll_stalled(cx));
                // The system would go on offering the rest to a peer that does not take it.
                drop(self.stream.set_zero_linger());
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read what is written")))
            }
        }
    }

    /// Ready once a whole period was not enough to get rid of a little.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let time_max = self.time_max;
        let begin = || Box::new(Waiting { until: Box::pin(sleep(time_max)), taken: 0 });
        let waiting = self.waiting.get_or_insert_with(begin);
        loop {
            ready!(waiting.until.as_mut().poll(cx));
            if waiting.taken < TAKEN_BYTES_MIN {
                return Poll::Ready(());
            }
            waiting.taken = 0;
            waiting.until.as_mut().reset(Instant::now() + time_max);
        }
    }
}

impl AsyncRead for WriteTimeout {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WriteTimeout {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.watch(cx, bytes.len(), written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.watch(cx, slices.iter().map(|slice| slice.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
