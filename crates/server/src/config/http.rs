//! `[agent.http]`: the settings of an HTTP endpoint.

use sabir_engine::ConversationLimits;
use sabir_guard::config::SecretReference;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `[agent.http]`: how the endpoint is called.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Headers of each request, each as `env:NAME` or `file:PATH`, because a header value is most often a key.
    pub headers: BTreeMap<String, SecretReference>,
    /// Earlier messages of the task that go with each request; 0 for none.
    pub history_messages_max: usize,
    /// Messages of the conversation's earlier tasks that go with each request; 0 for none.
    pub conversation_messages_max: usize,
    /// Bytes of those messages; 0 for none.
    pub conversation_bytes_max: usize,
    /// Seconds until an answer must begin.
    pub answer_seconds_max: u64,
    /// Seconds of silence on a stream after which it fails.
    pub silence_seconds_max: u64,
    /// Bytes of one answer, the whole stream included.
    pub answer_bytes_max: usize,
    /// Maximum attempts per request with `idempotent = true`; otherwise only a request that cannot have arrived is
    /// repeated.
    pub attempts_max: u32,
}

impl Default for HttpConfig {
    fn default() -> Self {
        let conversation = ConversationLimits::default();
        Self {
            headers: BTreeMap::new(),
            history_messages_max: 0,
            conversation_messages_max: conversation.messages_max,
            conversation_bytes_max: conversation.bytes_max,
            answer_seconds_max: 60,
            silence_seconds_max: 90,
            answer_bytes_max: 16 << 20,
            attempts_max: 3,
        }
    }
}

impl HttpConfig {
    /// How much of the conversation's earlier tasks each request contains.
    pub(crate) const fn conversation(&self) -> ConversationLimits {
        ConversationLimits { messages_max: self.conversation_messages_max, bytes_max: self.conversation_bytes_max }
    }

    /// Checks the values. An error names the one that is not legal.
    pub(crate) fn check(&self) -> Result<(), String> {
        check([
            ("http.conversation_messages_max", self.conversation_messages_max as u64, 0..=10_000),
            ("http.conversation_bytes_max", self.conversation_bytes_max as u64, 0..=16 << 20),
            ("http.answer_seconds_max", self.answer_seconds_max, 1..=86_400),
            ("http.silence_seconds_max", self.silence_seconds_max, 1..=86_400),
            ("http.answer_bytes_max", self.answer_bytes_max as u64, 1..=64 << 20),
            ("http.attempts_max", u64::from(self.attempts_max), 1..=10),
        ])
    }
}

/// Checks values against their ranges. The error names the first that is out of range.
pub(super) fn check<const N: usize>(bounds: [(&str, u64, std::ops::RangeInclusive<u64>); N]) -> Result<(), String> {
    match bounds.into_iter().find(|(_, value, range)| !range.contains(value)) {
        None => Ok(()),
        Some((name, value, range)) => {
            Err(format!("{name} = {value} is not between {} and {}", range.start(), range.end()))
        }
    }
}
