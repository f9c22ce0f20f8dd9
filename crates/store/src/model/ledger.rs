//! The ledger, in memory: every query walks through everything.

mod billing;
mod subscriptions_networks;

use super::ModelLog;
use crate::StoreFuture;
use crate::ledger::{
    Batch, BookableVenue, Booking, BookingQuery, BookingStatus, BookingTransition, ImportCounts, ImportError,
    Interaction, InteractionQuery, Ledger, LedgerEffect, LedgerError, NetworkRecord, NewBooking, NewUsage, Payment,
    Slot, Subscription, Usage, Venue, VenueListing, VenueQuery, VenueRef,
};
use sabir_proto::{TaskId, Timestamp};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// All rows of the ledger.
#[derive(Debug, Default)]
pub(super) struct LedgerState {
    venues: BTreeMap<String, Venue>,
    /// By the id of the venue, then their own.
    slots: BTreeMap<(String, String), Slot>,
    bookings: BTreeMap<TaskId, Booking>,
    usage: BTreeMap<TaskId, Usage>,
    interactions: Vec<Interaction>,
    batches: Vec<Batch>,
    subscriptions: Vec<Subscription>,
    payments: BTreeMap<TaskId, Payment>,
    networks: BTreeMap<String, NetworkRecord>,
    /// The number of the last change of a network record.
    network_change: u64,
}

/// Undoes one effect.
type Undo = Box<dyn FnOnce(&mut LedgerState)>;

impl LedgerState {
    /// Applies all effects of a step, or none.
    pub(super) fn apply(&mut self, task: TaskId, effects: Vec<LedgerEffect>) -> Result<(), LedgerError> {
        let mut done = Vec::new();
        for effect in effects {
            let outcome = match effect {
                LedgerEffect::Book(new) => self.book(task, new, &mut done),
                LedgerEffect::MoveBooking { booking, from, to, at, usage } => {
                    self.move_booking(booking, (from, to), at, usage, &mut done)
                }
                LedgerEffect::Record(record) => {
                    self.add_interaction(*record, &mut done);
                    Ok(())
                }
                LedgerEffect::Pay(step) => self.pay(task, step, &mut done),
            };
            if outcome.is_err() {
                done.into_iter().rev().for_each(|undo: Undo| undo(self));
                return outcome;
            }
        }
        Ok(())
    }

    fn book(&mut self, id: TaskId, new: NewBooking, done: &mut Vec<Undo>) -> Result<(), LedgerError> {
        let NewBooking { details: booked, status, at, held_until, usage, interaction } = new;
        if !self.venues.get(&booked.venue).is_some_and(|venue| venue.active) {
            return Err(LedgerError::NoVenue);
        }
        if self.bookings.contains_key(&id) {
            // A task makes one booking.
            return Err(LedgerError::BookingMoved);
        }
        if let Some(slot) = &booked.slot {
            let at = (booked.venue.clone(), slot.clone());
            let slot = self.slots.get_mut(&at).filter(|slot| slot.taken < slot.capacity).ok_or(LedgerError::NoSlot)?;
            slot.taken += 1;
            done.push(Box::new(move |rows| rows.release(&at)));
        }
        let key = booked.key.clone();
        let was_held = status == BookingStatus::PendingPayment;
        let booking =
            Booking { id, details: booked, status, created_at: at, was_held, held_until, transitions: Vec::new() };
        self.bookings.insert(id, booking);
        done.push(Box::new(move |rows| drop(rows.bookings.remove(&id))));
        if let Some(usage) = usage {
            self.count(id, key, usage, at, done);
        }
        if let Some(one) = interaction {
            self.add_interaction(*one, done);
        }
        Ok(())
    }

