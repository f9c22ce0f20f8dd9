//! Ids and names, as types that are parsed once.

use crate::lenient::from_text;
use crate::stamp::Stamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// Limits of ids that callers and peers choose.
pub mod id_limits {
    /// Longest message, artifact, context or foreign task id, in bytes. UUIDs have 36; hashes and URNs fit easily.
    pub const ID_BYTES_MAX: usize = 256;
    /// Longest tenant, in bytes.
    pub const TENANT_BYTES_MAX: usize = 64;
}

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdFault {
    /// No text at all.
    #[error("is empty")]
    Empty,
    /// The text exceeds [`id_limits::ID_BYTES_MAX`].
    #[error("has {0} bytes, over the limit of {max}", max = id_limits::ID_BYTES_MAX)]
    TooLong(usize),
    /// The text contains control characters, which would reach logs, headers and terminals.
    #[error("contains a control character")]
    Control,
}

fn check_id(text: &str) -> Result<(), IdFault> {
    match text {
        "" => Err(IdFault::Empty),
        _ if text.len() > id_limits::ID_BYTES_MAX => Err(IdFault::TooLong(text.len())),
        _ if text.chars().any(char::is_control) => Err(IdFault::Control),
        _ => Ok(()),
    }
}

/// The number of an event in its task's log: 1, 2, 3 … without gaps. Zero means before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number of the following event.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a task of this server: a version 7 UUID whose first 63 meaningful bits are the [`Stamp`] of its creation.
///
/// The stamp is the task's key in the store, so the store finds the row by the id without an index. The remaining 59
/// bits are random, so a caller cannot guess an id from another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u128);

impl TaskId {
    /// Makes an id from a stamp and 64 random bits.
    pub const fn new(stamp: Stamp, random: u64) -> Self {
        Self(stamped_v7(stamp, random))
    }

    /// Parses an id in the one form that we write: lower case, hyphens, version 7.
    pub fn parse(text: &str) -> Option<Self> {
        parse_v7(text).map(Self)
    }

    /// The stamp of the task's creation.
    pub const fn stamp(self) -> Stamp {
        stamp_of(self.0)
    }

    /// The id as sixteen bytes, for a store.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id from the sixteen bytes of a store.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

const fn stamped_v7(stamp: Stamp, random: u64) -> u128 {
    let (ms, count) = (stamp.get() >> 15, stamp.get() & 0x7fff);
    let high = (ms << 16) | 0x7000 | (count >> 3);
    let low = (0b10 << 62) | ((count & 7) << 59) | (random & ((1 << 59) - 1));
    ((high as u128) << 64) | low as u128
}

const fn stamp_of(id: u128) -> Stamp {
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the number")]
    let (high, low) = ((id >> 64) as u64, id as u64);
    Stamp::from_u64(((high >> 16) << 15) | ((high & 0xfff) << 3) | ((low >> 59) & 7))
}

fn parse_v7(text: &str) -> Option<u128> {
    if text.len() != 36 || text.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let id = Uuid::try_parse(text).ok()?;
    (id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122).then(|| id.as_u128())
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = Uuid::encode_buffer();
        f.write_str(Uuid::from_u128(self.0).hyphenated().encode_lower(&mut buffer))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut buffer = Uuid::encode_buffer();
        s.serialize_str(Uuid::from_u128(self.0).hyphenated().encode_lower(&mut buffer))
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d, |text| Self::parse(text).ok_or_else(|| "not a task id of ours".to_owned()))
    }
}

/// What a caller writes to name a task: an id of this server, or a name that the caller chose (v0.1 and XPR clients
/// name their tasks themselves). A chosen name finds only tasks of that caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TaskRef {
    /// An id that this server made.
    Id(TaskId),
    /// Any other name.
    Alias(Arc<str>),
}

impl TaskRef {
    /// Parses the text that a caller wrote.
    pub fn parse(text: &str) -> Result<Self, IdFault> {
        if let Some(id) = TaskId::parse(text) {
            return Ok(Self::Id(id));
        }
        check_id(text)?;
        Ok(Self::Alias(text.into()))
    }
}

