//! What our caller has seen of a task elsewhere.
//!
//! Agents that do not number their events tell their task as a whole after a break, and agents without streams always
//! do. What is new in it is found by comparing with what was shown: an artifact is known by how many parts of it were,
//! and by a digest over them.

use sabir_proto::{Artifact, Part, TaskStatus, TheirTask};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Shown {
    artifacts: BTreeMap<String, Seen>,
    /// The last status, whatever it was.
    status: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    parts: usize,
    digest: String,
}

/// What of an artifact is still to be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing.
    None,
    /// These parts follow.
    More(Artifact),
    /// All of it; what was shown is no beginning of it.
    Whole(Artifact),
}

impl Shown {
    /// Whether nothing was shown yet.
    pub(super) fn is_nothing(&self) -> bool {
        self.artifacts.is_empty() && self.status.is_none()
    }

    /// Compares an artifact, as it stands there, with what was shown.
    pub(super) fn news(&self, artifact: &Artifact) -> News {
        let Some(seen) = self.artifacts.get(artifact.artifact_id.as_str()) else {
            return News::Whole(artifact.clone());
        };
        match artifact.parts.split_at_checked(seen.parts) {
            Some((shown, rest)) if chain(&Seen::default(), shown).digest == seen.digest => {
                if rest.is_empty() {
                    return News::None;
                }
                News::More(Artifact { parts: rest.to_vec(), ..artifact.clone() })
            }
            _ => News::Whole(artifact.clone()),
        }
    }

    /// Notes what is being shown.
    pub(super) fn show(&mut self, artifact: &Artifact, append: bool) {
        let seen = self.artifacts.entry(artifact.artifact_id.as_str().to_owned()).or_default();
        let before = if append { std::mem::take(seen) } else { Seen::default() };
        *seen = chain(&before, &artifact.parts);
    }

    /// Notes a status; false if it is the one that was noted last.
    pub(super) fn status(&mut self, status: &TaskStatus) -> bool {
        let digest = Some(digest(status));
        let new = self.status != digest;
        self.status = digest;
        new
    }

    /// Whether our caller has seen all of a task as it stands there.
    pub(super) fn is_level_with(&self, task: &TheirTask) -> bool {
        self.status.as_ref() == Some(&digest(&task.status))
            && task.artifacts.iter().all(|artifact| self.news(artifact) == News::None)
    }
}

fn digest(status: &TaskStatus) -> String {
    let mut hash = Sha256::new();
    hash.update([status.state.number()]);
    hash.update(status.timestamp.map_or(0, |t| t.millis()).to_be_bytes());
    if let Some(message) = &status.message {
        hash.update(message.message_id.as_str().as_bytes());
        message.parts.iter().for_each(|part| hash.update(json(part)));
    }
    sabir_proto::digest::hex(&hash.finalize()[..16])
}

/// Each part is hashed with what went before it, so that a chunk adds to the digest without the beginning.
fn chain(before: &Seen, parts: &[Part]) -> Seen {
    let mut seen = before.clone();
    for part in parts {
        let mut hash = Sha256::new();
        hash.update(seen.digest.as_bytes());
        hash.update(json(part));
        seen = Seen { parts: seen.parts + 1, digest: sabir_proto::digest::hex(&hash.finalize()[..16]) };
    }
    seen
}

fn json(part: &Part) -> Vec<u8> {
    serde_json::to_vec(part).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::ArtifactId;

    fn artifact(texts: &[&str]) -> Artifact {
        let parts = texts.iter().map(|text| Part::text(*text)).collect();
        Artifact::new(ArtifactId::parse("a").unwrap(), parts)
    }

    #[test]
    fn only_what_is_new_is_shown() {
        let mut shown = Shown::default();
        assert_eq!(shown.news(&artifact(&["1"])), News::Whole(artifact(&["1"])));
        shown.show(&artifact(&["1"]), false);
        shown.show(&artifact(&["2"]), true);
        assert_eq!(shown.news(&artifact(&["1", "2"])), News::None);
        assert_eq!(shown.news(&artifact(&["1", "2", "3", "4"])), News::More(artifact(&["3", "4"])));
        // Joined, shortened or replaced: what stands there now is told as a whole.
        for other in [&["12"][..], &["1"], &["1", "x"], &["0", "2", "3"]] {
            assert_eq!(shown.news(&artifact(other)), News::Whole(artifact(other)), "{other:?}");
        }
        shown.show(&artifact(&["12"]), false);
        assert_eq!(shown.news(&artifact(&["12"])), News::None);
    }
}
