//! A JSON value that is read as far as it is looked at.
//!
//! A tree would lose what the text has: the order of members, numbers beyond 64 bits. So this only points into the text.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// One value somewhere in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a>(&'a str);

impl<'a> Node<'a> {
    /// A text that is known to be JSON; anything else is a value without members.
    pub(crate) fn new(json: &'a str) -> Self {
        Self(json.trim())
    }

    /// The text of the value.
    pub(crate) fn raw(self) -> &'a str {
        self.0
    }

    /// The members of an object, in their order.
    pub(crate) fn members(self) -> Vec<(String, Node<'a>)> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, Node<'de>)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((name, Node(value.get())));
                }
                Ok(members)
            }
        }
        serde_json::Deserializer::from_str(self.0).deserialize_map(Members).unwrap_or_default()
    }

    /// A member that is there and is not null.
    pub(crate) fn get(self, name: &str) -> Option<Node<'a>> {
        let found = self.members().into_iter().find(|(member, _)| member == name)?.1;
        (found.0 != "null").then_some(found)
    }

    /// The items of an array; none if it is something else.
    pub(crate) fn items(self) -> Vec<Node<'a>> {
        let items: Result<Vec<&'a RawValue>, _> = serde_json::from_str(self.0);
        items.unwrap_or_default().into_iter().map(|item| Node(item.get())).collect()
    }

    /// The items of a member that is an array.
    pub(crate) fn list(self, name: &str) -> Vec<Node<'a>> {
        self.get(name).map(Node::items).unwrap_or_default()
    }

    /// The contents of a string.
    pub(crate) fn text(self) -> Option<String> {
        serde_json::from_str(self.0).ok()
    }

    /// A member that is a string and not empty.
    pub(crate) fn word(self, name: &str) -> Option<String> {
        self.get(name)?.text().filter(|word| !word.is_empty())
    }

    /// Whether a member is `true`.
    pub(crate) fn is(self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.0 == "true")
    }

    /// A string without its quotation marks, anything else as it stands.
    pub(crate) fn shown(self) -> String {
        self.text().unwrap_or_else(|| self.0.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_where_they_are() {
        let node = Node::new(r#" {"b": [1, {"x": "y\n"}], "a": null, "t": true, "n": 12345678901234567890123} "#);
        assert_eq!(node.members().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b", "a", "t", "n"]);
        assert_eq!(node.list("b")[1].word("x").as_deref(), Some("y\n"));
        assert!(node.get("a").is_none() && node.is("t") && !node.is("n"));
        assert_eq!(node.get("n").unwrap().raw(), "12345678901234567890123");
        assert!(Node::new("not json").members().is_empty());
    }
}
