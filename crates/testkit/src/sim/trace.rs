//! The trace of a run: a digest of everything, and the last lines in words.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Trace lines kept for the message of a violation.
const TAIL: usize = 60;

/// The digest of a whole run: equal for equal runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(u64);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The trace of one run. Clones are the same trace.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace(Arc<Mutex<TraceState>>);

#[derive(Debug)]
struct TraceState {
    hash: u64,
    tail: VecDeque<String>,
}

impl Default for TraceState {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, tail: VecDeque::new() }
    }
}

impl TraceState {
    /// FNV-1a: only for comparing, not cryptographic.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Trace {
    fn lock(&self) -> MutexGuard<'_, TraceState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a line of text.
    pub(super) fn note(&self, at: u64, what: fmt::Arguments<'_>) {
        let line = format!("{:>5}.{:03} s  {what}", at / 1000, at % 1000);
        let mut state = self.lock();
        state.mix(line.as_bytes());
        if state.tail.len() == TAIL {
            state.tail.pop_front();
        }
        state.tail.push_back(line);
    }

    /// Mixes bytes into the digest only.
    pub(super) fn mix(&self, bytes: &[u8]) {
        self.lock().mix(bytes);
    }

    pub(super) fn digest(&self) -> Digest {
        Digest(self.lock().hash)
    }

    pub(super) fn tail(&self) -> Vec<String> {
        self.lock().tail.iter().cloned().collect()
    }
}
