//! The only way out: every byte that leaves passes here, so that address policy, TLS, timeouts, size limits and the
//! wire log are the same for cards, calls, streams and token endpoints.
//!
//! Redirects are never followed with a credential. Documents that are fetched without one (cards, catalogs, keys) may
//! be redirected within their own origin.

mod plain;

use crate::egress::{Egress, Refusal};
use crate::error::{UnreachableCause, Whose};
use crate::{Capacity, Error, Note, Observer, Share, Tls};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::Full;
use plain::Plain;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use url::Url;

/// How many redirects of a document are followed.
pub const REDIRECTS_MAX: usize = 3;
/// The largest answer that is taken: files travel inside messages.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest refusal that is read.
pub(crate) const REFUSAL_BYTES_MAX: usize = 1024 * 1024;
/// How many connections to one host are kept for later, and for how long. As many as a busy hub has calls under way to
/// one agent: a connection that is not kept costs more than the call.
const IDLE: (usize, Duration) = (256, Duration::from_secs(90));
/// The same for documents and webhooks. These go to as many hosts as strangers name, and each connection is a file
/// descriptor: kept for as long as those of agents, a thousand webhooks would leave none to accept a caller with.
const IDLE_NAMELESS: (usize, Duration) = (2, Duration::from_secs(5));
/// Who we say we are.
const USER_AGENT: &str = concat!("sabir/", env!("CARGO_PKG_VERSION"));
/// The slowest an answer may come, once it has begun: below this it is not on its way, it is held back.
pub(crate) const BODY_BYTES_PER_SECOND_MIN: usize = 1024;

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For the first byte of an answer, and between two reads of its body.
    pub answer: Duration,
    /// For silence on a stream. Servers keep quiet streams alive with comments.
    pub idle: Duration,
    /// For a whole operation: a call with its repetitions, a wait, a stream from its first event to its last.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            total: None,
        }
    }
}

/// A request, ready to leave.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// Query members that are credentials: added last, shown to nobody.
    pub(crate) secret_query: Vec<(String, crate::Secret)>,
}

impl Outgoing {
    /// The same for a connection of our own, and where to.
    fn ready(self) -> Result<(Url, http::Request<Full<Bytes>>), Error> {
        let Self { method, url, headers, body, .. } = self;
        let mut ready = http::Request::new(Full::new(body.unwrap_or_default()));
        *ready.method_mut() = method;
        *ready.uri_mut() = plain::target(&url).map_err(|e| Error::Usage(format!("the URL cannot be called: {e}")))?;
        *ready.headers_mut() = headers;
        let ours = HeaderValue::from_static(USER_AGENT);
        ready.headers_mut().entry(header::USER_AGENT).or_insert(ours);
        Ok((url, ready))
    }

    pub(crate) fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None, secret_query: Vec::new() }
    }
}

/// An answer whose body has not been read.
pub(crate) struct Incoming {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) host: String,
    rest: Rest,
    /// What of its body is held.
    pub(crate) share: Share,
    door: Door,
}

/// Where the body comes from.
enum Rest {
    Plain(plain::Answer),
    Reqwest(reqwest::Response),
}

/// The way out. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Door {
    inner: Arc<Inner>,
    observer: Option<Arc<dyn Observer>>,
    room: Capacity,
}

struct Inner {
    /// Shows our certificate to servers that ask for it.
    known: reqwest::Client,
    /// Shows nothing of us, to agents.
    plain: reqwest::Client,
    /// Shows nothing of us: for cards and other documents.
    nameless: reqwest::Client,
    /// To agents without TLS; none where a proxy may stand between.
    direct: Option<Plain>,
    /// With our certificate and without, for gRPC.
    known_tls: Arc<rustls::ClientConfig>,
    nameless_tls: Arc<rustls::ClientConfig>,
    /// Whom we trust, without what we show.
    rules: Tls,
    egress: Egress,
    timeouts: Timeouts,
}

/// Where a document may be instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// At its own origin: who speaks for a host is decided by that host alone.
    AtHome,
    /// Anywhere that may be called: files are kept in object stores.
    Anywhere,
}

