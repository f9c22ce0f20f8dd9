//! Chooses the id under which a caller's message is passed on: the caller's own, where that can be used.
//!
//! An agent may take two messages with one id for one message. So an id is passed on only if it was made to be unique,
//! and only for the first turn that comes with it. Every other message gets an id of ours, made from its turn: the
//! hand-made `msg-1` that many callers use, an id that another caller has used, and one that its caller uses again for
//! something else. A turn keeps its id in its checkpoint, so retries, other interfaces and a restart do not change it.
//!
//! The ids that were passed on are kept in memory only, for the latest messages. That is enough for callers who repeat
//! an id by mistake; older ids of other callers are random, and only their own callers see them.

use crate::derived_uuid::derived_uuid;
use sabir_engine::Context;
use sabir_proto::MessageId;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

/// Ids that are remembered before the older half is forgotten: about 3 MiB for one agent.
const IDS_MAX: usize = 65_536;

/// The ids that were passed on to one agent, and the turns they belong to. Both as hashes, which take less room than
/// the text; two that are equal by chance cost one message its caller's id.
#[derive(Debug, Default)]
pub(super) struct MessageIds {
    hasher: RandomState,
    used: Mutex<UsedIds>,
}

#[derive(Debug, Default)]
struct UsedIds {
    latest: HashMap<u64, u64>,
    older: HashMap<u64, u64>,
}

impl MessageIds {
    /// The id for the message of a turn.
    pub(super) fn id_for(&self, cx: &Context) -> String {
        let said = &cx.message().message_id;
        match said.is_uuid_or_ulid() && self.try_claim(said, &cx.turn_id()) {
            true => said.as_str().to_owned(),
            false => generated_id(cx),
        }
    }

    /// Whether a turn may use an id.
    fn try_claim(&self, id: &MessageId, turn: &str) -> bool {
        let (id, turn) = (self.hasher.hash_one(id.as_str()), self.hasher.hash_one(turn));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let known = used.latest.get(&id).or_else(|| used.older.get(&id)).copied();
        if let Some(known) = known {
            return known == turn;
        }
        if used.latest.len() >= IDS_MAX {
            used.older = std::mem::take(&mut used.latest);
        }
        used.latest.insert(id, turn);
        true
    }
}

/// An id of ours for the message of a turn. If it leaves before its task is stored it is made from the caller's, so
/// that the agent recognises it even if the caller has to send it again.
pub(super) fn generated_id(cx: &Context) -> String {
    let said = &cx.message().message_id;
    match cx.is_open_deferred() && said.is_uuid_or_ulid() {
        true => {
            derived_uuid(&["message", cx.tenant().as_str(), cx.caller().name(), cx.agent().as_str(), said.as_str()])
        }
        false => derived_uuid(&["message", &cx.turn_id()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_the_first_turn_that_comes_with_it() {
        let ids = MessageIds::default();
        let id = |n: usize| MessageId::parse(&format!("00000000-0000-4000-8000-{n:012}")).unwrap();
        assert!(ids.try_claim(&id(1), "a/0"));
        assert!(ids.try_claim(&id(1), "a/0"), "a turn that is tried again keeps it");
        assert!(!ids.try_claim(&id(1), "b/0"));
        for n in 2..=IDS_MAX + 1 {
            assert!(ids.try_claim(&id(n), "c/0"));
        }
        assert!(!ids.try_claim(&id(1), "b/0"), "what is older is still known");
        assert!(ids.used.lock().unwrap().latest.len() <= IDS_MAX);
    }
}
