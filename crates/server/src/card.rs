//! The agent card as a document: built from configuration, signed where there are keys, served with a validator.
//!
//! | Room | What is there |
//! |---|---|
//! | `build` | the card of an agent, from its configuration |
//! | `skills` | which skills are shown to whom |
//! | `chain` | what a chain says where the configuration says nothing |
//! | `signer` | the keys that vouch for cards, and where they are published |
//! | `elsewhere` | what an agent elsewhere says where the configuration says nothing |
//! | `keeper`, `drift` | the cards that an agent elsewhere has shown; what is other in one, and whether that matters |
//! | `document` | bytes with what caching needs |

mod build;
mod chain;
mod document;
pub(crate) mod drift;
mod elsewhere;
mod keeper;
mod signer;
mod skills;
#[cfg(test)]
mod tests;

pub(crate) use build::{PublicAddress, build};
pub(crate) use chain::Registration;
pub(crate) use elsewhere::{Elsewhere, fill};
pub(crate) use keeper::Keeper;
pub use keeper::Settled;
pub(crate) use signer::{Signer, read_reference, signing_key};
pub(crate) use skills::needs_identity;

use crate::body::Body;
use crate::config::CardForm;
use crate::config::agent::XprConfig;
use crate::host::TokioHost;
use document::Document;
use http::{HeaderMap, Response};
use sabir_engine::Host as _;
use sabir_proto::AgentCard;
use sabir_proto::card::Skill;
use sabir_wire::card::{self as form, Form, XprIdentity};
use sabir_wire::{Dialect, Losses, version as versions};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// Where our public keys are.
pub(crate) const WELL_KNOWN_KEYS: &str = "/.well-known/jwks.json";

/// What an agent says about itself, whatever the form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Face {
    /// For everybody.
    pub(crate) public: AgentCard,
    /// All skills, also those that are not for everybody.
    pub(crate) skills: Vec<Skill>,
    /// Its identity on a chain.
    pub(crate) xpr: Option<XprIdentity>,
    /// For readers before 1.0: an address, and the one in its place.
    pub(crate) moved: Option<(String, String)>,
}

/// An agent's card in the forms that are asked for. Each is a document of its own, with its own validator.
#[derive(Debug)]
pub(crate) struct Cards {
    shown: RwLock<Arc<Shown>>,
    unversioned: CardForm,
    signer: Option<Arc<Signer>>,
    /// The face that is configured, and the chain that may add to it.
    chain: Option<(Face, Arc<Registration>)>,
}

/// One state of all forms.
#[derive(Debug)]
struct Shown {
    face: Face,
    /// The card for everybody, signed for readers of 1.0 and of 0.3.
    sealed: Arc<AgentCard>,
    pure: Document,
    hybrid: Document,
    /// `/.well-known/agent.json`: before 1.0, the only place anybody looked.
    older: Document,
}

/// Where a card is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    AgentCard,
    Agent,
}

impl Cards {
    /// The documents of an agent; what is wrong with its card, if it cannot be signed.
    pub(crate) fn new(
        face: Face,
        unversioned: CardForm,
        modified: SystemTime,
        signer: Option<Arc<Signer>>,
        chain: Option<Registration>,
    ) -> Result<Self, String> {
        let chain = chain.map(|chain| (face.clone(), Arc::new(chain)));
        let shown = Shown::of(face, modified, signer.as_deref())?;
        Ok(Self { shown: RwLock::new(Arc::new(shown)), unversioned, signer, chain })
    }

