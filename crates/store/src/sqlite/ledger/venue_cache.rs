//! A cache of what every booking reads: the venue with its slots, and the subscribers of a key.
//!
//! Only the writer changes this data, so it updates the cache after each commit, before it replies. Bookings are
//! applied one by one. All other changes of the ledger clear the cache, which is rare and cannot be forgotten.
//!
//! A reader may read while a commit returns. The entry carries the commit it was read at, so that no booking is counted
//! twice; and it is cached only if nothing has changed here since the read began, so that none is missed.

use super::super::lock;
use crate::ledger::{BookableVenue, Slot, Subscriber, Venue, VenueRef};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Venues, slots and subscribers in the cache, all counted; some megabytes. When it is full, it is cleared.
const ENTRIES_MAX: usize = 16_384;

#[derive(Debug, Default)]
pub(in super::super) struct VenueCache {
    inner: Mutex<VenueCacheState>,
}

#[derive(Debug, Default)]
struct VenueCacheState {
    /// The number of changes so far.
    age: u64,
    entries: usize,
    by_id: HashMap<String, CachedVenue>,
    by_slug: HashMap<String, String>,
    by_agent: HashMap<String, String>,
    subscribers: HashMap<String, Arc<Vec<Subscriber>>>,
}

#[derive(Debug)]
struct CachedVenue {
    bookable: BookableVenue,
    /// The last commit that the entry contains.
    as_of: u64,
}

/// The effect of a commit on a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct SlotMove {
    pub(in super::super) venue: String,
    pub(in super::super) slot: String,
    /// Whether there is one booking more, or one less.
    pub(in super::super) taken: bool,
}

impl VenueCache {
    /// The age to pass to `keep`; taken before the read.
    pub(super) fn age(&self) -> u64 {
        lock(&self.inner).age
    }

    pub(super) fn bookable(&self, name: VenueRef<'_>) -> Option<BookableVenue> {
        let inner = lock(&self.inner);
        let id = match name {
            VenueRef::Id(id) => id,
            VenueRef::Slug(slug) => inner.by_slug.get(slug)?,
            VenueRef::Agent(agent) => inner.by_agent.get(agent)?,
        };
        inner.by_id.get(id).map(|shelved| shelved.bookable.clone())
    }

    pub(super) fn subscribers(&self, key: &str) -> Option<Arc<Vec<Subscriber>>> {
        lock(&self.inner).subscribers.get(key).cloned()
    }

    /// Caches a venue that was read at this age, and is as of that commit.
    pub(super) fn keep(&self, bookable: &BookableVenue, as_of: u64, age: u64) {
        let mut inner = lock(&self.inner);
        if inner.has_room(age, 1 + bookable.slots.len()) {
            let Venue { id, slug, agent_id, .. } = &*bookable.venue;
            inner.by_slug.insert(slug.clone(), id.clone());
            inner.by_agent.insert(agent_id.clone(), id.clone());
            inner.by_id.insert(id.clone(), CachedVenue { bookable: bookable.clone(), as_of });
        }
    }

    /// Caches the subscribers of a key that were read at this age.
    pub(super) fn keep_subscribers(&self, key: &str, subscribers: &Arc<Vec<Subscriber>>, age: u64) {
        let mut inner = lock(&self.inner);
        if inner.has_room(age, 1 + subscribers.len()) {
            inner.subscribers.insert(key.to_owned(), subscribers.clone());
        }
    }

    /// Applies the slot changes of this commit.
    pub(in super::super) fn apply_slot_moves(&self, moves: &[SlotMove], commit: u64) {
        if moves.is_empty() {
            return;
        }
        let mut inner = lock(&self.inner);
        inner.age += 1;
        for SlotMove { venue, slot, taken } in moves {
            let Some(shelved) = inner.by_id.get_mut(venue).filter(|shelved| shelved.as_of < commit) else { continue };
            // Copied only while a reader holds the slots.
            let slots: &mut Vec<Slot> = Arc::make_mut(&mut shelved.bookable.slots);
            if let Some(slot) = slots.iter_mut().find(|known| known.id == *slot) {
                slot.taken = if *taken { slot.taken.saturating_add(1) } else { slot.taken.saturating_sub(1) };
            }
        }
    }

