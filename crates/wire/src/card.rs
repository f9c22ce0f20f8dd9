//! Agent cards in every form: written from the canonical card, and read into it.
//!
//! The canonical card is that of 1.0. [`write()`] writes it in another [`CardSchema`] and notes the members that the
//! form does not have. [`read()`] accepts any card found at a well-known address and recognises its form by its members.
//! It does not guess but is lenient otherwise: a departure from the rules of the form becomes a [`Lint`] and not a
//! refusal, since the agent behind a sloppy card may still be of use. It refuses only what cannot be a card at all.
//!
//! | Module | What is there |
//! |---|---|
//! | `v03` | 0.3 and 0.2, and the hybrid of 0.3 and 1.0 |
//! | `v01`, `native`, `xpr` | one form each |
//! | `openapi` | security schemes as the forms before 1.0 write them |
//! | `interfaces`, `modes` | which endpoints a form lists; media types and their words |
//! | `schema_detection`, `read`, `schemes`, `members` | the reader: from the whole card down to its members |
//!
//! Absent on purpose: fetching, caching, and signatures. A signature is made over the bytes of one form and is copied
//! as it is.

mod interfaces;
mod lint;
mod members;
pub(crate) mod modes;
mod native;
mod openapi;
mod read;
mod schema_detection;
mod schemes;
mod v01;
mod v03;
mod xpr;

pub use interfaces::{A2A_PATH, NATIVE_PATH};
pub use lint::{LINTS_MAX, Lint};
pub use read::{CARD_BYTES_MAX, ReadCard, read};
pub use xpr::XprIdentity;

use crate::{Dialect, LossKind, Losses};
use sabir_proto::AgentCard;
use sabir_proto::card::{SecurityRequirement, SecurityScheme};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The schema that a card is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CardSchema {
    /// A2A 1.0 and nothing else.
    V1,
    /// 1.0 with the members of 0.3 beside its own, so that clients of both can read it.
    Hybrid,
    /// A2A 0.3.
    V03,
    /// A2A 0.2.6, the last release of 0.2.
    V02,
    /// A2A 0.1.
    V01,
    /// The card of agent-native.
    Native,
    /// The card of XPR agents.
    Xpr,
}

impl CardSchema {
    /// Every form that a card can have.
    pub const ALL: [Self; 7] = [Self::V1, Self::Hybrid, Self::V03, Self::V02, Self::V01, Self::Native, Self::Xpr];

    /// The name on command lines and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::V1 | Self::V03 | Self::V02 | Self::V01 | Self::Native | Self::Xpr => self.dialect().name(),
        }
    }

    /// The form that the cards of a dialect have.
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

    /// The dialect that a client should use with an agent that has such a card.
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

impl fmt::Display for CardSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The input mode that a word of 0.1 and XPR stands for: `text` is any text, `data` is JSON, and `file` is a file of
/// any kind. `None` if it is no such word.
pub fn mode_of_word(word: &str) -> Option<&'static str> {
    match word {
        "text" => Some("text/*"),
        word => modes::media_type(word),
    }
}

/// Writes a card in a form. A member that the form cannot carry is noted with its path in the canonical card.
///
/// An XPR card names an account on a chain. [`write_with_identity`] takes it; here the card says that the agent is not
/// registered.
pub fn write(card: &AgentCard, form: CardSchema, losses: &mut Losses) -> Vec<u8> {
    match form {
        CardSchema::Xpr => write_card_as(card, form, Some(&XprIdentity::default()), losses),
        _ => write_card_as(card, form, None, losses),
    }
}

/// Writes a card with the members of an XPR identity beside those of its form. Clients of other dialects ignore them,
/// so `/.well-known/agent.json` can serve 0.3 and XPR clients alike.
pub fn write_with_identity(card: &AgentCard, form: CardSchema, identity: &XprIdentity, losses: &mut Losses) -> Vec<u8> {
    write_card_as(card, form, Some(identity), losses)
}

/// Writes a card of 0.3 with the members of 0.1 beside its own, for clients that do not say which of the two they
/// speak.
pub fn write_v03_with_v01(card: &AgentCard, identity: Option<&XprIdentity>, losses: &mut Losses) -> Vec<u8> {
    bytes(&v03::V03WithV01Card::of(card, losses), identity)
}

fn write_card_as(card: &AgentCard, form: CardSchema, xpr: Option<&XprIdentity>, losses: &mut Losses) -> Vec<u8> {
    match form {
        CardSchema::V1 => bytes(card, xpr),
        CardSchema::Hybrid => match v03::Hybrid::of(card, losses) {
            Some(hybrid) => bytes(&hybrid, xpr),
            None => bytes(card, xpr),
        },
        CardSchema::V03 => bytes(&v03::Card::of(card, v03::Release::V03, losses), xpr),
        CardSchema::V02 => bytes(&v03::Card::of(card, v03::Release::V02, losses), xpr),
        CardSchema::V01 => bytes(&v01::Card::of(card, losses), xpr),
        CardSchema::Native => bytes(&native::Card::of(card, losses), xpr),
        CardSchema::Xpr => bytes(&xpr::Card::of(card, losses), xpr),
    }
}

fn bytes(card: &impl Serialize, xpr: Option<&XprIdentity>) -> Vec<u8> {
    #[derive(Serialize)]
    struct CardWithIdentity<'a, T: Serialize> {
        #[serde(flatten)]
        card: &'a T,
        #[serde(flatten)]
        xpr: Option<&'a XprIdentity>,
    }
    serde_json::to_vec(&CardWithIdentity { card, xpr }).expect("a card serialises into memory")
}

/// Notes a loss if the card has a member that the form does not have.
fn note_if(present: bool, kind: LossKind, path: &str, losses: &mut Losses) {
    if present {
        losses.note(kind, path);
    }
}

/// Notes the security schemes and requirements that a reader of the written card sees otherwise than the card has them.
/// Some forms keep only the names of schemes, so this compares the result with the card instead of listing each reason.
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
