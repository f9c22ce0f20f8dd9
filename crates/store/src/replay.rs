//! The replay guard: whether a signed request was seen before, for as long as it could be accepted.
//!
//! The guard remembers a digest of the signed content, within a scope (an account, a key), for as long as the request's
//! own time stamp would let it pass. Replay marks are decided on in memory, so that two copies that arrive together
//! cannot both be first, and stored on disk, so that a restart forgets none.

use crate::{Digest, Hash, StoreFuture};
use sabir_proto::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Replay marks remembered at the same time, at about 100 bytes each. At windows of six minutes, 2,700 signed requests
/// a second.
pub const MARKS_MAX: usize = 1_000_000;
/// Replay marks of one scope, so that one caller cannot take all the room.
pub const MARKS_PER_SCOPE_MAX: usize = 250_000;

const SECOND_MS: i64 = 1000;

/// How much longer marks are kept than they are valid, while there is room. After a clock that was ahead by less than
/// this is set back, every mark that is valid at the corrected time is still there.
pub(crate) const SLACK_MS: i64 = 15 * 60 * SECOND_MS;

/// Whether a signed request was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// The request is new, and is marked as seen now.
    First,
    /// The request was seen, or another copy of it is being checked right now.
    Again,
    /// The digest was seen with another meaning.
    Different,
    /// It cannot be decided: there is no room for a mark; or the clock was ahead, and marks that end when this request
    /// does have been forgotten. Letting the request pass would let copies pass as well, so it is refused until marks
    /// have expired, or the clock is past those that were forgotten.
    NoRoom,
}

