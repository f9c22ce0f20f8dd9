//! The payload of `payment.authorize`, parsed strictly.

use crate::intent::{BookingOrder, invalid};
use sabir_gateway::Problem;
use sabir_proto::Object;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Characters of a token's members.
const TOKEN_CHARS_MAX: usize = 256;
/// The largest amount, in minor units: what a floating-point number holds exactly.
const AMOUNT_MAX: u64 = (1 << 53) - 1;

/// A request to pay, with or without a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRequest {
    /// The amount in minor units.
    pub amount: u64,
    /// The currency by ISO 4217.
    pub currency: String,
    /// The token it is paid with.
    pub token: PaymentToken,
    /// The order that is booked with it.
    pub booking: Option<BookingOrder>,
    /// Whether the money is captured.
    pub capture: CaptureMode,
}

/// Whether the money is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureMode {
    /// As soon as the booking is made.
    OnConfirm,
    /// Later, and not by this server.
    AuthorizeOnly,
}

/// A payment token. Secret: only the processor sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct PaymentToken {
    kind: String,
    members: Map<String, Value>,
}

impl fmt::Debug for PaymentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl PaymentToken {
    /// The name of the processor that takes the token.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// A text member of the token.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    /// An object member of the token.
    pub fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.members.get(name).and_then(Value::as_object)
    }

    /// A digest that distinguishes tokens and reveals nothing else.
    pub fn digest(&self) -> String {
        // A map has its members in order.
        let text = serde_json::to_vec(&self.members).unwrap_or_default();
        Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(value: Option<Value>) -> Result<Self, Problem> {
        let Some(Value::Object(mut members)) = value else {
            return Err(invalid("token: must be an object with a type"));
        };
        let Some(Value::String(kind)) = members.remove("type") else {
            return Err(invalid("token.type: must be given"));
        };
        let known: &[(&str, bool)] = match &*kind {
            "stripe" => &[("payment_method", false), ("payment_intent", false)],
            "x402" => &[("payload", true)],
            "crypto" => &[("network", true), ("asset", true), ("transaction", true)],
            "test" => &[("outcome", true)],
            _ => return Err(invalid("token.type: must be stripe, x402, crypto or test")),
        };
        for (name, value) in &members {
            if !known.iter().any(|(known, _)| known == name) {
                return Err(invalid(format!("token: a token of type {kind} has no such member")));
            }
            let fits = match value {
                Value::Object(_) => name == "payload",
                Value::String(text) => {
                    let plain = |c: char| c.is_ascii_graphic();
                    name != "payload" && !text.is_empty() && text.len() <= TOKEN_CHARS_MAX && text.chars().all(plain)
                }
                _ => false,
            };
            if !fits {
                return Err(invalid(format!("token.{name}: cannot be that")));
            }
        }
        if let Some((name, _)) = known.iter().find(|(name, needed)| *needed && !members.contains_key(*name)) {
            return Err(invalid(format!("token.{name}: must be given")));
        }
        if kind == "stripe" && members.len() != 1 {
            return Err(invalid("token: either payment_method or payment_intent must be given"));
        }
        Ok(Self { kind, members })
    }
}

impl PaymentRequest {
    /// Parses the payload, without the members of its signature.
    pub fn read(payload: &Object) -> Result<Self, Problem> {
        let mut members = payload.to_map();
        let (amount, currency) = money(members.remove("amount"))?;
        let token = PaymentToken::read(members.remove("token"))?;
        let booking = match members.remove("booking") {
            None | Some(Value::Null) => None,
            Some(Value::Object(order)) => {
                let order = Object::from_map(&order).map_err(|_| invalid("booking: cannot be read"))?;
                let named = |problem: Problem| invalid(format!("booking.{}", problem.message));
                Some(BookingOrder::read(&order).map_err(named)?)
            }
            Some(_) => return Err(invalid("booking: must be an object")),
        };
        let capture = match members.remove("capture") {
            None | Some(Value::Null) => CaptureMode::OnConfirm,
            Some(Value::String(word)) if word == "on_confirm" => CaptureMode::OnConfirm,
            Some(Value::String(word)) if word == "authorize_only" => CaptureMode::AuthorizeOnly,
            Some(_) => return Err(invalid("capture: must be on_confirm or authorize_only")),
        };
        match members.remove("mandate") {
            None | Some(Value::Null) => {}
            // Accepting a mandate without checking it would let any caller claim anything.
            Some(_) => return Err(invalid("mandate: mandates are not looked at here; leave it out")),
        }
        match members.keys().next() {
            None => Ok(Self { amount, currency, token, booking, capture }),
            Some(name) => {
                let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
                Err(invalid(format!("{shown:?}: is not a member of this payload")))
            }
        }
    }
}

