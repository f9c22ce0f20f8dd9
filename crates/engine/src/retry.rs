//! Retry keys: which sends are the same send.
//!
//! A retry key is explicit, or the message id where that is unique by its form. Explicit keys are rows of the store;
//! implicit ones live here, bounded in time and number, and are rebuilt at start from the tail of the log.
//!
//! A key with a send time begins with that time. Such keys are ordered by time, which makes rows cheap. One that is
//! later than every key forgotten here is either in memory or new, so the log is not read for it.

use sabir_proto::{Content, Message, Part, Stamp, TaskId, TaskRef, Timestamp};
use sabir_store::{Digest, RetryMark, Scope, StoredRetry};
use serde_json::to_vec;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The key by which a repeated send is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryKey {
    pub(crate) mark: RetryMark,
    pub(crate) explicit: bool,
}

impl RetryKey {
    /// The key of a send, if it has one. `to` is the task as the caller wrote it, since an alias may point to another
    /// task by the time the send is repeated.
    pub(crate) fn of(
        scope: &Scope,
        to: Option<&TaskRef>,
        explicit: Option<(&str, Option<Timestamp>)>,
        message: &Message,
    ) -> Option<Self> {
        let (kind, text, sent_at) = match explicit {
            Some((text, sent_at)) => (&b"explicit"[..], text, sent_at),
            None if message.message_id.is_uuid_or_ulid() => (&b"implicit"[..], message.message_id.as_str(), None),
            None => return None,
        };
        let (task, name) = match to {
            None => ([0; 16], None),
            Some(TaskRef::Id(id)) => (id.to_bytes(), None),
            Some(TaskRef::Alias(name)) => ([0; 16], Some(name.as_bytes())),
        };
        let (tenant, caller, agent) = (scope.tenant.as_str(), scope.caller.name(), scope.agent.as_str());
        let fields = [kind, tenant.as_bytes(), caller.as_bytes(), agent.as_bytes(), &task, text.as_bytes()];
        let mut hash = Sha256::new();
        for field in fields.into_iter().chain(name) {
            // Lengths first, so that two lists of fields never make the same bytes.
            hash.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(field);
        }
        let key = with_time(truncate_hash(hash), sent_at);
        Some(Self { mark: RetryMark { key, digest: digest(message) }, explicit: explicit.is_some() })
    }
}

/// The first key without a time: all of them sort after those with one.
pub(crate) const UNTIMED_KEY_MIN: Digest = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The bytes of the time in a key, in milliseconds.
const TIME_BYTES: usize = 6;

/// Writes the time into the beginning of a key, or else sets the bit that says that there is none.
fn with_time(mut key: Digest, sent_at: Option<Timestamp>) -> Digest {
    let millis = sent_at.and_then(|at| u64::try_from(at.millis()).ok()).map(u64::to_be_bytes);
    match millis.filter(|bytes| bytes[0] == 0 && bytes[1] == 0 && bytes[2] < UNTIMED_KEY_MIN[0]) {
        Some(bytes) => key[..TIME_BYTES].copy_from_slice(&bytes[8 - TIME_BYTES..]),
        None => key[0] |= UNTIMED_KEY_MIN[0],
    }
    key
}

fn truncate_hash(hash: Sha256) -> Digest {
    let full = hash.finalize();
    let mut short = Digest::default();
    short.copy_from_slice(&full[..16]);
    short
}

/// The digest of a message, the same in every binding: metadata and data are compared by value, since member order and
/// the spelling of numbers differ between JSON and protobuf.
fn digest(message: &Message) -> Digest {
    let mut hash = Sha256::new();
    let free_form = message.metadata.is_some()
        || message.parts.iter().any(|p| p.metadata.is_some() || matches!(p.content, Content::Data(_)));
    if !free_form {
        hash_list(&mut hash, to_vec(message));
        return truncate_hash(hash);
    }
    let Message { message_id, context_id, task_id, role, parts, metadata, extensions, reference_task_ids } = message;
    hash_list(&mut hash, to_vec(&(message_id, context_id, task_id, role, extensions, reference_task_ids)));
    for Part { content, metadata, filename, media_type } in parts {
        match content {
            Content::Text(text) => hash_list(&mut hash, to_vec(&("text", text))),
            Content::Raw(bytes) => {
                hash_list(&mut hash, to_vec(&("raw", bytes.len())));
                hash.update(bytes);
            }
            Content::Url(url) => hash_list(&mut hash, to_vec(&("url", url))),
            Content::Data(json) => hash_list(&mut hash, to_vec(&("data", normalize(json.as_str())))),
        }
        hash_list(
            &mut hash,
            to_vec(&(metadata.as_ref().map(|metadata| normalize(metadata.as_str())), filename, media_type)),
        );
    }
    let members: BTreeMap<String, &RawValue> =
        metadata.as_ref().and_then(|metadata| metadata.as_json().read().ok()).unwrap_or_default();
    for (name, json) in members {
        hash_list(&mut hash, to_vec(&(name, normalize(json.get()))));
    }
    truncate_hash(hash)
}