/// As whom we come: whether our certificate may be shown, and whether we come often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// To agents that may see our certificate.
    Ourselves,
    /// To other agents.
    Caller,
    /// To everybody else.
    Nobody,
}

impl Door {
    pub(crate) fn new(
        egress: Egress,
        tls: &Tls,
        timeouts: Timeouts,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, Error> {
        let (known, nameless) = (tls.config(true)?, tls.config(false)?);
        let client = |mut config: rustls::ClientConfig, idle: (usize, Duration)| {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(config)
                .dns_resolver(Arc::new(Guarded(egress.clone())))
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(timeouts.connect)
                .pool_max_idle_per_host(idle.0)
                .pool_idle_timeout(idle.1)
                .user_agent(USER_AGENT);
            let builder = if egress.trusts_proxies() { builder } else { builder.no_proxy() };
            builder.build().map_err(|e| Error::Usage(format!("HTTP cannot be set up: {e}")))
        };
        let direct = (!egress.trusts_proxies()).then(|| Plain::new(egress.clone(), timeouts.connect, IDLE));
        let inner = Inner {
            direct,
            known: client(known.clone(), IDLE)?,
            plain: client(nameless.clone(), IDLE)?,
            nameless: client(nameless.clone(), IDLE_NAMELESS)?,
            known_tls: Arc::new(known),
            nameless_tls: Arc::new(nameless),
            rules: Tls { identity: None, ..tls.clone() },
            egress,
            timeouts,
        };
        Ok(Self { inner: Arc::new(inner), observer, room: Capacity::default() })
    }

    /// The same door with room for so much of all answers together.
    pub(crate) fn with_room(self, room: Capacity) -> Self {
        Self { room, ..self }
    }

    /// Room for one answer.
    pub(crate) fn share(&self) -> Share {
        self.room.share()
    }

    /// The same door with nobody watching: for exchanges that are secret throughout.
    pub(crate) fn unwatched(&self) -> Self {
        Self { observer: None, ..self.clone() }
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.inner.timeouts
    }

    /// Gives an operation its whole time, and no more.
    pub(crate) async fn within<T>(&self, operation: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Some(total) = self.inner.timeouts.total else { return operation.await };
        let late = |_| Err(Error::Timeout { what: "the operation", after: total });
        tokio::time::timeout(total, operation).await.unwrap_or_else(late)
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.inner.egress
    }

    pub(crate) fn tls(&self, who: As) -> &rustls::ClientConfig {
        match who {
            As::Ourselves => &self.inner.known_tls,
            As::Caller | As::Nobody => &self.inner.nameless_tls,
        }
    }

    pub(crate) fn rules(&self) -> &Tls {
        &self.inner.rules
    }

    pub(crate) fn note(&self, note: &Note<'_>) {
        if let Some(observer) = &self.observer {
            observer.note(note);
        }
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(&self, request: Outgoing, who: As) -> Result<Incoming, Error> {
        let host = self.check(&request.url)?;
        if let Some(direct) = &self.inner.direct {
            direct.sweep();
        }
        self.note(&Note::Request {
            method: &request.method,
            url: request.url.as_str(),
            headers: &request.headers,
            body: request.body.as_ref(),
        });
        let mut request = request;
        if !request.secret_query.is_empty() {
            let mut query = request.url.query_pairs_mut();
            for (name, value) in &request.secret_query {
                query.append_pair(name, value.expose());
            }
        }
        let begun = Instant::now();
        let limit = self.inner.timeouts.answer;
        let late = |_| Error::Timeout { what: "waiting for an answer", after: limit };
        let direct = self.inner.direct.as_ref().filter(|_| who != As::Nobody && request.url.scheme() == "http");
        let (status, headers, rest) = if let Some(direct) = direct {
            let (url, ready) = request.ready()?;
            let answer = tokio::time::timeout(limit, direct.send(&url, ready)).await.map_err(late)?;
            let mut answer = answer.map_err(|failure| broken(&host, &failure, limit))?;
            (answer.status, std::mem::take(&mut answer.headers), Rest::Plain(answer))
        } else {
            let sent = self.by_reqwest(request, who);
            let answer = tokio::time::timeout(limit, sent).await.map_err(late)?;
            let answer = answer.map_err(|error| failed(&host, error, limit))?;
            (answer.status(), answer.headers().clone(), Rest::Reqwest(answer))
        };
        self.note(&Note::Response { status, headers: &headers, elapsed: begun.elapsed() });
        Ok(Incoming { status, headers, host, rest, share: self.share(), door: self.clone() })
    }

    fn by_reqwest(
        &self,
        request: Outgoing,
        who: As,
    ) -> impl Future<Output = reqwest::Result<reqwest::Response>> + use<> {
        let client = match who {
            As::Ourselves => &self.inner.known,
            As::Caller => &self.inner.plain,
            As::Nobody => &self.inner.nameless,
        };
        let wired = client.request(request.method, request.url).headers(request.headers);
        request.body.into_iter().fold(wired, reqwest::RequestBuilder::body).send()
    }

    /// Fetches a document without showing who we are, following redirects as far as they may lead.
    pub(crate) async fn fetch(&self, url: &Url, headers: HeaderMap, follow: Redirects) -> Result<Incoming, Error> {
        let mut at = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let request = Outgoing { headers: headers.clone(), ..Outgoing::get(at.clone()) };
            let answer = self.send(request, As::Nobody).await?;
            let target = answer.status.is_redirection().then(|| answer.headers.get(header::LOCATION)).flatten();
            let Some(target) = target.and_then(|t| t.to_str().ok()).and_then(|t| at.join(t).ok()) else {
                return Ok(answer);
            };
            // The same host by TLS is the same place, better kept.
            let upgrade = target.scheme() == "https" && at.scheme() == "http" && target.host() == at.host();
            if follow == Redirects::AtHome && target.origin() != at.origin() && !upgrade {
                let to = format!("another origin, {}", target.origin().ascii_serialization());
                return Err(Error::Elsewhere { at: url.to_string(), to });
            }
            at = target;
        }
        let to = format!("one place after another, more than {REDIRECTS_MAX} times");
        Err(Error::Elsewhere { at: url.to_string(), to })
    }

    /// What can be told from the URL alone; the addresses behind a name are judged when it is resolved.
    fn check(&self, url: &Url) -> Result<String, Error> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Usage(format!("{}: only http and https URLs can be called", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::Usage("credentials do not belong in a URL".into()));
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        if url.host().is_none() {
            return Err(Error::Usage("the URL has no host".into()));
        }
        self.inner.egress.check_url(&host, url)?;
        Ok(host)
    }
}

impl Incoming {
    /// The media type of the body, in lower case and without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// How long the server asks us to stay away, in seconds or until a date.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        match value.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::now()).ok(),
        }
    }

    /// Reads the body whole. It has as long as an answer has to begin, and then as long as its size takes at the
    /// slowest: a body that drips for ever is not an answer.
    pub(crate) async fn body(mut self, what: &'static str, limit: usize) -> Result<Bytes, Error> {
        let patience = self.door.timeouts().answer;
        let begun = Instant::now();
        // Most come in one piece, which need not be copied.
        let first = self.chunk(patience).await?.unwrap_or_default();
        self.count(first.len(), what, limit)?;
        let Some(second) = self.chunk(patience).await? else {
            self.door.note(&Note::Body { bytes: &first });
            return Ok(first);
        };
        let (mut body, mut next) = (BytesMut::from(first), Some(second));
        while let Some(chunk) = next {
            self.count(chunk.len(), what, limit)?;
            body.extend_from_slice(&chunk);
            let owed = Duration::from_secs((body.len() / BODY_BYTES_PER_SECOND_MIN) as u64);
            if begun.elapsed() > patience + owed {
                return Err(Error::Timeout { what: "an answer that drips", after: begun.elapsed() });
            }
            next = self.chunk(patience).await?;
        }
        let body = body.freeze();
        self.door.note(&Note::Body { bytes: &body });
        Ok(body)
    }

    fn count(&mut self, bytes: usize, what: &'static str, limit: usize) -> Result<(), Error> {
        let room = self.share.add(bytes);
        match self.share.bytes() > limit {
            true => Err(Error::TooLarge { what, limit }),
            false if room => Ok(()),
            false => Err(Error::Crowded),
        }
    }

    /// How long a stream may be silent.
    pub(crate) fn idle(&self) -> Duration {
        self.door.timeouts().idle
    }

    /// Reads on, as patiently as any answer is read.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.chunk(self.door.timeouts().answer).await
    }

    /// Reads on. `None` at the end.
    pub(crate) async fn chunk(&mut self, patience: Duration) -> Result<Option<Bytes>, Error> {
        let late = |_| Error::Timeout { what: "silence in an answer", after: patience };
        match &mut self.rest {
            Rest::Plain(answer) => {
                let chunk = tokio::time::timeout(patience, answer.chunk()).await.map_err(late)?;
                chunk.map_err(|failure| broken(&self.host, &failure, patience))
            }
            Rest::Reqwest(answer) => {
                let chunk = tokio::time::timeout(patience, answer.chunk()).await.map_err(late)?;
                chunk.map_err(|error| failed(&self.host, error, patience))
            }
        }
    }
}

