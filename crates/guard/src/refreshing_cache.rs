//! A bounded cache of answers that are expensive to get.
//!
//! Each answer is loaded once, however many callers want it at the same time; the others wait for that load. If a load
//! fails, the last answer serves for a bounded while longer, and the next load waits for a pause, so that a peer that
//! is down is not asked by every request. That something does not exist is remembered for that pause only: an account
//! may be made at any moment.
//!
//! Unauthenticated callers choose the keys (account names, key names). So the cache is bounded, keys without an answer
//! are evicted first, and only so many loads run at a time.

use sabir_proto::Timestamp;
use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// For each load that may run, so many callers may wait.
const WAITING_FACTOR: usize = 8;

/// The times and sizes of a cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheLimits {
    /// The maximum age of an answer that serves while no newer one can be loaded.
    pub(crate) stale: Duration,
    /// How long no load is tried after one that failed.
    pub(crate) pause: Duration,
    /// The maximum number of answers.
    pub(crate) entries_max: usize,
    /// The maximum number of concurrent loads.
    pub(crate) loads_max: usize,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadFault {
    /// The answer does not exist, as the peer says.
    Absent,
    /// The answer could not be loaded.
    Unavailable(String),
}

/// What a caller does while another one loads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhileLoading {
    /// Take the last answer if it may still serve: a slow peer then holds up one caller and not all of them.
    Serve,
    /// Wait, because the last answer is not enough.
    Wait,
}

pub(crate) struct RefreshingCache<K, V> {
    limits: CacheLimits,
    entries: Mutex<HashMap<K, Arc<CacheEntry<V>>>>,
    loads: Semaphore,
    waiting: Semaphore,
}

struct CacheEntry<V> {
    answer: Mutex<CachedAnswer<V>>,
    /// Held by the one caller that loads.
    load_lock: tokio::sync::Mutex<()>,
}

struct CachedAnswer<V> {
    value: Option<(V, Timestamp)>,
    last_fault: Option<(LoadFault, Timestamp)>,
}

impl<K: Hash + Eq + Clone, V: Clone> RefreshingCache<K, V> {
    pub(crate) fn new(limits: CacheLimits) -> Self {
        let waiting = Semaphore::new(limits.loads_max * WAITING_FACTOR);
        Self { limits, entries: Mutex::default(), loads: Semaphore::new(limits.loads_max), waiting }
    }

    /// The answer, no older than `age_max` if that can be loaded.
    pub(crate) async fn get(
        &self,
        key: &K,
        age_max: Duration,
        meanwhile: WhileLoading,
        now: Timestamp,
        load: impl Future<Output = Result<V, LoadFault>>,
    ) -> Result<V, LoadFault> {
        let entry = self.entry(key);
        if let Some(settled) = self.answer_without_loading(&entry, age_max, now) {
            return settled;
        }
        let _turn = match (entry.load_lock.try_lock(), self.stale_answer(&entry, now, LoadFault::Absent)) {
            (Ok(turn), _) => turn,
            (Err(_), Ok(value)) if meanwhile == WhileLoading::Serve => return Ok(value),
            (Err(_), _) => entry.load_lock.lock().await,
        };
        // Another caller may have loaded it while we waited for our turn.
        if let Some(settled) = self.answer_without_loading(&entry, age_max, now) {
            return settled;
        }
        let _permit = match self.loads.try_acquire() {
            Ok(permit) => permit,
            Err(_) => match self.wait_for_load_permit(&entry, now).await {
                Ok(permit) => permit,
                // Not remembered: it says nothing about this key.
                Err(settled) => return settled,
            },
        };
        let loaded = load.await;
        let mut known = lock(&entry.answer);
        match loaded {
            Ok(value) => {
                *known = CachedAnswer { value: Some((value.clone(), now)), last_fault: None };
                Ok(value)
            }
            Err(miss) => {
                if miss == LoadFault::Absent {
                    known.value = None;
                }
                known.last_fault = Some((miss.clone(), now));
                drop(known);
                self.stale_answer(&entry, now, miss)
            }
        }
    }

