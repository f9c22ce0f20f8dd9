//! The HTTP client: every request of this crate passes through it, so that address policy, TLS, timeouts, size limits
//! and the observer are the same for cards, calls, streams and token endpoints.
//!
//! The client never follows redirects with a credential. Documents that are fetched without one (cards, catalogs, keys)
//! may be redirected within their own origin.

mod plaintext;

use crate::egress::{Egress, EgressRefusal};
use crate::error::{FailureSide, UnreachableCause};
use crate::{Capacity, CapacityShare, Error, Observation, Observer, Tls};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::Full;
use plaintext::PlaintextClient;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use url::Url;

/// The number of redirects that the client follows for a document.
pub const REDIRECTS_MAX: usize = 3;
/// The largest answer that the client reads. Answers may contain files.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest body of an error response that the client reads.
pub(crate) const REFUSAL_BYTES_MAX: usize = 1024 * 1024;
/// The number of idle connections kept per host, and their lifetime. It fits the concurrent calls of a busy hub to one
/// agent: opening a connection costs more than the call.
const IDLE_AGENTS: (usize, Duration) = (256, Duration::from_secs(90));
/// The same for documents and webhooks. Their hosts are chosen by callers, and each connection is a file descriptor:
/// with the limits of agents, a thousand webhooks would leave no descriptors to accept callers.
const IDLE_OTHER: (usize, Duration) = (2, Duration::from_secs(5));
/// The `User-Agent` header of all requests.
const USER_AGENT: &str = concat!("sabir/", env!("CARGO_PKG_VERSION"));
/// The lowest rate at which a body may arrive. A slower peer is treated as stalled.
pub(crate) const BODY_BYTES_PER_SECOND_MIN: usize = 1024;

/// The time limits of connections, answers and operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit for connecting, including TLS.
    pub connect: Duration,
    /// Limit for the first byte of an answer, and between two reads of its body.
    pub answer: Duration,
    /// Limit for silence on a stream. Servers send comments to keep quiet streams alive.
    pub idle: Duration,
    /// Limit for a whole operation: a call with its retries, a wait, or a stream from its first event to its last.
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

/// A request that is ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// Query parameters that are credentials. They are added last, and observers do not see them.
    pub(crate) secret_query: Vec<(String, crate::Secret)>,
}

impl OutgoingRequest {
    /// Splits the request into its URL and a hyper request.
    fn into_hyper(self) -> Result<(Url, http::Request<Full<Bytes>>), Error> {
        let Self { method, url, headers, body, .. } = self;
        let mut ready = http::Request::new(Full::new(body.unwrap_or_default()));
        *ready.method_mut() = method;
        *ready.uri_mut() =
            plaintext::request_target(&url).map_err(|e| Error::Usage(format!("the URL cannot be called: {e}")))?;
        *ready.headers_mut() = headers;
        let ours = HeaderValue::from_static(USER_AGENT);
        ready.headers_mut().entry(header::USER_AGENT).or_insert(ours);
        Ok((url, ready))
    }

    pub(crate) fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None, secret_query: Vec::new() }
    }
}

/// A response whose body has not been read.
pub(crate) struct IncomingResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) host: String,
    body: ResponseBody,
    /// The bytes of the body that count against the capacity.
    pub(crate) share: CapacityShare,
    http_client: HttpClient,
}

/// The HTTP stack that delivers the body.
enum ResponseBody {
    Plaintext(plaintext::PlaintextResponse),
    Reqwest(reqwest::Response),
}

/// The HTTP client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpClient {
    inner: Arc<HttpClientInner>,
    observer: Option<Arc<dyn Observer>>,
    capacity: Capacity,
}

struct HttpClientInner {
    /// For agents that may receive our TLS certificate.
    with_certificate: reqwest::Client,
    /// For agents, without our certificate.
    without_certificate: reqwest::Client,
    /// For cards, other documents and webhooks, without our certificate.
    other: reqwest::Client,
    /// For agents without TLS; `None` where the policy allows proxies.
    plaintext: Option<PlaintextClient>,
    /// The TLS configuration with our certificate, for gRPC; below it the one without.
    tls_with_certificate: Arc<rustls::ClientConfig>,
    tls_without_certificate: Arc<rustls::ClientConfig>,
    /// The TLS settings without our certificate.
    server_trust: Tls,
    egress: Egress,
    timeouts: Timeouts,
}

