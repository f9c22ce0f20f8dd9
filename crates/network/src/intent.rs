//! Requests to the network: payloads, parsed strictly.
//!
//! An unknown member and a value of the wrong type are refused, because a sender that mistypes `party_size` needs an
//! error rather than a table for one. `null` counts as absent where a member is optional: clients in Python send it.

use sabir_gateway::{Intent, Problem, ProblemCode};
use sabir_guard::policy::scope::IntentRule;
use sabir_proto::{Object, TaskId};
use serde_json::{Map, Value};

/// Venues in a response to `venue.list`, by default.
pub const LIST_LIMIT: u32 = 50;
/// Venues in a response to `venue.list`, at most.
pub const LIST_LIMIT_MAX: u32 = 100;
/// Venues in a response to `booking.search`, by default.
pub const SEARCH_LIMIT: u32 = 10;
/// Venues in a response to `booking.search`, at most.
pub const SEARCH_LIMIT_MAX: u32 = 25;
/// Guests of one booking, at most.
pub const PARTY_MAX: u32 = 1000;
/// Characters of a guest's note.
pub const NOTE_CHARS_MAX: usize = 2000;
/// Characters of a search query, a category or a location.
pub const QUERY_CHARS_MAX: usize = 500;
/// Words of a search query.
pub const TERMS_MAX: usize = 16;
/// Characters of the id or slug of a venue or a slot.
pub const NAME_CHARS_MAX: usize = 128;
/// Characters of a time, in the notation of venues.
pub const TIME_CHARS_MAX: usize = 64;

/// The rule by which the guard judges an intent.
pub const fn guard_rule(intent: Intent) -> IntentRule {
    IntentRule {
        name: intent.name(),
        has_effect: intent.has_effect(),
        must_be_signed: intent.must_be_signed(),
        scope: intent.scope(),
    }
}

/// A parsed request to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentRequest {
    /// `network.ping`
    Ping,
    /// `venue.list`
    List(VenueFilter),
    /// `booking.search`
    Search(VenueFilter),
    /// `booking.confirm`
    Confirm(BookingOrder),
    /// `booking.status`, of the booking with this id.
    Status(TaskId),
    /// `payment.authorize`; the payment module parses it.
    Authorize(Object),
}

/// A filter for venues. A venue must satisfy all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VenueFilter {
    /// Only this category, in any case.
    pub category: Option<String>,
    /// A part of the area or the city.
    pub location: Option<String>,
    /// Each is a part of the name, the description or the category.
    pub terms: Vec<String>,
    /// The maximum number of results.
    pub limit: u32,
}

/// An order for a booking.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BookingOrder {
    /// The venue, by its id or its slug.
    pub venue: String,
    /// The id of one of its slots.
    pub slot: Option<String>,
    /// The time; with a slot it must be the time of the slot.
    pub time: Option<String>,
    /// The number of guests.
    pub party_size: Option<u32>,
    /// A note for the venue.
    pub note: Option<String>,
}

impl IntentRequest {
    /// Parses the payload of an intent, without the members of its signature.
    pub fn read(intent: Intent, payload: &Object) -> Result<Self, Problem> {
        let mut members = PayloadMembers(payload.to_map());
        let ask = match intent {
            Intent::NetworkPing => Self::Ping,
            Intent::VenueList => Self::List(VenueFilter {
                category: members.text("category", QUERY_CHARS_MAX)?,
                location: members.text("location", QUERY_CHARS_MAX)?,
                terms: Vec::new(),
                limit: members.limit(LIST_LIMIT, LIST_LIMIT_MAX)?,
            }),
            Intent::BookingSearch => Self::Search(VenueFilter {
                category: None,
                location: members.text("location", QUERY_CHARS_MAX)?,
                terms: terms(members.text("query", QUERY_CHARS_MAX)?.as_deref().unwrap_or_default())?,
                limit: members.limit(SEARCH_LIMIT, SEARCH_LIMIT_MAX)?,
            }),
            Intent::BookingConfirm => Self::Confirm(members.order()?),
            Intent::BookingStatus => Self::Status(members.booking()?),
            Intent::PaymentAuthorize => return Ok(Self::Authorize(payload.clone())),
        };
        members.reject_unknown()?;
        Ok(ask)
    }
}

impl BookingOrder {
    /// Parses the payload of `booking.confirm`, which is also the booking in `payment.authorize`.
    pub fn read(payload: &Object) -> Result<Self, Problem> {
        let mut members = PayloadMembers(payload.to_map());
        let order = members.order()?;
        members.reject_unknown()?;
        Ok(order)
    }
}

