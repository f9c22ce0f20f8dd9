//! The client: the settings that all calls share, and how agents are found.

use crate::binding::Binding;
use crate::card_cache::CardCache;
use crate::clock::{Clock as _, WallClock};
use crate::credential_origins::CredentialOrigins;
use crate::credentials::{AttachedCredentials, Credentials, describe};
use crate::discover::{CardFinder, DiscoveredCard};
use crate::envelope::EnvelopeTransport;
use crate::http_client::{ConnectionPool, HttpClient, IncomingResponse, OutgoingRequest, RedirectPolicy, Timeouts};
use crate::interface_choice::{VersionPolicy, choose_interface_for};
use crate::transport::AgentTransport;
use crate::vendor_profile::VendorProfile;
use crate::{AgentReference, AgentResponse, Capacity, Egress, Error, Observation, Observer, Tls, is_loopback};
use crate::{oauth, redact, signature};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sabir_proto::{Fault, WireReply};
use sabir_wire::Dialect;
use sabir_wire::v03::files;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use url::Url;

/// Calls agents. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    card_finder: CardFinder,
    settings: Arc<ClientSettings>,
}

#[derive(Clone, Default)]
struct ClientSettings {
    prefer: Vec<Binding>,
    version: VersionPolicy,
    credentials: Credentials,
    credential_origins: Option<CredentialOrigins>,
    no_retries: bool,
    parameters: HeaderMap,
    extensions: Vec<String>,
    mode: signature::SignatureMode,
    trust: signature::TrustPolicy,
}

/// Builds a [`Client`].
#[derive(Default)]
#[must_use]
pub struct ClientBuilder {
    egress: Option<Egress>,
    tls: Tls,
    timeouts: Timeouts,
    capacity: Capacity,
    cache: Option<PathBuf>,
    observer: Option<Arc<dyn Observer>>,
    profile: Option<&'static VendorProfile>,
    settings: ClientSettings,
    error: Option<Error>,
}

impl ClientBuilder {
    /// Which addresses may be called; by default only public ones.
    pub fn egress(mut self, egress: Egress) -> Self {
        self.egress = Some(egress);
        self
    }

    /// How TLS connections are made.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.settings.credentials.certificate = tls.identity.is_some();
        self.tls = tls;
        self
    }

    /// The timeouts of connections, answers and whole operations.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The capacity for all answers together; unlimited by default. An answer that exceeds it fails with
    /// [`Error::CapacityExceeded`].
    pub fn capacity(mut self, room: Capacity) -> Self {
        self.capacity = room;
        self
    }

    /// Bindings to take before the card's own order, best first.
    pub fn prefer(mut self, bindings: impl IntoIterator<Item = Binding>) -> Self {
        self.settings.prefer = bindings.into_iter().collect();
        self
    }

    /// Which dialects may be spoken.
    pub fn version(mut self, version: VersionPolicy) -> Self {
        self.settings.version = version;
        self
    }

    /// The credentials for agents that ask for them.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        let certificate = self.settings.credentials.certificate || credentials.certificate;
        self.settings.credentials = Credentials { certificate, ..credentials };
        self
    }

    /// The origins that may receive the credentials; by default that of each called agent. Any other interface is
    /// refused.
    pub fn credential_origins(mut self, audience: CredentialOrigins) -> Self {
        self.settings.credential_origins = Some(audience);
        self
    }

    /// The profile of the vendor whose agents are called. Where the vendor serves cards only to authenticated callers,
    /// the client sends its credentials for a card, to the host of the agent's URL.
    pub fn profile(mut self, profile: &'static VendorProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sends every request once, without retries: for callers that count calls and retry themselves.
    pub fn without_retries(mut self) -> Self {
        self.settings.no_retries = true;
        self
    }

    /// A service parameter: a header, or a metadata entry of gRPC, with every call.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                self.settings.parameters.append(name, value);
            }
            _ => self.error = Some(Error::Usage(format!("{name:?} with its value is no service parameter"))),
        }
        self
    }

    /// Extensions that the caller supports.
    pub fn extensions(mut self, uris: impl IntoIterator<Item = String>) -> Self {
        self.settings.extensions = uris.into_iter().collect();
        self
    }

    /// How card signatures are checked, and which keys are trusted. The client fills in the URL of the card and the
    /// time.
    pub fn trust(mut self, mode: signature::SignatureMode, trust: signature::TrustPolicy) -> Self {
        (self.settings.mode, self.settings.trust) = (mode, trust);
        self
    }

    /// The directory of the card cache; `None` for no cache.
    pub fn cache(mut self, directory: Option<PathBuf>) -> Self {
        self.cache = directory;
        self
    }

    /// The observer of requests, answers, retries and warnings.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Builds the client; fails if a setting cannot be used.
    pub fn build(mut self) -> Result<Client, Error> {
        if let Some(wrong) = self.error {
            return Err(wrong);
        }
        if let Some(profile) = self.profile {
            self.settings.credentials.key_header = profile.key_header;
        }
        self.settings.credentials.register_secrets(redact::process_redactor());
        let shown = match self.profile {
            Some(profile) if profile.card_needs_credentials => {
                Some(Arc::new(self.settings.credentials.attach_to_card()?))
            }
            _ => None,
        };
        let egress = self.egress.unwrap_or_else(Egress::public);
        let http_client =
            HttpClient::new(egress, &self.tls, self.timeouts, self.observer)?.with_capacity(self.capacity);
        // A card does not depend on the version; saying which one we speak lets a server choose what to show.
        let version = match self.settings.version {
            VersionPolicy::Exactly(dialect) => dialect.features().version_header,
            _ => None,
        };
        let version = version.unwrap_or_else(|| Dialect::NEWEST.name());
        let cache = self.cache.and_then(|directory| CardCache::new(directory, version, &self.tls));
        let version = HeaderValue::from_static(version);
        let finder = CardFinder { http_client, cache, version, profile: self.profile, card_credentials: shown };
        Ok(Client { card_finder: finder, settings: Arc::new(self.settings) })
    }
}

