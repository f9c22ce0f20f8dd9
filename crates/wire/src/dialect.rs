//! The dialects by name, and the table of the features of each.

use std::fmt;
use std::str::FromStr;

/// A dialect of A2A, by version or by product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// A2A 1.0: the canonical dialect.
    V1,
    /// A2A 0.3, in all its bindings.
    V03,
    /// A2A 0.2.x: a part of the payloads of 0.3.
    V02,
    /// A2A 0.1, the original: `tasks/send`, task ids chosen by the client.
    V01,
    /// agent-native: parts by `type`, events that are whole tasks.
    Native,
    /// XPR agents: on-chain accounts, escrow jobs.
    Xpr,
}

/// The features that a dialect has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
pub struct DialectFeatures {
    /// It has event streams.
    pub streams: bool,
    /// A client can resume a stream.
    pub resubscribes: bool,
    /// A client can register webhooks.
    pub push: bool,
    /// A client can list and delete webhooks.
    pub push_lists: bool,
    /// A client can list tasks.
    pub lists_tasks: bool,
    /// An agent can answer with a message and no task.
    pub direct_replies: bool,
    /// A client can continue a task by another message.
    pub continues: bool,
    /// The client chooses the ids of its tasks.
    pub client_names_tasks: bool,
    /// It has the states `rejected` and `auth-required`.
    pub all_states: bool,
    /// Messages have ids, and name their task and context.
    pub message_ids: bool,
    /// It has a card for authenticated callers.
    pub extended_card: bool,
    /// A request without an id is served and answered without one, not refused.
    pub optional_ids: bool,
    /// Events of a stream are numbered, so that a client can resume it where it broke off.
    pub numbered_events: bool,
    /// A body that is no request is refused as such before the caller is authenticated.
    pub envelope_first: bool,
}

impl Dialect {
    /// Every dialect, newest A2A version first.
    pub const ALL: [Self; 6] = [Self::V1, Self::V03, Self::V02, Self::V01, Self::Native, Self::Xpr];

    /// The name in configuration, metrics and `sabir convert`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
            Self::V02 => "0.2",
            Self::V01 => "0.1",
            Self::Native => "agent-native",
            Self::Xpr => "xpr",
        }
    }

    /// The features of a dialect: this is the table.
    pub const fn features(self) -> DialectFeatures {
        /// The features of 1.0, from which the others differ.
        const WHOLE: DialectFeatures = DialectFeatures {
            streams: true,
            resubscribes: true,
            push: true,
            push_lists: true,
            lists_tasks: true,
            direct_replies: true,
            continues: true,
            client_names_tasks: false,
            all_states: true,
            message_ids: true,
            extended_card: true,
            optional_ids: false,
            numbered_events: true,
            envelope_first: false,
        };
        match self {
            Self::V1 => WHOLE,
            Self::V03 | Self::V02 => DialectFeatures { lists_tasks: false, ..WHOLE },
            Self::V01 => DialectFeatures {
                push_lists: false,
                lists_tasks: false,
                direct_replies: false,
                client_names_tasks: true,
                all_states: false,
                message_ids: false,
                extended_card: false,
                optional_ids: true,
                numbered_events: false,
                ..WHOLE
            },
            Self::Native => DialectFeatures {
                resubscribes: false,
                push: false,
                push_lists: false,
                lists_tasks: false,
                direct_replies: false,
                // On its own servers, a user continues a task that asks for input on a web page, not by a message.
                continues: false,
                all_states: false,
                message_ids: false,
                extended_card: false,
                optional_ids: true,
                numbered_events: false,
                ..WHOLE
            },
            Self::Xpr => DialectFeatures {
                streams: false,
                resubscribes: false,
                push: false,
                push_lists: false,
                lists_tasks: false,
                direct_replies: false,
                client_names_tasks: true,
                all_states: false,
                message_ids: false,
                extended_card: false,
                optional_ids: true,
                numbered_events: false,
                envelope_first: true,
                ..WHOLE
            },
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that is not the name of a dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect {0:?}; there are 1.0, 0.3, 0.2, 0.1, agent-native and xpr")]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        let name = text.strip_prefix('v').unwrap_or(text);
        Self::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| UnknownDialect(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_found_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.name().parse(), Ok(dialect));
        }
        assert_eq!("v0.3".parse(), Ok(Dialect::V03));
        assert!("0.4".parse::<Dialect>().is_err());
    }
}
