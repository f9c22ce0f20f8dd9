//! Closes connections whose peer does not read.
//!
//! Only data that the operating system does not accept counts as waiting, so a peer without anything to read may stay
//! silent for ever. A peer that reads one byte a minute makes no progress: within each `write_seconds_max` it must
//! accept [`PROGRESS_BYTES_MIN`], or all that there is. The check is below TLS, so it counts every byte.
//!
//! HTTP/2 has windows of its own above this; see `stalled_stream.rs`.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// The bytes that a peer must accept within `write_seconds_max` while data waits for it. A modem of the last century is
/// faster.
pub(super) const PROGRESS_BYTES_MIN: usize = 16 << 10;

/// A socket with a timeout for a peer that does not read.
#[derive(Debug)]
pub(super) struct WriteTimeout {
    stream: TcpStream,
    time_max: Duration,
    /// Set while data waits to be written. Made on the first wait, because most connections never wait.
    stalled: Option<Box<StalledWrite>>,
}

#[derive(Debug)]
struct StalledWrite {
    until: Pin<Box<Sleep>>,
    /// The bytes that the peer has accepted in this period.
    bytes: usize,
}

impl WriteTimeout {
    pub(super) const fn new(stream: TcpStream, time_max: Duration) -> Self {
        Self { stream, time_max, stalled: None }
    }

    /// Checks the result of a write of `offered` bytes.
    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) if bytes < offered => {
                if let Some(waiting) = &mut self.stalled {
                    waiting.bytes += bytes;
                }
                written
            }
            Poll::Ready(_) => {
                self.stalled = None;
                written
            }
            Poll::Pending => {
                ready!(self.poll_stalled(cx));
                // Otherwise the system would keep offering the rest to a peer that does not accept it.
                drop(self.stream.set_zero_linger());
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read what is written")))
            }
        }
    }

    /// Ready when the peer accepted too little in a whole period.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let time_max = self.time_max;
        let begin = || Box::new(StalledWrite { until: Box::pin(sleep(time_max)), bytes: 0 });
        let waiting = self.stalled.get_or_insert_with(begin);
        loop {
            ready!(waiting.until.as_mut().poll(cx));
            if waiting.bytes < PROGRESS_BYTES_MIN {
                return Poll::Ready(());
            }
            waiting.bytes = 0;
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