impl Client {
    /// Returns a builder with the default settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The same client with other dialects allowed.
    pub(crate) fn with_version(&self, version: VersionPolicy) -> Self {
        Self {
            card_finder: self.card_finder.clone(),
            settings: Arc::new(ClientSettings { version, ..(*self.settings).clone() }),
        }
    }

    /// The same client, for a caller that supports these extensions.
    #[must_use]
    pub fn with_extensions(&self, extensions: impl IntoIterator<Item = String>) -> Self {
        let extensions = extensions.into_iter().collect();
        Self {
            card_finder: self.card_finder.clone(),
            settings: Arc::new(ClientSettings { extensions, ..(*self.settings).clone() }),
        }
    }

    /// Finds the card of an agent and applies [`Client::apply_trust`] to it. No credential is sent unless
    /// [`ClientBuilder::profile`] says so.
    pub async fn card(&self, reference: &AgentReference) -> Result<DiscoveredCard, Error> {
        let found = async { self.apply_trust(self.card_finder.find(reference).await?).await };
        self.card_finder.http_client.with_total_timeout(pin!(found)).await
    }

    /// The part of a card that [`ClientBuilder::trust`] allows: of a signed card what its signature covers. A card that does
    /// not meet the mode is refused. For cards that did not come from [`Client::card`].
    pub async fn apply_trust(&self, found: DiscoveredCard) -> Result<DiscoveredCard, Error> {
        let settings = &*self.settings;
        let trust =
            signature::TrustPolicy { card_url: found.url.clone(), now: WallClock.now(), ..settings.trust.clone() };
        let at = found.url.as_ref().map_or_else(|| "a file".into(), Url::to_string);
        let admitted = settings.mode.check_card(found, &trust, self).await;
        admitted.map_err(|distrust| Error::CardUntrusted { at, reason: Box::new(distrust) })
    }

    /// The same for the extended card of an agent, which must meet the same mode as its public card.
    pub(crate) async fn apply_trust_to_answer(
        &self,
        public: &DiscoveredCard,
        said: AgentResponse<WireReply>,
    ) -> Result<AgentResponse<WireReply>, Error> {
        if self.settings.mode == signature::SignatureMode::Off || !matches!(said.value, WireReply::Card(_)) {
            return Ok(said);
        }
        let found = self.apply_trust(public.reparse(said.as_received())?).await?;
        Ok(AgentResponse::new(WireReply::Card(Box::new(found.card.clone())), found.json(), said.losses().clone()))
    }