fn money(value: Option<Value>) -> Result<(u64, String), Problem> {
    let Some(Value::Object(mut money)) = value else {
        return Err(invalid("amount: must be an object such as {\"amount\": 2500, \"currency\": \"USD\"}"));
    };
    let amount = money.remove("amount").and_then(|value| value.as_u64());
    let Some(amount) = amount.filter(|amount| (1..=AMOUNT_MAX).contains(amount)) else {
        return Err(invalid("amount.amount: must be a whole number of minor units, at least 1"));
    };
    let currency = match money.remove("currency") {
        Some(Value::String(code)) if code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase()) => code,
        _ => return Err(invalid("amount.currency: must be a code of ISO 4217, such as USD")),
    };
    if money.is_empty() { Ok((amount, currency)) } else { Err(invalid("amount: has amount and currency only")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::Json;

    fn read(payload: &str) -> Result<PaymentRequest, Problem> {
        PaymentRequest::read(&Object::new(Json::parse(payload).unwrap()).unwrap())
    }

    const AMOUNT: &str = r#""amount":{"amount":2500,"currency":"USD"}"#;

    #[test]
    fn an_offer_says_what_it_means_or_is_refused() {
        let token = r#""token":{"type":"stripe","payment_method":"pm_1"}"#;
        let offer = read(&format!(r#"{{{AMOUNT},{token},"booking":{{"venue_id":"a"}},"mandate":null}}"#)).unwrap();
        assert_eq!((offer.amount, &*offer.currency, offer.capture), (2500, "USD", CaptureMode::OnConfirm));
        assert_eq!(offer.booking.unwrap().venue, "a");
        assert!(!format!("{:?}", offer.token).contains("pm_1"), "nobody sees a token by accident");
        assert_eq!(offer.token.digest().len(), 64);
        for bad in [
            r#"{}"#.to_owned(),
            format!("{{{AMOUNT}}}"),
            format!("{{{token}}}"),
            format!(r#"{{"amount":{{"amount":0,"currency":"USD"}},{token}}}"#),
            format!(r#"{{"amount":{{"amount":1.0,"currency":"USD"}},{token}}}"#),
            format!(r#"{{"amount":{{"amount":-5,"currency":"USD"}},{token}}}"#),
            format!(r#"{{"amount":{{"amount":9007199254740992,"currency":"USD"}},{token}}}"#),
            format!(r#"{{"amount":{{"amount":5,"currency":"usd"}},{token}}}"#),
            format!(r#"{{"amount":{{"amount":5,"currency":"USD","x":1}},{token}}}"#),
            format!(r#"{{"amount":2500,{token}}}"#),
            format!(r#"{{{AMOUNT},{token},"capture":"later"}}"#),
            format!(r#"{{{AMOUNT},{token},"mandate":"a~~b"}}"#),
            format!(r#"{{{AMOUNT},{token},"booking":"a"}}"#),
            format!(r#"{{{AMOUNT},{token},"booking":{{}}}}"#),
            format!(r#"{{{AMOUNT},{token},"tip":5}}"#),
            format!(r#"{{{AMOUNT},"token":{{"type":"stripe"}}}}"#),
            format!(r#"{{{AMOUNT},"token":{{"type":"stripe","payment_method":"a","payment_intent":"b"}}}}"#),
            format!(r#"{{{AMOUNT},"token":{{"type":"stripe","payment_method":"a b"}}}}"#),
            format!(r#"{{{AMOUNT},"token":{{"type":"stripe","payment_method":"a","amount":"1"}}}}"#),
            format!(r#"{{{AMOUNT},"token":{{"type":"cash"}}}}"#),
            format!(r#"{{{AMOUNT},"token":{{"type":"x402","payload":"text"}}}}"#),
            format!(r#"{{{AMOUNT},"token":{{"type":"crypto","network":"eip155:1","asset":"0x1"}}}}"#),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
