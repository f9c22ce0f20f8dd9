//! Agent cards in every form: written from the canonical card, and read back into it.
//!
//! The canonical card is 1.0's. [`write()`] shows it in another [`Form`] and notes what that form has no place for;
//! [`read`] takes whatever is found at a well-known address, tells the form by its members, and is as generous as it
//! can be without guessing: a departure from the form's own rules becomes a [`Lint`], not a refusal, since the agent
//! behind a sloppy card may still be of use. What is refused is what cannot be a card at all.
//!
//! | Room | What is there |
//! |---|---|
//! | `v03` | 0.3 and 0.2, and the hybrid of 0.3 and 1.0 |
//! | `v01`, `native`, `xpr` | one form each |
//! | `openapi` | security schemes as the older forms write them |
//! | `interfaces`, `modes` | which endpoint a form shows; words and media types |
//! | `recognise`, `read`, `schemes`, `members` | the reader, from the whole card down to its members |
//!
//! Absent on purpose: fetching, caching, and signatures, which are made over the bytes of one form and carried as they
//! are.

mod interfaces;
mod lint;
mod members;
pub(crate) mod modes;
mod native;
mod openapi;
mod read;
mod recognise;
mod schemes;
mod v01;
mod v03;
mod xpr;

pub use interfaces::{A2A, NATIVE};
pub use lint::{LINTS_MAX, Lint};
pub use read::{CARD_BYTES_MAX, Read, read};
pub use xpr::XprIdentity;

use crate::{Dialect, LossKind, Losses};
use sabir_proto::AgentCard;
use sabir_proto::card::{SecurityRequirement, SecurityScheme};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What a card looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// Pure 1.0.
    V1,
    /// 1.0 with the members of 0.3 beside its own, so that clients of both can read it.
    Hybrid,
    /// 0.3.
    V03,
    /// 0.2.6, the last of its line.
    V02,
    /// 0.1.
    V01,
    /// agent-native.
    Native,
    /// XPR agents.
    Xpr,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 7] = [Self::V1, Self::Hybrid, Self::V03, Self::V02, Self::V01, Self::Native, Self::Xpr];

    /// The name on command lines and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::V1 | Self::V03 | Self::V02 | Self::V01 | Self::Native | Self::Xpr => self.dialect().name(),
        }
    }

    /// The form of a dialect.
    pub const fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::V1 => Self::V1,
            Dialect::V03 => Self::V03,
            Dialect::V02 => Self::V02,
            Dialect::V01 => Self::V01,
            Dialect::Native => Self::Native,
            Dialect::Xpr => Self::Xpr,
        }
    }

    /// The dialect an agent with such a card is best spoken to in.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::V1 | Self::Hybrid => Dialect::V1,
            Self::V03 => Dialect::V03,
            Self::V02 => Dialect::V02,
            Self::V01 => Dialect::V01,
            Self::Native => Dialect::Native,
            Self::Xpr => Dialect::Xpr,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The mode that a word of 0.1 and XPR stands for among input modes: `text` is any text, `data` is JSON, and `file` is a
/// file of any kind. `None`: it is no such word.
pub fn mode_of_word(word: &str) -> Option<&'static str> {
    match word {
        "text" => Some("text/*"),
        word => modes::media_type(word),
    }
}

/// Writes a card. What the form cannot carry is noted with its place in the canonical card.
///
/// An XPR card names an account on a chain; without one ([`write_with`] takes it) it is written as that of an agent
/// that is not registered.
pub fn write(card: &AgentCard, form: Form, losses: &mut Losses) -> Vec<u8> {
    match form {
        Form::Xpr => show(card, form, Some(&XprIdentity::default()), losses),
        _ => show(card, form, None, losses),
    }
}

/// Writes a card with the members of an identity on the XPR network beside those of its form. Readers of other
/// dialects pass over them, so that `/.well-known/agent.json` can serve 0.3 and XPR clients alike.
pub fn write_with(card: &AgentCard, form: Form, identity: &XprIdentity, losses: &mut Losses) -> Vec<u8> {
    show(card, form, Some(identity), losses)
}

/// Writes a card of 0.3 with the members of 0.1 beside its own, for readers that do not say which of the two they are.
pub fn write_older(card: &AgentCard, identity: Option<&XprIdentity>, losses: &mut Losses) -> Vec<u8> {
    bytes(&v03::Older::of(card, losses), identity)
}

fn show(card: &AgentCard, form: Form, xpr: Option<&XprIdentity>, losses: &mut Losses) -> Vec<u8> {
    match form {
        Form::V1 => bytes(card, xpr),
        Form::Hybrid => match v03::Hybrid::of(card, losses) {
            Some(hybrid) => bytes(&hybrid, xpr),
            None => bytes(card, xpr),
        },
        Form::V03 => bytes(&v03::Card::of(card, v03::Release::V03, losses), xpr),
        Form::V02 => bytes(&v03::Card::of(card, v03::Release::V02, losses), xpr),
        Form::V01 => bytes(&v01::Card::of(card, losses), xpr),
        Form::Native => bytes(&native::Card::of(card, losses), xpr),
        Form::Xpr => bytes(&xpr::Card::of(card, losses), xpr),
    }
}

fn bytes(card: &impl Serialize, xpr: Option<&XprIdentity>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Both<'a, T: Serialize> {
        #[serde(flatten)]
        card: &'a T,
        #[serde(flatten)]
        xpr: Option<&'a XprIdentity>,
    }
    serde_json::to_vec(&Both { card, xpr }).expect("a card serialises into memory")
}

/// Notes a member that the form does not have, where the card has it.
fn note_if(present: bool, kind: LossKind, path: &str, losses: &mut Losses) {
    if present {
        losses.note(kind, path);
    }
}

/// Notes what a reader of the written card would not see as the card has it. For forms that keep only the gist of
/// security, comparing what is shown with what was there is the whole truth, whatever the reason.
fn note_security(
    card: &AgentCard,
    schemes: &BTreeMap<String, SecurityScheme>,
    requirements: &[SecurityRequirement],
    losses: &mut Losses,
) {
    let lost = card.security_schemes.iter().filter(|(name, scheme)| schemes.get(*name) != Some(*scheme));
    let invented = schemes.keys().filter(|name| !card.security_schemes.contains_key(*name));
    for name in lost.map(|(name, _)| name).chain(invented) {
        losses.note(LossKind::Security, format_args!("securitySchemes.{name}"));
    }
    note_if(card.security_requirements != requirements, LossKind::Security, "securityRequirements", losses);
}