    /// The credentials for agents that ask for them.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.settings.credentials
    }

    /// Prepares the transport to the agent of a card: chooses the interface and attaches the credentials it asks for.
    /// Whether a certificate is sent is the client's setting, and not that of the credentials.
    pub(crate) fn transport(&self, found: &DiscoveredCard, credentials: &Credentials) -> Result<AgentTransport, Error> {
        let settings = &*self.settings;
        let certificate = settings.credentials.certificate;
        let attached = Credentials { certificate, ..credentials.clone() }.attach(&found.card);
        let signs_bodies = attached.as_ref().is_ok_and(AttachedCredentials::signs_bodies);
        let chosen = choose_interface_for(found, &settings.prefer, settings.version, signs_bodies)?;
        let extensions = self.active_extensions(found)?;
        let attached = attached?;
        if attached.envelope_key.is_some() && chosen.binding != Binding::Envelope {
            return Err(Error::Usage(
                "a credential that signs envelopes of a booking network is for no other agent".into(),
            ));
        }
        if (attached.has_any || certificate)
            && let Some(audience) = &settings.credential_origins
        {
            audience.check(&chosen)?;
        }
        // XPR cards cannot declare its signatures, which are how its agents are called.
        let usual = chosen.dialect.features().signed_by_headers && attached.signer.is_some();
        if attached.is_undeclared && !usual {
            self.warn(match found.card.security_schemes.is_empty() {
                true => "the card declares no security scheme; what was given is shown all the same",
                false => "the card declares other security schemes; what was given is shown all the same",
            });
        }
        if attached.has_any && chosen.url.scheme() == "http" && !is_loopback(&chosen.url) {
            self.warn("the credential travels over plain http, where anyone on the way can read it");
        }
        let wanted = found.card.security_schemes.iter().map(|(name, scheme)| describe(name, scheme)).collect();
        // 0.3 as proto leaves open what the bytes of a file are; the program that serves the card tells.
        let files = match chosen.binding {
            Binding::HttpJson | Binding::Grpc if chosen.dialect.features().open_file_encoding => {
                files::FileEncoding::of_server(found.server.as_deref())
            }
            _ => files::FileEncoding::Bytes,
        };
        let mut line = AgentTransport::new(self.card_finder.http_client.clone(), chosen, attached, wanted);
        line.parameters = settings.parameters.clone();
        line.files = files;
        if settings.no_retries {
            line.attempts = 1;
        }
        line.extensions = extensions;
        line.active_extensions.clone_from(&settings.extensions);
        Ok(line)
    }

    /// Refuses a card whose interface is at an origin that may not receive credentials, whether or not there are any
    /// yet.
    pub fn check_credential_origins(&self, found: &DiscoveredCard) -> Result<(), Error> {
        let settings = &*self.settings;
        match (&settings.credential_origins, choose_interface_for(found, &settings.prefer, settings.version, false)) {
            (Some(audience), Ok(chosen)) => audience.check(&chosen),
            // A card without a usable interface fails later, in `agent`.
            _ => Ok(()),
        }
    }

    /// The extensions to ask for: those that the caller supports and the agent offers. An extension that the agent
    /// requires and the caller does not support is an error.
    fn active_extensions(&self, found: &DiscoveredCard) -> Result<Option<HeaderValue>, Error> {
        let supported = &self.settings.extensions;
        let offered = &found.card.capabilities.extensions;
        if let Some(lacking) = offered.iter().find(|e| e.required && !supported.contains(&e.uri)) {
            return Err(Error::local(Fault::ExtensionSupportRequired(lacking.uri.clone())));
        }
        let active: Vec<&str> =
            supported.iter().filter(|uri| offered.iter().any(|e| e.uri == **uri)).map(String::as_str).collect();
        if active.is_empty() {
            return Ok(None);
        }
        HeaderValue::from_str(&active.join(","))
            .map(Some)
            .map_err(|_| Error::Usage("an extension's URI holds characters that no header can carry".into()))
    }

    /// Downloads a file that an agent points to, without sending credentials.
    pub async fn download(&self, url: &Url) -> Result<Download, Error> {
        let answer = self.card_finder.http_client.fetch(url, HeaderMap::new(), RedirectPolicy::Anywhere).await?;
        if !answer.status.is_success() {
            return Err(Error::unreachable(&answer.host, format!("HTTP {}", answer.status), false));
        }
        let length = answer.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
        let media_type = Some(answer.media_type()).filter(|t| !t.is_empty());
        Ok(Download { media_type, length, answer })
    }

    pub(crate) fn http_client(&self) -> HttpClient {
        self.card_finder.http_client.clone()
    }

    /// Whether an agent may be called in another version than the one its card was read as. A caller that counts calls
    /// makes each by itself.
    pub(crate) fn may_try_versions(&self) -> bool {
        !self.settings.no_retries && matches!(self.settings.version, VersionPolicy::Newest | VersionPolicy::Any)
    }

    pub(crate) fn warn(&self, words: &str) {
        self.card_finder.http_client.observe(&Observation::Warning(words));
    }
}

/// A file that is being downloaded.
pub struct Download {
    /// The media type that the server names.
    pub media_type: Option<String>,
    /// The length in bytes that the server announces.
    pub length: Option<u64>,
    answer: IncomingResponse,
}

impl Download {
    /// The next bytes of the file; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.answer.next_chunk().await
    }
}

impl EnvelopeTransport {
    /// Uses the HTTP client of a client, with its observer.
    pub fn from_client(client: &Client) -> Self {
        Self::new(client.http_client())
    }
}

/// Fetches the key sets of card signatures as cards are fetched: without credentials and without leaving their origin.
impl signature::FetchKeys for Client {
    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, String> {
        let answer = self
            .card_finder
            .http_client
            .send(OutgoingRequest::get(url.clone()), ConnectionPool::Other)
            .await
            .map_err(|e| e.to_string())?;
        if !answer.status.is_success() {
            return Err(format!("HTTP {}", answer.status));
        }
        let body = answer.body("the key set", signature::JWKS_BYTES_MAX).await.map_err(|e| e.to_string())?;
        Ok(body.to_vec())
    }
}

/// Calls authorization servers with the same HTTP client. These requests and answers hold secrets, so the observer does
/// not see them.
impl oauth::Http for Client {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>, oauth::BoxError> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string())?;
        let body = (!body.is_empty()).then(|| Bytes::from(body));
        let outgoing =
            OutgoingRequest { method: head.method, url, headers: head.headers, body, secret_query: Vec::new() };
        let answer = self.card_finder.http_client.without_observer().send(outgoing, ConnectionPool::Other).await?;
        let (status, headers) = (answer.status, answer.headers.clone());
        let body = answer.body("the answer of the authorization server", oauth::ANSWER_BYTES_MAX).await?;
        let mut response = http::Response::new(body.to_vec());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