/// The words of a search query.
fn terms(query: &str) -> Result<Vec<String>, Problem> {
    let terms: Vec<String> = query.split_whitespace().map(str::to_owned).collect();
    if terms.len() > TERMS_MAX {
        return Err(invalid(format!("query: no more than {TERMS_MAX} words are searched for")));
    }
    Ok(terms)
}

/// The members of a payload that are still to be read.
struct PayloadMembers(Map<String, Value>);

impl PayloadMembers {
    /// Reads an optional member that is text.
    fn text(&mut self, name: &str, chars_max: usize) -> Result<Option<String>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => match fault(&text, chars_max) {
                None => Ok(Some(text)),
                Some(fault) => Err(invalid(format!("{name}: {fault}"))),
            },
            Some(_) => Err(invalid(format!("{name}: must be text"))),
        }
    }

    /// Reads an optional member that is text and not empty.
    fn non_empty_text(&mut self, name: &str, chars_max: usize) -> Result<Option<String>, Problem> {
        match self.text(name, chars_max)? {
            Some(text) if text.trim().is_empty() => Err(invalid(format!("{name}: must not be empty"))),
            other => Ok(other),
        }
    }

    /// Reads an optional member that is a whole number. Neither `4.0` nor `"4"` is one.
    fn number(&mut self, name: &str) -> Result<Option<i128>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => {
                let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                whole.map(Some).ok_or_else(|| invalid(format!("{name}: must be a whole number")))
            }
            Some(_) => Err(invalid(format!("{name}: must be a whole number"))),
        }
    }

    fn limit(&mut self, usual: u32, most: u32) -> Result<u32, Problem> {
        match self.number("limit")? {
            None => Ok(usual),
            Some(limit) if limit < 1 => Err(invalid("limit: must be at least 1")),
            Some(limit) => Ok(u32::try_from(limit).unwrap_or(most).min(most)),
        }
    }

    /// Reads the id of a booking, as the response to its order has it.
    fn booking(&mut self) -> Result<TaskId, Problem> {
        let id = self.non_empty_text("booking_id", NAME_CHARS_MAX)?;
        let id = id.ok_or_else(|| invalid("booking_id: must be given; it is in the answer to booking.confirm"))?;
        TaskId::parse(&id).ok_or_else(|| invalid("booking_id: is not the id of a booking"))
    }

    fn order(&mut self) -> Result<BookingOrder, Problem> {
        let venue = self.non_empty_text("venue_id", NAME_CHARS_MAX)?;
        let venue = venue.ok_or_else(|| invalid("venue_id: must be given; it is the slug or the id of a venue"))?;
        let slot = self.non_empty_text("slot_id", NAME_CHARS_MAX)?;
        let (time, slot_time) =
            (self.non_empty_text("time", TIME_CHARS_MAX)?, self.non_empty_text("slot_time", TIME_CHARS_MAX)?);
        if let (Some(one), Some(other)) = (&time, &slot_time)
            && one != other
        {
            return Err(invalid("time and slot_time: are two names of one thing, and differ"));
        }
        let party_size = match self.number("party_size")? {
            None => None,
            Some(size) => match u32::try_from(size) {
                Ok(size) if (1..=PARTY_MAX).contains(&size) => Some(size),
                _ => return Err(invalid(format!("party_size: must be between 1 and {PARTY_MAX}"))),
            },
        };
        let note = self.note()?;
        Ok(BookingOrder { venue, slot, time: time.or(slot_time), party_size, note })
    }

    /// Guests write in paragraphs, so their note is the one text that may have line breaks.
    fn note(&mut self) -> Result<Option<String>, Problem> {
        match self.0.remove("user_note") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.chars().count() > NOTE_CHARS_MAX => {
                Err(invalid(format!("user_note: must not be longer than {NOTE_CHARS_MAX} characters")))
            }
            Some(Value::String(text)) if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) => {
                Err(invalid("user_note: must not have control characters"))
            }
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid("user_note: must be text")),
        }
    }

    /// Reports a member that was not read as unknown.
    fn reject_unknown(self) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => {
                let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
                Err(invalid(format!("{shown:?}: is not a member of this payload")))
            }
        }
    }
}

/// What is wrong with a text of one line, if anything is.
fn fault(text: &str, chars_max: usize) -> Option<String> {
    if text.chars().count() > chars_max {
        return Some(format!("must not be longer than {chars_max} characters"));
    }
    text.chars().any(char::is_control).then(|| "must not have control characters".to_owned())
}

