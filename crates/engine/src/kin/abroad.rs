//! The names that our work goes by elsewhere, while somebody waits for it.
//!
//! Where a request comes from travels in metadata, and many agents drop what they do not know. What they keep are names:
//! of the conversation, or of the message itself. They are ours, made for one turn, and nobody else has them; so a message
//! that comes in under one of them comes from that turn, whatever else it says, and is judged as if it had said so.
//!
//! They are kept in memory for as long as the turn is at work, and again by whoever takes it up after a crash.

use super::lineage::claim_of;
use crate::agent::{Context, TurnInfo};
use crate::engine::Core;
use sabir_proto::{Message, Object};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who goes by which name.
#[derive(Default)]
pub(crate) struct Abroad {
    /// How many names there are: most servers never have any, and need not look.
    count: AtomicUsize,
    names: Mutex<HashMap<String, Vec<Arc<TurnInfo>>>>,
}

/// A turn is known elsewhere by some names, until this is dropped.
#[must_use]
pub struct KnownAs {
    names: Vec<String>,
    turn: Arc<TurnInfo>,
}

impl std::fmt::Debug for KnownAs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownAs").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Abroad {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<TurnInfo>>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// Says by which names others know the work of this turn: those of the conversation and of the message that are sent to
    /// them. What comes back under one of them comes from here.
    pub fn known_as(&self, names: impl IntoIterator<Item = String>) -> KnownAs {
        let (names, turn) = (Vec::from_iter(names), self.turn.clone());
        let abroad = &turn.core.abroad;
        let mut known = abroad.lock();
        for name in &names {
            known.entry(name.clone()).or_default().push(turn.clone());
        }
        abroad.count.store(known.len(), Ordering::Relaxed);
        drop(known);
        KnownAs { names, turn }
    }
}

impl Drop for KnownAs {
    fn drop(&mut self) {
        let abroad = &self.turn.core.abroad;
        let mut known = abroad.lock();
        for name in &self.names {
            if let Some(turns) = known.get_mut(name) {
                turns.retain(|turn| !Arc::ptr_eq(turn, &self.turn));
                if turns.is_empty() {
                    known.remove(name);
                }
            }
        }
        abroad.count.store(known.len(), Ordering::Relaxed);
    }
}

impl Core {
    /// What came before a message that has a name of ours, as it would have said it itself.
    pub(super) fn whence(&self, message: &Message) -> Option<Object> {
        if self.abroad.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let known = self.abroad.lock();
        let conversation = || known.get(&message.context_id.as_ref()?.to_string());
        let turn = known.get(message.message_id.as_str()).or_else(conversation)?.last()?.clone();
        drop(known);
        claim_of(&turn)
    }
}