    /// Clears the cache after any other change.
    pub(in super::super) fn clear(&self) {
        let mut inner = lock(&self.inner);
        *inner = VenueCacheState { age: inner.age + 1, ..VenueCacheState::default() };
    }
}

impl VenueCacheState {
    /// Whether an entry that was read at this age may be cached; makes room for it.
    fn has_room(&mut self, age: u64, entries: usize) -> bool {
        if self.age != age || entries > ENTRIES_MAX {
            return false;
        }
        if self.entries + entries > ENTRIES_MAX {
            *self = Self { age, ..Self::default() };
        }
        self.entries += entries;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Fee;

    fn bookable(slug: &str, slots: usize) -> BookableVenue {
        let venue = Venue {
            id: format!("id-{slug}"),
            slug: slug.into(),
            name: String::new(),
            agent_id: format!("agent-{slug}"),
            category: String::new(),
            description: None,
            area: None,
            city: None,
            tags: Vec::new(),
            price_range: None,
            priority_rank: None,
            endpoint: None,
            settings: None,
            fee: Fee::default(),
            active: true,
        };
        let slot = |n: usize| Slot { id: n.to_string(), time: String::new(), capacity: 9, taken: 4 };
        BookableVenue { venue: Arc::new(venue), slots: Arc::new((0..slots).map(slot).collect()) }
    }

    fn moved(taken: bool) -> [SlotMove; 1] {
        [SlotMove { venue: "id-a".into(), slot: "0".into(), taken }]
    }

    #[test]
    fn bookings_are_followed_once_and_by_every_name() {
        let shelf = VenueCache::default();
        shelf.keep(&bookable("a", 2), 5, shelf.age());
        shelf.apply_slot_moves(&moved(true), 5);
        shelf.apply_slot_moves(&moved(true), 6);
        shelf.apply_slot_moves(&moved(true), 7);
        shelf.apply_slot_moves(&moved(false), 8);
        for name in [VenueRef::Id("id-a"), VenueRef::Slug("a"), VenueRef::Agent("agent-a")] {
            let slots = shelf.bookable(name).unwrap().slots;
            assert_eq!((slots[0].taken, slots[1].taken), (5, 4), "what was in it at commit 5 is not counted again");
        }
        assert!(shelf.bookable(VenueRef::Slug("id-a")).is_none());
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept() {
        let shelf = VenueCache::default();
        let age = shelf.age();
        shelf.apply_slot_moves(&moved(true), 1);
        shelf.keep(&bookable("a", 1), 0, age);
        assert!(shelf.bookable(VenueRef::Slug("a")).is_none());
        let (age, nobody) = (shelf.age(), Arc::default());
        shelf.clear();
        shelf.keep_subscribers("k", &nobody, age);
        assert!(shelf.subscribers("k").is_none());
        shelf.keep_subscribers("k", &nobody, shelf.age());
        assert!(shelf.subscribers("k").is_some());
        shelf.clear();
        assert!(shelf.subscribers("k").is_none());
    }

    #[test]
    fn it_has_an_end() {
        let shelf = VenueCache::default();
        shelf.keep(&bookable("a", 1), 0, shelf.age());
        shelf.keep(&bookable("b", ENTRIES_MAX), 0, shelf.age());
        assert!(shelf.bookable(VenueRef::Slug("a")).is_some() && shelf.bookable(VenueRef::Slug("b")).is_none());
        shelf.keep(&bookable("c", ENTRIES_MAX - 2), 0, shelf.age());
        assert!(shelf.bookable(VenueRef::Slug("a")).is_none() && shelf.bookable(VenueRef::Slug("c")).is_some());
    }
}
