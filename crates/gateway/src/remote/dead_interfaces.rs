//! Interfaces of a card that cannot be reached: which ones they are, and which one is called instead.
//!
//! All interfaces of a card lead to the same agent. One that could not be reached is passed over for as long as a card
//! is fresh, then tried again. Only calls that cannot have arrived count: an interface that answers, or is slow, is
//! alive.

use super::CARD_FRESH;
use sabir_client::DiscoveredCard;
use sabir_proto::card::Interface;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The interfaces that could not be reached, and when.
#[derive(Debug, Default)]
pub(super) struct DeadInterfaces(Mutex<Vec<(Interface, Instant)>>);

impl DeadInterfaces {
    pub(super) fn record(&self, interface: &Interface) {
        let mut shut = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shut.retain(|(known, since)| known != interface && since.elapsed() < CARD_FRESH);
        shut.push((interface.clone(), Instant::now()));
    }

    fn contains(&self, interface: &Interface) -> bool {
        let shut = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shut.iter().any(|(known, since)| known == interface && since.elapsed() < CARD_FRESH)
    }

    /// The card with the dead interfaces last; `None` where that changes nothing. If all of them are dead, the card's
    /// own order is as good as any.
    pub(super) fn with_dead_interfaces_last(&self, found: &DiscoveredCard) -> Option<DiscoveredCard> {
        let (shut, open): (Vec<_>, Vec<_>) =
            found.card.supported_interfaces.iter().cloned().partition(|interface| self.contains(interface));
        if shut.is_empty() || open.is_empty() {
            return None;
        }
        let mut found = found.clone();
        found.card.supported_interfaces = [open, shut].concat();
        Some(found)
    }

    /// Whether this interface of a card is called in place of a dead one.
    pub(super) fn replaces_dead_interface(&self, found: &DiscoveredCard, called: &Interface) -> bool {
        !self.contains(called) && found.card.supported_interfaces.iter().any(|interface| self.contains(interface))
    }
}
