//! Promises about the ledger of the booking network.

use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedTask, TaskFactory, epoch, owner};
use crate::wait::wait;
use sabir_proto::{TaskId, TaskState, Timestamp};
use sabir_store::{
    AppendError, BookingDetails, BookingQuery, BookingStatus, BookingTransition, Fee, ImportCounts, ImportError,
    Interaction, InteractionQuery, LedgerEffect, LedgerError, NewBooking, NewUsage, Slot, Step, Venue, VenueListing,
    VenueQuery, VenueRef,
};

pub(super) fn venue(slug: &str) -> Venue {
    Venue {
        id: format!("id-{slug}"),
        slug: slug.into(),
        name: slug.to_uppercase(),
        agent_id: format!("agent:{slug}"),
        category: "restaurant".into(),
        description: None,
        area: None,
        city: None,
        tags: vec!["a".into(), "b".into()],
        price_range: None,
        priority_rank: None,
        endpoint: None,
        settings: None,
        fee: Fee { basis_points: 700, floor_cents: Some(150), flat_cents: None },
        active: true,
    }
}

pub(super) fn slot(id: &str, capacity: u32) -> Slot {
    Slot { id: id.into(), time: format!("time of {id}"), capacity, taken: 0 }
}

pub(super) fn listing(venue: Venue) -> VenueListing {
    VenueListing { venue, slots: Vec::new() }
}

pub(super) fn import(bench: &dyn LogFixture, venues: Vec<Venue>) {
    let listings = venues.into_iter().map(listing).collect();
    wait(bench.ledger().import_venues(listings)).expect("good venues are taken");
}

pub(super) fn booking(venue: &str, slot: Option<&str>) -> NewBooking {
    NewBooking {
        details: BookingDetails {
            venue: format!("id-{venue}"),
            slot: slot.map(str::to_owned),
            time: Some("at eight".into()),
            party_size: Some(4),
            note: Some("by the window".into()),
            key: "key-1".into(),
            from: "agent-1".into(),
            correlation: None,
        },
        status: BookingStatus::Pending,
        at: epoch(),
        held_until: None,
        usage: Some(NewUsage { intent: "booking.confirm".into(), cents: 25, customer: Some("cus_1".into()) }),
        interaction: Some(Box::new(envelope("booking.confirm", 1))),
    }
}

fn envelope(intent: &str, at: i64) -> Interaction {
    Interaction {
        received_at: at,
        intent: intent.into(),
        status: "ok".into(),
        http_status: 200,
        ..Interaction::default()
    }
}

pub(super) fn books(story: &mut ScriptedTask, new: NewBooking) -> Step {
    Step { effects: vec![LedgerEffect::Book(new).into()], ..story.open_settled(TaskState::Completed) }
}

fn slugs(bench: &dyn LogFixture, query: VenueQuery) -> Vec<String> {
    let found = wait(bench.ledger().venues(&query)).expect("venues can be read");
    found.into_iter().map(|venue| venue.slug).collect()
}

fn taken(bench: &dyn LogFixture, venue: &str) -> Vec<(String, u32)> {
    let id = format!("id-{venue}");
    let slots = wait(bench.ledger().slots(&id)).expect("slots can be read");
    // The bookable venue is the same from the store and from the cache.
    for _ in 0..2 {
        let bookable = wait(bench.ledger().bookable_venue(VenueRef::Id(&id))).expect("a venue can be read");
        assert_eq!(bookable.map(|found| found.slots.to_vec()), Some(slots.clone()));
    }
    slots.into_iter().map(|slot| (slot.id, slot.taken)).collect()
}

fn status(bench: &dyn LogFixture, id: TaskId) -> Option<BookingStatus> {
    wait(bench.ledger().booking(id)).expect("a booking can be read").map(|booking| booking.status)
}