impl From<TaskId> for TaskRef {
    fn from(id: TaskId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Alias(name) => f.write_str(name),
        }
    }
}

impl Serialize for TaskRef {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Id(id) => id.serialize(s),
            Self::Alias(name) => s.serialize_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for TaskRef {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d, |text| Self::parse(text).map_err(|e| format!("task id {e}")))
    }
}

/// The id of a conversation. This server makes its own like task ids; a client may bring its own in any form.
///
/// A context of this server is made with its first task and has the same stamp, so the store finds that task without an
/// index and needs one only for later tasks.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum ContextId {
    /// Made by this server: a version 7 UUID.
    Ours(u128),
    /// Brought by a client.
    Theirs(Arc<str>),
}

impl ContextId {
    /// Makes an id with the stamp of the first task of the context.
    pub const fn new(stamp: Stamp, random: u64) -> Self {
        Self::Ours(stamped_v7(stamp, random))
    }

    /// Parses an id of this server or of a client.
    pub fn parse(text: &str) -> Result<Self, IdFault> {
        if let Some(id) = parse_v7(text) {
            return Ok(Self::Ours(id));
        }
        check_id(text)?;
        Ok(Self::Theirs(text.into()))
    }

    /// The stamp of the first task, if this server made the context.
    pub const fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Ours(id) => Some(stamp_of(*id)),
            Self::Theirs(_) => None,
        }
    }
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(id) => TaskId(*id).fmt(f),
            Self::Theirs(name) => f.write_str(name),
        }
    }
}

impl fmt::Debug for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ContextId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ours(id) => TaskId(*id).serialize(s),
            Self::Theirs(name) => s.serialize_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for ContextId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d, |text| Self::parse(text).map_err(|e| format!("context id {e}")))
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses an id, within [`id_limits`].
            pub fn parse(text: &str) -> Result<Self, IdFault> {
                check_id(text)?;
                Ok(Self(text.into()))
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                from_text(d, |text| Self::parse(text).map_err(|e| format!(concat!($what, " {}"), e)))
            }
        }
    };
}

text_id! {
    /// The id of a message, chosen by its author.
    MessageId, "message id"
}
text_id! {
    /// The id of an artifact, unique within its task.
    ArtifactId, "artifact id"
}

/// Whether a name is a UUID or a ULID, i.e. made to be unique and not guessable.
pub fn is_uuid_or_ulid(text: &str) -> bool {
    let uuid = matches!(text.len(), 32 | 36) && Uuid::try_parse(text).is_ok_and(|u| !u.is_nil() && !u.is_max());
    let ulid = text.len() == 26
        && matches!(text.as_bytes()[0], b'0'..=b'7')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() && !matches!(b.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U'));
    uuid || ulid
}

impl MessageId {
    /// Whether the id is a UUID or a ULID. Only such ids may serve as retry keys: tutorials and test kits send `msg-1`
    /// for every message.
    pub fn is_uuid_or_ulid(&self) -> bool {
        is_uuid_or_ulid(&self.0)
    }
}

/// Why a text cannot be a tenant or an agent's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantFault {
    /// The name exceeds [`id_limits::TENANT_BYTES_MAX`], is empty, or has characters that are not allowed in a path
    /// segment.
    #[error("must be 1 to {max} characters of a-z A-Z 0-9 . _ ~ - and not start with . or _", max = id_limits::TENANT_BYTES_MAX)]
    Form,
    /// The name is a first path segment with another meaning.
    #[error("{0:?} is reserved")]
    Reserved(String),
}

/// First path segments that can be neither tenants nor agents, because they have another meaning.
const RESERVED: [&str; 11] =
    ["agents", "v1", "a2a", "api", "console", "metrics", "tasks", "extendedAgentCard", "healthz", "readyz", "apps"];