pub(crate) fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::InvalidPayload, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::Json;

    fn read(intent: Intent, payload: &str) -> Result<IntentRequest, Problem> {
        IntentRequest::read(intent, &Object::new(Json::parse(payload).unwrap()).unwrap())
    }

    fn refused(intent: Intent, payload: &str) -> String {
        let problem = read(intent, payload).expect_err(payload);
        assert_eq!(problem.code, ProblemCode::InvalidPayload, "{payload}");
        problem.message
    }

    #[test]
    fn what_is_left_out_has_its_usual_value() {
        assert_eq!(read(Intent::NetworkPing, "{}"), Ok(IntentRequest::Ping));
        let list = VenueFilter { limit: 50, ..VenueFilter::default() };
        assert_eq!(read(Intent::VenueList, "{}"), Ok(IntentRequest::List(list.clone())));
        let nulls = r#"{"category":null,"location":null,"limit":null}"#;
        assert_eq!(read(Intent::VenueList, nulls), Ok(IntentRequest::List(list)));
        let search = read(Intent::BookingSearch, r#"{"query":"  pizza  wood fire "}"#).unwrap();
        let terms = ["pizza", "wood", "fire"].map(str::to_owned).to_vec();
        assert_eq!(search, IntentRequest::Search(VenueFilter { terms, limit: 10, ..VenueFilter::default() }));
        let nulls =
            r#"{"venue_id":"a","slot_id":null,"time":null,"slot_time":null,"party_size":null,"user_note":null}"#;
        let order = BookingOrder { venue: "a".into(), ..BookingOrder::default() };
        assert_eq!(read(Intent::BookingConfirm, nulls), Ok(IntentRequest::Confirm(order)));
    }

    #[test]
    fn limits_are_cut_and_never_guessed() {
        let limit = |payload: &str| match read(Intent::VenueList, payload).unwrap() {
            IntentRequest::List(wanted) => wanted.limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(r#"{"limit":1}"#), 1);
        assert_eq!(limit(r#"{"limit":101}"#), 100);
        assert_eq!(limit(r#"{"limit":18446744073709551615}"#), 100);
        for bad in ["0", "-1", "5.0", "\"5\"", "true", "1e2", "[1]"] {
            refused(Intent::VenueList, &format!(r#"{{"limit":{bad}}}"#));
        }
    }

    #[test]
    fn an_order_says_what_it_means_or_is_refused() {
        let full = r#"{"venue_id":"luigis","slot_id":"s1","slot_time":"19:00","party_size":1000,"user_note":"a\nb"}"#;
        let Ok(IntentRequest::Confirm(order)) = read(Intent::BookingConfirm, full) else { panic!("an order") };
        assert_eq!((order.time.as_deref(), order.party_size), (Some("19:00"), Some(1000)));
        assert!(read(Intent::BookingConfirm, r#"{"venue_id":"a","time":"t","slot_time":"t"}"#).is_ok());
        for bad in [
            "{}",
            r#"{"venue_id":null}"#,
            r#"{"venue_id":" "}"#,
            r#"{"venue_id":7}"#,
            r#"{"venue_id":"a\u0000"}"#,
            r#"{"venue_id":"a","time":"t","slot_time":"u"}"#,
            r#"{"venue_id":"a","party_size":0}"#,
            r#"{"venue_id":"a","party_size":1001}"#,
            r#"{"venue_id":"a","party_size":1000000000}"#,
            r#"{"venue_id":"a","party_size":-3}"#,
            r#"{"venue_id":"a","party_size":2.0}"#,
            r#"{"venue_id":"a","party_size":"2"}"#,
            r#"{"venue_id":"a","party_size":true}"#,
            r#"{"venue_id":"a","slot_id":""}"#,
            r#"{"venue_id":"a","user_note":{}}"#,
            r#"{"venue_id":"a","user_note":"\u0007"}"#,
            r#"{"venue_id":"a","_sig":"x"}"#,
        ] {
            refused(Intent::BookingConfirm, bad);
        }
        refused(Intent::BookingConfirm, &format!(r#"{{"venue_id":"a","user_note":"{}"}}"#, "é".repeat(2001)));
        assert!(refused(Intent::BookingConfirm, r#"{"venue_id":"a","partysize":2}"#).contains("partysize"));
    }

    #[test]
    fn members_that_nobody_knows_are_refused() {
        refused(Intent::NetworkPing, r#"{"a":1}"#);
        for bad in ["{}", r#"{"booking_id":7}"#, r#"{"booking_id":"b1"}"#] {
            refused(Intent::BookingStatus, bad);
        }
        refused(Intent::VenueList, r#"{"query":"x"}"#);
        refused(Intent::BookingSearch, r#"{"category":"x"}"#);
        let long = format!(r#"{{"query":"{}"}}"#, "x ".repeat(17));
        refused(Intent::BookingSearch, &long);
    }
}