    /// Sees to it that what a chain says is not too old. Takes a second at most, and mostly no time at all.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let Some((face, chain)) = &self.chain else { return };
        let (this, face, registration) = (self.clone(), face.clone(), chain.clone());
        chain.refresh(TokioHost.now(), move |news| this.show(registration.tell(&face, news.as_ref()))).await;
    }

    /// Shows another face from now on, if it is another.
    pub(crate) fn show(&self, face: Face) {
        if self.shown().face == face {
            return;
        }
        match Shown::of(face, SystemTime::now(), self.signer.as_deref()) {
            Ok(shown) => *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shown),
            Err(fault) => tracing::warn!(%fault, "what others say of an agent is not shown"),
        }
    }

    /// The card for everybody.
    pub(crate) fn public(&self) -> Arc<AgentCard> {
        self.shown().sealed.clone()
    }

    /// Whether some input mode of the agent, or of one of its skills, is as wanted.
    pub(crate) fn has_input_mode(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let face = &self.shown().face;
        let of_skills = face.skills.iter().flat_map(|skill| &skill.input_modes);
        face.public.default_input_modes.iter().chain(of_skills).any(|mode| wanted(mode))
    }

    /// The form a client gets.
    pub(crate) fn respond(&self, asked: WellKnown, request: &HeaderMap, version: Option<&str>) -> Response<Body> {
        let shown = self.shown();
        let document = match (asked, versions::family(version)) {
            (WellKnown::Agent, _) => &shown.older,
            (WellKnown::AgentCard, Ok(Some(Dialect::V1))) => &shown.pure,
            (WellKnown::AgentCard, Ok(None)) if self.unversioned == CardForm::Pure => &shown.pure,
            // Whatever else is named, the hybrid has it, or is as near as there is.
            (WellKnown::AgentCard, _) => &shown.hybrid,
        };
        document.respond(request, Some("a2a-version"))
    }

    /// The card for everybody in any form, signed where there are keys.
    pub(crate) fn in_form(&self, asked: Form) -> Result<Vec<u8>, String> {
        let shown = self.shown();
        let bytes = match (&shown.face.xpr, asked) {
            (Some(xpr), Form::V03 | Form::Xpr) => {
                form::write_with(&shown.face.for_older(), asked, xpr, &mut Losses::new())
            }
            _ => form::write(&shown.face.public, asked, &mut Losses::new()),
        };
        match &self.signer {
            None => Ok(bytes),
            Some(signer) => {
                let document = signer.document(bytes, SystemTime::now()).map_err(|fault| fault.to_string())?;
                Ok(document.bytes().to_vec())
            }
        }
    }

    /// The card for one caller, with every skill that this caller may use.
    pub(crate) fn extended(&self, may_use: impl Fn(&str) -> bool) -> AgentCard {
        let shown = self.shown();
        let card = skills::extended(&shown.face.public, &shown.face.skills, may_use);
        let Some(signer) = &self.signer else { return card };
        match signer.seal(card.clone()) {
            Ok(sealed) => sealed,
            Err(fault) => {
                // Most likely this caller may use nothing, and a card without skills is not signed.
                tracing::debug!(%fault, "an extended card is shown without a signature");
                card
            }
        }
    }

    fn shown(&self) -> Arc<Shown> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shown {
    fn of(face: Face, modified: SystemTime, signer: Option<&Signer>) -> Result<Self, String> {
        let document = |form: Form| {
            // Cards are rebuilt, not translated: what 0.3 cannot say is said in the other forms.
            let bytes = match (&face.xpr, form) {
                (Some(xpr), Form::V03) => form::write_with(&face.for_older(), form, xpr, &mut Losses::new()),
                _ => form::write(&face.public, form, &mut Losses::new()),
            };
            match signer {
                None => Ok(Document::new(bytes, modified)),
                Some(signer) => signer.document(bytes, modified).map_err(|fault| format!("its card: {fault}")),
            }
        };
        let (pure, hybrid, older) = (document(Form::V1)?, document(Form::Hybrid)?, document(Form::V03)?);
        let sealed = match signer {
            None => face.public.clone(),
            Some(signer) => signer.seal(face.public.clone()).map_err(|fault| format!("its card: {fault}"))?,
        };
        Ok(Self { sealed: Arc::new(sealed), pure, hybrid, older, face })
    }
}

impl Face {
    /// The card for readers before 1.0.
    fn for_older(&self) -> AgentCard {
        let mut card = self.public.clone();
        if let Some((old, new)) = &self.moved {
            for interface in &mut card.supported_interfaces {
                if let Some(rest) = interface.url.strip_prefix(old.as_str()) {
                    interface.url = format!("{new}{rest}");
                }
            }
        }
        card
    }
}

/// The identity that is configured.
pub(crate) fn identity(xpr: &XprConfig) -> XprIdentity {
    XprIdentity {
        account: xpr.account.clone(),
        protocol: xpr.protocol.clone().unwrap_or_else(|| "https".into()),
        owner: xpr.owner.clone(),
        registered_at: xpr.registered_at.unwrap_or(0),
        trust_score: xpr.trust_score,
        kyc_level: xpr.kyc_level,
    }
}
