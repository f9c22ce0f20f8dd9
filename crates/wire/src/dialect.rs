//! The dialects by name, and the table of what each can say.

use std::fmt;
use std::str::FromStr;

/// A dialect of A2A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// A2A 1.0: the canonical one.
    V1,
    /// A2A 0.3.
    V03,
    /// A2A 0.2.x: payloads as in 0.3, fewer of them.
    V02,
    /// The original: `tasks/send`, client-chosen task ids.
    V01,
    /// agent-native: `type` parts, whole-task events.
    Native,
    /// XPR agents: on-chain accounts, escrow jobs.
    Xpr,
}

/// What a dialect can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
pub struct Reach {
    /// Streams.
    pub streams: bool,
    /// Takes a stream up again.
    pub resubscribes: bool,
    /// Registers webhooks.
    pub push: bool,
    /// Lists and deletes them.
    pub push_lists: bool,
    /// Lists tasks.
    pub lists_tasks: bool,
    /// Answers with a message and no task.
    pub direct_replies: bool,
    /// Continues a task by a further message.
    pub continues: bool,
    /// The client names its tasks.
    pub client_names_tasks: bool,
    /// Has `rejected` and `auth-required`.
    pub all_states: bool,
    /// Messages have names, and know their task and conversation.
    pub message_ids: bool,
    /// Has a card for authenticated callers.
    pub extended_card: bool,
    /// A request without an id is served and answered without one, rather than refused.
    pub optional_ids: bool,
    /// Events of a stream are numbered, so that it can be taken up where it broke off.
    pub numbered_events: bool,
    /// What is no request is told so before anybody asks who sent it.
    pub envelope_first: bool,
}

impl Dialect {
    /// Every dialect.
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

    /// The table.
    pub const fn reach(self) -> Reach {
        /// What 1.0 has is the measure of the others.
        const WHOLE: Reach = Reach {
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
            Self::V03 | Self::V02 => Reach { lists_tasks: false, ..WHOLE },
            Self::V01 => Reach {
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
            Self::Native => Reach {
                resubscribes: false,
                push: false,
                push_lists: false,
                lists_tasks: false,
                direct_replies: false,
                // At its own servers a task that asks goes on through a page, not through a message.
                continues: false,
                all_states: false,
                message_ids: false,
                extended_card: false,
                optional_ids: true,
                numbered_events: false,
                ..WHOLE
            },
            Self::Xpr => Reach {
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

/// Not the name of a dialect.
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
