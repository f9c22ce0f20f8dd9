//! Queries change nothing, and answer what they were asked.

use crate::world::{World, row};
use sabir_gateway::Intent;
use serde_json::{Value, json};

fn world() -> World {
    let slots = json!([{"id": "s1", "time": "19:00", "capacity": 2}, {"id": "s0", "time": "18:00", "capacity": 0}]);
    World::with(&json!([
        row("b", &json!({"name": "Bée 🐝 حانة", "slots": slots})),
        row("a", &json!({"area": null, "city": "Ubud", "category": "Spa", "referral_fee_pct": 2.5})),
        row("ranked", &json!({"priority_rank": -1})),
        row("closed", &json!({"active": false, "priority_rank": 9})),
    ]))
}

fn slugs(found: &Value) -> Vec<&str> {
    found["venues"].as_array().unwrap().iter().map(|venue| venue["slug"].as_str().unwrap()).collect()
}

#[test]
fn a_ping_says_who_one_is_and_how_much_there_is() {
    let said = world().ask(Intent::NetworkPing, &json!({})).message();
    let expected = json!({"active_venues": 3, "tier": "pro", "agent_id": "key:k1", "network_version": "1.0"});
    assert_eq!(said, expected);
}

#[test]
fn lists_are_ranked_and_leave_out_what_cannot_be_booked() {
    let world = world();
    let all = world.ask(Intent::VenueList, &json!({})).message();
    assert_eq!((slugs(&all), &all["count"]), (vec!["ranked", "a", "b"], &json!(3)));
    let spa = world.ask(Intent::VenueList, &json!({"category": "sPA", "location": "ubu", "limit": 1})).message();
    assert_eq!(slugs(&spa), ["a"]);
    assert_eq!((&spa["venues"][0]["referral_fee_pct"], spa["venues"][0].get("area")), (&json!(2.5), None));
    for wild in ["%", "_", "\\", "' OR 1=1 --", "\" OR \"", "u*"] {
        assert_eq!(world.ask(Intent::VenueList, &json!({"location": wild})).message()["count"], 0, "{wild}");
        assert_eq!(world.ask(Intent::BookingSearch, &json!({"query": wild})).message()["count"], 0, "{wild}");
    }
}

#[test]
fn a_search_shows_what_is_still_open() {
    let found = world().ask(Intent::BookingSearch, &json!({"query": "🐝 fish", "location": "canggu"})).message();
    assert_eq!(slugs(&found), ["b"]);
    assert_eq!(found["venues"][0]["slots"], json!([{"slot_id": "s1", "time": "19:00", "remaining": 2}]));
    assert_eq!((&found["fee_pct"], &found["expires_at"]), (&json!(7.0), &json!("2027-01-15T08:05:00.000Z")));
}

#[test]
fn a_venue_that_is_asked_itself_shows_itself() {
    let world = world();
    assert_eq!(slugs(&world.ask_at("venue_a", Intent::BookingSearch, &json!({})).message()), ["a"]);
    assert_eq!(world.ask_at("venue_closed", Intent::BookingSearch, &json!({})).refusal(), "venue_not_found");
    assert_eq!(world.ask_at("nobody", Intent::NetworkPing, &json!({})).refusal(), "venue_not_found");
}

#[test]
fn words_are_answered_in_words_and_nonsense_with_help() {
    let world = world();
    assert_eq!(slugs(&world.send_text("venues spa").message()), ["a"]);
    assert!(world.send_text("what is the weather?").message().as_str().unwrap().contains("book VENUE"));
    assert_eq!(world.ask(Intent::VenueList, &json!({"limit": "3"})).refusal(), "invalid_payload");
}