fn check_segment(text: &str) -> Result<(), TenantFault> {
    if text.len() > id_limits::TENANT_BYTES_MAX {
        return Err(TenantFault::Form);
    }
    if RESERVED.contains(&text) || text.starts_with("message:") {
        return Err(TenantFault::Reserved(text.into()));
    }
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'~' | b'-');
    let ok = !text.is_empty() && !text.starts_with(['.', '_']) && text.bytes().all(legal);
    if ok { Ok(()) } else { Err(TenantFault::Form) }
}

/// An opaque routing name of the protocol. A task belongs to a tenant and a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Whether the caller named no tenant.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The tenant of callers that name none.
    pub fn none() -> Self {
        static NONE: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "".into());
        Self(NONE.clone())
    }

    /// Parses a tenant; the empty text is [`Tenant::none`].
    pub fn parse(text: &str) -> Result<Self, TenantFault> {
        if text.is_empty() {
            return Ok(Self::none());
        }
        check_segment(text)?;
        Ok(Self(text.into()))
    }

    /// A tenant of another server, which its card names and its clients repeat unchanged. That server defines its
    /// characters; never use this for a name that a caller sends.
    pub fn of_peer(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the tenant as text; empty for none.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Tenant {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Tenant {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        from_text(d, |text| Self::parse(text).map_err(|e| format!("tenant {e}")))
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self::none()
    }
}

/// The name of an agent in the configuration and in the path `/agents/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentName(Arc<str>);

impl AgentName {
    /// Parses a name; it must be usable as a path segment.
    pub fn parse(text: &str) -> Result<Self, TenantFault> {
        check_segment(text)?;
        Ok(Self(text.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn a_task_id_keeps_its_stamp_and_sorts_by_it() {
        let mut stamp = Stamp::first_of(Timestamp::from_millis(1_780_308_000_123));
        let mut last: Option<TaskId> = None;
        for random in 0..70_000u64 {
            stamp = stamp.next(stamp.time());
            let id = TaskId::new(stamp, random.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            assert_eq!(id.stamp(), stamp);
            assert_eq!(TaskId::parse(&id.to_string()), Some(id));
            assert!(last.is_none_or(|l| l < id));
            last = Some(id);
        }
        let text = last.unwrap().to_string();
        assert_eq!(Uuid::parse_str(&text).unwrap().get_version_num(), 7);
    }

    #[test]
    fn a_foreign_task_id_is_kept_as_written() {
        for text in ["task-1", "0190-not-a-uuid", "01890A5D-AC96-774B-BCCE-B302099A8057", "日本"] {
            assert_eq!(TaskRef::parse(text).unwrap(), TaskRef::Alias(text.into()));
        }
        assert_eq!(TaskRef::parse(""), Err(IdFault::Empty));
        assert_eq!(TaskRef::parse("a\nb"), Err(IdFault::Control));
        assert_eq!(TaskRef::parse(&"x".repeat(10_000)), Err(IdFault::TooLong(10_000)));
    }

    #[test]
    fn only_ids_made_to_be_unique_are_retry_keys() {
        let unique = |s| MessageId::parse(s).unwrap().is_uuid_or_ulid();
        for good in
            ["01890a5d-ac96-774b-bcce-b302099a8057", "f47ac10b58cc4372a5670e02b2c3d479", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]
        {
            assert!(unique(good), "{good}");
        }
        for bad in [
            "m1",
            "msg-1",
            "00000000-0000-0000-0000-000000000000",
            "conformance-message-000001",
            "IIIIIIIIIIIIIIIIIIIIIIIIII",
        ] {
            assert!(!unique(bad), "{bad}");
        }
    }

    #[test]
    fn reserved_words_are_not_tenants() {
        for bad in
            ["agents", "v1", "tasks", "message:send", ".well-known", "_agent-native", "a/b", "a b", &"x".repeat(65)]
        {
            assert!(Tenant::parse(bad).is_err(), "{bad}");
        }
        assert!(Tenant::parse("acme-1.eu").is_ok());
    }
}