/// The guard against replayed requests.
pub trait ReplayGuard: Send + Sync + 'static {
    /// Whether this digest was seen in this scope. Of any number of calls with the same two, at any time and from any
    /// process, exactly one returns [`ReplayVerdict::First`], until `until` has passed.
    ///
    /// `until` is the last moment at which the request could be accepted; the mark is kept up to and including it. When
    /// this returns `First`, the mark has survived a crash. When it returns an error, there is no mark, though a
    /// concurrent copy may have got `Again`.
    fn check_replay(
        &self,
        scope: &str,
        digest: Digest,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreFuture<ReplayVerdict> {
        self.check_replay_as(scope, digest, Digest::default(), now, until)
    }

    /// Like [`ReplayGuard::check_replay`], for a signature that does not cover all that its request means: the first request
    /// fixes the meaning of the digest. Later ones are [`ReplayVerdict::Again`] with the same meaning and [`ReplayVerdict::Different`]
    /// with another one.
    fn check_replay_as(
        &self,
        scope: &str,
        digest: Digest,
        meaning: Digest,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreFuture<ReplayVerdict>;
}

/// A replay mark: a hash of scope and digest.
pub(crate) type ReplayMark = [u8; 16];

pub(crate) fn replay_mark(scope: &str, digest: &Digest) -> ReplayMark {
    let hash = Hash::of(&[&scope.len().to_be_bytes(), scope.as_bytes(), digest]);
    let mut mark = [0; 16];
    mark.copy_from_slice(&hash.as_bytes()[..16]);
    mark
}

/// The replay marks of one process, in memory.
#[derive(Debug)]
pub(crate) struct ReplayMarks {
    marks: HashMap<ReplayMark, StoredMark>,
    /// Marks by the second in which they end, so that the oldest are found without a scan.
    ends: BTreeMap<i64, Vec<ReplayMark>>,
    scopes: HashMap<Arc<str>, usize>,
    /// Marks that ended before this moment may have been forgotten. It never falls, whatever the clock does.
    forgotten_before: Timestamp,
    max: usize,
    per_scope_max: usize,
}

/// The data of a replay mark.
#[derive(Debug)]
struct StoredMark {
    until: Timestamp,
    scope: Arc<str>,
    /// The meaning that the first request fixed.
    meaning: Digest,
}

impl Default for ReplayMarks {
    fn default() -> Self {
        Self::new(MARKS_MAX, MARKS_PER_SCOPE_MAX)
    }
}

impl ReplayMarks {
    fn new(max: usize, per_scope_max: usize) -> Self {
        let (marks, ends, scopes) = Default::default();
        let forgotten_before = Timestamp::from_millis(i64::MIN);
        Self { marks, ends, scopes, forgotten_before, max, per_scope_max }
    }

    /// Decides on a request, and marks it if it is new.
    pub(crate) fn claim(
        &mut self,
        mark: ReplayMark,
        scope: &str,
        meaning: Digest,
        now: Timestamp,
        until: Timestamp,
    ) -> ReplayVerdict {
        if let Some(kept) = self.marks.get(&mark) {
            if kept.until >= now {
                return if kept.meaning == meaning { ReplayVerdict::Again } else { ReplayVerdict::Different };
            }
            self.release(mark);
        }
        if until < self.forgotten_before {
            return ReplayVerdict::NoRoom;
        }
        if self.marks.len() >= self.max || self.scopes.get(scope).is_some_and(|n| *n >= self.per_scope_max) {
            self.purge(now);
        }
        if self.marks.len() >= self.max || self.scopes.get(scope).is_some_and(|n| *n >= self.per_scope_max) {
            return ReplayVerdict::NoRoom;
        }
        self.keep(mark, scope, meaning, until);
        self.purge(Timestamp::from_millis(now.millis().saturating_sub(SLACK_MS)));
        ReplayVerdict::First
    }

    /// Adds a mark without a check.
    pub(crate) fn keep(&mut self, mark: ReplayMark, scope: &str, meaning: Digest, until: Timestamp) {
        let scope = match self.scopes.get_key_value(scope) {
            Some((known, _)) => known.clone(),
            None => scope.into(),
        };
        *self.scopes.entry(scope.clone()).or_default() += 1;
        self.ends.entry(until.millis() / SECOND_MS).or_default().push(mark);
        self.marks.insert(mark, StoredMark { until, scope, meaning });
    }

    /// Removes a mark that could not be stored. Its entry in `ends` stays until its time and is skipped then.
    pub(crate) fn release(&mut self, mark: ReplayMark) {
        let Some(StoredMark { scope, .. }) = self.marks.remove(&mark) else { return };
        if let Some(count) = self.scopes.get_mut(&scope) {
            *count -= 1;
            if *count == 0 {
                self.scopes.remove(&scope);
            }
        }
    }

    /// Removes the marks that ended in the seconds before this time.
    fn purge(&mut self, before: Timestamp) {
        let this = before.millis() / SECOND_MS;
        while let Some(entry) = self.ends.first_entry()
            && *entry.key() < this
        {
            self.forgotten_before = self.forgotten_before.max(Timestamp::from_millis((*entry.key() + 1) * SECOND_MS));
            for mark in entry.remove() {
                // The mark may have been released and made again, with another end.
                if self.marks.get(&mark).is_some_and(|kept| kept.until < before) {
                    self.release(mark);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn numbered(n: u8) -> ReplayMark {
        replay_mark("s", &[n; 16])
    }

    #[test]
    fn scope_and_digest_do_not_run_into_each_other() {
        assert_ne!(replay_mark("a", &[b'b'; 16]), replay_mark("ab", &[b'b'; 16]));
        assert_ne!(replay_mark("a", &[1; 16]), replay_mark("a", &[2; 16]));
    }

    #[test]
    fn room_comes_back_when_marks_expire() {
        let mut marks = ReplayMarks::new(4, 2);
        let mut claim = |n, scope: &str, now| marks.claim(numbered(n), scope, [0; 16], at(now), at(now + 10_000));
        assert_eq!(
            (claim(1, "a", 0), claim(2, "a", 500), claim(3, "a", 600)),
            (ReplayVerdict::First, ReplayVerdict::First, ReplayVerdict::NoRoom)
        );
        assert_eq!(
            (claim(3, "b", 700), claim(4, "b", 800), claim(5, "c", 900)),
            (ReplayVerdict::First, ReplayVerdict::First, ReplayVerdict::NoRoom)
        );
        assert_eq!((claim(1, "a", 9000), claim(5, "c", 10_900)), (ReplayVerdict::Again, ReplayVerdict::NoRoom));
        assert_eq!((claim(5, "c", 11_000), claim(6, "a", 11_001)), (ReplayVerdict::First, ReplayVerdict::First));
        assert_eq!(marks.marks.len(), 2);
        assert_eq!(marks.scopes.len(), 2);
    }

    #[test]
    fn a_mark_that_was_given_up_is_not_taken_along_by_its_old_end() {
        let mut marks = ReplayMarks::new(4, 4);
        let claim = |marks: &mut ReplayMarks, n, now, until| marks.claim(numbered(n), "a", [0; 16], at(now), at(until));
        assert_eq!(claim(&mut marks, 1, 0, 1000), ReplayVerdict::First);
        marks.release(numbered(1));
        assert_eq!(claim(&mut marks, 1, 0, 90_000), ReplayVerdict::First);
        assert_eq!(claim(&mut marks, 2, 50_000, 60_000), ReplayVerdict::First);
        assert_eq!(claim(&mut marks, 1, 90_000, 99_000), ReplayVerdict::Again);
        assert_eq!(claim(&mut marks, 1, 90_001, 99_000), ReplayVerdict::First);
    }

    #[test]
    fn a_clock_that_jumps_ahead_and_back_lets_no_copy_pass() {
        const MINUTE: i64 = 60 * SECOND_MS;
        let mut marks = ReplayMarks::new(100, 100);
        assert_eq!(marks.claim(numbered(1), "a", [0; 16], at(0), at(6 * MINUTE)), ReplayVerdict::First);
        // Ahead for a short time: all marks are still there.
        assert_eq!(marks.claim(numbered(2), "a", [0; 16], at(7 * MINUTE), at(13 * MINUTE)), ReplayVerdict::First);
        assert_eq!(marks.claim(numbered(1), "a", [0; 16], at(MINUTE), at(6 * MINUTE)), ReplayVerdict::Again);
        // Ahead for long: the marks are gone, so requests that end when those marks did are refused.
        assert_eq!(marks.claim(numbered(3), "a", [0; 16], at(600 * MINUTE), at(606 * MINUTE)), ReplayVerdict::First);
        assert_eq!(marks.marks.len(), 1);
        for copy in [1, 2] {
            assert_eq!(marks.claim(numbered(copy), "a", [0; 16], at(MINUTE), at(6 * MINUTE)), ReplayVerdict::NoRoom);
        }
        // The clock is past the forgotten marks.
        assert_eq!(marks.claim(numbered(4), "a", [0; 16], at(20 * MINUTE), at(26 * MINUTE)), ReplayVerdict::First);
    }

    #[test]
    fn marks_that_were_forgotten_for_want_of_room_let_no_copy_pass() {
        let mut marks = ReplayMarks::new(2, 2);
        assert_eq!(marks.claim(numbered(1), "a", [0; 16], at(0), at(10_000)), ReplayVerdict::First);
        assert_eq!(marks.claim(numbered(2), "a", [0; 16], at(0), at(10_000)), ReplayVerdict::First);
        assert_eq!(marks.claim(numbered(3), "a", [0; 16], at(20_000), at(30_000)), ReplayVerdict::First);
        assert_eq!(marks.claim(numbered(1), "a", [0; 16], at(5000), at(10_000)), ReplayVerdict::NoRoom);
    }
}
