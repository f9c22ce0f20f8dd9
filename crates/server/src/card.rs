//! The agent card as a document: built from configuration, signed if keys are configured, served with a validator.
//!
//! | Module | What is there |
//! |---|---|
//! | `build` | builds the card of an agent from its configuration |
//! | `choice` | which form of the card a client gets |
//! | `skills` | which callers see which skills |
//! | `chain` | what a chain adds where the configuration leaves a member open |
//! | `signer` | the keys that sign cards, and the key set that is published |
//! | `remote_card` | what the card of a remote agent adds where the configuration leaves a member open |
//! | `card_tracker`, `drift` | the stored cards of a remote agent, and which changes between them are significant |
//! | `document` | the bytes with their cache headers |

mod build;
pub(crate) mod chain;
mod choice;
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
pub(crate) use choice::{CardRequest, CardRules};
pub(crate) use elsewhere::{Elsewhere, fill};
pub(crate) use keeper::Keeper;
pub use keeper::Settled;
pub(crate) use signer::{Signer, read_reference, signing_key};
pub(crate) use skills::needs_identity;

use crate::body::Body;
use crate::config::agent::XprConfig;
use crate::host::TokioHost;
use choice::{ServedForm, choose};
use document::Document;
use http::{HeaderMap, Response};
use sabir_engine::Host as _;
use sabir_proto::AgentCard;
use sabir_proto::card::{SecurityRequirement, SecurityScheme, Skill, StringList};
use sabir_wire::card::{self as form, Form, XprIdentity};
use sabir_wire::{Losses, XPR_HEADERS};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

/// The path of our public keys.
pub(crate) const WELL_KNOWN_KEYS: &str = "/.well-known/jwks.json";

/// The content of a card, independent of its form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Face {
    /// The card without the skills that are not public.
    pub(crate) public: AgentCard,
    /// All skills, public or not.
    pub(crate) skills: Vec<Skill>,
    /// Its identity on a chain.
    pub(crate) xpr: Option<XprIdentity>,
    /// For readers before 1.0: an address, and the one that replaces it.
    pub(crate) moved: Option<(String, String)>,
}

/// The card of an agent in all its forms. Each form is a document of its own, with its own validator.
#[derive(Debug)]
pub(crate) struct Cards {
    shown: RwLock<Arc<Shown>>,
    rules: CardRules,
    signer: Option<Arc<Signer>>,
    /// The configured content, and the chain that may add to it.
    chain: Option<(Face, Arc<Registration>)>,
}

/// The documents of one content.
#[derive(Debug)]
struct Shown {
    face: Face,
    modified: SystemTime,
    /// The public card, signed for readers of 1.0 and of 0.3.
    sealed: Arc<AgentCard>,
    pure: Document,
    hybrid: Document,
    /// `/.well-known/agent.json` for clients that name no version.
    older: Document,
    /// Rarely used forms, each made on its first request.
    rare: [OnceLock<Document>; RARE.len()],
}

/// The forms that are made on request.
const RARE: [Form; 4] = [Form::V03, Form::V01, Form::Native, Form::Xpr];

/// The well-known path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    AgentCard,
    Agent,
}

impl Cards {
    /// Makes the documents of an agent. An error says why its card cannot be signed.
    pub(crate) fn new(
        face: Face,
        rules: CardRules,
        modified: SystemTime,
        signer: Option<Arc<Signer>>,
        chain: Option<Registration>,
    ) -> Result<Self, String> {
        let rules = CardRules { has_account: face.xpr.is_some(), ..rules };
        let chain = chain.map(|chain| (face.clone(), Arc::new(chain)));
        let shown = Shown::of(face, modified, signer.as_deref())?;
        Ok(Self { shown: RwLock::new(Arc::new(shown)), rules, signer, chain })
    }