/// Hashes one more list. Each is a JSON list, so that two of them never make the same bytes.
fn hash_list(hash: &mut Sha256, written: serde_json::Result<Vec<u8>>) {
    hash.update(written.unwrap_or_default());
}

/// The JSON value in the form in which it is compared.
fn normalize(json: &str) -> serde_json::Value {
    let mut value = serde_json::from_str(json).unwrap_or_default();
    normalize_numbers(&mut value);
    value
}

/// Makes every number a double, which is all that protobuf can carry.
fn normalize_numbers(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) => {
            *value = number.as_f64().and_then(serde_json::Number::from_f64).map_or(serde_json::Value::Null, Into::into);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        serde_json::Value::Object(members) => members.values_mut().for_each(normalize_numbers),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::String(_) => {}
    }
}

/// The retry keys in memory.
#[derive(Debug)]
pub(crate) struct RetryKeys {
    inner: Mutex<RetryKeyTable>,
    time: Duration,
    keys_max: usize,
}

#[derive(Debug, Default)]
struct RetryKeyTable {
    by_key: HashMap<Digest, KnownSend>,
    order: VecDeque<(Stamp, Digest)>,
    /// Every key with a time after this one that is in the log is also here; `None` until the log was read.
    complete_after: Option<Digest>,
}

/// A send that is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownSend {
    pub(crate) task: TaskId,
    pub(crate) digest: Digest,
    at: Stamp,
    stage: SendStage,
}

/// The progress of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendStage {
    /// It opens its task. Once it has, the task is in the log, so no later stage is recorded.
    Opens,
    /// It continues a task; the task alone does not show whether the message is in it yet.
    Continues,
    /// Its step is in the log.
    Stored,
}

/// The result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendFate {
    /// Its step is not committed yet.
    Pending,
    /// Its step is in the log; or will be, if it opens a task.
    Stored,
    /// It has failed and was forgotten.
    Gone,
}

impl RetryKeys {
    pub(crate) fn new(time: Duration, keys_max: usize) -> Self {
        Self { inner: Mutex::default(), time, keys_max }
    }

    fn lock(&self) -> MutexGuard<'_, RetryKeyTable> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the earliest send that still counts.
    pub(crate) fn horizon(&self, now: Timestamp) -> Stamp {
        let time = i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX);
        Stamp::first_of(Timestamp::from_millis(now.millis().saturating_sub(time)))
    }

    /// Remembers a key for this task, unless it is known. One lock for both, so that two copies of a send that arrive
    /// together cannot both be the first.
    pub(crate) fn insert_if_new(
        &self,
        mark: RetryMark,
        task: TaskId,
        at: Stamp,
        stage: SendStage,
    ) -> Result<PendingRetryKey<'_>, KnownSend> {
        let horizon = self.horizon(at.time());
        let mut inner = self.lock();
        inner.forget_before(horizon, self.keys_max);
        match inner.by_key.get(&mark.key) {
            Some(known) if known.at >= horizon => return Err(*known),
            Some(_) => inner.remove_stored(mark.key),
            None => {}
        }
        inner.insert(mark, task, at, stage);
        Ok(PendingRetryKey { retries: self, mark, task, released: false })
    }

    /// Whether a key that is missing here is missing in the log as well.
    pub(crate) fn is_complete_for(&self, key: Digest) -> bool {
        key < UNTIMED_KEY_MIN && self.lock().complete_after.is_some_and(|last| last < key)
    }

    /// Sets the last key with a time in the log: every later one is in memory.
    pub(crate) fn set_complete_after(&self, last: Option<Digest>) {
        self.lock().complete_after = Some(last.unwrap_or_default());
    }

    /// Finds a key with the same content.
    pub(crate) fn find(&self, mark: RetryMark, now: Stamp) -> Option<KnownSend> {
        let horizon = self.horizon(now.time());
        self.lock().by_key.get(&mark.key).filter(|known| known.at >= horizon && known.digest == mark.digest).copied()
    }

    /// Replaces the entry of a key by a send in progress.
    pub(crate) fn replace(&self, mark: RetryMark, task: TaskId, at: Stamp, stage: SendStage) -> PendingRetryKey<'_> {
        self.lock().insert(mark, task, at, stage);
        PendingRetryKey { retries: self, mark, task, released: false }
    }

    /// Takes over the log's entry for a key.
    pub(crate) fn insert_stored(&self, kept: &StoredRetry, at: Stamp) {
        self.lock().insert(kept.mark, kept.task, at, SendStage::Stored);
    }

    /// Restarts the time of a key that was used again.
    pub(crate) fn touch(&self, mark: RetryMark, at: Stamp) {
        let mut inner = self.lock();
        if let Some(known) = inner.by_key.get(&mark.key).copied() {
            inner.insert(mark, known.task, at, known.stage);
        }
    }

    /// Records that the step of a send is in the log.
    pub(crate) fn mark_stored(&self, mark: RetryMark, task: TaskId) {
        if let Some(known) = self.lock().by_key.get_mut(&mark.key).filter(|known| known.task == task) {
            known.stage = SendStage::Stored;
        }
    }

    /// The result of a send.
    pub(crate) fn fate_of(&self, mark: RetryMark, task: TaskId) -> SendFate {
        match self.lock().by_key.get(&mark.key).filter(|known| known.task == task) {
            Some(KnownSend { stage: SendStage::Stored | SendStage::Opens, .. }) => SendFate::Stored,
            Some(KnownSend { stage: SendStage::Continues, .. }) => SendFate::Pending,
            None => SendFate::Gone,
        }
    }

    /// Forgets a failed send. An entry that is in the log stays, as does another send that has taken over the key.
    pub(crate) fn forget(&self, mark: RetryMark, task: TaskId) {
        let mut inner = self.lock();
        let this =
            |known: &KnownSend| known.task == task && known.digest == mark.digest && known.stage != SendStage::Stored;
        if inner.by_key.get(&mark.key).is_some_and(this) {
            inner.by_key.remove(&mark.key);
        }
    }

    pub(crate) fn keys_max(&self) -> usize {
        self.keys_max
    }

    /// Takes over the recent keys of the log.
    pub(crate) fn rebuild(&self, kept: Vec<StoredRetry>) {
        let mut inner = self.lock();
        for retry in kept {
            inner.insert(retry.mark, retry.task, retry.at, SendStage::Stored);
        }
    }
}

