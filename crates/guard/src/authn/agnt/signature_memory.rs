//! Remembers recent signatures: in memory, and in the store for intents that have an effect.
//!
//! A signature that is reused for something else is refused for as long as it is fresh. For a read-only envelope the
//! memory ends with the process: a copy returns only what every key holder may read. For an envelope with an effect the
//! guard's store keeps the mark, because the signature covers neither the API key nor the time of the envelope: after a
//! restart, a copy in another envelope would cause a second effect.

use super::{ReplayMemory, ReplayOutcome};
use sabir_proto::Timestamp;
use sabir_store::{Digest, GuardStore};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of remembered signatures, at about 150 bytes each. With a lifetime of six minutes that is 2,700
/// signed envelopes a second.
pub const SIGNATURES_MAX: usize = 1_000_000;

/// The signatures that were seen, with the hash of what each was used for.
#[derive(Debug)]
pub struct SignatureMemory {
    inner: Mutex<SeenSignatures>,
    max: usize,
}

#[derive(Debug, Default)]
struct SeenSignatures {
    known: HashMap<Box<str>, ([u8; 32], Timestamp)>,
    /// Keys by the second in which they expire, so that expiry does not scan all entries.
    ends: BTreeMap<i64, Vec<Box<str>>>,
}

impl Default for SignatureMemory {
    fn default() -> Self {
        Self::new(SIGNATURES_MAX)
    }
}

impl SignatureMemory {
    fn new(max: usize) -> Self {
        Self { inner: Mutex::default(), max }
    }

    /// The digest recorded for a signature, if it was seen.
    fn recorded_digest(&self, key: &str, now: Timestamp) -> Option<[u8; 32]> {
        let mut inner = self.lock();
        inner.forget_before(now);
        inner.known.get(key).map(|(meaning, _)| *meaning)
    }

    fn lock(&self) -> MutexGuard<'_, SeenSignatures> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplayMemory for SignatureMemory {
    async fn check_and_record(
        &self,
        key: &str,
        digest: [u8; 32],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<ReplayOutcome, String> {
        let mut inner = self.lock();
        inner.forget_before(now);
        if let Some((known, _)) = inner.known.get(key) {
            return Ok(if *known == digest { ReplayOutcome::Same } else { ReplayOutcome::Different });
        }
        if inner.known.len() >= self.max {
            return Err(format!("{} signatures are remembered already", self.max));
        }
        inner.ends.entry(until.millis().div_euclid(1000)).or_default().push(key.into());
        inner.known.insert(key.into(), (digest, until));
        Ok(ReplayOutcome::First)
    }
}

/// The marks of signed effects: those of this process, and those of the store, which survive a restart.
pub(crate) struct EffectMarks<'a> {
    pub(crate) signatures: &'a SignatureMemory,
    pub(crate) store: &'a dyn GuardStore,
    /// The sender, which scopes the marks: one sender cannot fill the room of all.
    pub(crate) sender: &'a str,
}

impl ReplayMemory for EffectMarks<'_> {
    async fn check_and_record(
        &self,
        key: &str,
        digest: [u8; 32],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<ReplayOutcome, String> {
        if self.signatures.recorded_digest(key, now).is_some_and(|known| known != digest) {
            return Ok(ReplayOutcome::Different);
        }
        // The store comes first: if it refuses, this process must not remember the signature, or the sender's retry
        // would be refused.
        let kept = match self.keep_in_store(key, &digest, now, until).await? {
            ReplayOutcome::Different => return Ok(ReplayOutcome::Different),
            kept => kept,
        };
        match self.signatures.check_and_record(key, digest, now, until).await? {
            ReplayOutcome::Different => Ok(ReplayOutcome::Different),
            ReplayOutcome::First | ReplayOutcome::Same => Ok(kept),
        }
    }
}

impl EffectMarks<'_> {
    async fn keep_in_store(
        &self,
        key: &str,
        digest: &[u8; 32],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<ReplayOutcome, String> {
        let name = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
        let scope = format!("agnt:{}", self.sender);
        match self.store.check_replay_as(&scope, short(name.as_ref()), short(digest), now, until).await {
            Ok(sabir_store::ReplayVerdict::First) => Ok(ReplayOutcome::First),
            Ok(sabir_store::ReplayVerdict::Again) => Ok(ReplayOutcome::Same),
            Ok(sabir_store::ReplayVerdict::Different) => Ok(ReplayOutcome::Different),
            Ok(sabir_store::ReplayVerdict::NoRoom) => {
                Err("the store remembers as many signatures as it can".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Shortens a hash to the length that the store keeps.
fn short(hash: &[u8]) -> Digest {
    let mut short = Digest::default();
    let length = short.len();
    short.copy_from_slice(&hash[..length]);
    short
}

impl SeenSignatures {
    /// Removes entries whose expiry second has passed.
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
        let memory = SignatureMemory::new(2);
        let at = Timestamp::from_millis;
        let seen = async |key: &str, digest: u8, now| {
            memory.check_and_record(key, [digest; 32], at(now), at(now + 10_000)).await
        };
        assert_eq!(seen("a", 1, 0).await, Ok(ReplayOutcome::First));
        assert_eq!(
            (seen("a", 1, 1).await, seen("a", 2, 10_000).await),
            (Ok(ReplayOutcome::Same), Ok(ReplayOutcome::Different))
        );
        assert_eq!(seen("b", 1, 500).await, Ok(ReplayOutcome::First));
        assert!(seen("c", 1, 600).await.is_err());
        assert_eq!(seen("a", 2, 11_000).await, Ok(ReplayOutcome::First), "it has ended");
        assert_eq!(memory.lock().known.len(), 1);
    }
}
