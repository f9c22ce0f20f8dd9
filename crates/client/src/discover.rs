//! Finds the card of an agent: well-known paths old and new, files, catalogs and the card cache.
//!
//! No credential is sent for a card: the HTTP client connects without our certificate, and no header of the caller is
//! sent, only the version we speak. The one exception is a vendor that serves cards only to authenticated callers,
//! where the configuration names that vendor; then the path of the card is known too, and no other path is tried.

use crate::binding::Binding;
use crate::card_cache::{CachedCard, CardCache};
use crate::catalog::{self, EntryCard};
use crate::credentials::AttachedCredentials;
use crate::error::UnreachableCause;
use crate::http_client::{HttpClient, RedirectPolicy};
use crate::request_credential::UnsentRequest;
use crate::vendor_profile::{VendorProfile, WELL_KNOWN, url_below};
use crate::{AgentReference, Error};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sabir_proto::AgentCard;
use sabir_proto::card::{Capabilities, Interface, SecurityScheme, Skill};
use sabir_wire::agnt::{Intent, PROTOCOL};
use sabir_wire::card::{CARD_BYTES_MAX, CardSchema, Lint, XprIdentity};
use sabir_wire::{Dialect, Losses, agnt, card, version};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use url::Url;

/// A card that was found.
#[derive(Debug, Clone)]
pub struct DiscoveredCard {
    /// The card, converted to the 1.0 structure.
    pub card: AgentCard,
    /// The form in which the card was written.
    pub form: CardSchema,
    /// The URL of the card; `None` for a file.
    pub url: Option<Url>,
    /// The deviations from the rules of its form.
    pub lint: Vec<Lint>,
    /// The members that 1.0 has no field for.
    pub losses: Losses,
    /// The agent's identity on the XPR network, if the card has one.
    pub xpr: Option<XprIdentity>,
    /// The name of the program that served the card, as it gives it.
    pub server: Option<String>,
    json: String,
}

/// The answer of a booking network about itself.
#[derive(serde::Deserialize)]
struct NetworkStatus {
    protocol: String,
    network: String,
    #[serde(default)]
    network_version: String,
    intents: Vec<String>,
}

impl DiscoveredCard {
    /// Parses a card in any form; `at` names its place in errors.
    pub fn read(json: &[u8], url: Option<Url>, at: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::CardInvalid { at: at.into(), reason };
        let text = std::str::from_utf8(json).map_err(|_| invalid("it is not UTF-8".into()))?;
        let read = card::read(json).map_err(|fault| invalid(fault.to_string()))?;
        // An agent whose card lacks other members can still be used; one without an address cannot.
        if read.card.supported_interfaces.is_empty() {
            let lacking: Vec<String> = read.lint.iter().map(ToString::to_string).collect();
            let more = if lacking.is_empty() { String::new() } else { format!("; {}", lacking.join("; ")) };
            return Err(invalid(format!("it lists no interface{more}")));
        }
        let (lint, losses, xpr) = (read.lint, read.losses, read.xpr);
        let json = text.trim().to_owned();
        Ok(Self { card: read.card, form: read.form, url, lint, losses, xpr, server: None, json })
    }

    /// Whether the card leaves open which version of A2A the agent speaks. Cards of 0.1 name none, and neither do some
    /// of 0.2 and 0.3; the version shows when the agent is called.
    pub fn is_version_open(&self) -> bool {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct VersionMember {
            protocol_version: Option<serde::de::IgnoredAny>,
        }
        let stated: Result<VersionMember, _> = serde_json::from_str(&self.json);
        self.form == CardSchema::V03 && stated.is_ok_and(|card| card.protocol_version.is_none())
    }

    /// A card for an endpoint without one, made from its URL and its dialect, which the caller knows.
    pub fn for_endpoint(url: &Url, dialect: Dialect) -> Self {
        let reach = dialect.features();
        let card = AgentCard {
            name: url.host_str().unwrap_or_default().to_owned(),
            description: String::new(),
            supported_interfaces: vec![Interface {
                url: url.to_string(),
                protocol_binding: "JSONRPC".into(),
                tenant: None,
                protocol_version: dialect.name().into(),
            }],
            provider: None,
            version: String::new(),
            documentation_url: None,
            capabilities: Capabilities {
                streaming: Some(reach.streams),
                push_notifications: Some(reach.push),
                extensions: Vec::new(),
                extended_agent_card: None,
            },
            security_schemes: BTreeMap::new(),
            security_requirements: Vec::new(),
            default_input_modes: Vec::new(),
            default_output_modes: Vec::new(),
            skills: Vec::new(),
            signatures: Vec::new(),
            icon_url: None,
        };
        let json = String::from_utf8_lossy(&card::write(&card, CardSchema::V1, &mut Losses::new())).into_owned();
        let (form, url) = (CardSchema::of(dialect), Some(url.clone()));
        Self { card, form, url, lint: Vec::new(), losses: Losses::new(), xpr: None, server: None, json }
    }

