//! Artifacts: the outputs of a task.

use crate::lenient::{empty_none, null_default};
use crate::{ArtifactId, Object, Part};
use serde::{Deserialize, Serialize};

/// One output of a task, possibly delivered in chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Unique within its task.
    #[serde(alias = "artifact_id")]
    pub artifact_id: ArtifactId,
    /// The name that people read.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The description that people read.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The content; at least one part.
    pub parts: Vec<Part>,
    /// Metadata of any shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// URIs of the extensions present in this artifact.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

impl Artifact {
    /// An artifact with an id and parts, and no other member.
    pub const fn new(artifact_id: ArtifactId, parts: Vec<Part>) -> Self {
        Self { artifact_id, name: None, description: None, parts, metadata: None, extensions: Vec::new() }
    }

    /// Merges a chunk that came with `append = true`: its parts follow the existing ones; a name, description or
    /// metadata in the chunk replaces the existing one, because it is newer.
    ///
    /// Plain text at the start of a chunk extends plain text at the end of the artifact: an agent that streams `un`,
    /// `believ`, `able` has written one word. Later parts of the chunk stay separate parts.
    pub fn append(&mut self, chunk: Self) {
        let mut parts = chunk.parts.into_iter().peekable();
        if let (Some(last), Some(first)) = (self.parts.last_mut(), parts.peek())
            && last.extend_text(first)
        {
            parts.next();
        }
        self.parts.extend(parts);
        self.name = chunk.name.or_else(|| self.name.take());
        self.description = chunk.description.or_else(|| self.description.take());
        self.metadata = chunk.metadata.or_else(|| self.metadata.take());
        for uri in chunk.extensions {
            if !self.extensions.contains(&uri) {
                self.extensions.push(uri);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Content;

    fn artifact(parts: Vec<Part>) -> Artifact {
        Artifact::new(ArtifactId::parse("a").unwrap(), parts)
    }

    #[test]
    fn streamed_text_becomes_one_part() {
        let mut whole = artifact(vec![Part::text("un")]);
        for chunk in ["believ", "", "able"] {
            whole.append(artifact(vec![Part::text(chunk)]));
        }
        assert_eq!(whole.parts, [Part::text("unbelievable")]);
        whole.append(artifact(vec![Part::text("!"), Part::text("Next")]));
        assert_eq!(whole.parts, [Part::text("unbelievable!"), Part::text("Next")]);
    }

    #[test]
    fn only_plain_text_of_one_media_type_is_extended() {
        let typed = |media_type: &str| Part { media_type: Some(media_type.into()), ..Part::text("x") };
        let named = Part { filename: Some("x.txt".into()), ..Part::text("x") };
        let noted = Part { metadata: Some(serde_json::from_str("{}").unwrap()), ..Part::text("x") };
        let raw = Part::new(Content::Raw(vec![1]));
        for (first, then, parts) in [
            (typed("text/markdown"), typed("text/markdown"), 1),
            (typed("text/markdown"), typed("text/html"), 2),
            (typed("text/markdown"), Part::text("x"), 2),
            (named.clone(), Part::text("x"), 2),
            (Part::text("x"), named, 2),
            (noted.clone(), Part::text("x"), 2),
            (Part::text("x"), noted, 2),
            (raw.clone(), Part::text("x"), 2),
            (Part::text("x"), raw, 2),
        ] {
            let mut whole = artifact(vec![first.clone()]);
            whole.append(artifact(vec![then.clone()]));
            assert_eq!(whole.parts.len(), parts, "{first:?} {then:?}");
        }
    }
}
