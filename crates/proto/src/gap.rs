//! Gaps: parts of a task's history that the server missed.
//!
//! A hub that lost the connection to an agent reports the state that it finds afterwards, and marks where events may be
//! missing. It does not invent the missing events.

use crate::{Json, Object, Seq};
use serde::{Deserialize, Serialize};

/// The metadata member in which status updates and tasks report a gap.
pub const GAP: &str = "urn:sabir:ext:gap:v1";

/// Events of a task may be missing here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last event before the gap.
    pub after: Seq,
    /// Why the missing events are unknown.
    pub reason: String,
}

impl Gap {
    /// Reads the gap from metadata.
    pub fn of(metadata: Option<&Object>) -> Option<Self> {
        serde_json::from_value(metadata?.get(GAP)?).ok()
    }

    /// Adds the gap to metadata, and keeps the other members.
    pub fn put(&self, metadata: Option<&Object>) -> Option<Object> {
        let mut map = metadata.map(Object::to_map).unwrap_or_default();
        map.insert(GAP.to_owned(), serde_json::to_value(self).ok()?);
        Object::new(Json::of(&map).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stands_beside_other_metadata() {
        let gap = Gap { after: Seq(7), reason: "the stream broke".into() };
        let other = Object::new(Json::parse(r#"{"a":1}"#).unwrap()).unwrap();
        let told = gap.put(Some(&other)).unwrap();
        assert_eq!(told.as_str(), r#"{"a":1,"urn:sabir:ext:gap:v1":{"after":7,"reason":"the stream broke"}}"#);
        assert_eq!(Gap::of(Some(&told)), Some(gap));
        assert_eq!(Gap::of(Some(&other)), None);
        assert_eq!(Gap::of(None), None);
    }
}