    /// A card for a booking network, as an A2A agent: its intents are the skills.
    fn for_network(url: &Url, status: NetworkStatus) -> Self {
        const KEY: &str = "bearer";
        let skill = |intent: Intent| Skill {
            id: intent.name().into(),
            name: intent.name().into(),
            description: format!("The intent {intent} of a booking network; a data part is its payload."),
            tags: vec!["booking".into()],
            examples: Vec::new(),
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            security_requirements: Vec::new(),
        };
        let mut found = Self::for_endpoint(url, Dialect::NEWEST);
        let card = &mut found.card;
        card.description = format!("The booking network {}, called by envelopes.", status.network);
        card.supported_interfaces[0].protocol_binding = Binding::Envelope.name().into();
        card.supported_interfaces[0].tenant = Some(status.network.clone());
        (card.name, card.version) = (status.network, status.network_version);
        card.capabilities =
            Capabilities { streaming: Some(false), push_notifications: Some(false), ..Capabilities::default() };
        let scheme = SecurityScheme::HttpAuth { description: None, scheme: KEY.into(), bearer_format: None };
        card.security_schemes = BTreeMap::from([(KEY.to_owned(), scheme)]);
        card.default_input_modes = vec!["application/json".into(), "text/plain".into()];
        card.default_output_modes = vec!["application/json".into()];
        card.skills = status.intents.iter().filter_map(|intent| Intent::parse(intent)).map(skill).collect();
        found.json =
            String::from_utf8_lossy(&card::write(&found.card, CardSchema::V1, &mut Losses::new())).into_owned();
        found
    }

    /// Parses other JSON about the same agent, from the same place.
    pub(crate) fn reparse(&self, json: &str) -> Result<Self, Error> {
        let at = self.url.as_ref().map_or("the card", Url::as_str);
        Ok(Self { server: self.server.clone(), ..Self::read(json.as_bytes(), self.url.clone(), at)? })
    }

    /// The card as it was found; for a card with a verified signature, the signed members.
    pub fn source_json(&self) -> &str {
        &self.json
    }

    /// The card as A2A 1.0 JSON: unchanged where it was found in that form.
    pub fn json(&self) -> String {
        match self.form {
            CardSchema::V1 | CardSchema::Hybrid => self.json.clone(),
            CardSchema::V03 | CardSchema::V02 | CardSchema::V01 | CardSchema::Native | CardSchema::Xpr => {
                let bytes = card::write(&self.card, CardSchema::V1, &mut Losses::new());
                String::from_utf8_lossy(&bytes).into_owned()
            }
        }
    }
}

/// Finds cards by reference: reads files, fetches URLs, uses the cache.
#[derive(Clone)]
pub(crate) struct CardFinder {
    pub(crate) http_client: HttpClient,
    pub(crate) cache: Option<CardCache>,
    pub(crate) version: HeaderValue,
    /// The profile of the vendor whose agents are searched for.
    pub(crate) profile: Option<&'static VendorProfile>,
    /// The credentials for the path where that vendor serves a card.
    pub(crate) card_credentials: Option<Arc<AttachedCredentials>>,
}

/// The kinds of document that a URL may return.
enum CardOrCatalog {
    Card(Box<DiscoveredCard>),
    Catalog(String),
}

impl CardFinder {
    /// Finds the card of an agent.
    pub(crate) async fn find(&self, reference: &AgentReference) -> Result<DiscoveredCard, Error> {
        let (Some(profile), AgentReference::Origin(url) | AgentReference::Url(url)) = (self.profile, reference) else {
            return self.find_by_standard_paths(reference).await;
        };
        let found = match profile.card_url(url) {
            Some(at) => self.find_at_vendor_path(&at).await,
            None => self.find_by_standard_paths(reference).await,
        };
        match (found, profile.dialect_without_card) {
            (Err(Error::CardNotFound { .. } | Error::CardInvalid { .. }), Some(dialect)) => {
                Ok(DiscoveredCard::for_endpoint(url, dialect))
            }
            (found, _) => found,
        }
    }