/// The key of a send in progress. Dropped before it is handed on, it removes itself: after a disconnect or a refusal,
/// the retry must not wait.
#[derive(Debug)]
#[must_use = "a key is forgotten again when this is dropped"]
pub(crate) struct PendingRetryKey<'a> {
    retries: &'a RetryKeys,
    mark: RetryMark,
    task: TaskId,
    released: bool,
}

impl PendingRetryKey<'_> {
    /// Hands the key to the code that commits the step of this send, which confirms or forgets it.
    pub(crate) fn release(mut self) -> (RetryMark, TaskId) {
        self.released = true;
        (self.mark, self.task)
    }
}

impl Drop for PendingRetryKey<'_> {
    fn drop(&mut self) {
        if !self.released {
            self.retries.forget(self.mark, self.task);
        }
    }
}

impl RetryKeyTable {
    fn insert(&mut self, mark: RetryMark, task: TaskId, at: Stamp, stage: SendStage) {
        self.by_key.insert(mark.key, KnownSend { task, digest: mark.digest, at, stage });
        self.order.push_back((at, mark.key));
    }

    fn forget_before(&mut self, horizon: Stamp, keys_max: usize) {
        while let Some(&(at, key)) = self.order.front() {
            if at >= horizon && self.order.len() < keys_max {
                break;
            }
            self.order.pop_front();
            // The key may have been used again; then the later entry decides.
            if self.by_key.get(&key).is_some_and(|known| known.at == at) {
                self.remove_stored(key);
            }
        }
    }