pub(super) fn venues_are_imported_all_or_none(bench: &mut dyn LogFixture) {
    let ledger = |bench: &dyn LogFixture, listings| wait(bench.ledger().import_venues(listings));
    let with_slots = VenueListing { venue: venue("a"), slots: vec![slot("1", 2), slot("2", 1)] };
    let added = ImportCounts { added: 2, replaced: 0 };
    assert_eq!(ledger(bench, vec![with_slots.clone(), listing(venue("b"))]), Ok(added));
    let thief = Venue { agent_id: "agent:a".into(), ..venue("d") };
    let refused = ImportError::Taken { slug: "d".into(), what: "agent_id" };
    assert_eq!(ledger(bench, vec![listing(venue("c")), listing(thief)]), Err(refused));
    let twin = Venue { id: "id-other".into(), agent_id: "other".into(), ..venue("e") };
    let refused = ImportError::Taken { slug: "e".into(), what: "slug" };
    assert_eq!(ledger(bench, vec![listing(venue("e")), listing(twin)]), Err(refused));
    assert_eq!(bench.ledger().active_venues(), 2);
    let mut author = TaskFactory::new(7);
    bench.log().append_ok(books(&mut author.new_task(&owner("ann")), booking("a", Some("1"))));
    // A replaced venue keeps its id, and its slots keep their bookings.
    let again = Venue { id: "id-new".into(), name: "Another".into(), active: false, ..venue("a") };
    let again = VenueListing { venue: again, slots: vec![slot("1", 3), slot("3", 1)] };
    assert_eq!(ledger(bench, vec![again.clone()]), Ok(ImportCounts { added: 0, replaced: 1 }));
    bench.reopen();
    assert_eq!(bench.ledger().active_venues(), 1);
    let expected = Venue { id: "id-a".into(), ..again.venue };
    for name in [VenueRef::Id("id-a"), VenueRef::Slug("a"), VenueRef::Agent("agent:a")] {
        assert_eq!(wait(bench.ledger().venue(name)), Ok(Some(expected.clone())), "{name:?}");
        let bookable = wait(bench.ledger().bookable_venue(name)).expect("a venue can be read").expect("it is there");
        assert_eq!(*bookable.venue, expected, "{name:?}");
    }
    for name in [VenueRef::Id("a"), VenueRef::Slug("c"), VenueRef::Agent("id-a")] {
        assert_eq!(wait(bench.ledger().venue(name)), Ok(None), "{name:?}");
    }
    assert_eq!(taken(bench, "a"), [("1".into(), 1), ("3".into(), 0)]);
    // A slot that is removed and added again still has its bookings.
    let with = |slots| vec![VenueListing { venue: venue("a"), slots }];
    for (slots, left) in [(vec![slot("3", 1)], vec![("3".into(), 0)]), (vec![slot("1", 1)], vec![("1".into(), 1)])] {
        assert_eq!(ledger(bench, with(slots)), Ok(ImportCounts { added: 0, replaced: 1 }));
        assert_eq!(taken(bench, "a"), left);
    }
    for (active, count) in [(false, 1), (true, 2), (true, 2)] {
        assert_eq!(wait(bench.ledger().enable_venue("a", active)), Ok(true));
        assert_eq!(bench.ledger().active_venues(), count);
        let bookable = wait(bench.ledger().bookable_venue(VenueRef::Slug("a"))).expect("a venue can be read");
        assert_eq!(bookable.map(|found| found.venue.active), Some(active));
    }
    assert_eq!(wait(bench.ledger().enable_venue("nobody", true)), Ok(false));
}

