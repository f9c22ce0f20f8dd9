//! The client: the settings that all calls share, and how agents are found.

use crate::agent::Agent;
use crate::audience::Audience;
use crate::cache::Cache;
use crate::choose::{Binding, Version, choose_for};
use crate::credentials::{Attached, Credentials, describe};
use crate::discover::{Finder, Found};
use crate::door::{As, Door, Incoming, Outgoing, Redirects, Timeouts};
use crate::oauth::{Clock as _, WallClock};
use crate::profile::Profile;
use crate::transport::Line;
use crate::{Capacity, Egress, Error, Note, Observer, Reference, Said, Tls, is_loopback};
use crate::{oauth, redact, signature};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sabir_proto::{Answer, Fault};
use sabir_wire::Dialect;
use sabir_wire::v03::files;
use std::path::PathBuf;
use std::sync::Arc;
use url::Url;

/// Calls agents. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    finder: Finder,
    settings: Arc<Settings>,
}

#[derive(Clone, Default)]
struct Settings {
    prefer: Vec<Binding>,
    version: Version,
    credentials: Credentials,
    audience: Option<Audience>,
    once: bool,
    parameters: HeaderMap,
    extensions: Vec<String>,
    mode: signature::Mode,
    trust: signature::Trust,
}

/// Builds a [`Client`].
#[derive(Default)]
#[must_use]
pub struct Builder {
    egress: Option<Egress>,
    tls: Tls,
    timeouts: Timeouts,
    room: Capacity,
    cache: Option<PathBuf>,
    observer: Option<Arc<dyn Observer>>,
    profile: Option<&'static Profile>,
    settings: Settings,
    wrong: Option<Error>,
}

impl Builder {
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
    /// [`Error::Crowded`].
    pub fn room(mut self, room: Capacity) -> Self {
        self.room = room;
        self
    }

    /// Bindings to take before the card's own order, best first.
    pub fn prefer(mut self, bindings: impl IntoIterator<Item = Binding>) -> Self {
        self.settings.prefer = bindings.into_iter().collect();
        self
    }

    /// Which dialects may be spoken.
    pub fn version(mut self, version: Version) -> Self {
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
    pub fn audience(mut self, audience: Audience) -> Self {
        self.settings.audience = Some(audience);
        self
    }

    /// The profile of the vendor whose agents are called. Where the vendor serves cards only to authenticated callers,
    /// the client sends its credentials for a card, to the host of the agent's URL.
    pub fn profile(mut self, profile: &'static Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sends every request once, without retries: for callers that count calls and retry themselves.
    pub fn once(mut self) -> Self {
        self.settings.once = true;
        self
    }

    /// A service parameter: a header, or a metadata entry of gRPC, with every call.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                self.settings.parameters.append(name, value);
            }
            _ => self.wrong = Some(Error::Usage(format!("{name:?} with its value is no service parameter"))),
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
    pub fn trust(mut self, mode: signature::Mode, trust: signature::Trust) -> Self {
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
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if let Some(profile) = self.profile {
            self.settings.credentials.key_header = profile.key_header;
        }
        self.settings.credentials.teach(redact::process());
        let shown = match self.profile {
            Some(profile) if profile.asks_for_card => Some(Arc::new(self.settings.credentials.attach_to_card()?)),
            _ => None,
        };
        let egress = self.egress.unwrap_or_else(Egress::public);
        let door = Door::new(egress, &self.tls, self.timeouts, self.observer)?.with_room(self.room);
        // A card does not depend on the version; saying which one we speak lets a server choose what to show.
        let version = match self.settings.version {
            Version::Exactly(Dialect::V03) => "0.3",
            _ => "1.0",
        };
        let cache = self.cache.and_then(|directory| Cache::new(directory, version, &self.tls));
        let version = HeaderValue::from_static(version);
        let finder = Finder { door, cache, version, profile: self.profile, shown };
        Ok(Client { finder, settings: Arc::new(self.settings) })
    }
}

impl Client {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same client with other dialects allowed.
    pub(crate) fn speaking(&self, version: Version) -> Self {
        Self { finder: self.finder.clone(), settings: Arc::new(Settings { version, ..(*self.settings).clone() }) }
    }

    /// The same client, for a caller that supports these extensions.
    #[must_use]
    pub fn supporting(&self, extensions: impl IntoIterator<Item = String>) -> Self {
        let extensions = extensions.into_iter().collect();
        Self { finder: self.finder.clone(), settings: Arc::new(Settings { extensions, ..(*self.settings).clone() }) }
    }

    /// Finds the card of an agent and applies [`Client::apply_trust`] to it. No credential is sent unless
    /// [`Builder::profile`] says so.
    pub async fn card(&self, reference: &Reference) -> Result<Found, Error> {
        let found = async { self.believe(self.finder.find(reference).await?).await };
        self.finder.door.within(found).await
    }

    /// The part of a card that [`Builder::trust`] allows: of a signed card what its signature covers. A card that does
    /// not meet the mode is refused. For cards that did not come from [`Client::card`].
    pub async fn believe(&self, found: Found) -> Result<Found, Error> {
        let settings = &*self.settings;
        let trust = signature::Trust { card_url: found.url.clone(), now: WallClock.now(), ..settings.trust.clone() };
        let at = found.url.as_ref().map_or_else(|| "a file".into(), Url::to_string);
        let admitted = settings.mode.admit(found, &trust, self).await;
        admitted.map_err(|distrust| Error::CardUntrusted { at, reason: Box::new(distrust) })
    }

