//! Who may grant what to whom: nobody can give what he does not hold.
//!
//! A *capability* is a name of the whole workflow, such as `billing.refund`, with the media types it takes and gives. What
//! an agent can do is the set its card says; what it may do at the moment, its scope, is the part of that which whoever
//! called it has granted. Sets are ordered by inclusion, and along a chain of agents each scope is the
//! [meet](Capabilities::meet) of the one before and of what the next agent can do, so no chain ever widens anything:
//!
//! ```text
//! Effective(A → B) = Caps(B) ∩ Scope(A)        a handoff needs Required ⊆ Effective(A → B)
//! ```
//!
//! Names are compared as they are written: case counts and no name covers another. A grant may end in `.*`, which is
//! replaced by the names that are known when the policy is loaded ([`expand`]) and means nothing afterwards.
//!
//! `analysis` asks the same of a whole graph of agents before anything runs.

pub mod analysis;

use sabir_proto::HANDOFF;
use sabir_proto::card::{AgentCard, Skill};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How a tag of a skill names a capability.
const TAG: &str = "cap:";
/// How a grant of many names ends.
const WILDCARD: &str = ".*";

/// Media types that are taken or given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modes {
    /// Nobody has said, or all of them.
    Any,
    /// These, in small letters.
    Only(BTreeSet<String>),
}

impl Modes {
    /// Of a list; an empty one says nothing.
    pub fn of<S: AsRef<str>>(list: impl IntoIterator<Item = S>) -> Self {
        let set: BTreeSet<String> = list.into_iter().map(|mode| mode.as_ref().trim().to_ascii_lowercase()).collect();
        if set.is_empty() || set.contains("*/*") { Self::Any } else { Self::Only(set) }
    }

    /// What both have; `None` where that is nothing.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, modes) | (modes, Self::Any) => Some(modes.clone()),
            (Self::Only(ours), Self::Only(theirs)) => {
                let both: BTreeSet<String> = ours.intersection(theirs).cloned().collect();
                (!both.is_empty()).then_some(Self::Only(both))
            }
        }
    }

    /// What either has.
    #[must_use]
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Only(mut ours), Self::Only(theirs)) => {
                ours.extend(theirs);
                Self::Only(ours)
            }
            _ => Self::Any,
        }
    }
}

/// The media types of one capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// What it takes.
    pub input: Modes,
    /// What it gives.
    pub output: Modes,
}

impl Media {
    /// Nobody has said which.
    pub const ANY: Self = Self { input: Modes::Any, output: Modes::Any };

    fn meet(&self, other: &Self) -> Option<Self> {
        Some(Self { input: self.input.meet(&other.input)?, output: self.output.meet(&other.output)? })
    }
}

/// A set of capabilities, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeMap<String, Media>);

impl Capabilities {
    /// The capabilities of these names, whatever they take and give.
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(|name| (name.into(), Media::ANY)).collect())
    }

    /// What a card says that its agent can do. Whether the card is to be believed is decided before.
    pub fn of_card(card: &AgentCard) -> Self {
        let explicit = explicit_names(card);
        let mut set = Self::default();
        for skill in &card.skills {
            let media = Media {
                input: modes(&skill.input_modes, &card.default_input_modes),
                output: modes(&skill.output_modes, &card.default_output_modes),
            };
            for name in names_of(skill, &explicit) {
                set.add(name, media.clone());
            }
        }
        set
    }

    /// What a skill of a card is called in workflows; nothing where there is no such skill.
    pub fn names_of(card: &AgentCard, skill: &str) -> Vec<String> {
        let explicit = explicit_names(card);
        card.skills.iter().filter(|one| one.id == skill).flat_map(|one| names_of(one, &explicit)).collect()
    }

    /// Adds one. Two skills behind one name offer what either offers.
    pub fn add(&mut self, name: String, media: Media) {
        let joined = match self.0.remove(&name) {
            None => media,
            Some(known) => Media { input: known.input.join(media.input), output: known.output.join(media.output) },
        };
        self.0.insert(name, joined);
    }

    /// What is in both sets, with the media types that both have; where those do not meet, the capability is absent.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let both = self.0.iter().filter_map(|(name, ours)| {
            let media = ours.meet(other.0.get(name)?)?;
            Some((name.clone(), media))
        });
        Self(both.collect())
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// What one takes and gives.
    pub fn media(&self, name: &str) -> Option<&Media> {
        self.0.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How a handoff or a delegation was judged. `missing` speaks of the caller's own needs only: what else the other agent
/// can do is not his to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What the pending work needs.
    pub required: Vec<String>,
    /// What the other agent would be allowed: the meet.
    pub allowed: Vec<String>,
    /// What is needed and not allowed.
    pub missing: Vec<String>,
}

