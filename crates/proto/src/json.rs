//! JSON values whose shape we do not know: `data` parts, metadata, extension parameters.
//!
//! Such values are stored as compact text and not as a tree: most are only passed on, and text keeps what a tree loses
//! (64-bit integers, member order). Compact text is one line, in the log and in an SSE frame.

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// The depth to which a value may nest. All later parsers recurse, and honest values need far fewer than 64 levels.
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
    /// Parses a text and removes its white space.
    pub fn parse(text: &str) -> Result<Self, JsonFault> {
        let raw: &RawValue = serde_json::from_str(text).map_err(syntax)?;
        match compact_checked(raw.get())? {
            None => Ok(Self(raw.to_owned())),
            Some(text) => Self::from_compact(text),
        }
    }

    /// Serialises a value of any type.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonFault> {
        Self::from_raw(serde_json::value::to_raw_value(value).map_err(syntax)?)
    }

    /// Returns the value as compact text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Deserialises the value into a type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    fn from_raw(raw: Box<RawValue>) -> Result<Self, JsonFault> {
        match compact_checked(raw.get())? {
            None => Ok(Self(raw)),
            Some(text) => Self::from_compact(text),
        }
    }

    fn from_compact(text: String) -> Result<Self, JsonFault> {
        RawValue::from_string(text).map(Self).map_err(syntax)
    }
}

fn syntax(error: serde_json::Error) -> JsonFault {
    JsonFault::Syntax(error.to_string())
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
        Self::from_raw(Box::<RawValue>::deserialize(d)?).map_err(D::Error::custom)
    }
}

/// A JSON object: `metadata`, extension `params`, signature headers.
#[derive(Clone, PartialEq, Eq)]
pub struct Object(Json);

impl Object {
    /// Converts a value, which must be an object.
    pub fn new(json: Json) -> Result<Self, JsonFault> {
        if json.as_str().starts_with('{') { Ok(Self(json)) } else { Err(JsonFault::NotAnObject) }
    }

    /// Serialises a map of members.
    pub fn from_map(map: &serde_json::Map<String, serde_json::Value>) -> Result<Self, JsonFault> {
        Self::new(Json::of(map)?)
    }

    /// Parses all members into a map.
    pub fn to_map(&self) -> serde_json::Map<String, serde_json::Value> {
        // This cannot fail on checked text; an empty map keeps callers simple if it ever does.
        self.0.read().unwrap_or_default()
    }

    /// All members, each as unparsed JSON.
    pub fn members(&self) -> BTreeMap<String, Json> {
        let members: BTreeMap<String, Box<RawValue>> = self.0.read().unwrap_or_default();
        // A part of a checked value is checked.
        members.into_iter().map(|(name, value)| (name, Json(value))).collect()
    }

    /// Parses one member into a JSON tree.
    pub fn get(&self, name: &str) -> Option<serde_json::Value> {
        self.member(name)
    }

    /// Deserialises one member without parsing the others; `None` where it is absent or of another type.
    pub fn member<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        // Usually the member is absent. A text search tells that, unless names are written with escapes.
        if !self.as_str().contains(name) && !self.as_str().contains('\\') {
            return None;
        }
        let mut reader = serde_json::Deserializer::from_str(self.as_str());
        reader.deserialize_map(MemberVisitor { name, what: PhantomData }).ok()?
    }

    /// Returns the object as compact text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the object as a JSON value.
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

/// Deserialises one member of an object.
struct MemberVisitor<'n, T> {
    name: &'n str,
    what: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for MemberVisitor<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = members.next_key_seed(NameMatcher(self.name))? {
            if is_it {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Tells whether a name is the expected one.
struct NameMatcher<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for NameMatcher<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<bool, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for NameMatcher<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// The number of names of an object that are compared one by one; a larger object uses a set.
const NAMES_COMPARED_MAX: usize = 24;
/// A number with at most this many digits cannot exceed a double.
const DIGITS_SAFE: usize = 300;

/// The member names of all objects that are open at a position of a text, to find duplicates.
#[derive(Default)]
struct NameScopes<'a> {
    /// The names of the outermost object come first.
    open: Vec<Cow<'a, str>>,
    /// The offset of the first name of each open value; `None` for an array.
    scopes: Vec<Option<usize>>,
    /// The names of objects with many members, with their depth.
    large_scopes: Vec<(usize, HashSet<Cow<'a, str>>)>,
}

impl<'a> NameScopes<'a> {
    fn is_in_object(&self) -> bool {
        matches!(self.scopes.last(), Some(Some(_)))
    }

    fn open(&mut self, is_object: bool) -> Result<(), JsonFault> {
        self.scopes.push(is_object.then_some(self.open.len()));
        if self.scopes.len() > JSON_DEPTH_MAX { Err(JsonFault::TooDeep) } else { Ok(()) }
    }

    fn close(&mut self) {
        self.large_scopes.pop_if(|(depth, _)| *depth == self.scopes.len());
        if let Some(Some(start)) = self.scopes.pop() {
            self.open.truncate(start);
        }
    }

    fn add(&mut self, name: Cow<'a, str>) -> Result<(), JsonFault> {
        let (depth, start) = (self.scopes.len(), self.scopes.last().copied().flatten().unwrap_or(0));
        if let Some((_, set)) = self.large_scopes.last_mut().filter(|(at, _)| *at == depth) {
            return if set.insert(name.clone()) { Ok(()) } else { Err(JsonFault::Duplicate(name.into_owned())) };
        }
        let known = &self.open[start..];
        if known.contains(&name) {
            return Err(JsonFault::Duplicate(name.into_owned()));
        }
        if known.len() < NAMES_COMPARED_MAX {
            self.open.push(name);
        } else {
            let all = self.open.drain(start..).chain([name]).collect();
            self.large_scopes.push((depth, all));
        }
        Ok(())
    }
}

/// Checks what the JSON grammar does not: depth, duplicate members, numbers that exceed a double, and halves of
/// surrogate pairs. It also removes white space outside strings: `None` means that there is none, which is the usual
/// case and costs no copy.
fn compact_checked(text: &str) -> Result<Option<String>, JsonFault> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut kept = 0; // everything before this offset is already in `out`
    let mut names = NameScopes::default();
    let mut expects_name = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let (end, is_plain) = string_end(bytes, at);
                if expects_name {
                    names.add(string(text, at..end, is_plain)?)?;
                    expects_name = false;
                } else if !is_plain {
                    string(text, at..end, is_plain)?;
                }
                at = end;
                continue;
            }
            b'-' | b'0'..=b'9' => {
                at = number_end(text, at)?;
                continue;
            }
            opening @ (b'{' | b'[') => {
                expects_name = opening == b'{';
                names.open(expects_name)?;
            }
            b'}' | b']' => {
                names.close();
                expects_name = false;
            }
            b',' => expects_name = names.is_in_object(),
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.get_or_insert_with(|| String::with_capacity(text.len())).push_str(&text[kept..at]);
                kept = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(out.map(|mut o| {
        o.push_str(&text[kept..]);
        o
    }))
}