    fn move_booking(
        &mut self,
        id: TaskId,
        (from, to): (BookingStatus, BookingStatus),
        at: Timestamp,
        usage: Option<NewUsage>,
        done: &mut Vec<Undo>,
    ) -> Result<(), LedgerError> {
        let booking = self.bookings.get_mut(&id).filter(|booking| booking.status == from);
        let booking = booking.ok_or(LedgerError::BookingMoved)?;
        let before = booking.clone();
        booking.status = to;
        booking.held_until = None;
        booking.transitions.push(BookingTransition { to, at: at.millis() });
        let key = booking.details.key.clone();
        if let (BookingStatus::Cancelled, Some(slot)) = (to, &before.details.slot) {
            let slot = (before.details.venue.clone(), slot.clone());
            self.release(&slot);
            done.push(Box::new(move |rows| rows.slots.get_mut(&slot).into_iter().for_each(|slot| slot.taken += 1)));
        }
        done.push(Box::new(move |rows| drop(rows.bookings.insert(id, before))));
        if let Some(usage) = usage {
            self.count(id, key, usage, at, done);
        }
        Ok(())
    }

    fn release(&mut self, slot: &(String, String)) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.taken = slot.taken.saturating_sub(1);
        }
    }

    fn count(&mut self, booking: TaskId, key: String, new: NewUsage, at: Timestamp, done: &mut Vec<Undo>) {
        let NewUsage { intent, cents, customer } = new;
        if let Entry::Vacant(free) = self.usage.entry(booking) {
            free.insert(Usage { booking, key, intent, cents, customer, at, batch: None, synced_at: None });
            done.push(Box::new(move |rows| drop(rows.usage.remove(&booking))));
        }
    }

    fn add_interaction(&mut self, one: Interaction, done: &mut Vec<Undo>) {
        self.interactions.push(one);
        done.push(Box::new(|rows| drop(rows.interactions.pop())));
    }

    fn import(&mut self, listings: Vec<VenueListing>) -> Result<ImportCounts, ImportError> {
        let mut imported = ImportCounts::default();
        let mut venues = self.venues.clone();
        let known = |slug: &str| self.venues.values().find(|venue| venue.slug == slug).map(|venue| venue.id.clone());
        let mut listings: Vec<(VenueListing, Option<String>)> =
            listings.into_iter().map(|listing| (known(&listing.venue.slug), listing)).map(|(id, l)| (l, id)).collect();
        for (listing, known) in &mut listings {
            if let Some(id) = known {
                venues.remove(id);
                listing.venue.id.clone_from(id);
                imported.replaced += 1;
            } else {
                imported.added += 1;
            }
        }
        for (VenueListing { venue, .. }, _) in &listings {
            let same =
                |other: &&Venue| other.slug == venue.slug || other.id == venue.id || other.agent_id == venue.agent_id;
            if let Some(other) = venues.values().find(same) {
                let what = match other {
                    other if other.slug == venue.slug => "slug",
                    other if other.id == venue.id => "id",
                    _ => "agent_id",
                };
                return Err(ImportError::Taken { slug: venue.slug.clone(), what });
            }
            venues.insert(venue.id.clone(), venue.clone());
        }
        self.venues = venues;
        for (VenueListing { venue, slots }, _) in listings {
            let withdrawn = |of: &str, id: &str| of == venue.id && slots.iter().all(|slot| slot.id != id);
            self.slots.retain(|(of, id), slot| !withdrawn(of, id) || slot.taken > 0);
            // A slot that has bookings stays, so that it is not booked twice should a later import name it again.
            let gone = self.slots.iter_mut().filter(|((of, id), _)| withdrawn(of, id));
            gone.for_each(|(_, slot)| slot.capacity = 0);
            for slot in slots {
                let at = (venue.id.clone(), slot.id.clone());
                let taken = self.slots.get(&at).map_or(0, |known| known.taken);
                self.slots.insert(at, Slot { taken, ..slot });
            }
        }
        Ok(imported)
    }

    fn find(&self, name: VenueRef<'_>) -> Option<&Venue> {
        self.venues.values().find(|venue| match name {
            VenueRef::Id(id) => venue.id == id,
            VenueRef::Slug(slug) => venue.slug == slug,
            VenueRef::Agent(agent) => venue.agent_id == agent,
        })
    }

    fn slots_of(&self, venue: &str) -> Vec<Slot> {
        let of_venue = self.slots.iter().filter(|((of, _), slot)| of == venue && slot.capacity > 0);
        let mut slots: Vec<Slot> = of_venue.map(|(_, slot)| slot.clone()).collect();
        slots.sort_by(|a, b| (&a.time, &a.id).cmp(&(&b.time, &b.id)));
        slots
    }
}