    /// Waits for permission to load. Unauthenticated callers invent names, so loads wait for each other; a caller with
    /// an answer that may still serve does not wait, and only so many callers do.
    async fn wait_for_load_permit(
        &self,
        entry: &CacheEntry<V>,
        now: Timestamp,
    ) -> Result<SemaphorePermit<'_>, Result<V, LoadFault>> {
        let crowded = || LoadFault::Unavailable("too many lookups at a time".to_owned());
        match (self.stale_answer(entry, now, crowded()), self.waiting.try_acquire()) {
            (Err(_), Ok(_place)) => self.loads.acquire().await.map_err(|_| Err(crowded())),
            (settled, _) => Err(settled),
        }
    }

    /// The result that needs no load.
    fn answer_without_loading(
        &self,
        entry: &CacheEntry<V>,
        age_max: Duration,
        now: Timestamp,
    ) -> Option<Result<V, LoadFault>> {
        let known = lock(&entry.answer);
        if let Some((value, at)) = &known.value
            && time_between(*at, now) < age_max
        {
            return Some(Ok(value.clone()));
        }
        let (miss, at) = known.last_fault.as_ref()?;
        if time_between(*at, now) >= self.limits.pause {
            return None;
        }
        let miss = miss.clone();
        drop(known);
        Some(self.stale_answer(entry, now, miss))
    }

    /// The last answer, if it may still serve.
    fn stale_answer(&self, entry: &CacheEntry<V>, now: Timestamp, miss: LoadFault) -> Result<V, LoadFault> {
        match &lock(&entry.answer).value {
            Some((value, at)) if time_between(*at, now) < self.limits.stale => Ok(value.clone()),
            _ => Err(miss),
        }
    }

    fn entry(&self, key: &K) -> Arc<CacheEntry<V>> {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get(key) {
            return entry.clone();
        }
        if entries.len() >= self.limits.entries_max {
            self.evict(&mut entries);
        }
        let entry = Arc::new(CacheEntry {
            answer: Mutex::new(CachedAnswer { value: None, last_fault: None }),
            load_lock: tokio::sync::Mutex::default(),
        });
        entries.insert(key.clone(), entry.clone());
        entry
    }

    /// Makes room for an eighth at once, so that a stream of new keys does not sort the cache for each of them.
    fn evict(&self, entries: &mut HashMap<K, Arc<CacheEntry<V>>>) {
        let room = (self.limits.entries_max / 8).max(1);
        let age = |entry: &CacheEntry<V>| lock(&entry.answer).value.as_ref().map(|(_, at)| *at);
        // `None` sorts first: a key without an answer goes before any with one.
        let mut by_age: Vec<(Option<Timestamp>, K)> =
            entries.iter().map(|(key, entry)| (age(entry), key.clone())).collect();
        by_age.sort_unstable_by_key(|(at, _)| *at);
        for (_, key) in by_age.into_iter().take(room) {
            entries.remove(&key);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.entries).len()
    }
}

/// The time between two moments, in either direction: a clock that was set back must not keep an answer fresh for ever.
fn time_between(one: Timestamp, other: Timestamp) -> Duration {
    Duration::from_millis(one.millis().abs_diff(other.millis()))
}

