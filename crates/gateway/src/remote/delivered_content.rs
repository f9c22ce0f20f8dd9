//! What our caller has received of a task elsewhere.
//!
//! Agents that do not number their events report their task as a whole after a break, and agents without streams always
//! do. What is new in it is found by comparing with what was delivered: an artifact is identified by the number of its
//! bytes that were, and by a hash of them. Text that follows text counts as one text, however it was cut: some servers
//! keep the chunks of a stream as parts, others join them.
//!
//! A task that is handed over goes on with artifacts of its own. One with the name of an earlier artifact is another
//! one, and is delivered under another name.

use sabir_proto::{Artifact, ArtifactId, Content, Part, TaskStatus, WireTask};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// How many artifacts of one task are delivered. All of them are in the checkpoint, which every commit writes again.
pub(super) const ARTIFACTS_MAX: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DeliveredContent {
    artifacts: BTreeMap<String, DeliveredPrefix>,
    /// The digest of the last status.
    status: Option<String>,
    /// The names of the artifacts of earlier agents, which have handed the task over, and the number of those agents.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    before: BTreeSet<String>,
    #[serde(skip_serializing_if = "is_zero")]
    handed: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How much of an artifact was delivered: a prefix of its bytes, as [`DeliveredPrefix::add`] counts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeliveredPrefix {
    bytes: u64,
    hash: u64,
    /// Plain text of this media type was delivered last, and more of it may follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// What of an artifact is still to be delivered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArtifactChange {
    /// Nothing.
    Unchanged,
    /// These parts follow.
    Appended(Artifact),
    /// All of it; what was delivered is no beginning of it.
    Replaced(Artifact),
}

impl DeliveredContent {
    /// Whether nothing was delivered yet.
    pub(super) fn is_empty(&self) -> bool {
        self.artifacts.is_empty() && self.status.is_none()
    }

    /// Compares an artifact, as it stands there, with what was delivered.
    pub(super) fn change_of(&self, artifact: &Artifact) -> ArtifactChange {
        let Some(seen) = self.artifacts.get(artifact.artifact_id.as_str()) else {
            return ArtifactChange::Replaced(artifact.clone());
        };
        match seen.parts_after(&artifact.parts) {
            Some(parts) if parts.is_empty() => ArtifactChange::Unchanged,
            Some(parts) => ArtifactChange::Appended(Artifact { parts, ..artifact.clone() }),
            None => ArtifactChange::Replaced(artifact.clone()),
        }
    }

    /// Whether one more artifact may be delivered, or this one was before.
    pub(super) fn has_room_for(&self, artifact: &Artifact) -> bool {
        let known = || self.artifacts.contains_key(artifact.artifact_id.as_str());
        self.artifacts.len() + self.before.len() < ARTIFACTS_MAX || known()
    }

    /// How much of an artifact will have been delivered with this.
    pub(super) fn prefix_with(&self, artifact: &Artifact, append: bool) -> DeliveredPrefix {
        let before = self.artifacts.get(artifact.artifact_id.as_str()).filter(|_| append);
        let mut seen = before.cloned().unwrap_or_default();
        artifact.parts.iter().for_each(|part| seen.add(part));
        seen
    }

    /// Records what was delivered.
    pub(super) fn record_artifact(&mut self, artifact: &ArtifactId, seen: DeliveredPrefix) {
        self.artifacts.insert(artifact.as_str().to_owned(), seen);
    }

    /// An artifact under the name by which our caller knows it.
    pub(super) fn with_caller_name(&self, mut artifact: Artifact) -> Artifact {
        if self.before.contains(artifact.artifact_id.as_str())
            // A name that grows too long stays as it was.
            && let Ok(other) = ArtifactId::parse(&format!("handed-{}:{}", self.handed, artifact.artifact_id))
        {
            artifact.artifact_id = other;
        }
        artifact
    }

    /// Whether a status, by its digest, differs from the last one.
    pub(super) fn is_new_status(&self, digest: &str) -> bool {
        self.status.as_deref() != Some(digest)
    }

    /// Records the last status, by its digest.
    pub(super) fn record_status(&mut self, digest: String) {
        self.status = Some(digest);
    }

    /// From now on another agent reports.
    pub(super) fn start_next_agent(&mut self) {
        let told = |name: &String| match ArtifactId::parse(name) {
            Ok(id) => self.with_caller_name(Artifact::new(id, Vec::new())).artifact_id.as_str().to_owned(),
            Err(_) => name.clone(),
        };
        let told: Vec<String> = self.artifacts.keys().map(told).collect();
        self.before.extend(told);
        self.artifacts.clear();
        self.status = None;
        self.handed += 1;
    }

    /// Whether our caller has received all of a task as it stands there.
    pub(super) fn covers_task(&self, task: &WireTask) -> bool {
        self.status.as_ref() == Some(&status_digest(&task.status))
            && task.artifacts.iter().all(|artifact| self.change_of(artifact) == ArtifactChange::Unchanged)
    }
}

/// Identifies a status.
pub(super) fn status_digest(status: &TaskStatus) -> String {
    let mut hash = Sha256::new();
    hash.update([status.state.number()]);
    hash.update(status.timestamp.map_or(0, |t| t.millis()).to_be_bytes());
    if let Some(message) = &status.message {
        hash.update(message.message_id.as_str().as_bytes());
        message.parts.iter().for_each(|part| hash.update(json(part)));
    }
    sabir_proto::digest::hex(&hash.finalize()[..16])
}

impl DeliveredPrefix {
    /// Counts a part in.
    fn add(&mut self, part: &Part) {
        let text = self.begin(part);
        self.write(text.unwrap_or(&json(part)));
    }

    /// Counts the separator before a part, and returns the text of one that is plain text. No text contains these
    /// bytes.
    fn begin<'a>(&mut self, part: &'a Part) -> Option<&'a [u8]> {
        let text = part.as_text().filter(|_| part.is_plain_text());
        let media_type = text.map(|_| part.media_type.clone().unwrap_or_default());
        if media_type.is_none() || media_type != self.text {
            self.write(&[0xff]);
            self.write(media_type.as_deref().unwrap_or("part").as_bytes());
            self.write(&[0xff]);
        }
        self.text = media_type;
        text.map(str::as_bytes)
    }

    /// FNV-1a, because its state is one number: a checkpoint keeps it, and the next chunk goes on from there. An
    /// upstream could make two texts with one hash, and would deceive only about its own answer.
    fn write(&mut self, bytes: &[u8]) {
        const PRIME: u64 = 0x0100_0000_01b3;
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        self.bytes += bytes.len() as u64;
        let start = self.hash ^ BASIS;
        self.hash = BASIS ^ bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    }

    /// The parts that follow after what was delivered; `None` where that is no beginning of them.
    fn parts_after(&self, parts: &[Part]) -> Option<Vec<Part>> {
        let mut read = Self::default();
        for (at, part) in parts.iter().enumerate() {
            if read == *self {
                return Some(parts[at..].to_vec());
            }
            match read.begin(part) {
                Some(text) => {
                    let left = usize::try_from(self.bytes.checked_sub(read.bytes)?).unwrap_or(usize::MAX);
                    if let Some((shown, rest)) = text.split_at_checked(left).filter(|(_, rest)| !rest.is_empty()) {
                        read.write(shown);
                        let rest = Content::Text(String::from_utf8(rest.to_vec()).ok()?);
                        let first = Part { content: rest, ..part.clone() };
                        return (read == *self).then(|| [&[first], &parts[at + 1..]].concat());
                    }
                    read.write(text);
                }
                None => read.write(&json(part)),
            }
        }
        (read == *self).then(Vec::new)
    }
}