/// The value of a string literal, given its range with the quotes.
fn string(text: &str, at: Range<usize>, is_plain: bool) -> Result<Cow<'_, str>, JsonFault> {
    if is_plain {
        return Ok(Cow::Borrowed(text.get(at.start + 1..at.end - 1).unwrap_or_default()));
    }
    serde_json::from_str::<String>(&text[at]).map(Cow::Owned).map_err(syntax)
}

/// The offset just past the number that begins at `at`, if a double can hold it.
fn number_end(text: &str, at: usize) -> Result<usize, JsonFault> {
    let (rest, mut is_large) = (&text.as_bytes()[at..], false);
    let is_part = |byte: &u8| {
        is_large |= matches!(byte, b'e' | b'E');
        matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
    };
    let length = rest.iter().copied().take_while(is_part).count();
    if (is_large || length > DIGITS_SAFE) && !text[at..at + length].parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(JsonFault::Syntax("number out of range".into()));
    }
    Ok(at + length)
}

/// The offset just past the closing quote of the string that opens at `at`, and whether it has no escapes.
fn string_end(bytes: &[u8], at: usize) -> (usize, bool) {
    let (mut i, mut is_plain) = (at + 1, true);
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => {
                is_plain = false;
                i += 2;
            }
            b'"' => return (i + 1, is_plain),
            _ => i += 1,
        }
    }
    (bytes.len(), is_plain)
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
    fn a_name_is_found_again_among_many_and_not_in_the_next_object() {
        let object = |names: &[usize]| {
            let members: Vec<String> = names.iter().map(|n| format!(r#""n{n}":{{"n0":[{{"n1":{n}}}]}}"#)).collect();
            format!("{{{}}}", members.join(","))
        };
        for count in [1, NAMES_COMPARED_MAX, NAMES_COMPARED_MAX + 1, 3 * NAMES_COMPARED_MAX] {
            let mut names: Vec<usize> = (0..count).collect();
            let good = object(&names);
            assert!(Json::parse(&format!("[{good},{good}]")).is_ok(), "{count}");
            for again in [0, count / 2, count - 1] {
                names.push(again);
                assert_eq!(Json::parse(&object(&names)), Err(JsonFault::Duplicate(format!("n{again}"))), "{count}");
                names.pop();
            }
        }
    }

    #[test]
    fn one_member_is_read_however_its_name_is_written() {
        let object = Object::new(Json::parse(r#"{"a":{"b":1},"\u0062":"two","c":null,"d":"b"}"#).unwrap()).unwrap();
        assert_eq!(object.member::<&str>("b"), Some("two"));
        assert_eq!(object.get("a").unwrap()["b"], 1);
        assert_eq!((object.get("c"), object.get("x")), (Some(serde_json::Value::Null), None));
        assert_eq!(object.member::<u64>("b"), None);
        let members = object.members();
        assert_eq!(members["a"].as_str(), r#"{"b":1}"#);
        assert_eq!(members.keys().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
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
        let long = format!("[{}]", "9".repeat(400));
        for bad in ["1e999", r#"{"a":"\ud800"}"#, r#"{"\ud800":1}"#, r#"{"a":-1e999}"#, &long] {
            assert!(matches!(Json::parse(bad), Err(JsonFault::Syntax(_))), "{bad}");
        }
        for good in ["1e308", "-1.5E-999", r#""\ud83d\ude00""#, &"9".repeat(300)] {
            assert!(Json::parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn an_object_is_an_object() {
        assert!(Object::new(Json::parse("[]").unwrap()).is_err());
        assert_eq!(Object::new(Json::parse(r#"{"a":{"b":1}}"#).unwrap()).unwrap().get("a").unwrap()["b"], 1);
    }
}