/// Resolves names under the policy.
struct Guarded(Egress);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = self.0.clone();
        Box::pin(async move {
            // Port 0 is replaced by the one of the URL.
            let found = egress.resolve(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// What a failure of `reqwest` means.
fn failed(host: &str, error: reqwest::Error, patience: Duration) -> Error {
    // The URL may hold a key.
    let error = error.without_url();
    if error.is_timeout() && !error.is_connect() {
        return Error::Timeout { what: "waiting for an answer", after: patience };
    }
    because(host, &error, error.is_connect(), error.is_timeout())
}

/// What a failure of a connection of our own means.
fn broken(host: &str, failure: &plain::Failure, patience: Duration) -> Error {
    match failure {
        plain::Failure::Late => {
            Error::nobody(host, explain("", true), true).caused_by(UnreachableCause::ConnectTimeout)
        }
        plain::Failure::Connect(error) => because(host, &**error, true, false),
        plain::Failure::Http(error) if error.is_timeout() => {
            Error::Timeout { what: "waiting for an answer", after: patience }
        }
        plain::Failure::Http(error) => because(host, error, false, false),
    }
}

/// What is at the bottom of an error: a refusal of ours, or what the system said.
fn because(host: &str, error: &(dyn std::error::Error + 'static), safe: bool, late: bool) -> Error {
    let mut cause = Some(error);
    let mut deepest = String::new();
    let mut whose = Whose::Unknown;
    let mut known = UnreachableCause::Other;
    while let Some(step) = cause {
        if let Some(refusal) = step.downcast_ref::<Refusal>() {
            return Error::Refused(refusal.clone());
        }
        if let Some(crate::egress::ResolveError::Refused(refusal)) = step.downcast_ref() {
            return Error::Refused(refusal.clone());
        }
        if let Some(crate::egress::ResolveError::Unknown { .. }) = step.downcast_ref() {
            known = UnreachableCause::NameNotResolved;
        }
        let system = step.downcast_ref::<std::io::Error>();
        whose = whose.or(system.map(Whose::of).unwrap_or_default());
        known = known.or(system.map(UnreachableCause::of).unwrap_or_default());
        deepest = step.to_string();
        cause = step.source();
    }
    if safe && late {
        known = UnreachableCause::ConnectTimeout;
    }
    Error::nobody(host, explain(&deepest, late), safe).because(whose).caused_by(known)
}

/// The last words of a chain of errors, for a person.
pub(crate) fn explain(words: &str, timed_out: bool) -> String {
    if timed_out {
        return "the connection could not be made in time".into();
    }
    if words.contains("UnknownIssuer") || words.contains("unknown issuer") {
        return "its certificate is not signed by anyone this machine trusts".into();
    }
    if words.contains("close_notify") {
        return "the server hung up in the TLS handshake; it may want another client certificate".into();
    }
    words.to_owned()
}

/// A header value that is never shown.
pub(crate) fn sensitive(value: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| Error::Usage("a credential holds characters that no header can carry".into()))?;
    value.set_sensitive(true);
    Ok(value)
}
