//! Artifacts: what a task produces.

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
    /// A name for people.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A description for people.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The content; at least one part.
    pub parts: Vec<Part>,
    /// Free metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// URIs of the extensions present in this artifact.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

impl Artifact {
    /// An artifact with these parts and nothing else.
    pub const fn new(artifact_id: ArtifactId, parts: Vec<Part>) -> Self {
        Self { artifact_id, name: None, description: None, parts, metadata: None, extensions: Vec::new() }
    }

    /// Merges a chunk that came with `append = true`: its parts follow ours; a name, description or metadata that it
    /// brings replaces ours, since a later chunk knows better.
    pub fn append(&mut self, chunk: Self) {
        self.parts.extend(chunk.parts);
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
