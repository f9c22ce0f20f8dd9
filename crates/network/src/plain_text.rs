//! Requests in plain text, parsed by a few fixed rules.
//!
//! An agent that speaks A2A may send text instead of a data part. The text is parsed word by word, without guessing:
//!
//! | Text | Intent |
//! |---|---|
//! | `ping` | `network.ping` |
//! | `venues [CATEGORY] [in PLACE]`, `list …` | `venue.list` |
//! | `search WORDS [in PLACE]`, `find …` | `booking.search` |
//! | `track BOOKING`, `status …` | `booking.status` |
//! | `book VENUE [slot ID] [at TIME] [for N] [note TEXT]`, `confirm …`, `reserve …` | `booking.confirm` |
//!
//! Where the message names its skill the verb may be left out. Verbs and keywords are case-insensitive; punctuation at
//! the end is dropped. TIME is everything up to the next keyword, TEXT everything up to the end. A VENUE is its slug or
//! its id, so that a similar name never books the wrong venue.

use sabir_gateway::Intent;
use serde_json::{Map, Value, json};

/// The reply to a text that cannot be parsed.
pub const HELP: &str = "Say one of: ping · venues [CATEGORY] [in PLACE] · search WORDS [in PLACE] · book VENUE [slot ID] \
     [at TIME] [for N] [note TEXT] · track BOOKING, where VENUE is the slug or the id that a search shows. Or name a skill and send its \
     payload as a data part.";

/// The intent of a text, and its payload, which is still to be checked. `None` where the text cannot be parsed.
pub fn parse(skill: Option<Intent>, text: &str) -> Option<(Intent, Map<String, Value>)> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let verb = words.first().and_then(|word| verb(word));
    if verb.is_some() && (skill.is_none() || skill == verb) {
        words.remove(0);
    }
    let intent = skill.or(verb)?;
    let payload = match intent {
        Intent::NetworkPing => words.is_empty().then(Map::new),
        Intent::VenueList => Some(places(&words, "category")),
        Intent::BookingSearch => Some(places(&words, "query")),
        Intent::BookingConfirm => order(&words),
        Intent::BookingStatus => match *words {
            [booking] => Some(Map::from_iter([("booking_id".to_owned(), trim_punctuation(booking).into())])),
            _ => None,
        },
        // Payments need a data part.
        Intent::PaymentAuthorize => None,
    }?;
    Some((intent, payload))
}

fn verb(word: &str) -> Option<Intent> {
    match trim_punctuation(word).to_lowercase().as_str() {
        "ping" => Some(Intent::NetworkPing),
        "venues" | "list" => Some(Intent::VenueList),
        "search" | "find" => Some(Intent::BookingSearch),
        "book" | "confirm" | "reserve" => Some(Intent::BookingConfirm),
        "track" | "status" => Some(Intent::BookingStatus),
        _ => None,
    }
}

/// A word without punctuation at its end.
fn trim_punctuation(word: &str) -> &str {
    word.trim_end_matches(['.', ',', '!', '?', ';'])
}

/// `[WORDS] [in PLACE]`; the last `in` counts, since names of venues may contain the word too.
fn places(words: &[&str], what: &str) -> Map<String, Value> {
    let (said, place) = match words.iter().rposition(|word| word.eq_ignore_ascii_case("in")) {
        Some(at) if at + 1 < words.len() => (&words[..at], &words[at + 1..]),
        _ => (words, &[][..]),
    };
    let mut payload = Map::new();
    for (name, words) in [(what, said), ("location", place)] {
        let text = words.join(" ");
        let text = trim_punctuation(&text);
        if !text.is_empty() {
            payload.insert(name.into(), text.into());
        }
    }
    payload
}

/// `VENUE [slot ID] [at TIME] [for N] [note TEXT]`
fn order(words: &[&str]) -> Option<Map<String, Value>> {
    let (venue, mut rest) = words.split_first()?;
    let mut payload = Map::new();
    payload.insert("venue_id".into(), trim_punctuation(venue).into());
    let small = |word: &&str| matches!(word.to_lowercase().as_str(), "slot" | "at" | "for" | "note" | "note:");
    while let Some((word, after)) = rest.split_first() {
        let word = word.to_lowercase();
        let is_note = matches!(word.as_str(), "note" | "note:");
        let end = if is_note { after.len() } else { after.iter().position(small).unwrap_or(after.len()) };
        let (value, others) = after.split_at(end);
        let text = value.join(" ");
        let text = if is_note { text.as_str() } else { trim_punctuation(&text) };
        let (name, value) = match word.as_str() {
            "slot" => ("slot_id", json!(text)),
            "at" => ("time", json!(text)),
            "for" => ("party_size", json!(party(value)?)),
            "note" | "note:" => ("user_note", json!(text)),
            _ => return None,
        };
        if text.is_empty() || payload.insert(name.into(), value).is_some() {
            return None;
        }
        rest = others;
    }
    Some(payload)
}

