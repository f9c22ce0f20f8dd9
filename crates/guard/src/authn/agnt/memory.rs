//! What was signed lately, in memory.
//!
//! A signature that is used for something else is refused for as long as it is fresh. The memory ends with the process:
//! whoever holds a copy of a signed payload also needs the API key beside it, and what changes anything is done once by
//! its retry key, which is on disk.

use super::{Replay, Seen};
use sabir_proto::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Signatures remembered at the same time, at about 150 bytes each. At six minutes, 2,700 signed envelopes a second.
pub const SIGNATURES_MAX: usize = 1_000_000;

/// Signatures that were seen, and what they stood for.
#[derive(Debug)]
pub struct Signatures {
    inner: Mutex<Inner>,
    max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<Box<str>, ([u8; 32], Timestamp)>,
    /// By the second in which they end, so that the oldest are found without looking at all.
    ends: BTreeMap<i64, Vec<Box<str>>>,
}

impl Default for Signatures {
    fn default() -> Self {
        Self::new(SIGNATURES_MAX)
    }
}

impl Signatures {
    fn new(max: usize) -> Self {
        Self { inner: Mutex::default(), max }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replay for Signatures {
    async fn seen(&self, key: &str, digest: [u8; 32], now: Timestamp, until: Timestamp) -> Result<Seen, String> {
        let mut inner = self.lock();
        inner.forget_before(now);
        if let Some((known, _)) = inner.known.get(key) {
            return Ok(if *known == digest { Seen::Same } else { Seen::Different });
        }
        if inner.known.len() >= self.max {
            return Err(format!("{} signatures are remembered already", self.max));
        }
        inner.ends.entry(until.millis().div_euclid(1000)).or_default().push(key.into());
        inner.known.insert(key.into(), (digest, until));
        Ok(Seen::First)
    }
}

impl Inner {
    /// Forgets what ended in seconds that have passed.
    fn forget_before(&mut self, now: Timestamp) {
        let this = now.millis().div_euclid(1000);
        while let Some(entry) = self.ends.first_entry()
            && *entry.key() < this
        {
            for key in entry.remove() {
                self.known.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signature_is_known_until_its_end_and_there_is_room_again_after_it() {
        let memory = Signatures::new(2);
        let at = Timestamp::from_millis;
        let seen = async |key: &str, digest: u8, now| memory.seen(key, [digest; 32], at(now), at(now + 10_000)).await;
        assert_eq!(seen("a", 1, 0).await, Ok(Seen::First));
        assert_eq!((seen("a", 1, 1).await, seen("a", 2, 10_000).await), (Ok(Seen::Same), Ok(Seen::Different)));
        assert_eq!(seen("b", 1, 500).await, Ok(Seen::First));
        assert!(seen("c", 1, 600).await.is_err());
        assert_eq!(seen("a", 2, 11_000).await, Ok(Seen::First), "it has ended");
        assert_eq!(memory.lock().known.len(), 1);
    }
}