impl Ledger for ModelLog {
    fn import_venues(&self, venues: Vec<VenueListing>) -> StoreFuture<ImportCounts, ImportError> {
        StoreFuture::ready(self.lock().ledger.import(venues))
    }

    fn enable_venue(&self, slug: &str, active: bool) -> StoreFuture<bool> {
        let mut inner = self.lock();
        let venue = inner.ledger.venues.values_mut().find(|venue| venue.slug == slug);
        StoreFuture::ready(Ok(venue.map(|venue| venue.active = active).is_some()))
    }

    fn venue(&self, name: VenueRef<'_>) -> StoreFuture<Option<Venue>> {
        StoreFuture::ready(Ok(self.lock().ledger.find(name).cloned()))
    }

    fn bookable_venue(&self, name: VenueRef<'_>) -> StoreFuture<Option<BookableVenue>> {
        let inner = self.lock();
        let found = inner.ledger.find(name).map(|venue| BookableVenue {
            venue: Arc::new(venue.clone()),
            slots: Arc::new(inner.ledger.slots_of(&venue.id)),
        });
        StoreFuture::ready(Ok(found))
    }

    fn venues(&self, query: &VenueQuery) -> StoreFuture<Vec<Venue>> {
        let (inner, wanted) = (self.lock(), query.normalized());
        let mut found: Vec<&Venue> = inner.ledger.venues.values().filter(|venue| wanted.matches(venue)).collect();
        found.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        StoreFuture::ready(Ok(found.into_iter().take(query.limit).cloned().collect()))
    }

    fn active_venues(&self) -> u64 {
        let inner = self.lock();
        u64::try_from(inner.ledger.venues.values().filter(|venue| venue.active).count()).unwrap_or(u64::MAX)
    }

    fn slots(&self, venue: &str) -> StoreFuture<Vec<Slot>> {
        StoreFuture::ready(Ok(self.lock().ledger.slots_of(venue)))
    }

    fn booking(&self, id: TaskId) -> StoreFuture<Option<Booking>> {
        StoreFuture::ready(Ok(self.lock().ledger.bookings.get(&id).cloned()))
    }

    fn bookings(&self, query: &BookingQuery) -> StoreFuture<Vec<Booking>> {
        let inner = self.lock();
        let wanted = |booking: &&Booking| {
            query.before.is_none_or(|before| booking.id < before)
                && query.venue.as_ref().is_none_or(|venue| booking.details.venue == *venue)
                && query.key.as_ref().is_none_or(|key| booking.details.key == *key)
                && query.status.is_none_or(|status| booking.status == status)
        };
        StoreFuture::ready(Ok(inner.ledger.bookings.values().rev().filter(wanted).take(query.limit).cloned().collect()))
    }

    fn expired_holds(&self, until: Timestamp, limit: usize) -> StoreFuture<Vec<Booking>> {
        let inner = self.lock();
        let held = |booking: &&Booking| booking.held_until.is_some_and(|held| held <= until);
        let mut found: Vec<Booking> = inner.ledger.bookings.values().filter(held).cloned().collect();
        found.sort_by_key(|booking| booking.held_until);
        found.truncate(limit);
        StoreFuture::ready(Ok(found))
    }

    fn metered_bookings(&self) -> u64 {
        u64::try_from(self.lock().ledger.usage.len()).unwrap_or(u64::MAX)
    }

    fn record_interaction(&self, interaction: Interaction) -> bool {
        self.lock().ledger.interactions.push(interaction);
        true
    }

    fn interactions(&self, query: &InteractionQuery) -> StoreFuture<Vec<Interaction>> {
        let inner = self.lock();
        let wanted = |one: &&Interaction| {
            query.since.is_none_or(|since| one.received_at >= since.millis())
                && query.key.as_ref().is_none_or(|key| one.key.as_ref() == Some(key))
                && query.from_agent.as_ref().is_none_or(|from| one.from_agent == *from)
                && query.intent.as_ref().is_none_or(|intent| one.intent == *intent)
                && query.status.as_ref().is_none_or(|status| one.status == *status)
        };
        StoreFuture::ready(Ok(inner
            .ledger
            .interactions
            .iter()
            .rev()
            .filter(wanted)
            .take(query.limit)
            .cloned()
            .collect()))
    }
}