/// How far the redirect of a document is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectPolicy {
    /// Within its own origin: only a host itself may decide who speaks for it.
    SameOrigin,
    /// To any address that the policy allows: files are often in object stores.
    Anywhere,
}

/// The connection pool of a request: whether TLS sends our certificate, and how many idle connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPool {
    /// For agents that may receive our certificate.
    AgentWithCertificate,
    /// For agents, without our certificate.
    Agent,
    /// For all other servers, without our certificate and with few idle connections.
    Other,
}

impl HttpClient {
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
                .dns_resolver(Arc::new(PolicyResolver(egress.clone())))
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(timeouts.connect)
                .pool_max_idle_per_host(idle.0)
                .pool_idle_timeout(idle.1)
                .user_agent(USER_AGENT);
            let builder = if egress.trusts_proxies() { builder } else { builder.no_proxy() };
            builder.build().map_err(|e| Error::Usage(format!("HTTP cannot be set up: {e}")))
        };
        let direct =
            (!egress.trusts_proxies()).then(|| PlaintextClient::new(egress.clone(), timeouts.connect, IDLE_AGENTS));
        let inner = HttpClientInner {
            plaintext: direct,
            with_certificate: client(known.clone(), IDLE_AGENTS)?,
            without_certificate: client(nameless.clone(), IDLE_AGENTS)?,
            other: client(nameless.clone(), IDLE_OTHER)?,
            tls_with_certificate: Arc::new(known),
            tls_without_certificate: Arc::new(nameless),
            server_trust: Tls { identity: None, ..tls.clone() },
            egress,
            timeouts,
        };
        Ok(Self { inner: Arc::new(inner), observer, capacity: Capacity::default() })
    }

    /// The same client with a capacity for all answers together.
    pub(crate) fn with_capacity(self, room: Capacity) -> Self {
        Self { capacity: room, ..self }
    }

    /// A share of the capacity for one answer.
    pub(crate) fn share(&self) -> CapacityShare {
        self.capacity.share()
    }

    /// The same client without an observer, for exchanges that are secret throughout.
    pub(crate) fn without_observer(&self) -> Self {
        Self { observer: None, ..self.clone() }
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.inner.timeouts
    }

    /// Limits an operation to the total timeout. The caller pins the operation: a future that takes another one by value
    /// has room for it twice, and every request would copy both.
    pub(crate) async fn with_total_timeout<T>(
        &self,
        operation: Pin<&mut impl Future<Output = Result<T, Error>>>,
    ) -> Result<T, Error> {
        let Some(total) = self.inner.timeouts.total else { return operation.await };
        let late = |_| Err(Error::Timeout { what: "the operation", after: total });
        tokio::time::timeout(total, operation).await.unwrap_or_else(late)
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.inner.egress
    }

    pub(crate) fn tls(&self, who: ConnectionPool) -> &rustls::ClientConfig {
        match who {
            ConnectionPool::AgentWithCertificate => &self.inner.tls_with_certificate,
            ConnectionPool::Agent | ConnectionPool::Other => &self.inner.tls_without_certificate,
        }
    }

    pub(crate) fn server_trust(&self) -> &Tls {
        &self.inner.server_trust
    }

    pub(crate) fn observe(&self, note: &Observation<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(note);
        }
    }

    /// Sends a request and waits for the head of the response.
    pub(crate) async fn send(&self, request: OutgoingRequest, who: ConnectionPool) -> Result<IncomingResponse, Error> {
        let host = self.check(&request.url)?;
        if let Some(direct) = &self.inner.plaintext {
            direct.close_expired();
        }
        self.observe(&Observation::Request {
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
        let direct =
            self.inner.plaintext.as_ref().filter(|_| who != ConnectionPool::Other && request.url.scheme() == "http");
        let (status, headers, rest) = if let Some(direct) = direct {
            let (url, ready) = request.into_hyper()?;
            let answer = tokio::time::timeout(limit, direct.send(&url, ready)).await.map_err(late)?;
            let mut answer = answer.map_err(|failure| connection_error(&host, &failure, limit))?;
            (answer.status, std::mem::take(&mut answer.headers), ResponseBody::Plaintext(answer))
        } else {
            let sent = self.send_with_reqwest(request, who);
            let answer = tokio::time::timeout(limit, sent).await.map_err(late)?;
            let answer = answer.map_err(|error| reqwest_error(&host, error, limit))?;
            (answer.status(), answer.headers().clone(), ResponseBody::Reqwest(answer))
        };
        self.observe(&Observation::Response { status, headers: &headers, elapsed: begun.elapsed() });
        Ok(IncomingResponse { status, headers, host, body: rest, share: self.share(), http_client: self.clone() })
    }

    fn send_with_reqwest(
        &self,
        request: OutgoingRequest,
        who: ConnectionPool,
    ) -> impl Future<Output = reqwest::Result<reqwest::Response>> + use<> {
        let client = match who {
            ConnectionPool::AgentWithCertificate => &self.inner.with_certificate,
            ConnectionPool::Agent => &self.inner.without_certificate,
            ConnectionPool::Other => &self.inner.other,
        };
        let wired = client.request(request.method, request.url).headers(request.headers);
        request.body.into_iter().fold(wired, reqwest::RequestBuilder::body).send()
    }

    /// Fetches a document without credentials, and follows redirects as far as the policy allows.
    pub(crate) async fn fetch(
        &self,
        url: &Url,
        headers: HeaderMap,
        follow: RedirectPolicy,
    ) -> Result<IncomingResponse, Error> {
        let mut at = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let request = OutgoingRequest { headers: headers.clone(), ..OutgoingRequest::get(at.clone()) };
            let answer = self.send(request, ConnectionPool::Other).await?;
            let target = answer.status.is_redirection().then(|| answer.headers.get(header::LOCATION)).flatten();
            let Some(target) = target.and_then(|t| t.to_str().ok()).and_then(|t| at.join(t).ok()) else {
                return Ok(answer);
            };
            // The same host over TLS is the same server.
            let upgrade = target.scheme() == "https" && at.scheme() == "http" && target.host() == at.host();
            if follow == RedirectPolicy::SameOrigin && target.origin() != at.origin() && !upgrade {
                let to = format!("another origin, {}", target.origin().ascii_serialization());
                return Err(Error::RedirectRefused { at: url.to_string(), to });
            }
            at = target;
        }
        let to = format!("one place after another, more than {REDIRECTS_MAX} times");
        Err(Error::RedirectRefused { at: url.to_string(), to })
    }

    /// Checks the URL alone; the addresses of a host name are checked when it is resolved.
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

impl IncomingResponse {
    /// The media type of the body, in lower case and without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The `Retry-After` delay, given in seconds or as a date.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        match value.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::now()).ok(),
        }
    }

    /// Reads the whole body. Its time limit is the answer timeout plus the time that its size takes at the lowest rate,
    /// so that a body that drips for ever ends in an error.
    pub(crate) async fn body(mut self, what: &'static str, limit: usize) -> Result<Bytes, Error> {
        let patience = self.http_client.timeouts().answer;
        let begun = Instant::now();
        // Most bodies come in one piece, which need not be copied.
        let first = self.chunk(patience).await?.unwrap_or_default();
        self.count(first.len(), what, limit)?;
        let Some(second) = self.chunk(patience).await? else {
            self.http_client.observe(&Observation::Body { bytes: &first });
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
        self.http_client.observe(&Observation::Body { bytes: &body });
        Ok(body)
    }

    fn count(&mut self, bytes: usize, what: &'static str, limit: usize) -> Result<(), Error> {
        let room = self.share.add(bytes);
        match self.share.bytes() > limit {
            true => Err(Error::TooLarge { what, limit }),
            false if room => Ok(()),
            false => Err(Error::CapacityExceeded),
        }
    }

    /// The longest silence on a stream.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.http_client.timeouts().idle
    }

    /// Reads the next piece, within the answer timeout.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.chunk(self.http_client.timeouts().answer).await
    }

    /// Reads the next piece; `None` at the end.
    pub(crate) async fn chunk(&mut self, patience: Duration) -> Result<Option<Bytes>, Error> {
        let late = |_| Error::Timeout { what: "silence in an answer", after: patience };
        match &mut self.body {
            ResponseBody::Plaintext(answer) => {
                let chunk = tokio::time::timeout(patience, answer.chunk()).await.map_err(late)?;
                chunk.map_err(|failure| connection_error(&self.host, &failure, patience))
            }
            ResponseBody::Reqwest(answer) => {
                let chunk = tokio::time::timeout(patience, answer.chunk()).await.map_err(late)?;
                chunk.map_err(|error| reqwest_error(&self.host, error, patience))
            }
        }
    }
}

