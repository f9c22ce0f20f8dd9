//! Caches the answers to searches: one sender, one intent and one timestamp are one event, so a repetition gets the
//! first answer and counts as a duplicate.
//!
//! For envelopes with an effect the task log does this. A search leaves no task, so its answer is cached in memory for
//! as long as its timestamp would be accepted; after a restart, a repetition is answered anew. Failed answers are not
//! cached, so a retry runs. Another search under the same timestamp is another event: it has no effect, so a sender
//! whose clock has whole seconds is not refused.

use sabir_proto::Object;
use sabir_store::Digest;
use sabir_wire::agnt::Problem;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// How long an answer is cached: as long as an envelope with its timestamp is accepted, from the earliest to the latest
/// time.
const CACHE_TIME: Duration = Duration::from_secs(360);
/// Maximum number of cached answers; the oldest are dropped first.
const ANSWERS_MAX: usize = 20_000;
/// Maximum bytes of cached answers; the oldest are dropped first. Enough for some 6,000 full answers.
const ANSWERS_BYTES_MAX: usize = 32 << 20;

/// The cache of answers to searches.
#[derive(Debug, Default)]
pub(crate) struct SearchCache(Mutex<CachedSearches>);

#[derive(Debug, Default)]
struct CachedSearches {
    by_event: HashMap<Digest, CachedSearch>,
    /// The ends of their cache times, the oldest first.
    ends: VecDeque<(Instant, Digest)>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct CachedSearch {
    answer: Arc<OnceCell<Object>>,
    bytes: usize,
}

impl SearchCache {
    /// Answers a search, or returns the cached answer; the flag says whether it is a repetition. Of repetitions that
    /// arrive together one runs, and the others wait for its answer.
    pub(crate) async fn answer(
        &self,
        event: Digest,
        ask: impl Future<Output = Result<Object, Problem>>,
    ) -> (Result<Object, Problem>, bool) {
        let cell = self.entry(event, Instant::now());
        let mut is_first = false;
        let said = cell
            .get_or_try_init(|| {
                is_first = true;
                ask
            })
            .await
            .cloned();
        if let (true, Ok(answer)) = (is_first, &said) {
            self.count_bytes(event, answer.as_str().len());
        }
        (said, !is_first)
    }

    fn entry(&self, event: Digest, now: Instant) -> Arc<OnceCell<Object>> {
        let mut kept = self.lock();
        kept.evict(now);
        if let Some(known) = kept.by_event.get(&event) {
            return known.answer.clone();
        }
        let search = CachedSearch::default();
        let answer = search.answer.clone();
        kept.by_event.insert(event, search);
        kept.ends.push_back((now + CACHE_TIME, event));
        answer
    }

    /// Counts the bytes of an answer.
    fn count_bytes(&self, event: Digest, bytes: usize) {
        let kept = &mut *self.lock();
        if let Some(search) = kept.by_event.get_mut(&event) {
            kept.bytes += bytes - std::mem::replace(&mut search.bytes, bytes).min(bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedSearches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedSearches {
    /// Drops the expired answers, and the oldest ones above the limits.
    fn evict(&mut self, now: Instant) {
        while let Some((end, event)) = self.ends.front()
            && (*end <= now || self.ends.len() >= ANSWERS_MAX || self.bytes > ANSWERS_BYTES_MAX)
        {
            if let Some(search) = self.by_event.remove(event) {
                self.bytes -= search.bytes;
            }
            self.ends.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::Json;
    use sabir_wire::agnt::ProblemCode;

    fn found(text: &str) -> Object {
        Object::new(Json::parse(text).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn an_event_is_answered_once_and_a_failure_is_asked_again() {
        let searches = SearchCache::default();
        let trouble = || Problem::new(ProblemCode::Internal, "away");
        let (said, again) = searches.answer([1; 16], async { Err(trouble()) }).await;
        assert_eq!((said.unwrap_err().code, again), (ProblemCode::Internal, false));
        let first = searches.answer([1; 16], async { Ok(found(r#"{"n":1}"#)) }).await;
        assert_eq!(first, (Ok(found(r#"{"n":1}"#)), false));
        let second = searches.answer([1; 16], async { Ok(found(r#"{"n":2}"#)) }).await;
        assert_eq!(second, (Ok(found(r#"{"n":1}"#)), true));
        assert!(!searches.answer([2; 16], async { Ok(found("{}")) }).await.1);
    }

    #[test]
    fn answers_take_a_bounded_room_and_end() {
        let (searches, now) = (SearchCache::default(), Instant::now());
        let event = |n: usize| {
            let mut event = Digest::default();
            event[..8].copy_from_slice(&n.to_be_bytes());
            event
        };
        for n in 0..ANSWERS_MAX + 10 {
            searches.entry(event(n), now);
        }
        let sizes = || {
            let kept = searches.lock();
            (kept.by_event.len(), kept.ends.len(), kept.bytes)
        };
        assert!(sizes().0 <= ANSWERS_MAX);
        searches.entry(event(usize::MAX), now + CACHE_TIME);
        assert_eq!(sizes(), (1, 1, 0));
        searches.count_bytes(event(usize::MAX), ANSWERS_BYTES_MAX + 1);
        searches.entry(event(0), now + CACHE_TIME);
        assert_eq!(sizes(), (1, 1, 0));
    }
}
