//! The canonical form that is **not** RFC 8785 but what Python prints for
//! `json.dumps(value, sort_keys=True, separators=(",", ":"))`.
//!
//! Names are sorted by code point, everything outside printable ASCII is escaped, and numbers keep their kind: `1` and
//! `1.0` are different texts, and an integer is exact at any length. A tree of doubles loses that difference, so this
//! module works on the text of each number.
//!
//! Reading is strict where Python is not: members given twice, halves of surrogate pairs, `NaN` and numbers beyond a
//! double (also integers of more than 308 digits) have no canonical form here, as nowhere else in this crate.

use super::CanonFault;
use crate::{Json, JsonFault};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A JSON object whose members are held in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CanonicalObject {
    /// Rust orders strings by UTF-8, which is the order of code points.
    members: BTreeMap<String, String>,
}

impl CanonicalObject {
    /// Reads an object from its text.
    pub fn read(text: &str) -> Result<Self, CanonFault> {
        let json = Json::parse(text)?;
        if !json.as_str().starts_with('{') {
            return Err(JsonFault::NotAnObject.into());
        }
        let mut reader = CanonicalReader { text: json.as_str(), at: 0 };
        Ok(Self { members: reader.members()? })
    }

    /// Returns a member as canonical JSON.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(String::as_str)
    }

    /// Returns a member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// The names of all members, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Sets a member; replaces an earlier one of the same name.
    pub fn set(&mut self, name: &str, value: &Json) -> Result<(), CanonFault> {
        let value = CanonicalReader { text: value.as_str(), at: 0 }.value()?;
        self.members.insert(name.to_owned(), value);
        Ok(())
    }

    /// Removes a member, if it is there.
    pub fn remove(&mut self, name: &str) {
        self.members.remove(name);
    }

    /// Keeps only the members whose name `keeps` accepts.
    pub fn retain(&mut self, mut keeps: impl FnMut(&str) -> bool) {
        self.members.retain(|name, _| keeps(name));
    }

    /// The canonical text, which is ASCII.
    pub fn canonical(&self) -> String {
        object_text(&self.members)
    }

    /// The canonical text without one member, such as a signature over the others. A member of that name in a nested
    /// object stays.
    pub fn canonical_without(&self, name: &str) -> String {
        let mut others = self.clone();
        others.remove(name);
        others.canonical()
    }
}

/// Walks compact JSON of bounded depth that has been validated. It returns errors instead of trusting the validation.
struct CanonicalReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> CanonicalReader<'a> {
    fn value(&mut self) -> Result<String, CanonFault> {
        match self.peek() {
            Some(b'{') => Ok(object_text(&self.members()?)),
            Some(b'[') => self.list(),
            Some(b'"') => Ok(string_text(&self.string()?)),
            Some(b'-' | b'0'..=b'9') => number_text(self.take_while(|b| b"+-.eE0123456789".contains(&b))),
            Some(b't' | b'f' | b'n') => Ok(self.take_while(|b| b.is_ascii_lowercase()).to_owned()),
            _ => Err(self.unexpected()),
        }
    }

    fn members(&mut self) -> Result<BTreeMap<String, String>, CanonFault> {
        let mut members = BTreeMap::new();
        self.expect(b'{')?;
        while self.peek() != Some(b'}') {
            let name = self.string()?;
            self.expect(b':')?;
            members.insert(name, self.value()?);
            if self.peek() != Some(b'}') {
                self.expect(b',')?;
            }
        }
        self.expect(b'}')?;
        Ok(members)
    }

    fn list(&mut self) -> Result<String, CanonFault> {
        let mut items = Vec::new();
        self.expect(b'[')?;
        while self.peek() != Some(b']') {
            items.push(self.value()?);
            if self.peek() != Some(b']') {
                self.expect(b',')?;
            }
        }
        self.expect(b']')?;
        Ok(format!("[{}]", items.join(",")))
    }

    fn string(&mut self) -> Result<String, CanonFault> {
        let length = super::string_length(&self.text.as_bytes()[self.at..]);
        let literal = self.text.get(self.at..self.at + length).ok_or_else(|| self.unexpected())?;
        self.at += length;
        serde_json::from_str(literal).map_err(|e| CanonFault::Json(JsonFault::Syntax(e.to_string())))
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let from = self.at;
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), CanonFault> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn unexpected(&self) -> CanonFault {
        CanonFault::Json(JsonFault::Syntax(format!("unexpected text at byte {}", self.at)))
    }
}