pub(super) fn venues_come_in_order_and_by_what_they_say(bench: &mut dyn LogFixture) {
    let named = |slug: &str, name: &str, rank| Venue { name: name.into(), priority_rank: rank, ..venue(slug) };
    import(bench, vec![named("e", "Zoë", Some(1)), named("f", "Zoe", Some(1)), named("g", "apple", None)]);
    import(
        bench,
        vec![
            Venue { description: Some("Fine \"pizza\" 100% wood_fired".into()), ..named("a", "Da Vito", Some(9)) },
            Venue { area: Some("Kreuzberg".into()), city: Some("Berlin".into()), ..named("b", "Vito", None) },
            Venue { category: "Spa".into(), city: Some("BERLIN".into()), ..named("c", "Ärzte", Some(-5)) },
            Venue { active: false, ..named("d", "Closed", Some(100)) },
        ],
    );
    let all = VenueQuery { limit: 100, ..VenueQuery::default() };
    let terms = |terms: &[&str]| VenueQuery { terms: terms.iter().map(|&t| t.into()).collect(), ..all.clone() };
    let at = |place: &str| VenueQuery { location: Some(place.into()), ..all.clone() };
    let of = |category: &str| VenueQuery { category: Some(category.into()), ..all.clone() };
    for _ in 0..2 {
        assert_eq!(slugs(bench, all.clone()), ["a", "f", "e", "c", "b", "g"]);
        assert_eq!(slugs(bench, VenueQuery { limit: 2, ..all.clone() }), ["a", "f"]);
        assert_eq!(slugs(bench, VenueQuery { inactive: true, ..all.clone() })[0], "d");
        assert_eq!(slugs(bench, of("SPA")), ["c"]);
        assert_eq!(slugs(bench, of("sp")), [""; 0]);
        assert_eq!(slugs(bench, at("berlin")), ["c", "b"]);
        assert_eq!(slugs(bench, at("ERL")), ["c", "b"]);
        assert_eq!(slugs(bench, at("reuz")), ["b"]);
        assert_eq!(slugs(bench, VenueQuery { location: Some("Berlin".into()), ..of("spa") }), ["c"]);
        assert_eq!(slugs(bench, terms(&["VITO"])), ["a", "b"]);
        assert_eq!(slugs(bench, terms(&["vito", "pizza"])), ["a"]);
        assert_eq!(slugs(bench, terms(&["vi", "pi"])), ["a"], "terms that are too short for an index");
        assert_eq!(slugs(bench, terms(&["ärzte"])), ["c"]);
        assert_eq!(slugs(bench, terms(&["ÄR"])), ["c"]);
        assert_eq!(slugs(bench, terms(&["restaurant"])), ["a", "f", "e", "b", "g"]);
        for nothing in ["0%w", "\"pizzas", "vito*", "words:vito", "OR", "' -- ;", "zo_", "100%%", "a\0b", "\0\0\0"] {
            assert_eq!(slugs(bench, terms(&[nothing])), [""; 0], "{nothing:?}");
        }
        assert_eq!(slugs(bench, terms(&["\"pizza\"", "100%", "wood_f"])), ["a"]);
        bench.reopen();
    }
}

pub(super) fn a_slot_is_taken_until_it_is_full(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let venues = vec![VenueListing { venue: venue("a"), slots: vec![slot("1", 2)] }, listing(venue("b"))];
    wait(bench.ledger().import_venues(venues)).expect("good venues are taken");
    let mut stories: Vec<ScriptedTask> = (0..4).map(|_| author.new_task(&scope)).collect();
    for story in &mut stories[..2] {
        bench.log().append_ok(books(story, booking("a", Some("1"))));
    }
    let full = Err(AppendError::Ledger(LedgerError::NoSlot));
    assert_eq!(wait(bench.log().append(books(&mut stories[2], booking("a", Some("1"))))), full);
    assert_eq!(wait(bench.log().append(books(&mut stories[2], booking("b", Some("1"))))), full);
    let nowhere = AppendError::Ledger(LedgerError::NoVenue);
    assert_eq!(bench.log().append_refused(books(&mut stories[2], booking("nobody", Some("1")))), nowhere);
    assert_eq!(bench.log().append_refused(books(&mut stories[2], booking("nobody", None))), nowhere);
    bench.log().append_ok(books(&mut stories[3], booking("b", None)));
    assert_eq!(wait(bench.ledger().enable_venue("b", false)), Ok(true));
    assert_eq!(bench.log().append_refused(books(&mut stories[2], booking("b", None))), nowhere);
    bench.reopen();
    assert_eq!(taken(bench, "a"), [("1".into(), 2)]);
    assert_eq!(bench.ledger().metered_bookings(), 3);
    let made = wait(bench.ledger().booking(stories[0].id())).expect("it can be read").expect("it is there");
    let new = booking("a", Some("1"));
    assert_eq!((made.id, made.details, made.status), (stories[0].id(), new.details, new.status));
    assert_eq!((made.created_at, made.held_until, made.transitions), (new.at, None, Vec::new()));
    let found = |query: BookingQuery| {
        let found = wait(bench.ledger().bookings(&query)).expect("bookings can be read");
        found.into_iter().map(|booking| booking.id).collect::<Vec<_>>()
    };
    let all = BookingQuery { limit: 10, ..BookingQuery::default() };
    let ids = |which: &[usize]| which.iter().map(|&i| stories[i].id()).collect::<Vec<_>>();
    assert_eq!(found(all.clone()), ids(&[3, 1, 0]));
    assert_eq!(found(BookingQuery { limit: 1, ..all.clone() }), ids(&[3]));
    assert_eq!(found(BookingQuery { venue: Some("id-a".into()), ..all.clone() }), ids(&[1, 0]));
    assert_eq!(found(BookingQuery { key: Some("key-2".into()), ..all.clone() }), []);
    assert_eq!(found(BookingQuery { status: Some(BookingStatus::Cancelled), ..all.clone() }), []);
    assert_eq!(found(BookingQuery { before: Some(stories[1].id()), ..all }), ids(&[0]));
}

