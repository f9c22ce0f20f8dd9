//! A booking is made whole, once, and subscribers are notified.

use crate::world::{World, now, response_data, row};
use sabir_gateway::Intent;
use sabir_network::{TransitionError, webhook};
use sabir_proto::{Caller, Fault, TaskId, TaskState, Tenant};
use sabir_store::{BookingQuery, BookingStatus, InteractionQuery, Scope, TaskListQuery};
use serde_json::{Value, json};
use std::sync::Arc;

const CONFIRM: Intent = Intent::BookingConfirm;

fn world() -> World {
    let slots = json!([{"id": "s1", "time": "19:00", "capacity": 1}, {"id": "s2", "time": "21:00", "capacity": 5}]);
    World::with(&json!([
        row("a", &json!({"slots": slots})),
        row("b", &json!({})),
        row("closed", &json!({"active": false}))
    ]))
}

fn bookings(world: &World) -> usize {
    now(world.ledger.bookings(&BookingQuery { limit: 100, ..BookingQuery::default() })).unwrap().len()
}

#[test]
fn a_booking_is_its_task_with_its_count_and_its_record() {
    let world = world();
    let order = json!({"venue_id": "a", "slot_id": "s1", "party_size": 4, "user_note": "by the window"});
    let task = world.envelope("t1", "network:agnt", CONFIRM, &order).unwrap().task();
    assert_eq!(task.status.state, TaskState::Completed);
    let shown = response_data(&task.artifacts[0].parts);
    assert_eq!((&shown["booking_id"], &shown["status"]), (&json!(task.id.to_string()), &json!("pending")));
    assert_eq!((&shown["time"], &shown["venue"]["slug"]), (&json!("19:00"), &json!("a")));
    let booking = now(world.ledger.booking(task.id)).unwrap().unwrap();
    assert_eq!((booking.details.key.as_str(), booking.details.from.as_str()), ("k1", "me"));
    assert_eq!(world.ledger.metered_bookings(), 1);
    let records =
        now(world.ledger.interactions(&InteractionQuery { limit: 9, ..InteractionQuery::default() })).unwrap();
    assert_eq!((records.len(), records[0].booking), (1, Some(task.id)));
    // Of the envelope the message has the recipient alone: the rest is in the record.
    let stored = task.history[0].metadata.as_ref().unwrap().as_str();
    assert_eq!(stored, r#"{"urn:sabir:agnt":{"to":"network:agnt"},"urn:sabir:ext:skill:v1":"booking.confirm"}"#);
    // The same request again returns the same booking; other content with its key is a conflict.
    let again = world.envelope("t1", "network:agnt", CONFIRM, &order).unwrap().task();
    assert_eq!(again.id, task.id);
    let other = world.envelope("t1", "network:agnt", CONFIRM, &json!({"venue_id": "b"}));
    assert!(matches!(other, Err(Fault::RetryConflict)), "{other:?}");
    assert_eq!((bookings(&world), world.ledger.metered_bookings()), (1, 1));
}

#[test]
fn what_is_refused_for_good_is_kept_and_books_nothing() {
    let world = world();
    for (order, code) in [
        (json!({"venue_id": "nowhere"}), "venue_not_found"),
        (json!({"venue_id": "closed"}), "venue_not_found"),
        (json!({"venue_id": "01890a5d-ac96-774b-bcce-b302099a8057"}), "venue_not_found"),
        (json!({"venue_id": "a", "slot_id": "s9"}), "slot_unavailable"),
        (json!({"venue_id": "a", "time": "03:00"}), "slot_unavailable"),
        (json!({"venue_id": "a", "slot_id": "s1", "time": "21:00"}), "invalid_payload"),
        (json!({"venue_id": "a", "party_size": 0}), "invalid_payload"),
    ] {
        let key = order.to_string();
        let first = world.envelope(&key, "network:agnt", CONFIRM, &order).unwrap().task();
        assert_eq!(first.status.state, TaskState::Rejected, "{order}");
        let again = world.envelope(&key, "network:agnt", CONFIRM, &order).unwrap().task();
        assert_eq!(again.id, first.id, "{order}");
        assert_eq!(world.ask(CONFIRM, &order).refusal(), code, "{order}");
    }
    assert_eq!((bookings(&world), world.ledger.metered_bookings()), (0, 0));
}

#[test]
fn the_last_place_goes_to_one() {
    let world = world();
    let by_time = json!({"venue_id": "a", "time": "19:00"});
    let first = world.ask(CONFIRM, &by_time).task();
    assert_eq!(response_data(&first.artifacts[0].parts)["slot_id"], "s1");
    assert_eq!(world.ask(CONFIRM, &by_time).refusal(), "slot_unavailable");
    // For a venue without slots, and an order without a time, the guest and the venue agree on the time.
    assert!(
        response_data(&world.ask(CONFIRM, &json!({"venue_id": "b", "time": "any"})).task().artifacts[0].parts)
            .get("slot_id")
            .is_none()
    );
    assert_eq!(
        response_data(&world.ask(CONFIRM, &json!({"venue_id": "a"})).task().artifacts[0].parts)["status"],
        "pending"
    );
}

#[test]
fn a_booking_is_tracked_by_the_key_that_made_it() {
    let world = world();
    let made = world.ask(CONFIRM, &json!({"venue_id": "a", "slot_id": "s2", "party_size": 2})).task();
    let booked = response_data(&made.artifacts[0].parts);
    let id = json!({"booking_id": made.id.to_string()});
    let track = |to: &str| world.envelope("t", to, Intent::BookingStatus, &id).unwrap();
    assert_eq!(world.ask(Intent::BookingStatus, &id).message(), booked, "as it was answered");
    assert_eq!(track("venue_a").message(), booked);
    assert_eq!(track("venue_b").refusal(), "booking_not_found");
    now(world.booking_admin().transition(made.id, BookingStatus::Confirmed, &Caller::named("operator"))).unwrap();
    let moved = world.ask(Intent::BookingStatus, &id).message();
    assert_eq!((&moved["status"], &moved["updated_at"]), (&json!("confirmed"), &json!("2027-01-15T08:00:00.000Z")));
    let words = world.send_text(&format!("track {}", made.id)).message();
    assert_eq!(words["status"], "confirmed", "{words}");
    let nobodys = json!({"booking_id": "01890a5d-ac96-774b-bcce-b302099a8057"});
    assert_eq!(world.ask(Intent::BookingStatus, &nobodys).refusal(), "booking_not_found");
}

#[test]
fn whoever_is_addressed_is_who_is_booked() {
    let world = world();
    let task = world.ask_at("venue_a", CONFIRM, &json!({"slot_id": "s2"})).task();
    assert_eq!(response_data(&task.artifacts[0].parts)["venue"]["slug"], "a");
    assert_eq!(world.ask_at("venue_a", CONFIRM, &json!({"venue_id": "b"})).refusal(), "invalid_payload");
    // An envelope is not completed from its recipient.
    let bare = world.envelope("t", "venue_a", CONFIRM, &json!({"slot_id": "s2"})).unwrap();
    assert_eq!(bare.refusal(), "invalid_payload");
}

/// The webhook bodies for a task, each with the id of its subscription.
fn webhook_bodies(world: &World, task: TaskId) -> Vec<(String, Value)> {
    let configs = now(world.log.pushes(task)).unwrap();
    let stored = now(world.log.load(task)).unwrap().unwrap();
    let event = now(world.log.events(task, sabir_proto::Seq(0), 9)).unwrap().remove(0);
    assert_eq!(stored.head, event.seq);
    let body = |id: &str| webhook::body(id, &event, sabir_proto::Timestamp::from_millis(0)).unwrap();
    let mut owed: Vec<(String, Value)> = configs
        .into_iter()
        .map(|config| config.id.unwrap())
        .map(|id| (webhook::subscription_of(&id).unwrap().to_owned(), serde_json::from_slice(&body(&id)).unwrap()))
        .collect();
    owed.sort_by_key(|(id, body)| (id.clone(), body["type"].to_string()));
    owed
}

#[test]
fn subscribers_hear_what_they_asked_for() {
    let world = world();
    world.subscribe("all", &[]);
    world.subscribe("ends", &["booking.cancelled", "booking.completed"]);
    let task = world.ask(CONFIRM, &json!({"venue_id": "a", "slot_id": "s1"})).task();
    let told = webhook_bodies(&world, task.id);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.as_str(), &told[0].1["type"]), ("all", &json!("booking.confirmed")));
    assert_eq!(
        (&told[0].1["data"]["status"], &told[0].1["data"]["api_key_prefix"]),
        (&json!("pending"), &json!("agnt_live_0123"))
    );
    let office = world.booking_admin();
    let by = Caller::named("operator:test");
    let moved = now(office.transition(task.id, BookingStatus::Cancelled, &by)).unwrap();
    assert_eq!((moved.status, moved.transitions.len()), (BookingStatus::Cancelled, 1));
    let context = now(world.log.load(task.id)).unwrap().unwrap().context().unwrap();
    let scope = Scope { tenant: Tenant::none(), caller: by.clone(), agent: office.agent.clone() };
    let (scope, context) = (Arc::new(scope), Some(context));
    let listing =
        TaskListQuery { scope, context, state: None, since: None, limit: 9, bytes_max: usize::MAX, token: None };
    let second = now(world.log.list(listing)).unwrap().tasks.remove(0);
    let told = webhook_bodies(&world, second.id);
    let types: Vec<(&str, &Value)> = told.iter().map(|(id, body)| (id.as_str(), &body["type"])).collect();
    let (cancelled, changed) = (&json!("booking.cancelled"), &json!("booking.status_changed"));
    assert_eq!(types, [("all", cancelled), ("all", changed), ("ends", cancelled)]);
    assert_eq!(told[0].1["data"]["booking_id"], task.id.to_string());
    // The slot is free again, and a cancelled booking cannot move.
    assert_eq!(
        world.ask(CONFIRM, &json!({"venue_id": "a", "slot_id": "s1"})).task().status.state,
        TaskState::Completed
    );
    let stuck = now(office.transition(task.id, BookingStatus::Confirmed, &by));
    assert!(matches!(stuck, Err(TransitionError::Illegal(_))), "{stuck:?}");
    let unknown = TaskId::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
    assert!(matches!(
        now(office.transition(unknown, BookingStatus::Confirmed, &by)),
        Err(TransitionError::BookingNotFound(_))
    ));
}