/// `4`, `4 people`, `4 guests`, `4 persons`
fn party(words: &[&str]) -> Option<u64> {
    match words {
        [number] => trim_punctuation(number).parse().ok(),
        [number, who]
            if matches!(trim_punctuation(who).to_lowercase().as_str(), "people" | "guests" | "persons" | "person") =>
        {
            number.parse().ok()
        }
        _ => None,
    }
}

/// A result as text, for requests in plain text. The data part beside it has more.
pub fn describe(found: &Value) -> String {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    if let Some(active) = found["active_venues"].as_u64() {
        return format!("{active} venues can be booked.");
    }
    if let Some(booking) = found["booking_id"].as_str() {
        return format!("The booking {booking} at {} is {}.", text(&found["venue"], "name"), text(found, "status"));
    }
    let venues = found["venues"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |venue: &Value| {
        let place: Vec<String> =
            ["area", "city"].into_iter().map(|name| text(venue, name)).filter(|place| !place.is_empty()).collect();
        let slots = venue["slots"].as_array().map(Vec::as_slice).unwrap_or_default();
        let slots: Vec<String> =
            slots.iter().take(3).map(|slot| format!("{} ({})", text(slot, "slot_id"), text(slot, "time"))).collect();
        let mut line = format!("{} [{}]", text(venue, "name"), text(venue, "slug"));
        if !place.is_empty() {
            line = format!("{line}, {}", place.join(", "));
        }
        if slots.is_empty() { line } else { format!("{line}: {}", slots.join(", ")) }
    };
    match venues {
        [] => "Nothing fits.".into(),
        venues => venues.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(skill: Option<Intent>, text: &str, meant: Option<(Intent, Value)>) {
        let found = parse(skill, text).map(|(intent, payload)| (intent, Value::Object(payload)));
        assert_eq!(found, meant, "{text:?}");
    }

    #[test]
    fn plain_words_are_understood() {
        use Intent::{BookingConfirm as Confirm, BookingSearch as Search, NetworkPing as Ping, VenueList as List};
        check(None, "Ping!", Some((Ping, json!({}))));
        check(None, "venues", Some((List, json!({}))));
        check(None, "list restaurant in Canggu", Some((List, json!({"category": "restaurant", "location": "Canggu"}))));
        check(
            None,
            "find wood fired pizza in Kuta Utara.",
            Some((Search, json!({"query": "wood fired pizza", "location": "Kuta Utara"}))),
        );
        check(None, "Track 7f.", Some((Intent::BookingStatus, json!({"booking_id": "7f"}))));
        check(None, "search inn", Some((Search, json!({"query": "inn"}))));
        check(Some(Search), "spa in Ubud", Some((Search, json!({"query": "spa", "location": "Ubud"}))));
        check(Some(Search), "find spa", Some((Search, json!({"query": "spa"}))));
        check(Some(Search), "book spa", Some((Search, json!({"query": "book spa"}))));
        let whole = json!({"venue_id": "luigis", "time": "2026-12-01T19:00:00Z", "party_size": 4, "slot_id": "s1", "user_note": "by the window, for two"});
        let said = "Book luigis at 2026-12-01T19:00:00Z for 4 people slot s1 note by the window, for two";
        check(None, said, Some((Confirm, whole)));
        check(Some(Confirm), "luigis for 2.", Some((Confirm, json!({"venue_id": "luigis", "party_size": 2}))));
        check(
            None,
            "book luigis at tomorrow evening for 3",
            Some((Confirm, json!({"venue_id": "luigis", "time": "tomorrow evening", "party_size": 3}))),
        );
    }

    #[test]
    fn what_is_not_plain_is_not_guessed() {
        for text in [
            "",
            "hello",
            "ping me",
            "track",
            "track the booking",
            "book",
            "book luigis please",
            "book luigis for",
            "book luigis for two",
            "book luigis for 4 at",
            "book luigis for 4 for 5",
            "book luigis for 4 horses",
        ] {
            check(None, text, None);
        }
        check(Some(Intent::PaymentAuthorize), "pay 5 euros", None);
        check(Some(Intent::BookingConfirm), "", None);
    }
}