pub(super) fn a_refused_booking_leaves_no_trace(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    wait(bench.ledger().import_venues(vec![VenueListing { venue: venue("a"), slots: vec![slot("1", 2)] }]))
        .expect("good venues are taken");
    let (mut first, mut second) = (author.new_task(&scope), author.new_task(&scope));
    bench.log().append_ok(books(&mut first, booking("a", Some("1"))));
    let moved = LedgerEffect::MoveBooking {
        booking: first.id(),
        from: BookingStatus::Confirmed,
        to: BookingStatus::Completed,
        at: epoch(),
        usage: None,
    }
    .into();
    let mut step = books(&mut second, booking("a", Some("1")));
    step.effects.push(moved);
    assert_eq!(bench.log().append_refused(step), AppendError::Ledger(LedgerError::BookingMoved));
    assert!(bench.log().stored(second.id()).is_none());
    assert_eq!(status(bench, second.id()), None);
    assert_eq!(taken(bench, "a"), [("1".into(), 1)]);
    assert_eq!(bench.ledger().metered_bookings(), 1);
    let all = InteractionQuery { limit: 10, ..InteractionQuery::default() };
    assert_eq!(wait(bench.ledger().interactions(&all)).map(|all| all.len()), Ok(1));
}

/// Of orders in one group commit, a refused one does not affect the others.
pub(super) fn orders_that_come_together_are_refused_alone(bench: &mut dyn LogFixture) {
    let with_slot = VenueListing { venue: venue("a"), slots: vec![slot("1", 3)] };
    wait(bench.ledger().import_venues(vec![with_slot])).expect("venues can be imported");
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let mut answers = Vec::new();
    for n in 0..60 {
        let wanted = if n % 3 == 0 { None } else { Some("1") };
        let step = books(&mut author.new_task(&scope), booking("a", wanted));
        answers.push((step.task, wanted, bench.log().append(step)));
    }
    let mut made = Vec::new();
    for (task, wanted, answer) in answers {
        match wait(answer) {
            Ok(()) => made.push((task, wanted)),
            Err(refused) => assert_eq!((refused, wanted), (AppendError::Ledger(LedgerError::NoSlot), Some("1"))),
        }
    }
    assert_eq!(made.iter().filter(|(_, wanted)| wanted.is_some()).count(), 3, "as many as there is room for");
    assert_eq!(made.len(), 20 + 3);
    assert_eq!(taken(bench, "a"), [("1".into(), 3)]);
    assert_eq!(bench.ledger().metered_bookings(), 23);
    assert!(made.iter().all(|(task, _)| status(bench, *task) == Some(BookingStatus::Pending)));
}

