//! Reads the members of a JSON object from a foreign card, one by one.
//!
//! Names may be in snake_case, `null` is absent, and a value of the wrong type is ignored. Each departure is a lint,
//! and so is every member that no reader has taken in the end. The caller has checked the text as a whole: it is JSON,
//! names no member twice, and is not too deep.

use super::lint::{self, Findings};
use crate::path::{MemberError, Path};
use sabir_proto::{Json, Object};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Longest name that a lint repeats, in bytes. A foreign card chooses its names, so their length must be bounded.
const SHOWN_BYTES_MAX: usize = 128;

/// Reads an object with a fixed set of members.
pub(super) struct MemberReader<'a, 'p> {
    at: &'p Path<'p>,
    list: Vec<Member<'a>>,
}

struct Member<'a> {
    name: String,
    /// The name as the card has it, if that is in snake_case.
    snake_case: Option<String>,
    value: &'a RawValue,
}

impl<'a, 'p> MemberReader<'a, 'p> {
    /// Opens an object. `None`, with a lint, if the value is not an object.
    pub(super) fn open(
        value: &'a RawValue,
        at: &'p Path<'p>,
        found: &mut Findings,
    ) -> Result<Option<Self>, MemberError> {
        let Some(entries) = entries(value) else {
            found.lint(lint::WRONG_TYPE, at, "must be an object, is passed over");
            return Ok(None);
        };
        let mut list = Vec::with_capacity(entries.len());
        let mut spelled_otherwise = false;
        for (name, value) in entries.into_iter().filter(|(_, value)| value.get() != "null") {
            let member = match camel_case(&name) {
                Some(camel) => Member { name: camel, snake_case: Some(name), value },
                None => Member { name, snake_case: None, value },
            };
            spelled_otherwise |= member.snake_case.is_some();
            list.push(member);
        }
        if spelled_otherwise {
            let mut names = HashSet::new();
            if let Some(twice) = list.iter().find(|m| !names.insert(&*m.name)) {
                return Err(at.error(format_args!("duplicate member {:?}", shortened(&twice.name))));
            }
        }
        Ok(Some(Self { at, list }))
    }

    /// Takes a member of any type; a name in snake_case is a lint.
    pub(super) fn take(&mut self, name: &'static str, found: &mut Findings) -> Option<&'a RawValue> {
        let index = self.list.iter().position(|m| m.name == name)?;
        let member = self.list.swap_remove(index);
        if let Some(spelled) = member.snake_case {
            found.lint(lint::SNAKE_CASE, &self.at.key(shortened(&spelled)), format_args!("is to be written {name}"));
        }
        Some(member.value)
    }

    /// The value of a member, which stays to be taken.
    pub(super) fn peek(&self, name: &str) -> Option<&'a RawValue> {
        self.list.iter().find(|m| m.name == name).map(|m| m.value)
    }

