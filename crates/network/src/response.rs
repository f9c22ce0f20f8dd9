//! Responses of the network: result objects, member by member.
//!
//! Fees are percentages and written as floating-point numbers (`7.0`), which stay the same bytes in the network's
//! canonical form.

use sabir_gateway::Problem;
use sabir_proto::{Json, Timestamp};
use sabir_store::{BookingDetails, BookingStatus, Slot, Venue};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long the result of a search is valid.
pub const SEARCH_VALID_FOR: Duration = Duration::from_secs(300);
/// Open slots that a result shows of one venue.
pub const SLOTS_SHOWN_MAX: usize = 20;

/// A venue as results show it.
pub fn venue(venue: &Venue) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| shown.insert(name.into(), value);
    put("id", json!(venue.id));
    put("slug", json!(venue.slug));
    put("name", json!(venue.name));
    put("agent_id", json!(venue.agent_id));
    put("category", json!(venue.category));
    let optional = [
        ("description", &venue.description),
        ("area", &venue.area),
        ("city", &venue.city),
        ("price_range", &venue.price_range),
    ];
    for (name, text) in optional {
        if let Some(text) = text {
            put(name, json!(text));
        }
    }
    put("tags", json!(venue.tags));
    put("referral_fee_pct", pct(venue.fee.basis_points));
    shown
}

/// A venue with its open slots.
pub fn offer(offered: &Venue, slots: &[Slot]) -> Map<String, Value> {
    let mut shown = venue(offered);
    let open = slots.iter().filter(|slot| slot.taken < slot.capacity).take(SLOTS_SHOWN_MAX);
    let open: Vec<Value> = open
        .map(|slot| json!({"slot_id": slot.id, "time": slot.time, "remaining": slot.capacity - slot.taken}))
        .collect();
    shown.insert("slots".into(), open.into());
    shown
}

/// The result of `network.ping`.
pub fn ping(active: u64, tier: &str, agent: &str, version: &str) -> Value {
    json!({"active_venues": active, "tier": tier, "agent_id": agent, "network_version": version})
}

/// The result of `venue.list`.
pub fn list(venues: Vec<Map<String, Value>>) -> Value {
    json!({"count": venues.len(), "venues": venues})
}

/// The result of `booking.search`.
pub fn search(venues: Vec<Map<String, Value>>, fee: u32, now: Timestamp) -> Value {
    let good_for = i64::try_from(SEARCH_VALID_FOR.as_millis()).unwrap_or(i64::MAX);
    let expires = Timestamp::from_millis(now.millis().saturating_add(good_for));
    json!({"count": venues.len(), "venues": venues, "fee_pct": pct(fee), "expires_at": expires})
}

/// The result of `booking.confirm`, and the data of webhooks about a booking.
pub fn booking(
    id: &str,
    at: Option<&Venue>,
    booked: &BookingDetails,
    status: BookingStatus,
    created: Timestamp,
) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("booking_id".into(), json!(id));
    let place = match at {
        Some(at) => json!({"id": at.id, "slug": at.slug, "name": at.name, "agent_id": at.agent_id}),
        None => json!({"id": booked.venue}),
    };
    shown.insert("venue".into(), place);
    shown.insert("status".into(), json!(status.name()));
    if let Some(slot) = &booked.slot {
        shown.insert("slot_id".into(), json!(slot));
    }
    if let Some(time) = &booked.time {
        shown.insert("time".into(), json!(time));
    }
    if let Some(size) = booked.party_size {
        shown.insert("party_size".into(), json!(size));
    }
    shown.insert("created_at".into(), json!(created));
    shown
}

/// A refusal as data, for callers of any dialect.
pub fn refusal(problem: &Problem) -> Value {
    let mut error = Map::new();
    error.insert("code".into(), json!(problem.code.name()));
    error.insert("message".into(), json!(problem.message));
    error.insert("retryable".into(), json!(problem.code.is_retryable()));
    if let Some(wait) = problem.retry_after {
        error.insert("retry_after_ms".into(), json!(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)));
    }
    if let Some(details) = &problem.details {
        error.insert("details".into(), details.to_map().into());
    }
    json!({"error": error})
}

/// Hundredths of a percent as a percentage.
fn pct(basis_points: u32) -> Value {
    json!(f64::from(basis_points) / 100.0)
}

/// A value as the content of a data part.
pub(crate) fn data(value: &Value) -> Json {
    Json::of(value).unwrap_or_else(|_| Json::of(&Value::Null).expect("null is JSON"))
}