    /// The same for the extended card of an agent, which must meet the same mode as its public card.
    pub(crate) async fn believe_said(&self, public: &Found, said: Said<Answer>) -> Result<Said<Answer>, Error> {
        if self.settings.mode == signature::Mode::Off || !matches!(said.value, Answer::Card(_)) {
            return Ok(said);
        }
        let found = self.believe(public.anew(said.as_received())?).await?;
        Ok(Said::new(Answer::Card(Box::new(found.card.clone())), found.json(), said.losses().clone()))
    }

    /// Finds the card of an agent and prepares the transport to it.
    pub async fn connect(&self, reference: &Reference) -> Result<Agent, Error> {
        let found = self.card(reference).await?;
        self.agent(found)
    }

    /// Prepares the transport to the agent of a card: chooses the interface and attaches the credentials it asks for.
    /// The card is used as it is; pass a card that did not come from [`Client::card`] to [`Client::apply_trust`] first.
    pub fn agent(&self, found: Found) -> Result<Agent, Error> {
        self.agent_with(found, &self.settings.credentials)
    }

    /// The same with credentials for this agent, in place of the client's own. Whether a certificate is sent is still
    /// the client's setting.
    pub fn agent_with(&self, found: Found, credentials: &Credentials) -> Result<Agent, Error> {
        let settings = &*self.settings;
        let certificate = settings.credentials.certificate;
        let attached = Credentials { certificate, ..credentials.clone() }.attach(&found.card);
        let signs_bodies = attached.as_ref().is_ok_and(Attached::signs_bodies);
        let chosen = choose_for(&found, &settings.prefer, settings.version, signs_bodies)?;
        let extensions = self.activate(&found)?;
        let attached = attached?;
        if attached.seal.is_some() && chosen.binding != Binding::Envelope {
            return Err(Error::Usage("what signs envelopes of a booking network is for nobody else".into()));
        }
        if (attached.any || certificate)
            && let Some(audience) = &settings.audience
        {
            audience.admit(&chosen)?;
        }
        // XPR cards cannot declare its signatures, which are how its agents are called.
        let usual = chosen.dialect == Dialect::Xpr && attached.signer.is_some();
        if attached.unasked && !usual {
            self.warn(match found.card.security_schemes.is_empty() {
                true => "the card declares no security scheme; what was given is shown all the same",
                false => "the card declares other security schemes; what was given is shown all the same",
            });
        }
        if attached.any && chosen.url.scheme() == "http" && !is_loopback(&chosen.url) {
            self.warn("the credential travels over plain http, where anyone on the way can read it");
        }
        let wanted = found.card.security_schemes.iter().map(|(name, scheme)| describe(name, scheme)).collect();
        // 0.3 as proto leaves open what the bytes of a file are; the program that serves the card tells.
        let files = match (chosen.dialect, chosen.binding) {
            (Dialect::V03, Binding::HttpJson | Binding::Grpc) => files::Form::of_server(found.server.as_deref()),
            _ => files::Form::Bytes,
        };
        let mut line = Line::new(self.finder.door.clone(), chosen, attached, wanted);
        line.parameters = settings.parameters.clone();
        line.files = files;
        if settings.once {
            line.attempts = 1;
        }
        line.extensions = extensions;
        line.active.clone_from(&settings.extensions);
        Ok(Agent::new(self.clone(), found, line))
    }

    /// Refuses a card whose interface is at an origin that may not receive credentials, whether or not there are any
    /// yet.
    pub fn admit(&self, found: &Found) -> Result<(), Error> {
        let settings = &*self.settings;
        match (&settings.audience, choose_for(found, &settings.prefer, settings.version, false)) {
            (Some(audience), Ok(chosen)) => audience.admit(&chosen),
            // A card without a usable interface fails later, in `agent`.
            _ => Ok(()),
        }
    }

    /// The extensions to ask for: those that the caller supports and the agent offers. An extension that the agent
    /// requires and the caller does not support is an error.
    fn activate(&self, found: &Found) -> Result<Option<HeaderValue>, Error> {
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
        let answer = self.finder.door.fetch(url, HeaderMap::new(), Redirects::Anywhere).await?;
        if !answer.status.is_success() {
            return Err(Error::nobody(&answer.host, format!("HTTP {}", answer.status), false));
        }
        let length = answer.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
        let media_type = Some(answer.media_type()).filter(|t| !t.is_empty());
        Ok(Download { media_type, length, answer })
    }

    pub(crate) fn door(&self) -> Door {
        self.finder.door.clone()
    }

    /// Whether an agent may be called in another version than the one its card was read as. A caller that counts calls
    /// makes each by itself.
    pub(crate) fn tries_versions(&self) -> bool {
        !self.settings.once && matches!(self.settings.version, Version::Newest | Version::Any)
    }

    pub(crate) fn warn(&self, words: &str) {
        self.finder.door.note(&Note::Warning(words));
    }
}

/// A file that is being downloaded.
pub struct Download {
    /// The media type that the server names.
    pub media_type: Option<String>,
    /// The length in bytes that the server announces.
    pub length: Option<u64>,
    answer: Incoming,
}

impl Download {
    /// The next bytes of the file; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.answer.next_chunk().await
    }
}

/// Fetches the key sets of card signatures as cards are fetched: without credentials and without leaving their origin.
impl signature::FetchKeys for Client {
    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, String> {
        let answer = self.finder.door.send(Outgoing::get(url.clone()), As::Nobody).await.map_err(|e| e.to_string())?;
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
        let outgoing = Outgoing { method: head.method, url, headers: head.headers, body, secret_query: Vec::new() };
        let answer = self.finder.door.unwatched().send(outgoing, As::Nobody).await?;
        let (status, headers) = (answer.status, answer.headers.clone());
        let body = answer.body("the answer of the authorization server", oauth::ANSWER_BYTES_MAX).await?;
        let mut response = http::Response::new(body.to_vec());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