pub(super) fn a_booking_moves_from_where_it_was_seen(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    wait(bench.ledger().import_venues(vec![VenueListing { venue: venue("a"), slots: vec![slot("1", 1)] }]))
        .expect("good venues are taken");
    let (mut story, mut next) = (author.new_task(&scope), author.new_task(&scope));
    let held = NewBooking {
        status: BookingStatus::PendingPayment,
        held_until: Some(Timestamp::from_millis(99)),
        usage: None,
        ..booking("a", Some("1"))
    };
    let usage = held.usage.clone().or(booking("a", None).usage);
    bench.log().append_ok(books(&mut story, held));
    assert_eq!(bench.ledger().metered_bookings(), 0, "what is only held is not counted");
    let id = story.id();
    let goes = |from, to, usage| {
        let at = Timestamp::from_millis(7);
        Step {
            effects: vec![LedgerEffect::MoveBooking { booking: id, from, to, at, usage }.into()],
            ..story.empty_step()
        }
    };
    bench.log().append_ok(goes(BookingStatus::PendingPayment, BookingStatus::Pending, usage.clone()));
    let again = goes(BookingStatus::PendingPayment, BookingStatus::Pending, usage.clone());
    assert_eq!(bench.log().append_refused(again), AppendError::Ledger(LedgerError::BookingMoved));
    assert_eq!(bench.ledger().metered_bookings(), 1);
    bench.log().append_ok(goes(BookingStatus::Pending, BookingStatus::Confirmed, usage));
    assert_eq!(bench.ledger().metered_bookings(), 1, "a booking is counted once");
    assert_eq!(
        bench.log().append_refused(books(&mut next, booking("a", Some("1")))),
        AppendError::Ledger(LedgerError::NoSlot)
    );
    bench.log().append_ok(goes(BookingStatus::Confirmed, BookingStatus::Cancelled, None));
    bench.reopen();
    let booking_now = wait(bench.ledger().booking(id)).expect("it can be read").expect("it is there");
    let went = [BookingStatus::Pending, BookingStatus::Confirmed, BookingStatus::Cancelled];
    assert_eq!(booking_now.transitions, went.map(|to| BookingTransition { to, at: 7 }));
    assert_eq!((booking_now.status, booking_now.held_until), (BookingStatus::Cancelled, None));
    assert_eq!(bench.ledger().metered_bookings(), 1);
    bench.log().append_ok(books(&mut next, booking("a", Some("1"))));
    assert_eq!(taken(bench, "a"), [("1".into(), 1)]);
}

pub(super) fn envelopes_are_recorded(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    import(bench, vec![venue("a")]);
    let rides = Interaction {
        source: "external_agent".into(),
        key: Some("key-1".into()),
        tier: Some("pro".into()),
        from_agent: "me".into(),
        to_agent: "network:agnt".into(),
        protocol: "openclaw/a2a/v1".into(),
        correlation_id: Some("c".into()),
        timestamp_claimed: Some("2026-01-01T00:00:00Z".into()),
        ttl_ms: Some(5000),
        payload: Some("{}".into()),
        agent_context: Some("{\"a\":1}".into()),
        signed: Some("current".into()),
        status: "tier_required".into(),
        error_code: Some("tier_required".into()),
        http_status: 403,
        latency_ms: 3,
        booking: Some(author.new_task(&scope).id()),
        remote_addr: Some("192.0.2.1".into()),
        replay: true,
        ..envelope("venue.list", 2)
    };
    assert!(bench.ledger().record_interaction(rides.clone()));
    bench.log().append_ok(books(&mut author.new_task(&scope), booking("a", None)));
    assert!(bench.ledger().record_interaction(envelope("network.ping", 3)));
    // Closing writes the interactions that are still queued.
    bench.reopen();
    let find = |query: InteractionQuery| wait(bench.ledger().interactions(&query)).expect("records can be read");
    let intents = |query| find(query).into_iter().map(|one| one.intent).collect::<Vec<_>>();
    let all = InteractionQuery { limit: 10, ..InteractionQuery::default() };
    let mut found = intents(all.clone());
    assert_eq!(found[0], "network.ping");
    found.sort_unstable();
    assert_eq!(found, ["booking.confirm", "network.ping", "venue.list"]);
    assert_eq!(find(InteractionQuery { intent: Some("venue.list".into()), ..all.clone() }), [rides]);
    assert_eq!(intents(InteractionQuery { limit: 1, ..all.clone() }), ["network.ping"]);
    assert_eq!(intents(InteractionQuery { since: Some(Timestamp::from_millis(3)), ..all.clone() }), ["network.ping"]);
    assert_eq!(intents(InteractionQuery { key: Some("key-1".into()), ..all.clone() }), ["venue.list"]);
    assert_eq!(intents(InteractionQuery { from_agent: Some("me".into()), ..all.clone() }), ["venue.list"]);
    assert_eq!(intents(InteractionQuery { status: Some("nothing".into()), ..all }), [""; 0]);
}
