//! The agent card as a document: built once from configuration, served with a validator.

use crate::body::{Body, JSON, answer};
use crate::config::CardForm;
use crate::config::agent::{AgentConfig, XprConfig};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, VARY};
use http::{HeaderMap, Response, StatusCode};
use sabir_proto::AgentCard;
use sabir_proto::card::{Capabilities, Interface, Skill};
use sabir_wire::card::{self as form, Form, XprIdentity};
use sabir_wire::{Dialect, Losses, version as versions};
use sha2::{Digest, Sha256};
use std::time::SystemTime;

/// How long a client may keep a card without asking again.
const MAX_AGE: &str = "public, max-age=60";

/// A card with what caching needs.
#[derive(Debug, Clone)]
struct CardDocument {
    bytes: Bytes,
    etag: HeaderValue,
    modified: SystemTime,
}

/// An agent's card in the forms that are asked for. Each is a document of its own, with its own validator.
#[derive(Debug, Clone)]
pub(crate) struct Cards {
    pure: CardDocument,
    hybrid: CardDocument,
    /// `/.well-known/agent.json`: before 1.0, the only place anybody looked.
    older: CardDocument,
    unversioned: CardForm,
}

/// Where a card is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    AgentCard,
    Agent,
}

impl Cards {
    pub(crate) fn new(card: &AgentCard, config: &AgentConfig, unversioned: CardForm, modified: SystemTime) -> Self {
        // Cards are rebuilt, not translated: what 0.3 cannot say is said in the other forms.
        let write = |form| CardDocument::new(form::write(card, form, &mut Losses::new()), modified);
        let older = match &config.xpr {
            None => form::write(card, Form::V03, &mut Losses::new()),
            Some(xpr) => form::write_with(card, Form::V03, &identity(xpr), &mut Losses::new()),
        };
        let older = CardDocument::new(older, modified);
        Self { pure: write(Form::V1), hybrid: write(Form::Hybrid), older, unversioned }
    }

    /// The form a client gets.
    pub(crate) fn respond(&self, asked: WellKnown, request: &HeaderMap, version: Option<&str>) -> Response<Body> {
        let document = match (asked, versions::family(version)) {
            (WellKnown::Agent, _) => &self.older,
            (WellKnown::AgentCard, Ok(Some(Dialect::V1))) => &self.pure,
            (WellKnown::AgentCard, Ok(None)) if self.unversioned == CardForm::Pure => &self.pure,
            // Whatever else is named, the hybrid has it, or is as near as there is.
            (WellKnown::AgentCard, _) => &self.hybrid,
        };
        document.respond(request)
    }
}

fn identity(xpr: &XprConfig) -> XprIdentity {
    XprIdentity {
        account: xpr.account.clone(),
        protocol: xpr.protocol.clone(),
        owner: xpr.owner.clone(),
        registered_at: xpr.registered_at,
        trust_score: xpr.trust_score,
        kyc_level: xpr.kyc_level,
    }
}

impl CardDocument {
    fn new(bytes: Vec<u8>, modified: SystemTime) -> Self {
        let digest = Sha256::digest(&bytes);
        let hex: String = digest.iter().take(12).map(|b| format!("{b:02x}")).collect();
        let etag =
            HeaderValue::from_str(&format!("\"{hex}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"card\""));
        // Whole seconds: that is all a date header can say, and what it says must equal what we compare it with.
        let seconds = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        Self { bytes: bytes.into(), etag, modified }
    }

    /// The document, or 304 where the client has it.
    fn respond(&self, request: &HeaderMap) -> Response<Body> {
        let mut response = if self.is_known(request) {
            let mut unchanged = Response::new(Body::Whole(None));
            *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
            unchanged
        } else {
            answer(StatusCode::OK, JSON, self.bytes.clone())
        };
        let headers = response.headers_mut();
        headers.insert(ETAG, self.etag.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(MAX_AGE));
        headers.insert(VARY, HeaderValue::from_static("a2a-version"));
        if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(self.modified)) {
            headers.insert(LAST_MODIFIED, date);
        }
        response
    }

    fn is_known(&self, request: &HeaderMap) -> bool {
        // The validator decides where there is one (RFC 9110 §13.2.2); the date is only for clients without.
        if let Some(tags) = request.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok()) {
            let ours = self.etag.to_str().unwrap_or("");
            return tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == ours);
        }
        let since = request.get(IF_MODIFIED_SINCE).and_then(|v| v.to_str().ok());
        since.and_then(|date| httpdate::parse_http_date(date).ok()).is_some_and(|date| self.modified <= date)
    }
}

/// Where a server is reached, as its cards say.
#[derive(Debug, Clone)]
pub(crate) struct PublicAddress {
    /// With scheme, without a slash at the end.
    pub(crate) url: String,
    /// `host:port`.
    pub(crate) authority: String,
}

/// Builds the card of an agent.
pub(crate) fn build(config: &AgentConfig, address: &PublicAddress) -> AgentCard {
    let card = &config.card;
    let base =
        if config.default { format!("{}/", address.url) } else { format!("{}/agents/{}", address.url, config.name) };
    let interface = |url: &str, binding: &str, version: &str, tenant: Option<String>| Interface {
        url: url.into(),
        protocol_binding: binding.into(),
        tenant,
        protocol_version: version.into(),
    };
    // gRPC has one path for all agents, so in 1.0 the tenant says which one is meant. 0.3 has no tenants.
    let mut supported_interfaces = vec![
        interface(&base, "JSONRPC", "1.0", None),
        interface(&base, "HTTP+JSON", "1.0", None),
        interface(&address.authority, "GRPC", "1.0", (!config.default).then(|| config.name.clone())),
        interface(&base, "JSONRPC", "0.3", None),
        interface(&base, "HTTP+JSON", "0.3", None),
    ];
    if config.default {
        supported_interfaces.push(interface(&address.authority, "GRPC", "0.3", None));
    }
    let description = card.description.clone().unwrap_or_else(|| format!("The agent {}", config.name));
    let own_skill = || Skill {
        id: config.name.clone(),
        name: config.name.clone(),
        description: description.clone(),
        tags: vec![config.name.clone()],
        examples: Vec::new(),
        input_modes: Vec::new(),
        output_modes: Vec::new(),
        security_requirements: Vec::new(),
    };
    let modes = |given: &[String], usual: &[&str]| {
        if given.is_empty() { usual.iter().map(|m| (*m).to_owned()).collect() } else { given.to_vec() }
    };
    AgentCard {
        name: card.name.clone().unwrap_or_else(|| config.name.clone()),
        description: description.clone(),
        supported_interfaces,
        provider: card.provider.clone(),
        version: card.version.clone().unwrap_or_else(|| env!("CARGO_PKG_VERSION").into()),
        documentation_url: card.documentation_url.clone(),
        capabilities: Capabilities {
            streaming: Some(card.capabilities.streaming),
            push_notifications: Some(card.capabilities.push_notifications),
            extensions: card.extensions.clone(),
            extended_agent_card: None,
        },
        security_schemes: std::collections::BTreeMap::new(),
        security_requirements: Vec::new(),
        default_input_modes: modes(&card.input_modes, &["text/plain", "application/json", "*/*"]),
        default_output_modes: modes(&card.output_modes, &["text/plain", "application/json"]),
        skills: if card.skills.is_empty() { vec![own_skill()] } else { card.skills.clone() },
        signatures: Vec::new(),
        icon_url: card.icon_url.clone(),
    }
}
