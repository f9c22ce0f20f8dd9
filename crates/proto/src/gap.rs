//! Gaps: what happened to a task and cannot be known any more.
//!
//! A hub that lost the line to an agent tells what it found when it came back, and says where something may be missing.
//! It never makes up what was in between.

use crate::{Json, Object, Seq};
use serde::{Deserialize, Serialize};

/// Where status updates and tasks tell of a gap: a member of their metadata.
pub const GAP: &str = "urn:sabir:ext:gap:v1";

/// Something may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last event before it.
    pub after: Seq,
    /// Why nobody knows.
    pub reason: String,
}

impl Gap {
    /// The gap that metadata tells of.
    pub fn of(metadata: Option<&Object>) -> Option<Self> {
        serde_json::from_value(metadata?.get(GAP)?).ok()
    }

    /// Metadata that tells of it, beside what is there.
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
