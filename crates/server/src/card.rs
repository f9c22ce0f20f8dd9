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
mod card_tracker;
pub(crate) mod chain;
mod choice;
mod document;
pub(crate) mod drift;
mod remote_card;
mod signer;
mod skills;
#[cfg(test)]
mod tests;

pub(crate) use build::{PublicAddress, build};
pub(crate) use card_tracker::CardDecision;
pub(crate) use card_tracker::CardTracker;
pub(crate) use chain::Registration;
pub(crate) use choice::{CardRequest, CardRules};
pub(crate) use remote_card::{RemoteCard, merge};
pub(crate) use signer::{Signer, read_reference, signing_key};
pub(crate) use skills::needs_identity;

use crate::body::Body;
use crate::config::agent::XprConfig;
use crate::tokio_host::TokioHost;
use choice::{ServedForm, choose};
use document::Document;
use http::{HeaderMap, Response};
use sabir_engine::Host as _;
use sabir_proto::AgentCard;
use sabir_proto::card::{SecurityRequirement, SecurityScheme, Skill, StringList};
use sabir_wire::card::{self as form, CardSchema, XprIdentity};
use sabir_wire::{Losses, XPR_HEADERS};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

/// The path of our public keys.
pub(crate) const WELL_KNOWN_KEYS: &str = "/.well-known/jwks.json";

/// The content of a card, independent of its form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CardContent {
    /// The card without the skills that are not public.
    pub(crate) public: AgentCard,
    /// All skills, public or not.
    pub(crate) skills: Vec<Skill>,
    /// Its identity on a chain.
    pub(crate) xpr: Option<XprIdentity>,
    /// For readers before 1.0: an address, and the one that replaces it.
    pub(crate) replaced_url: Option<(String, String)>,
}

/// The card of an agent in all its forms. Each form is a document of its own, with its own validator.
#[derive(Debug)]
pub(crate) struct Cards {
    documents: RwLock<Arc<CardDocuments>>,
    rules: CardRules,
    signer: Option<Arc<Signer>>,
    /// The configured content, and the chain that may add to it.
    chain: Option<(CardContent, Arc<Registration>)>,
}

/// The documents of one content.
#[derive(Debug)]
struct CardDocuments {
    content: CardContent,
    modified: SystemTime,
    /// The public card, signed for readers of 1.0 and of 0.3.
    signed_public: Arc<AgentCard>,
    v1: Document,
    hybrid: Document,
    /// `/.well-known/agent.json` for clients that name no version.
    older: Document,
    /// Rarely used forms, each made on its first request.
    rare: [OnceLock<Document>; RARE.len()],
}

/// The forms that are made on request.
const RARE: [CardSchema; 4] = [CardSchema::V03, CardSchema::V01, CardSchema::Native, CardSchema::Xpr];

/// The well-known path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    AgentCard,
    Agent,
}

impl Cards {
    /// Makes the documents of an agent. An error says why its card cannot be signed.
    pub(crate) fn new(
        face: CardContent,
        rules: CardRules,
        modified: SystemTime,
        signer: Option<Arc<Signer>>,
        chain: Option<Registration>,
    ) -> Result<Self, String> {
        let rules = CardRules { has_account: face.xpr.is_some(), ..rules };
        let chain = chain.map(|chain| (face.clone(), Arc::new(chain)));
        let shown = CardDocuments::of(face, modified, signer.as_deref())?;
        Ok(Self { documents: RwLock::new(Arc::new(shown)), rules, signer, chain })
    }