fn json(part: &Part) -> Vec<u8> {
    serde_json::to_vec(part).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(texts: &[&str]) -> Artifact {
        let parts = texts.iter().map(|text| Part::text(*text)).collect();
        Artifact::new(ArtifactId::parse("a").unwrap(), parts)
    }

    fn show(shown: &mut DeliveredContent, texts: &[&str], append: bool) {
        let artifact = artifact(texts);
        let seen = shown.prefix_with(&artifact, append);
        shown.record_artifact(&artifact.artifact_id, seen);
    }

    #[test]
    fn only_what_is_new_is_shown() {
        let mut shown = DeliveredContent::default();
        assert_eq!(shown.change_of(&artifact(&["1"])), ArtifactChange::Replaced(artifact(&["1"])));
        show(&mut shown, &["1"], false);
        show(&mut shown, &["2"], true);
        for same in [&["1", "2"][..], &["12"], &["1", "", "2"]] {
            assert_eq!(shown.change_of(&artifact(same)), ArtifactChange::Unchanged, "{same:?}");
        }
        assert_eq!(shown.change_of(&artifact(&["1", "2", "3", "4"])), ArtifactChange::Appended(artifact(&["3", "4"])));
        assert_eq!(shown.change_of(&artifact(&["123", "4"])), ArtifactChange::Appended(artifact(&["3", "4"])));
        // Shortened or replaced: what stands there now is delivered as a whole.
        for other in [&["1"][..], &["1", "x"], &["0", "2", "3"], &["", "x"], &[]] {
            assert_eq!(shown.change_of(&artifact(other)), ArtifactChange::Replaced(artifact(other)), "{other:?}");
        }
        show(&mut shown, &["12"], false);
        assert_eq!(shown.change_of(&artifact(&["12"])), ArtifactChange::Unchanged);
    }

    #[test]
    fn parts_that_are_no_plain_text_are_compared_whole() {
        let data = |json: &str| Part::data(serde_json::from_str(json).unwrap());
        let noted = Part { filename: Some("a.txt".into()), ..Part::text("12") };
        let of = |parts: Vec<Part>| Artifact::new(ArtifactId::parse("a").unwrap(), parts);
        let mut shown = DeliveredContent::default();
        let first = of(vec![Part::text("12"), data("[1]")]);
        shown.record_artifact(&first.artifact_id, shown.prefix_with(&first, false));
        assert_eq!(shown.change_of(&first), ArtifactChange::Unchanged);
        let more = of(vec![Part::text("12"), data("[1]"), Part::text("3")]);
        assert_eq!(shown.change_of(&more), ArtifactChange::Appended(of(vec![Part::text("3")])));
        for other in [
            of(vec![Part::text("12"), data("[2]")]),
            of(vec![noted, data("[1]")]),
            of(vec![data("[1]"), Part::text("12")]),
            of(vec![Part::text("1"), data("[1]")]),
        ] {
            assert_eq!(shown.change_of(&other), ArtifactChange::Replaced(other.clone()));
        }
    }

    #[test]
    fn what_comes_after_a_handover_is_not_mixed_with_what_was_before() {
        let mut shown = DeliveredContent::default();
        show(&mut shown, &["1"], false);
        for hop in 1..3 {
            shown.start_next_agent();
            assert_eq!(shown.change_of(&artifact(&["1"])), ArtifactChange::Replaced(artifact(&["1"])));
            let told = shown.with_caller_name(artifact(&["1"]));
            assert_eq!(told.artifact_id.as_str(), format!("handed-{hop}:a"));
            show(&mut shown, &["1"], false);
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_for_more_of_them() {
        let mut shown = DeliveredContent::default();
        for n in 0..ARTIFACTS_MAX {
            assert!(shown.has_room_for(&artifact(&[])), "{n}");
            shown.record_artifact(&ArtifactId::parse(&format!("n{n}")).unwrap(), DeliveredPrefix::default());
        }
        assert!(!shown.has_room_for(&artifact(&[])));
        let known = Artifact::new(ArtifactId::parse("n7").unwrap(), Vec::new());
        assert!(shown.has_room_for(&known));
    }
}