    /// Whether the name of any member has this prefix.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.list.iter().any(|m| m.name.starts_with(prefix))
    }

    /// Takes a text; the digits of a number are accepted.
    pub(super) fn text(&mut self, name: &'static str, found: &mut Findings) -> Option<String> {
        let value = self.take(name, found)?;
        text(value, &self.at.member(name), found)
    }

    /// Takes a text; an empty one counts as absent.
    pub(super) fn non_empty_text(&mut self, name: &'static str, found: &mut Findings) -> Option<String> {
        self.text(name, found).filter(|text| !text.is_empty())
    }

    /// Takes a text; a missing or empty one is a lint.
    pub(super) fn required_text(&mut self, name: &'static str, found: &mut Findings) -> String {
        match self.text(name, found) {
            Some(text) => {
                if text.is_empty() {
                    found.lint(lint::EMPTY, &self.at.member(name), "should not be empty");
                }
                text
            }
            None => {
                self.lint_missing(name, "is taken to be empty", found);
                String::new()
            }
        }
    }

    /// Takes a boolean member.
    pub(super) fn flag(&mut self, name: &'static str, found: &mut Findings) -> Option<bool> {
        match self.take(name, found)?.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.passed_over(name, "must be true or false", found),
        }
    }

    /// Takes a whole number that fits into `T`.
    pub(super) fn number<T: TryFrom<i64>>(&mut self, name: &'static str, found: &mut Findings) -> Option<T> {
        let number = whole_number(self.take(name, found)?.get()).and_then(|n| T::try_from(n).ok());
        number.or_else(|| self.passed_over(name, "must be a whole number in its range", found))
    }

    /// Takes a list of texts.
    pub(super) fn texts(&mut self, name: &'static str, found: &mut Findings) -> Option<Vec<String>> {
        let list = self.list(name, found)?;
        let at = self.at.member(name);
        Some(list.into_iter().enumerate().filter_map(|(i, value)| text(value, &at.item(i), found)).collect())
    }

    /// Takes a list of values of any type.
    pub(super) fn list(&mut self, name: &'static str, found: &mut Findings) -> Option<Vec<&'a RawValue>> {
        let list = serde_json::from_str(self.take(name, found)?.get()).ok();
        list.or_else(|| self.passed_over(name, "must be a list", found))
    }

    /// Takes a map: an object whose member names are data.
    pub(super) fn map(&mut self, name: &'static str, found: &mut Findings) -> Option<Vec<(String, &'a RawValue)>> {
        let entries = entries(self.take(name, found)?);
        entries.or_else(|| self.passed_over(name, "must be an object", found))
    }

    /// Takes a map whose values are texts.
    pub(super) fn text_map(&mut self, name: &'static str, found: &mut Findings) -> Option<BTreeMap<String, String>> {
        let map = self.map(name, found)?;
        let at = self.at.member(name);
        let read = |(key, value): (String, &RawValue)| {
            let text = text(value, &at.key(shortened(&key)), found).unwrap_or_default();
            (key, text)
        };
        Some(map.into_iter().map(read).collect())
    }

    /// Takes an object of any shape.
    pub(super) fn object(&mut self, name: &'static str, found: &mut Findings) -> Option<Object> {
        let json = Json::parse(self.take(name, found)?.get()).and_then(Object::new).ok();
        json.or_else(|| self.passed_over(name, "must be an object", found))
    }

    /// Adds the lint that a required member is missing.
    pub(super) fn lint_missing(&self, name: &'static str, instead: &str, found: &mut Findings) {
        found.lint(lint::MISSING, &self.at.member(name), format_args!("is required, {instead}"));
    }

    /// Adds a lint for each member that was not taken.
    pub(super) fn lint_unknown(self, found: &mut Findings) {
        for member in self.list {
            let name = member.snake_case.as_ref().unwrap_or(&member.name);
            found.lint(lint::UNKNOWN_MEMBER, &self.at.key(shortened(name)), "is not known, is passed over");
        }
    }

    fn passed_over<T>(&self, name: &'static str, rule: &str, found: &mut Findings) -> Option<T> {
        found.lint(lint::WRONG_TYPE, &self.at.member(name), format_args!("{rule}, is passed over"));
        None
    }
}

/// The members of an object in the order of the text; `None` if the value is not an object.
pub(super) fn entries(value: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    struct Entries<'a>(Vec<(String, &'a RawValue)>);
    impl<'de> Deserialize<'de> for Entries<'de> {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            d.deserialize_map(EntriesVisitor)
        }
    }
    struct EntriesVisitor;
    impl<'de> Visitor<'de> for EntriesVisitor {
        type Value = Entries<'de>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(Entries(entries))
        }
    }
    serde_json::from_str(value.get()).ok().map(|Entries(entries)| entries)
}

/// Reads a text, or the digits of a number that stands in its place.
pub(super) fn text(value: &RawValue, at: &Path<'_>, found: &mut Findings) -> Option<String> {
    match value.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(value.get()).ok(),
        Some(b'-' | b'0'..=b'9') => {
            found.lint(lint::WRONG_TYPE, at, "must be a text, its digits are taken");
            Some(value.get().to_owned())
        }
        _ => {
            found.lint(lint::WRONG_TYPE, at, "must be a text, is passed over");
            None
        }
    }
}

/// The part of a name that a lint shows.
pub(super) fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(SHOWN_BYTES_MAX)]
}

/// Turns a name in snake_case into camelCase; `None` if it has no underscore.
pub(super) fn camel_case(name: &str) -> Option<String> {
    let (first, rest) = name.split_once('_')?;
    if first.is_empty() || rest.is_empty() {
        return None;
    }
    let mut camel = String::with_capacity(name.len());
    camel.push_str(first);
    for word in rest.split('_') {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    Some(camel)
}

/// Reads a whole number however it is written: `5`, `5.0`, `5e0`.
fn whole_number(text: &str) -> Option<i64> {
    /// From here on a double cannot tell neighbouring integers apart.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let number: f64 = serde_json::from_str(text).ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within range by the check before it")]
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snake_case_is_told_by_its_underscores() {
        for (name, camel) in [
            ("default_input_modes", Some("defaultInputModes")),
            ("open_id_connect_url", Some("openIdConnectUrl")),
            ("oauth2_metadata_url", Some("oauth2MetadataUrl")),
            ("name", None),
            ("_name", None),
            ("name_", None),
            ("a__b", Some("aB")),
        ] {
            assert_eq!(camel_case(name).as_deref(), camel, "{name}");
        }
    }

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        for (text, number) in
            [("5", Some(5)), ("-5.0", Some(-5)), ("5e2", Some(500)), ("5.5", None), ("\"5\"", None), ("1e300", None)]
        {
            assert_eq!(whole_number(text), number, "{text}");
        }
    }
}