    /// Fetches the card from the one path where the vendor serves it.
    async fn find_at_vendor_path(&self, at: &Url) -> Result<DiscoveredCard, Error> {
        let text = match &self.card_credentials {
            // A card that needs credentials is not cached for other clients.
            Some(shown) => self.fetch_with_credentials(at, shown).await?,
            None => self.text(at).await?,
        };
        let found = DiscoveredCard::read(text.text.as_bytes(), Some(at.clone()), at.as_str())?;
        text.store_in_cache(self);
        Ok(DiscoveredCard { server: text.server, ..found })
    }

    /// Fetches a document with credentials. A credential that was revoked is renewed once.
    async fn fetch_with_credentials(&self, at: &Url, shown: &AttachedCredentials) -> Result<FetchedDocument, Error> {
        let headers = self.credential_headers(shown, at).await?;
        let fetched = self.fetch(at, headers.clone(), None).await;
        match (&fetched, &shown.signer) {
            (Err(Error::CardForbidden { status: 401, .. }), Some(signer)) if signer.on_rejected(&headers).await => {
                self.fetch(at, self.credential_headers(shown, at).await?, None).await
            }
            _ => fetched,
        }
    }

    async fn credential_headers(&self, shown: &AttachedCredentials, at: &Url) -> Result<HeaderMap, Error> {
        let mut headers = shown.headers.clone();
        if let Some(signer) = &shown.signer {
            let leaving = UnsentRequest { method: &Method::GET, url: at, body: Some(&[]) };
            headers.extend(signer.authorise(leaving).await?);
        }
        Ok(headers)
    }

