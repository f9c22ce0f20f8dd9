//! Canonical JSON: one text for each value, so that a signature over text is a signature over meaning.
//!
//! The form is RFC 8785 (JCS): members sorted by UTF-16 code units, numbers as ECMAScript prints them, no white space.
//! The form is only as good as the parser before it. Two readers that parse a text differently would agree on a
//! signature and disagree on the signed value, so [`read`] refuses every text on which readers differ: members given
//! twice, halves of surrogate pairs, and integers that a double cannot hold exactly (I-JSON, RFC 7493).
//!
//! Python's `json.dumps` with sorted keys gives another form, which is in [`python`].

pub mod python;

use crate::{Json, JsonFault};
use serde::Serialize;
use serde_json::Value;

/// The largest integer that every reader parses exactly: 2^53 - 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why a text or a value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonFault {
    /// Not JSON, nested too deep, or with a member given twice.
    #[error(transparent)]
    Json(#[from] JsonFault),
    /// An integer beyond [`INTEGER_MAX`], which some readers would round.
    #[error("integer {0} is not read the same by every parser")]
    Integer(String),
    /// A value without a JSON form, such as an infinite number.
    #[error("no canonical form: {0}")]
    Value(String),
}

/// Parses a text, and refuses one that other readers may parse differently.
pub fn read(text: &str) -> Result<Value, CanonFault> {
    let json = Json::parse(text)?;
    check_integers(json.as_str())?;
    json.read().map_err(|e| CanonFault::Json(JsonFault::Syntax(e.to_string())))
}

/// Writes a value in its canonical form. Integers beyond [`INTEGER_MAX`] are rounded here; [`read`] does not admit
/// them.
pub fn jcs<T: Serialize>(value: &T) -> Result<Vec<u8>, CanonFault> {
    serde_json_canonicalizer::to_vec(value).map_err(|e| CanonFault::Value(e.to_string()))
}

/// Checks the text and not the parsed numbers, because the parser silently rounds the largest integers to doubles.
fn check_integers(compact: &str) -> Result<(), CanonFault> {
    let bytes = compact.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let length = match byte {
            b'"' => string_length(&bytes[at..]),
            b'-' | b'0'..=b'9' => {
                let is_number = |b: &&u8| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = bytes[at..].iter().take_while(is_number).count();
                check_number(&compact[at..at + length])?;
                length
            }
            _ => 1,
        };
        at += length;
    }
    Ok(())
}

/// A number without a point or an exponent is an integer. With either, the writer means a double.
fn check_number(number: &str) -> Result<(), CanonFault> {
    let digits = number.trim_start_matches('-');
    let exact = digits.contains(['.', 'e', 'E']) || digits.parse().is_ok_and(|integer: u64| integer <= INTEGER_MAX);
    // The error quotes only the start of the number: a hostile one has a million digits.
    if exact { Ok(()) } else { Err(CanonFault::Integer(number.chars().take(24).collect())) }
}

/// The length of the string literal at the start, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct JcsVectors {
        cases: Vec<JcsCase>,
        numbers: Vec<JcsNumber>,
    }

    #[derive(Deserialize)]
    struct JcsCase {
        id: String,
        input: String,
        canonical: Option<String>,
        reject: Option<String>,
    }

    #[derive(Deserialize)]
    struct JcsNumber {
        ieee754: String,
        jcs: Option<String>,
        #[serde(default)]
        reject: bool,
    }

    fn vectors() -> JcsVectors {
        serde_json::from_str(include_str!("../tests/vectors/jcs.json")).unwrap()
    }

    #[test]
    fn every_text_of_the_vectors_has_its_canonical_form_or_is_refused() {
        let vectors = vectors();
        assert_eq!(vectors.cases.len(), 33);
        for JcsCase { id, input, canonical, reject } in vectors.cases {
            let ours = read(&input).and_then(|value| jcs(&value));
            match (canonical, reject) {
                (Some(canonical), None) => assert_eq!(ours.unwrap(), canonical.as_bytes(), "{id}"),
                (None, Some(_)) => assert!(ours.is_err(), "{id} is accepted"),
                _ => panic!("{id} says neither what it is nor that it is refused"),
            }
        }
    }

    #[test]
    fn every_number_of_the_vectors_is_printed_as_ecmascript_does() {
        let vectors = vectors();
        assert_eq!(vectors.numbers.len(), 27);
        for JcsNumber { ieee754, jcs: expected, reject } in vectors.numbers {
            let number = f64::from_bits(u64::from_str_radix(&ieee754, 16).unwrap());
            match jcs(&number) {
                Ok(text) => assert_eq!(Some(String::from_utf8(text).unwrap()), expected, "{ieee754}"),
                Err(_) => assert!(reject, "{ieee754} is refused"),
            }
        }
    }

    #[test]
    fn an_integer_too_large_for_a_double_is_refused_wherever_it_stands() {
        for text in ["9007199254740992", "[-9007199254740992]", r#"{"a":[1,100000000000000000000000]}"#] {
            assert!(matches!(read(text), Err(CanonFault::Integer(_))), "{text}");
        }
        // The same digits mean something else in a string, and a writer who gives an exponent means a double.
        for text in [r#""9007199254740993""#, r#"{"9007199254740993\\":"\"9007199254740993"}"#, "1e300", "[1.0e21]"] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_text_nested_too_deep_is_refused_before_anybody_recurses() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep), Err(CanonFault::Json(JsonFault::TooDeep)));
    }
}
