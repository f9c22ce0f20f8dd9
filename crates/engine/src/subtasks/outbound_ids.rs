//! Outbound ids: the ids under which other servers know the work of a turn, while that turn runs.
//!
//! The lineage of a request travels in metadata, and many agents drop metadata that they do not know. They keep ids: of
//! the conversation and of the message. Ours are made for one turn and used nowhere else. So a message that comes in
//! with one of them was caused by that turn, and is judged as if it carried the turn's lineage.
//!
//! The ids are kept in memory while the turn is at work, and registered again when it resumes after a crash.

use super::lineage::lineage_metadata;
use crate::agent::{Context, TurnInfo};
use crate::engine::Core;
use sabir_proto::{Message, Object};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The turns at work by outbound id.
#[derive(Default)]
pub(crate) struct OutboundIds {
    /// The number of ids. Most servers never have any, and then skip the lookup.
    id_count: AtomicUsize,
    turns_by_id: Mutex<HashMap<String, Vec<Arc<TurnInfo>>>>,
}

/// Keeps the outbound ids of a turn registered until it is dropped.
#[must_use]
pub struct OutboundIdGuard {
    ids: Vec<String>,
    turn: Arc<TurnInfo>,
}

impl std::fmt::Debug for OutboundIdGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownAs").field("names", &self.ids).finish_non_exhaustive()
    }
}

impl OutboundIds {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<TurnInfo>>>> {
        self.turns_by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// Registers the ids under which other servers know the work of this turn: those of the conversation and of the
    /// message sent to them. A message that comes in with one of them was caused by this turn.
    pub fn register_outbound_ids(&self, names: impl IntoIterator<Item = String>) -> OutboundIdGuard {
        let (names, turn) = (Vec::from_iter(names), self.turn.clone());
        let abroad = &turn.core.outbound_ids;
        let mut known = abroad.lock();
        for name in &names {
            known.entry(name.clone()).or_default().push(turn.clone());
        }
        abroad.id_count.store(known.len(), Ordering::Relaxed);
        drop(known);
        OutboundIdGuard { ids: names, turn }
    }
}

impl Drop for OutboundIdGuard {
    fn drop(&mut self) {
        let abroad = &self.turn.core.outbound_ids;
        let mut known = abroad.lock();
        for name in &self.ids {
            if let Some(turns) = known.get_mut(name) {
                turns.retain(|turn| !Arc::ptr_eq(turn, &self.turn));
                if turns.is_empty() {
                    known.remove(name);
                }
            }
        }
        abroad.id_count.store(known.len(), Ordering::Relaxed);
    }
}

impl Core {
    /// The lineage, as message metadata, of a message that has an id of a turn at work.
    pub(super) fn lineage_by_id(&self, message: &Message) -> Option<Object> {
        if self.outbound_ids.id_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let known = self.outbound_ids.lock();
        let conversation = || known.get(&message.context_id.as_ref()?.to_string());
        let turn = known.get(message.message_id.as_str()).or_else(conversation)?.last()?.clone();
        drop(known);
        lineage_metadata(&turn)
    }
}