    async fn find_by_standard_paths(&self, reference: &AgentReference) -> Result<DiscoveredCard, Error> {
        match reference {
            AgentReference::File(path) => {
                let at = path.display().to_string();
                let missing = |e: std::io::Error| Error::CardNotFound { at: at.clone(), reason: e.to_string() };
                let mut bytes = Vec::new();
                let file = std::fs::File::open(path).map_err(missing)?;
                // Reads no more bytes than a card may have: a file may be a device.
                file.take(CARD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(missing)?;
                if bytes.len() > CARD_BYTES_MAX {
                    return Err(Error::TooLarge { what: "the agent card", limit: CARD_BYTES_MAX });
                }
                DiscoveredCard::read(&bytes, None, &at)
            }
            AgentReference::Origin(origin) => self.well_known(origin, None).await,
            // A booking network is recognised by its path, and has no card.
            AgentReference::Url(url) if url.path().ends_with(agnt::PATH) => self.network(url).await,
            AgentReference::Url(url) => match self.document(url).await {
                Ok(CardOrCatalog::Card(found)) => Ok(*found),
                Ok(CardOrCatalog::Catalog(text)) => self.in_catalog(url, text).await,
                // The URL is that of the agent rather than its card: the card is below it.
                Err(first @ (Error::CardNotFound { .. } | Error::CardInvalid { .. })) if url.fragment().is_none() => {
                    self.well_known(url, Some(first)).await
                }
                Err(other) => Err(other),
            },
        }
    }

    /// The card of a booking network: the network gives its name and intents, the rest is the same for all networks.
    async fn network(&self, url: &Url) -> Result<DiscoveredCard, Error> {
        let text = self.text(&url_below(url, "/status")).await?;
        let invalid = |reason: String| Error::CardInvalid { at: url.to_string(), reason };
        let status: NetworkStatus = serde_json::from_str(&text.text).map_err(|error| invalid(error.to_string()))?;
        if status.protocol != PROTOCOL {
            return Err(invalid(format!("it speaks {:.64?}, and not {PROTOCOL}", status.protocol)));
        }
        Ok(DiscoveredCard::for_network(url, status))
    }

    /// Tries the well-known paths below a URL. `first` is the error of the URL itself.
    async fn well_known(&self, base: &Url, first: Option<Error>) -> Result<DiscoveredCard, Error> {
        let mut missing = None;
        for path in WELL_KNOWN.into_iter().chain([catalog::WELL_KNOWN]) {
            let at = url_below(base, path);
            match self.document(&at).await {
                Ok(CardOrCatalog::Card(found)) => return Ok(*found),
                Ok(CardOrCatalog::Catalog(text)) => return self.in_catalog(&at, text).await,
                // Many servers answer every path with the HTML page of an application.
                Err(error @ (Error::CardNotFound { .. } | Error::CardInvalid { .. })) => {
                    missing.get_or_insert(error);
                }
                // The error of the preferred path says more than the error of the fallback.
                Err(other) => return Err(missing.unwrap_or(other)),
            }
        }
        Err(first
            .or(missing)
            .unwrap_or_else(|| Error::CardNotFound { at: base.to_string(), reason: "nothing there".into() }))
    }

    async fn in_catalog(&self, url: &Url, text: String) -> Result<DiscoveredCard, Error> {
        let (mut at, mut text) = (url.clone(), text);
        for _ in 0..catalog::DEPTH_MAX {
            match catalog::pick_entry(&text, at.fragment().or_else(|| url.fragment()), &at)? {
                EntryCard::Inline(card) => return DiscoveredCard::read(card.as_bytes(), Some(at.clone()), at.as_str()),
                EntryCard::At(target) => match self.document(&target).await? {
                    CardOrCatalog::Card(found) => return Ok(*found),
                    CardOrCatalog::Catalog(inner) => (at, text) = (target, inner),
                },
            }
        }
        Err(Error::CardNotFound {
            at: url.to_string(),
            reason: format!("catalogs are nested more than {} deep", catalog::DEPTH_MAX),
        })
    }

    async fn document(&self, url: &Url) -> Result<CardOrCatalog, Error> {
        let text = self.text(url).await?;
        if catalog::is_catalog(&text.text) {
            text.store_in_cache(self);
            return Ok(CardOrCatalog::Catalog(text.text));
        }
        let found = DiscoveredCard::read(text.text.as_bytes(), Some(url.clone()), url.as_str())?;
        text.store_in_cache(self);
        Ok(CardOrCatalog::Card(Box::new(DiscoveredCard { server: text.server, ..found })))
    }

    /// Returns a document, from the cache if it is still fresh.
    async fn text(&self, url: &Url) -> Result<FetchedDocument, Error> {
        let mut target = url.clone();
        target.set_fragment(None);
        let kept = self.cache.as_ref().and_then(|cache| cache.find(&target));
        if let Some(kept) = kept.as_ref().filter(|k| k.is_fresh()) {
            return Ok(FetchedDocument { text: kept.body.clone(), server: kept.server.clone(), fresh: None });
        }
        self.fetch(&target, HeaderMap::new(), kept.as_ref()).await
    }

    /// Fetches a document, or confirms that the cached one is still current.
    async fn fetch(
        &self,
        target: &Url,
        mut headers: HeaderMap,
        kept: Option<&CachedCard>,
    ) -> Result<FetchedDocument, Error> {
        let is_for_all = headers.is_empty();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, application/a2a+json"));
        headers.insert(version::HEADER, self.version.clone());
        if let Some(condition) = kept.and_then(CachedCard::condition) {
            headers.insert(header::IF_NONE_MATCH, condition);
        }
        let answer = self.http_client.fetch(target, headers, RedirectPolicy::SameOrigin).await?;
        let (status, heads) = (answer.status, answer.headers.clone());
        if let (StatusCode::NOT_MODIFIED, Some(kept), Some(cache)) = (status, kept, &self.cache) {
            cache.store(target, &heads, &kept.body, Some(kept));
            return Ok(FetchedDocument { text: kept.body.clone(), server: kept.server.clone(), fresh: None });
        }
        match status.as_u16() {
            200..=299 => {}
            status @ (401 | 403) => return Err(Error::CardForbidden { at: target.to_string(), status }),
            502..=504 => {
                let away = Error::unreachable(&answer.host, format!("HTTP {status}"), false);
                return Err(away.with_cause(UnreachableCause::GatewayAnswer));
            }
            _ => return Err(Error::CardNotFound { at: target.to_string(), reason: format!("HTTP {status}") }),
        }
        let html = answer.media_type() == "text/html";
        let body = answer.body("the agent card", CARD_BYTES_MAX).await?;
        let invalid = |reason: &str| Error::CardInvalid { at: target.to_string(), reason: reason.into() };
        let text = String::from_utf8(body.to_vec()).map_err(|_| invalid("it is not UTF-8"))?;
        if html && !text.trim_start().starts_with('{') {
            return Err(invalid("it is a web page"));
        }
        let server = crate::card_cache::server_name(&heads);
        Ok(FetchedDocument { text, server, fresh: is_for_all.then(|| (target.clone(), heads)) })
    }
}

/// A document that was fetched or read from the cache.
struct FetchedDocument {
    text: String,
    server: Option<String>,
    /// The URL and the response headers, if the document was fetched now.
    fresh: Option<(Url, HeaderMap)>,
}

impl FetchedDocument {
    /// Stores the document in the cache, now that it is known to be a card or a catalog.
    fn store_in_cache(&self, finder: &CardFinder) {
        if let (Some(cache), Some((url, headers))) = (&finder.cache, &self.fresh) {
            cache.store(url, headers, &self.text, None);
        }
    }
}