    /// Removes a key that may still be in the log.
    fn remove_stored(&mut self, key: Digest) {
        self.by_key.remove(&key);
        if let Some(last) = self.complete_after.as_mut().filter(|last| key < UNTIMED_KEY_MIN && **last < key) {
            *last = key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{AgentName, Caller, Json, MessageId, Role, Tenant};

    fn scope() -> Scope {
        Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: AgentName::parse("a").unwrap() }
    }

    fn message(id: &str, part: Part) -> Message {
        let mut message = Message::text(MessageId::parse(id).unwrap(), Role::User, "");
        message.parts = vec![part];
        message
    }

    const UUID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    #[test]
    fn hand_made_ids_are_no_keys_and_explicit_ones_always_are() {
        let of = |id, explicit: Option<&str>| {
            RetryKey::of(&scope(), None, explicit.map(|text| (text, None)), &message(id, Part::text("x")))
        };
        assert_eq!(of("msg-1", None), None);
        assert!(of("msg-1", Some("k")).unwrap().explicit);
        assert!(!of(UUID, None).unwrap().explicit);
        assert_ne!(of(UUID, None).unwrap().mark.key, of(UUID, Some(UUID)).unwrap().mark.key);
    }

    #[test]
    fn a_name_is_part_of_the_key() {
        let of = |to: Option<TaskRef>| RetryKey::of(&scope(), to.as_ref(), None, &message(UUID, Part::text("x")));
        let (id, name) = (TaskId::parse(UUID).unwrap(), TaskRef::Alias("a".into()));
        let keys =
            [None, Some(id.into()), Some(name), Some(TaskRef::Alias(UUID.into()))].map(|to| of(to).unwrap().mark);
        for (n, mark) in keys.iter().enumerate() {
            assert!(keys[..n].iter().all(|other| other.key != mark.key && other.digest == mark.digest));
        }
    }

    #[test]
    fn keys_of_a_moment_come_in_its_order_and_before_all_others() {
        let of = |text, at: Option<i64>| {
            let explicit = Some((text, at.map(Timestamp::from_millis)));
            RetryKey::of(&scope(), None, explicit, &message("m", Part::text("x"))).unwrap().mark.key
        };
        let now = 1_776_000_000_000;
        assert!(of("b", Some(now)) < of("a", Some(now + 1)) && of("a", Some(now + 1)) < UNTIMED_KEY_MIN);
        assert_ne!(of("a", Some(now)), of("b", Some(now)));
        for none in [None, Some(i64::MAX)] {
            assert!(of("a", none) >= UNTIMED_KEY_MIN, "{none:?}");
        }
    }

    #[test]
    fn a_key_later_than_all_that_were_forgotten_is_known_or_new() {
        let retries = RetryKeys::new(Duration::from_secs(10), 9);
        let at = |ms| Stamp::first_of(Timestamp::from_millis(ms));
        let key = |ms| with_time([1; 16], Some(Timestamp::from_millis(ms)));
        let begin = |ms: i64| {
            let mark = RetryMark { key: key(ms), digest: [0; 16] };
            retries
                .insert_if_new(mark, TaskId::new(at(ms), 0), at(ms), SendStage::Opens)
                .map(PendingRetryKey::release)
                .is_ok()
        };
        assert!(!retries.is_complete_for(key(2000)), "the log has not told yet");
        retries.set_complete_after(Some(key(1000)));
        assert!(
            !retries.is_complete_for(key(1000))
                && retries.is_complete_for(key(1001))
                && !retries.is_complete_for([0xff; 16])
        );
        assert!(begin(2000) && begin(5000));
        assert!(retries.is_complete_for(key(1500)), "nothing was forgotten yet");
        assert!(begin(14_000), "the first is forgotten, twelve seconds later");
        assert!(
            !retries.is_complete_for(key(1500))
                && !retries.is_complete_for(key(2000))
                && retries.is_complete_for(key(2001))
        );
    }

    #[test]
    fn data_is_compared_by_value() {
        let of = |json| digest(&message(UUID, Part::data(Json::parse(json).unwrap())));
        assert_eq!(of(r#"{"a":1,"b":[2]}"#), of(r#"{"b":[2.0],"a":1.0}"#));
        assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":2}"#));
    }

    #[test]
    fn keys_are_bounded_in_time_and_number() {
        let retries = RetryKeys::new(Duration::from_secs(10), 3);
        let at = |ms| Stamp::first_of(Timestamp::from_millis(ms));
        let mark = |n| RetryMark { key: [n; 16], digest: [0; 16] };
        let id = |ms| TaskId::new(at(ms), 0);
        let begin = |n, ms| {
            retries
                .insert_if_new(mark(n), id(ms), at(ms), SendStage::Opens)
                .map(PendingRetryKey::release)
                .err()
                .map(|known| known.task)
        };
        assert_eq!(begin(1, 1000), None);
        assert_eq!(begin(1, 2000), Some(id(1000)));
        assert_eq!(begin(1, 12_000), None, "ten seconds have passed");
        for n in 2..5 {
            assert_eq!(begin(n, 12_001), None);
        }
        assert_eq!(begin(1, 12_002), None, "three newer ones pushed it out");
    }

    #[test]
    fn a_pending_key_forgets_itself_and_nothing_else() {
        let retries = RetryKeys::new(Duration::from_secs(10), 9);
        let (at, id) = (Stamp::first_of(Timestamp::from_millis(1000)), TaskId::new(Stamp::from_u64(1), 0));
        let mark = |digest| RetryMark { key: [1; 16], digest: [digest; 16] };
        drop(retries.insert_if_new(mark(0), id, at, SendStage::Continues).unwrap());
        assert_eq!(retries.fate_of(mark(0), id), SendFate::Gone);
        let first = retries.insert_if_new(mark(0), id, at, SendStage::Continues).unwrap();
        let other = retries.replace(mark(1), id, at, SendStage::Continues);
        drop(first);
        assert_eq!(retries.fate_of(mark(1), id), SendFate::Pending, "the key is another message's by now");
        retries.insert_stored(&StoredRetry { mark: mark(1), task: id, at }, at);
        drop(other);
        assert_eq!(retries.fate_of(mark(1), id), SendFate::Stored, "the log has it");
    }
}