fn object_text(members: &BTreeMap<String, String>) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{}:{value}", string_text(name))).collect();
    format!("{{{}}}", members.join(","))
}

/// Escapes like Python with `ensure_ascii`: only 0x20 to 0x7e pass; the rest is written as UTF-16 code units in
/// lower-case hex.
fn string_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

fn number_text(token: &str) -> Result<String, CanonFault> {
    if !token.contains(['.', 'e', 'E']) {
        // The JSON grammar does not allow leading zeros.
        return Ok(if token == "-0" { "0".to_owned() } else { token.to_owned() });
    }
    let out_of_range = || CanonFault::Value(token.chars().take(24).collect());
    let value: f64 = token.parse().map_err(|_| out_of_range())?;
    if value.is_finite() { Ok(repr(value)) } else { Err(out_of_range()) }
}

/// A double as Python's `repr` writes it: the shortest digits that parse to the same double, with a point for exponents
/// from -4 to 15, otherwise with an exponent of at least two digits.
fn repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    match exponent {
        -4..=-1 => format!("{sign}0.{}{digits}", zeros(-exponent - 1)),
        0..=15 if exponent + 1 >= length => format!("{sign}{digits}{}.0", zeros(exponent + 1 - length)),
        0..=15 => {
            let (whole, fraction) = digits.split_at(usize::try_from(exponent + 1).unwrap_or(0));
            format!("{sign}{whole}.{fraction}")
        }
        _ => {
            let mark = if exponent < 0 { '-' } else { '+' };
            format!("{sign}{mantissa}e{mark}{:02}", exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_canonical_stays_as_it_is() {
        let once = CanonicalObject::read(r#"{"b":[1.50,{"z":1e5,"é":"\u00e9"}],"a":-0.0}"#).unwrap().canonical();
        assert_eq!(once, r#"{"a":-0.0,"b":[1.5,{"z":100000.0,"\u00e9":"\u00e9"}]}"#);
        assert_eq!(CanonicalObject::read(&once).unwrap().canonical(), once);
    }

    #[test]
    fn members_are_read_set_and_removed() {
        let mut payload = CanonicalObject::read(r#"{"n":1.0,"_sig":"x","s":"caf\u00e9"}"#).unwrap();
        assert_eq!(
            (payload.get("n"), payload.text("s").as_deref(), payload.text("n")),
            (Some("1.0"), Some("café"), None)
        );
        payload.remove("_sig");
        payload.set("_ts", &Json::parse("1776000000").unwrap()).unwrap();
        payload.set("n", &Json::parse("[ 2 ]").unwrap()).unwrap();
        assert_eq!(payload.canonical(), r#"{"_ts":1776000000,"n":[2],"s":"caf\u00e9"}"#);
        payload.retain(|name| !name.starts_with('_'));
        assert_eq!(payload.names().collect::<Vec<_>>(), ["n", "s"]);
    }

    #[test]
    fn only_an_object_is_a_payload() {
        for text in ["[1]", "7", "\"x\"", "null"] {
            assert_eq!(CanonicalObject::read(text), Err(CanonFault::Json(JsonFault::NotAnObject)), "{text}");
        }
    }

    #[test]
    fn an_outer_member_is_left_out_and_an_inner_one_is_not() {
        let object = CanonicalObject::read(r#"{"sig":"s","b":{"sig":"kept"},"a":1.0}"#).unwrap();
        assert_eq!(object.canonical_without("sig"), r#"{"a":1.0,"b":{"sig":"kept"}}"#);
    }
}