    /// Refreshes what a chain says, if it is old. Takes a second at most, and usually no time.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let Some((face, chain)) = &self.chain else { return };
        let (this, face, registration) = (self.clone(), face.clone(), chain.clone());
        chain.refresh(TokioHost.now(), move |news| this.update(registration.apply(&face, news.as_ref()))).await;
    }

    /// Replaces the content, if it is different.
    pub(crate) fn update(&self, face: CardContent) {
        if self.documents().content == face {
            return;
        }
        match CardDocuments::of(face, SystemTime::now(), self.signer.as_deref()) {
            Ok(shown) => *self.documents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shown),
            Err(fault) => tracing::warn!(%fault, "what others say of an agent is not shown"),
        }
    }

    /// The public card, signed if there are keys.
    pub(crate) fn public(&self) -> Arc<AgentCard> {
        self.documents().signed_public.clone()
    }

    /// Whether an input mode of the agent, or of one of its skills, meets the condition.
    pub(crate) fn has_input_mode(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let face = &self.documents().content;
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
        let shown = self.documents();
        let document = match form {
            ServedForm::Older => &shown.older,
            ServedForm::Of(CardSchema::V1) => &shown.v1,
            ServedForm::Of(CardSchema::Hybrid) => &shown.hybrid,
            ServedForm::Of(form) => match RARE.iter().position(|rare| *rare == form) {
                Some(at) => shown.rare[at].get_or_init(|| self.rare_document(&shown, form)),
                None => &shown.older,
            },
        };
        document.respond(request, Some(vary))
    }

    fn rare_document(&self, shown: &CardDocuments, form: CardSchema) -> Document {
        let bytes = self.with_keys_url(shown.content.in_form(form, self.rules.production));
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
    pub(crate) fn in_form(&self, asked: CardSchema) -> Result<Vec<u8>, String> {
        let shown = self.documents();
        let bytes = shown.content.in_form(asked, self.rules.production);
        let bytes = if asked == CardSchema::V1 { bytes } else { self.with_keys_url(bytes) };
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
        let shown = self.documents();
        let card = skills::extended(&shown.content.public, &shown.content.skills, may_use);
        let Some(signer) = &self.signer else { return card };
        match signer.sign(card.clone()) {
            Ok(sealed) => sealed,
            Err(fault) => {
                // The usual reason is a caller that may use no skill: a card without skills is not signed.
                tracing::debug!(%fault, "an extended card is shown without a signature");
                card
            }
        }
    }

    fn documents(&self) -> Arc<CardDocuments> {
        self.documents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CardDocuments {
    fn of(face: CardContent, modified: SystemTime, signer: Option<&Signer>) -> Result<Self, String> {
        let document = |bytes: Vec<u8>| match signer {
            None => Ok(Document::new(bytes, modified)),
            Some(signer) => signer.document(bytes, modified).map_err(|fault| format!("its card: {fault}")),
        };
        let with_keys_url = |bytes: Vec<u8>| match signer {
            Some(signer) => signer.with_keys_url(bytes),
            None => bytes,
        };
        let pure = document(face.in_form(CardSchema::V1, false))?;
        let hybrid = document(with_keys_url(face.in_form(CardSchema::Hybrid, false)))?;
        let older = document(with_keys_url(face.older()))?;
        let sealed = match signer {
            None => face.public.clone(),
            Some(signer) => signer.sign(face.public.clone()).map_err(|fault| format!("its card: {fault}"))?,
        };
        let rare = [const { OnceLock::new() }; RARE.len()];
        Ok(Self { signed_public: Arc::new(sealed), modified, v1: pure, hybrid, older, rare, content: face })
    }
}

impl CardContent {
    /// The card in a form. Each form is built from the content, not from another form, so a member that one form lacks
    /// is in the others.
    fn in_form(&self, form: CardSchema, production: bool) -> Vec<u8> {
        let losses = &mut Losses::new();
        match (form, &self.xpr) {
            (CardSchema::V1 | CardSchema::Hybrid, _) => form::write(&self.public, form, losses),
            (CardSchema::V03 | CardSchema::Xpr, Some(xpr)) => {
                form::write_with_identity(&self.older_card(), form, xpr, losses)
            }
            (CardSchema::Native, _) => form::write(&self.native_card(production), form, losses),
            (CardSchema::V03 | CardSchema::V02 | CardSchema::V01 | CardSchema::Xpr, _) => {
                form::write(&self.older_card(), form, losses)
            }
        }
    }

    /// The card for readers of 0.1 to 0.3.
    fn older(&self) -> Vec<u8> {
        form::write_v03_with_v01(&self.older_card(), self.xpr.as_ref(), &mut Losses::new())
    }

    /// The card for readers before 1.0. Its URLs end without a slash, because clients append one.
    fn older_card(&self) -> AgentCard {
        let mut card = self.public.clone();
        for interface in &mut card.supported_interfaces {
            if let Some((old, new)) = &self.replaced_url
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
    fn native_card(&self, production: bool) -> AgentCard {
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
pub(crate) fn configured_identity(xpr: &XprConfig) -> XprIdentity {
    XprIdentity {
        account: xpr.account.clone(),
        protocol: xpr.protocol.clone().unwrap_or_else(|| "https".into()),
        owner: xpr.owner.clone(),
        registered_at: xpr.registered_at.unwrap_or(0),
        trust_score: xpr.trust_score,
        kyc_level: xpr.kyc_level,
    }
}