/// Nothing in here panics while it holds a lock, and the data is complete at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const FRESH: Duration = Duration::from_secs(300);

    fn limits() -> CacheLimits {
        CacheLimits { stale: Duration::from_secs(600), pause: Duration::from_secs(10), entries_max: 16, loads_max: 4 }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn down() -> Result<u32, LoadFault> {
        Err(LoadFault::Unavailable("down".to_owned()))
    }

    async fn ask(
        memo: &RefreshingCache<u32, u32>,
        key: u32,
        now: i64,
        loaded: Result<u32, LoadFault>,
    ) -> (Result<u32, LoadFault>, bool) {
        let asked = AtomicUsize::new(0);
        let answer = memo
            .get(&key, FRESH, WhileLoading::Serve, at(now), async {
                asked.fetch_add(1, Ordering::Relaxed);
                loaded
            })
            .await;
        (answer, asked.into_inner() == 1)
    }

    async fn learn(memo: &RefreshingCache<u32, u32>, key: u32, now: i64, loaded: Result<u32, LoadFault>) {
        let (_, asked) = ask(memo, key, now, loaded).await;
        assert!(asked, "known already");
    }

    #[tokio::test]
    async fn an_answer_serves_until_its_time_and_then_is_asked_for_again() {
        let memo = RefreshingCache::new(limits());
        assert_eq!(ask(&memo, 1, 1000, Ok(7)).await, (Ok(7), true));
        assert_eq!(ask(&memo, 1, 1299, Ok(8)).await, (Ok(7), false));
        assert_eq!(ask(&memo, 1, 1300, Ok(8)).await, (Ok(8), true));
    }

    #[tokio::test]
    async fn while_there_is_no_answer_the_last_one_serves_for_a_bounded_time_and_pauses_are_kept() {
        let memo = RefreshingCache::new(limits());
        learn(&memo, 1, 1000, Ok(7)).await;
        assert_eq!(ask(&memo, 1, 1300, down()).await, (Ok(7), true));
        assert_eq!(ask(&memo, 1, 1309, down()).await, (Ok(7), false), "within the pause");
        assert_eq!(ask(&memo, 1, 1310, down()).await, (Ok(7), true));
        assert_eq!(ask(&memo, 1, 1599, down()).await, (Ok(7), true));
        assert_eq!(ask(&memo, 1, 1609, down()).await, (down(), true), "too old to serve");
        assert_eq!(ask(&memo, 1, 1618, Ok(9)).await, (down(), false));
        assert_eq!(ask(&memo, 1, 1619, Ok(9)).await, (Ok(9), true));
    }

    #[tokio::test]
    async fn what_is_gone_does_not_serve_and_is_looked_for_again_soon() {
        let memo = RefreshingCache::new(limits());
        learn(&memo, 1, 1000, Ok(7)).await;
        assert_eq!(ask(&memo, 1, 1300, Err(LoadFault::Absent)).await, (Err(LoadFault::Absent), true));
        assert_eq!(ask(&memo, 1, 1309, Ok(8)).await, (Err(LoadFault::Absent), false));
        assert_eq!(ask(&memo, 1, 1310, down()).await, (down(), true), "the old answer is not resurrected");
    }

    #[tokio::test]
    async fn a_clock_set_back_does_not_keep_an_answer_young() {
        let memo = RefreshingCache::new(limits());
        learn(&memo, 1, 10_000, Ok(7)).await;
        assert_eq!(ask(&memo, 1, 5000, Ok(8)).await, (Ok(8), true));
    }

    #[tokio::test]
    async fn many_who_want_the_same_cost_one_question() {
        for loaded in [Ok(7), down()] {
            let memo = RefreshingCache::new(limits());
            let asked = AtomicUsize::new(0);
            let one = || {
                memo.get(&1, FRESH, WhileLoading::Serve, at(1000), async {
                    asked.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    loaded.clone()
                })
            };
            let (a, b, c) = tokio::join!(one(), one(), one());
            assert_eq!((a, b, c), (loaded.clone(), loaded.clone(), loaded.clone()));
            assert_eq!(asked.load(Ordering::Relaxed), 1);
        }
    }

    #[tokio::test]
    async fn a_slow_peer_holds_up_one_caller_and_those_who_need_news() {
        let memo = RefreshingCache::new(limits());
        learn(&memo, 1, 1000, Ok(7)).await;
        let mut slow = Box::pin(memo.get(&1, FRESH, WhileLoading::Serve, at(1300), std::future::pending()));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut slow).await.is_err());
        assert_eq!(ask(&memo, 1, 1300, Ok(8)).await, (Ok(7), false));
        let news = memo.get(&1, FRESH, WhileLoading::Wait, at(1300), async { Ok(8) });
        let mut news = Box::pin(news);
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut news).await.is_err());
        drop(slow);
        assert_eq!(news.await, Ok(8));
    }

    #[tokio::test]
    async fn one_who_gives_up_does_not_take_the_others_down() {
        let memo: RefreshingCache<u32, u32> = RefreshingCache::new(limits());
        let never = memo.get(&1, FRESH, WhileLoading::Serve, at(1000), std::future::pending());
        assert!(tokio::time::timeout(Duration::from_millis(5), never).await.is_err());
        assert_eq!(ask(&memo, 1, 1000, Ok(7)).await, (Ok(7), true));
    }

    #[tokio::test]
    async fn only_so_many_questions_are_out_at_a_time() {
        let memo: RefreshingCache<u32, u32> = RefreshingCache::new(limits());
        learn(&memo, 9, 600, Ok(9)).await;
        let keys = [0, 1, 2, 3];
        let mut slow = keys
            .each_ref()
            .map(|key| Box::pin(memo.get(key, FRESH, WhileLoading::Serve, at(1000), std::future::pending())));
        for one in &mut slow {
            assert!(tokio::time::timeout(Duration::from_millis(1), one).await.is_err());
        }
        assert_eq!(ask(&memo, 9, 1000, Ok(1)).await, (Ok(9), false), "the last answer serves");
        let names: Vec<u32> = (100..).take(limits().loads_max * WAITING_FACTOR).collect();
        let mut waiting: Vec<_> = names
            .iter()
            .map(|key| Box::pin(memo.get(key, FRESH, WhileLoading::Serve, at(1000), std::future::ready(Ok(1)))))
            .collect();
        for one in &mut waiting {
            assert!(tokio::time::timeout(Duration::from_millis(1), one).await.is_err(), "it waits for its turn");
        }
        let refused = ask(&memo, 5, 1000, Ok(5)).await;
        assert!(matches!(refused, (Err(LoadFault::Unavailable(_)), false)), "{refused:?}");
        drop((slow, waiting));
        assert_eq!(ask(&memo, 5, 1000, Ok(5)).await, (Ok(5), true), "being busy is not held against the key");
    }

    #[tokio::test]
    async fn memory_is_bounded_and_keeps_what_is_worth_keeping() {
        let memo = RefreshingCache::new(limits());
        learn(&memo, 1, 1000, Ok(1)).await;
        for key in 2..100_000 {
            learn(&memo, key, 1001, Err(LoadFault::Absent)).await;
        }
        assert!(memo.len() <= 16, "{}", memo.len());
        assert_eq!(ask(&memo, 1, 1002, Ok(2)).await, (Ok(1), false), "strangers cannot flush what others need");
        for key in 100_000..101_000 {
            learn(&memo, key, 1003, Ok(1)).await;
        }
        assert!(memo.len() <= 16, "{}", memo.len());
    }
}
