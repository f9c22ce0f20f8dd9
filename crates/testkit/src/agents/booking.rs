//! An agent that books; its ledger effects are part of its steps.

use super::{ARTIFACT, TurnTracker, pause, requested_chunks};
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_proto::Part;
use sabir_store::{
    BookingDetails, BookingStatus, Fee, Ledger, LedgerEffect, NewBooking, NewUsage, Slot, Venue, VenueListing,
};

/// The id of the venue that is booked.
pub const VENUE: &str = "venue";
/// The number of its slots, and how often each can be booked.
const SLOTS: u64 = 6;
const CAPACITY: u32 = 2;

/// Books the slot in its message: an even one at once; an odd one is held first, and booked a little later.
#[derive(Debug)]
pub struct BookingAgent(pub TurnTracker);

impl BookingAgent {
    /// Imports the venue into a ledger.
    ///
    /// # Panics
    /// When the ledger does not take it at once.
    pub fn import_venue(ledger: &dyn Ledger) {
        let venue = Venue {
            id: VENUE.into(),
            slug: VENUE.into(),
            name: VENUE.into(),
            agent_id: VENUE.into(),
            category: VENUE.into(),
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
        let slot = |n: u64| Slot { id: n.to_string(), time: "noon".into(), capacity: CAPACITY, taken: 0 };
        let slots = (1..=SLOTS).map(slot).collect();
        crate::wait::at_once(ledger.import_venues(vec![VenueListing { venue, slots }])).expect("a good venue is taken");
    }
}

fn new_usage() -> NewUsage {
    NewUsage { intent: "booking.confirm".into(), cents: 25, customer: None }
}

impl Agent for BookingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.0.start_turn(cx);
        let number = requested_chunks(cx);
        let held = !number.is_multiple_of(2);
        let booked = BookingDetails {
            venue: VENUE.into(),
            slot: Some(number.to_string()),
            time: None,
            party_size: None,
            note: None,
            key: "key".into(),
            from: "agent".into(),
            correlation: None,
        };
        let new = NewBooking {
            details: booked,
            status: if held { BookingStatus::PendingPayment } else { BookingStatus::Pending },
            at: cx.now(),
            held_until: held.then(|| cx.now()),
            usage: (!held).then(new_usage),
            interaction: None,
        };
        if cx.checkpoint().is_none() {
            cx.add_effect(LedgerEffect::Book(new));
        }
        if held {
            if cx.checkpoint().is_none() {
                cx.set_checkpoint("held");
                cx.commit().await?;
            }
            pause(cx, number).await;
            let (from, to) = (BookingStatus::PendingPayment, BookingStatus::Pending);
            let (booking, at, usage) = (cx.task_id(), cx.now(), Some(new_usage()));
            cx.add_effect(LedgerEffect::MoveBooking { booking, from, to, at, usage });
        }
        cx.artifact(ARTIFACT, vec![Part::text("booked")]).await?;
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        // Nothing has happened before the first commit, so the agent may start inline.
        Execution { instant: true, recovery: Recovery::Resume, ..Execution::default() }
    }
}