/// Resolves names under the address policy.
struct PolicyResolver(Egress);

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = self.0.clone();
        Box::pin(async move {
            // The connector replaces port 0 by the port of the URL.
            let found = egress.resolve(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Converts an error of `reqwest`.
fn reqwest_error(host: &str, error: reqwest::Error, patience: Duration) -> Error {
    // The URL may contain a key.
    let error = error.without_url();
    if error.is_timeout() && !error.is_connect() {
        return Error::Timeout { what: "waiting for an answer", after: patience };
    }
    unreachable_error(host, &error, error.is_connect(), error.is_timeout())
}

/// Converts an error of a plaintext connection.
fn connection_error(host: &str, failure: &plaintext::PlaintextFailure, patience: Duration) -> Error {
    match failure {
        plaintext::PlaintextFailure::ConnectTimeout => {
            Error::unreachable(host, describe_failure("", true), true).with_cause(UnreachableCause::ConnectTimeout)
        }
        plaintext::PlaintextFailure::Connect(error) => unreachable_error(host, &**error, true, false),
        plaintext::PlaintextFailure::Http(error) if error.is_timeout() => {
            Error::Timeout { what: "waiting for an answer", after: patience }
        }
        plaintext::PlaintextFailure::Http(error) => unreachable_error(host, error, false, false),
    }
}

/// Finds the root cause of an error: a refusal by our policy, or an error of the system.
fn unreachable_error(host: &str, error: &(dyn std::error::Error + 'static), safe: bool, late: bool) -> Error {
    let mut cause = Some(error);
    let mut deepest = String::new();
    let mut whose = FailureSide::Unknown;
    let mut known = UnreachableCause::Other;
    while let Some(step) = cause {
        if let Some(refusal) = step.downcast_ref::<EgressRefusal>() {
            return Error::Refused(refusal.clone());
        }
        if let Some(crate::egress::ResolveError::Refused(refusal)) = step.downcast_ref() {
            return Error::Refused(refusal.clone());
        }
        if let Some(crate::egress::ResolveError::Unknown { .. }) = step.downcast_ref() {
            known = UnreachableCause::NameNotResolved;
        }
        let system = step.downcast_ref::<std::io::Error>();
        whose = whose.or(system.map(FailureSide::of).unwrap_or_default());
        known = known.or(system.map(UnreachableCause::of).unwrap_or_default());
        deepest = step.to_string();
        cause = step.source();
    }
    if safe && late {
        known = UnreachableCause::ConnectTimeout;
    }
    Error::unreachable(host, describe_failure(&deepest, late), safe).with_side(whose).with_cause(known)
}

/// Describes the root cause of a connection failure for a person.
pub(crate) fn describe_failure(words: &str, timed_out: bool) -> String {
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

/// A header value that is marked sensitive, so that it is never displayed.
pub(crate) fn sensitive_header(value: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| Error::Usage("a credential holds characters that no header can carry".into()))?;
    value.set_sensitive(true);
    Ok(value)
}
