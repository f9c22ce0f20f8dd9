//! Which agent may grant what to which: no agent can give what it does not hold.
//!
//! A *capability* is a name of the whole workflow, such as `billing.refund`, with the media types it takes and gives.
//! What an agent can do is the set its card says; what it may do at the moment, its scope, is the part of that which
//! its caller has granted. Sets are ordered by inclusion, and along a chain of agents each scope is the
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

/// The prefix of a skill's tag that names a capability.
const TAG: &str = "cap:";
/// The ending of a grant of many names.
const WILDCARD: &str = ".*";

/// Media types that are taken or given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modes {
    /// No list is given, or all of them are in it.
    Any,
    /// These, in lower case.
    Only(BTreeSet<String>),
}

impl Modes {
    /// Reads a list; an empty one says nothing.
    pub fn of<S: AsRef<str>>(list: impl IntoIterator<Item = S>) -> Self {
        let set: BTreeSet<String> = list.into_iter().map(|mode| mode.as_ref().trim().to_ascii_lowercase()).collect();
        if set.is_empty() || set.contains("*/*") { Self::Any } else { Self::Only(set) }
    }

    /// The types in both; `None` where there are none.
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

    /// The types in either.
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
pub struct MediaModes {
    /// The media types that it takes.
    pub input: Modes,
    /// The media types that it gives.
    pub output: Modes,
}

impl MediaModes {
    /// Any types, because none are listed.
    pub const ANY: Self = Self { input: Modes::Any, output: Modes::Any };

    fn meet(&self, other: &Self) -> Option<Self> {
        Some(Self { input: self.input.meet(&other.input)?, output: self.output.meet(&other.output)? })
    }
}

/// A set of capabilities, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeMap<String, MediaModes>);

impl Capabilities {
    /// The capabilities of these names, with any media types.
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(|name| (name.into(), MediaModes::ANY)).collect())
    }

    /// The capabilities that a card claims for its agent. Whether the card is trusted is decided before.
    pub fn of_card(card: &AgentCard) -> Self {
        let explicit = explicit_names(card);
        let mut set = Self::default();
        for skill in &card.skills {
            let media = MediaModes {
                input: modes(&skill.input_modes, &card.default_input_modes),
                output: modes(&skill.output_modes, &card.default_output_modes),
            };
            for name in names_of(skill, &explicit) {
                set.add(name, media.clone());
            }
        }
        set
    }

    /// The names of a card's skill in workflows; empty where there is no such skill.
    pub fn names_of(card: &AgentCard, skill: &str) -> Vec<String> {
        let explicit = explicit_names(card);
        card.skills.iter().filter(|one| one.id == skill).flat_map(|one| names_of(one, &explicit)).collect()
    }

    /// Adds a capability. Two skills behind one name offer what either offers.
    pub fn add(&mut self, name: String, media: MediaModes) {
        let joined = match self.0.remove(&name) {
            None => media,
            Some(known) => MediaModes { input: known.input.join(media.input), output: known.output.join(media.output) },
        };
        self.0.insert(name, joined);
    }

    /// The capabilities in both sets, with the media types that both have; where those do not meet, it is absent.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let both = self.0.iter().filter_map(|(name, ours)| {
            let media = ours.meet(other.0.get(name)?)?;
            Some((name.clone(), media))
        });
        Self(both.collect())
    }

    /// Whether the set has this capability.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The media types of a capability.
    pub fn media(&self, name: &str) -> Option<&MediaModes> {
        self.0.get(name)
    }

    /// The names of the capabilities, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The verdict on a handoff or a delegation. `missing` speaks of the caller's own needs only: what else the other agent
/// can do is not for the caller to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeVerdict {
    /// What the pending work needs.
    pub required: Vec<String>,
    /// What the other agent would be allowed: the meet.
    pub allowed: Vec<String>,
    /// What is needed and not allowed.
    pub missing: Vec<String>,
}

impl ScopeVerdict {
    /// The code of a refusal on the wire.
    pub const CODE: &'static str = "CAPABILITY_SCOPE_EXCEEDED";

    /// Whether everything needed is allowed.
    pub fn passes(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Whether what is required may be handed to an agent: `required ⊆ target ∩ scope`. An empty requirement passes, as the
/// algebra has it; the caller of this function decides whether a handoff must name something.
pub fn check<'a>(
    required: impl IntoIterator<Item = &'a str>,
    target: &Capabilities,
    scope: &Capabilities,
) -> ScopeVerdict {
    let allowed = target.meet(scope);
    let required: BTreeSet<&str> = required.into_iter().collect();
    let missing = required.iter().filter(|name| !allowed.has(name)).map(|name| (*name).to_owned()).collect();
    ScopeVerdict {
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
    #[error("{0:?} stands for no capability that any agent here has")]
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

/// Whether a name is words joined by dots. A skill's id may hold anything else, save what grants give a meaning.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.split('.').all(|word| !word.is_empty() && !word.contains('*'))
}

/// The names of skills in workflows, from the card's extension.
fn explicit_names(card: &AgentCard) -> BTreeMap<String, Vec<String>> {
    #[derive(Default, serde::Deserialize)]
    struct Params {
        #[serde(default)]
        capabilities: BTreeMap<String, Vec<String>>,
    }
    let params = card.capabilities.extensions.iter().find(|e| e.uri == HANDOFF).and_then(|e| e.params.as_ref());
    // Another server writes the card: what cannot be read names nothing.
    params.and_then(|params| serde_json::from_str::<Params>(params.as_str()).ok()).unwrap_or_default().capabilities
}

/// The names of a skill: those the extension gives it, else its tags, else its id, which is unique in its agent only.
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