    /// Refreshes what a chain says, if it is old. Takes a second at most, and usually no time.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let Some((face, chain)) = &self.chain else { return };
        let (this, face, registration) = (self.clone(), face.clone(), chain.clone());
        chain.refresh(TokioHost.now(), move |news| this.show(registration.tell(&face, news.as_ref()))).await;
    }

    /// Replaces the content, if it is different.
    pub(crate) fn show(&self, face: Face) {
        if self.shown().face == face {
            return;
        }
        match Shown::of(face, SystemTime::now(), self.signer.as_deref()) {
            Ok(shown) => *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shown),
            Err(fault) => tracing::warn!(%fault, "what others say of an agent is not shown"),
        }
    }

    /// The public card, signed if there are keys.
    pub(crate) fn public(&self) -> Arc<AgentCard> {
        self.shown().sealed.clone()
    }

    /// Whether an input mode of the agent, or of one of its skills, meets the condition.
    pub(crate) fn has_input_mode(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let face = &self.shown().face;
        let of_skills = face.skills.iter().flat_map(|skill| &skill.input_modes);
        face.public.default_input_modes.iter().chain(of_skills).any(|mode| wanted(mode))
    }

    /// The card in the form that the client gets.
    pub(crate) fn respond(&self, asked: WellKnown, request: &HeaderMap, version: Option<&str>) -> Response<Body> {
        let xpr_headers = XPR_HEADERS.iter().any(|name| request.contains_key(*name));
        let form = choose(&CardRequest { path: asked, version, xpr_headers }, &self.rules);
        let vary = match asked {
            WellKnown::AgentCard => "a2a-version",
            WellKnown::Agent => "a2a-version, x-xpr-account, x-xpr-signature",
        };
        let shown = self.shown();
        let document = match form {
            ServedForm::Older => &shown.older,
            ServedForm::Of(Form::V1) => &shown.pure,
            ServedForm::Of(Form::Hybrid) => &shown.hybrid,
            ServedForm::Of(form) => match RARE.iter().position(|rare| *rare == form) {
                Some(at) => shown.rare[at].get_or_init(|| self.rare_document(&shown, form)),
                None => &shown.older,
            },
        };
        document.respond(request, Some(vary))
    }

    fn rare_document(&self, shown: &Shown, form: Form) -> Document {
        let bytes = self.with_keys_url(shown.face.in_form(form, self.rules.production));
        let signed = self.signer.as_ref().map(|signer| signer.document(bytes.clone(), shown.modified));
        match signed {
            Some(Ok(document)) => document,
            Some(Err(fault)) => {
                tracing::warn!(%fault, form = form.name(), "a card is shown without a signature");
                Document::new(bytes, shown.modified)
            }
            None => Document::new(bytes, shown.modified),
        }
    }

    fn with_keys_url(&self, card: Vec<u8>) -> Vec<u8> {
        match &self.signer {
            Some(signer) => signer.with_keys_url(card),
            None => card,
        }
    }

    /// The public card in any form, signed if there are keys.
    pub(crate) fn in_form(&self, asked: Form) -> Result<Vec<u8>, String> {
        let shown = self.shown();
        let bytes = shown.face.in_form(asked, self.rules.production);
        let bytes = if asked == Form::V1 { bytes } else { self.with_keys_url(bytes) };
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
                // The usual reason is a caller that may use no skill: a card without skills is not signed.
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
        let document = |bytes: Vec<u8>| match signer {
            None => Ok(Document::new(bytes, modified)),
            Some(signer) => signer.document(bytes, modified).map_err(|fault| format!("its card: {fault}")),
        };
        let with_keys_url = |bytes: Vec<u8>| match signer {
            Some(signer) => signer.with_keys_url(bytes),
            None => bytes,
        };
        let pure = document(face.in_form(Form::V1, false))?;
        let hybrid = document(with_keys_url(face.in_form(Form::Hybrid, false)))?;
        let older = document(with_keys_url(face.older()))?;
        let sealed = match signer {
            None => face.public.clone(),
            Some(signer) => signer.seal(face.public.clone()).map_err(|fault| format!("its card: {fault}"))?,
        };
        let rare = [const { OnceLock::new() }; RARE.len()];
        Ok(Self { sealed: Arc::new(sealed), modified, pure, hybrid, older, rare, face })
    }
}

impl Face {
    /// The card in a form. Each form is built from the content, not from another form, so a member that one form lacks
    /// is in the others.
    fn in_form(&self, form: Form, production: bool) -> Vec<u8> {
        let losses = &mut Losses::new();
        match (form, &self.xpr) {
            (Form::V1 | Form::Hybrid, _) => form::write(&self.public, form, losses),
            (Form::V03 | Form::Xpr, Some(xpr)) => form::write_with(&self.for_older(), form, xpr, losses),
            (Form::Native, _) => form::write(&self.for_native(production), form, losses),
            (Form::V03 | Form::V02 | Form::V01 | Form::Xpr, _) => form::write(&self.for_older(), form, losses),
        }
    }

    /// The card for readers of 0.1 to 0.3.
    fn older(&self) -> Vec<u8> {
        form::write_older(&self.for_older(), self.xpr.as_ref(), &mut Losses::new())
    }

    /// The card for readers before 1.0. Its URLs end without a slash, because clients append one.
    fn for_older(&self) -> AgentCard {
        let mut card = self.public.clone();
        for interface in &mut card.supported_interfaces {
            if let Some((old, new)) = &self.moved
                && let Some(rest) = interface.url.strip_prefix(old.as_str())
            {
                interface.url = format!("{new}{rest}");
            }
            interface.url.truncate(interface.url.trim_end_matches('/').len());
        }
        card
    }

    /// The card for readers of agent-native. In production its servers always declare signed tokens, because they
    /// accept no call without one.
    fn for_native(&self, production: bool) -> AgentCard {
        const JWT_BEARER: &str = "jwtBearer";
        let mut card = self.public.clone();
        if production && card.security_schemes.is_empty() {
            let bearer_format = Some("JWT".into());
            let scheme = SecurityScheme::HttpAuth { description: None, scheme: "bearer".into(), bearer_format };
            card.security_schemes.insert(JWT_BEARER.into(), scheme);
            let schemes = [(JWT_BEARER.to_owned(), StringList::default())].into();
            card.security_requirements.push(SecurityRequirement { schemes });
        }
        card
    }
}

/// The identity that the configuration gives.
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