impl Verdict {
    /// The word for a refusal on the wire.
    pub const CODE: &'static str = "CAPABILITY_SCOPE_EXCEEDED";

    /// Whether everything needed is allowed.
    pub fn passes(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Whether what is required may be handed to an agent: `required ⊆ target ∩ scope`. An empty requirement passes, as
/// the algebra has it; that a handoff must name something is for whoever makes one to say.
pub fn check<'a>(required: impl IntoIterator<Item = &'a str>, target: &Capabilities, scope: &Capabilities) -> Verdict {
    let allowed = target.meet(scope);
    let required: BTreeSet<&str> = required.into_iter().collect();
    let missing = required.iter().filter(|name| !allowed.has(name)).map(|name| (*name).to_owned()).collect();
    Verdict {
        required: required.into_iter().map(str::to_owned).collect(),
        allowed: allowed.names().map(str::to_owned).collect(),
        missing,
    }
}

/// A grant that cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantFault {
    /// Not a name, nor one with a wildcard at its end.
    #[error("{0:?} is no name of a capability: words joined by dots, and `.*` at the end at most")]
    Name(String),
    /// A wildcard that stands for nothing is a mistake, not a narrow grant.
    #[error("{0:?} stands for no capability that anybody here has")]
    Nothing(String),
}

/// Replaces grants such as `billing.*` by the known names below them. Done once, when a policy is loaded.
pub fn expand<'a>(
    grants: impl IntoIterator<Item = &'a str>,
    known: &BTreeSet<String>,
) -> Result<BTreeSet<String>, GrantFault> {
    let mut names = BTreeSet::new();
    for grant in grants {
        let Some(stem) = grant.strip_suffix(WILDCARD) else {
            if !is_name(grant) {
                return Err(GrantFault::Name(grant.to_owned()));
            }
            names.insert(grant.to_owned());
            continue;
        };
        if !is_name(stem) {
            return Err(GrantFault::Name(grant.to_owned()));
        }
        let below = |name: &&String| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
        let mut found = known.iter().filter(below).peekable();
        if found.peek().is_none() {
            return Err(GrantFault::Nothing(grant.to_owned()));
        }
        names.extend(found.cloned());
    }
    Ok(names)
}

/// Words joined by dots. Whatever else a skill's id may hold is left to its author, save what grants give a meaning.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.split('.').all(|word| !word.is_empty() && !word.contains('*'))
}

/// What the card's extension says that its skills are called in workflows.
fn explicit_names(card: &AgentCard) -> BTreeMap<String, Vec<String>> {
    #[derive(Default, serde::Deserialize)]
    struct Params {
        #[serde(default)]
        capabilities: BTreeMap<String, Vec<String>>,
    }
    let params = card.capabilities.extensions.iter().find(|e| e.uri == HANDOFF).and_then(|e| e.params.as_ref());
    // A card is somebody else's to write: what cannot be read names nothing.
    params.and_then(|params| serde_json::from_str::<Params>(params.as_str()).ok()).unwrap_or_default().capabilities
}

/// The names of a skill: those the extension gives it, else its tags, else its id, which is unique within its agent only.
fn names_of(skill: &Skill, explicit: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let legal = |names: Vec<String>| names.into_iter().filter(|name| is_name(name)).collect::<Vec<_>>();
    let given = explicit.get(&skill.id).cloned().map(legal).unwrap_or_default();
    if !given.is_empty() {
        return given;
    }
    let tagged = legal(skill.tags.iter().filter_map(|tag| tag.strip_prefix(TAG)).map(str::to_owned).collect());
    if tagged.is_empty() { vec![skill.id.clone()] } else { tagged }
}

fn modes(own: &[String], default: &[String]) -> Modes {
    Modes::of(if own.is_empty() { default } else { own })
}

#[cfg(test)]
mod tests;
