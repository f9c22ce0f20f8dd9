//! JSON of which we do not know the shape: `data` parts, metadata, extension parameters.
//!
//! Such values are kept as compact text rather than as a tree: most are only passed on, and text keeps what a tree
//! would lose (64-bit integers, member order). Compact matters: one value is one line, in the log and in an SSE frame.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;

/// How deep a value may nest. Everybody downstream parses recursively, and 64 levels are past any honest use.
pub const JSON_DEPTH_MAX: usize = 64;

/// Why a JSON text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// Brackets nest deeper than [`JSON_DEPTH_MAX`].
    #[error("nested deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
    /// An object names a member twice; readers disagree on which one counts.
    #[error("duplicate member {0:?}")]
    Duplicate(String),
    /// Not JSON.
    #[error("{0}")]
    Syntax(String),
    /// A JSON value, but not the object that is required here.
    #[error("must be an object")]
    NotAnObject,
}

/// Any JSON value, as compact text.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Parses and compacts a text.
    pub fn parse(text: &str) -> Result<Self, JsonFault> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| JsonFault::Syntax(e.to_string()))?;
        Self::tidy(raw)
    }

    /// From anything that serialises.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, JsonFault> {
        let text = serde_json::to_string(value).map_err(|e| JsonFault::Syntax(e.to_string()))?;
        Self::parse(&text)
    }

    /// The compact text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    fn tidy(raw: &RawValue) -> Result<Self, JsonFault> {
        let compacted = compact(raw.get())?;
        // What the grammar allows and no reader can take: numbers beyond a double, halves of surrogate pairs. Checked
        // after the depth, since this walk is recursive.
        let readable: Result<serde_json::Value, _> = serde_json::from_str(raw.get());
        readable.map_err(|e| JsonFault::Syntax(e.to_string()))?;
        let raw = match compacted {
            None => raw.to_owned(),
            Some(text) => RawValue::from_string(text).map_err(|e| JsonFault::Syntax(e.to_string()))?,
        };
        Ok(Self(raw))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(d)?;
        Self::tidy(&raw).map_err(D::Error::custom)
    }
}

/// A JSON object: `metadata`, extension `params`, signature headers.
#[derive(Clone, PartialEq, Eq)]
pub struct Object(Json);

impl Object {
    /// Takes a value that must be an object.
    pub fn new(json: Json) -> Result<Self, JsonFault> {
        if json.as_str().starts_with('{') { Ok(Self(json)) } else { Err(JsonFault::NotAnObject) }
    }

    /// From a map of members.
    pub fn from_map(map: &serde_json::Map<String, serde_json::Value>) -> Result<Self, JsonFault> {
        Self::new(Json::of(map)?)
    }

    /// The members, parsed.
    pub fn to_map(&self) -> serde_json::Map<String, serde_json::Value> {
        // Cannot fail on checked text; an empty map keeps the caller simple should that ever be wrong.
        self.0.read().unwrap_or_default()
    }

    /// One member, parsed.
    pub fn get(&self, name: &str) -> Option<serde_json::Value> {
        self.to_map().remove(name)
    }

    /// The compact text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The object as a value.
    pub fn as_json(&self) -> &Json {
        &self.0
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::new(Json::deserialize(d)?).map_err(D::Error::custom)
    }
}

/// Checks depth and duplicate members of a syntactically valid text, and strips white space outside strings.
/// `None` means the text is compact already, which is the usual case and costs no copy.
fn compact(text: &str) -> Result<Option<String>, JsonFault> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut kept = 0; // everything before this offset is already in `out`
    let mut scopes: Vec<Option<HashSet<String>>> = Vec::new(); // `Some` for an object, with the names seen so far
    let mut expects_name = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                if expects_name && let Some(Some(names)) = scopes.last_mut() {
                    let name: String =
                        serde_json::from_str(&text[at..end]).map_err(|e| JsonFault::Syntax(e.to_string()))?;
                    if names.contains(&name) {
                        return Err(JsonFault::Duplicate(name));
                    }
                    names.insert(name);
                    expects_name = false;
                }
                at = end;
                continue;
            }
            b'{' => {
                scopes.push(Some(HashSet::new()));
                expects_name = true;
            }
            b'[' => {
                scopes.push(None);
                expects_name = false;
            }
            b'}' | b']' => {
                scopes.pop();
                expects_name = false;
            }
            b',' => expects_name = matches!(scopes.last(), Some(Some(_))),
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.get_or_insert_with(|| String::with_capacity(text.len())).push_str(&text[kept..at]);
                kept = at + 1;
            }
            _ => {}
        }
        if scopes.len() > JSON_DEPTH_MAX {
            return Err(JsonFault::TooDeep);
        }
        at += 1;
    }
    Ok(out.map(|mut o| {
        o.push_str(&text[kept..]);
        o
    }))
}

/// The offset just past the closing quote of the string that opens at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_outside_strings_goes_and_everything_else_stays() {
        let json = Json::parse("{ \"a b\" :\n [1, 2.50 , 12345678901234567890],\t\"s\": \"x \\\" y\" }").unwrap();
        assert_eq!(json.as_str(), r#"{"a b":[1,2.50,12345678901234567890],"s":"x \" y"}"#);
    }

    #[test]
    fn a_name_given_twice_is_refused_also_when_escaped_differently() {
        assert_eq!(Json::parse(r#"{"a":1,"\u0061":2}"#), Err(JsonFault::Duplicate("a".into())));
        assert!(Json::parse(r#"[{"a":1},{"a":2},{"b":{"a":1},"a":"b"}]"#).is_ok());
    }

    #[test]
    fn depth_is_bounded() {
        let nest = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Json::parse(&nest(JSON_DEPTH_MAX)).is_ok());
        assert_eq!(Json::parse(&nest(JSON_DEPTH_MAX + 1)), Err(JsonFault::TooDeep));
        assert_eq!(Json::parse(&nest(100_000)), Err(JsonFault::TooDeep));
    }

    #[test]
    fn what_no_reader_can_take_is_refused() {
        for bad in ["1e999", r#"{"a":"\ud800"}"#, r#"{"a":-1e999}"#] {
            assert!(matches!(Json::parse(bad), Err(JsonFault::Syntax(_))), "{bad}");
        }
    }

    #[test]
    fn an_object_is_an_object() {
        assert!(Object::new(Json::parse("[]").unwrap()).is_err());
        assert_eq!(Object::new(Json::parse(r#"{"a":{"b":1}}"#).unwrap()).unwrap().get("a").unwrap()["b"], 1);
    }
}
