//! The protocol bindings: each decodes a request, calls the engine and encodes the response.

pub(crate) mod agnt;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod jsonrpc;
pub(crate) mod process;
pub(crate) mod rest;

use crate::app::App;
use crate::body::Body;
use crate::body::RETRY_AFTER_SECONDS;
use crate::peer::Peer;
use crate::tokio_host::TokioHost;
use ::http::header::{HOST, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderMap, Response, StatusCode, Uri};
use sabir_engine::Host as _;
use sabir_guard::RequestEvidence;
use sabir_guard::authn::basic::Channel;
use sabir_proto::transfer::{CLAIM_HEADER, HandoffClaim};
use sabir_proto::{Fault, LINEAGE_HEADER, Seq, ServiceParameters};
use sabir_wire::Dialect;

pub(crate) const EXTENSIONS: HeaderName = HeaderName::from_static("a2a-extensions");
/// The name of the header in 0.2 and 0.3.
pub(crate) const VERSION: HeaderName = HeaderName::from_static("a2a-version");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LINEAGE: HeaderName = HeaderName::from_static(LINEAGE_HEADER);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Longest idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 256;
/// Most extensions one request may list.
const EXTENSIONS_MAX: usize = 64;

/// A request without its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestHead<'a> {
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) peer: &'a Peer,
}

impl<'a> RequestHead<'a> {
    pub(crate) fn query(&self) -> &'a str {
        self.uri.query().unwrap_or("")
    }

    /// The facts that authenticate the request. The body is given where it alone determines what the request does.
    pub(crate) fn evidence(&self, app: &App, body: Option<&'a [u8]>) -> RequestEvidence<'a> {
        let authority = self.uri.authority().map(::http::uri::Authority::as_str);
        let host = authority.or_else(|| self.headers.get(HOST).and_then(|v| v.to_str().ok()));
        RequestEvidence {
            headers: self.headers,
            body,
            channel: if self.peer.tls { Channel::Tls } else { Channel::Plain },
            certificate: self.peer.certificate.as_deref(),
            address: Some(self.peer.address),
            // Only a name of this server counts, not any name that the client sends: a token for another name or port
            // is not meant for this server.
            host: host.filter(|host| app.origin_check.is_own_authority(host)),
            now: TokioHost.now(),
        }
    }
}

/// Adds the headers of a refusal: how to authenticate, or when to try again.
pub(crate) fn add_refusal_headers(headers: &mut HeaderMap, fault: &Fault, challenge: Option<&str>) {
    if let Some(seconds) = retry_after(fault) {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if matches!(fault, Fault::Unauthenticated(_))
        && let Some(challenge) = challenge.and_then(|text| HeaderValue::from_str(text).ok())
    {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
}

/// After how many seconds another attempt is worthwhile. `Unavailable` always counts as temporary.
pub(crate) fn retry_after(fault: &Fault) -> Option<u64> {
    fault.retry_after().or_else(|| matches!(fault, Fault::Unavailable(_)).then_some(RETRY_AFTER_SECONDS))
}

/// A refusal for lack of capacity: every binding answers with the same status and the same `Retry-After`.
pub(crate) fn shed(app: &App, mut refusal: Response<Body>) -> Response<Body> {
    app.metrics.shed();
    *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    refusal.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    refusal
}

/// The terms of a call that the headers state.
pub(crate) fn read_terms(headers: &HeaderMap, dialect: Dialect) -> Result<ServiceParameters, Fault> {
    let mut terms = ServiceParameters::default();
    if let Some(value) = headers.get(IDEMPOTENCY_KEY) {
        let key = value.to_str().ok().filter(|k| (1..=KEY_BYTES_MAX).contains(&k.len()));
        let key = key.ok_or_else(|| Fault::invalid("Idempotency-Key", "must be 1 to 256 visible characters"))?;
        terms.idempotency_key = Some(key.to_owned());
    }
    if let Some(value) = headers.get(LAST_EVENT_ID) {
        let number = value.to_str().ok().and_then(|t| t.trim().parse().ok());
        terms.last_event_id =
            Some(Seq(number.ok_or_else(|| Fault::invalid("Last-Event-ID", "must be an event number"))?));
    }
    // An unchecked claim; a wrong one is not refused.
    terms.lineage = headers.get(LINEAGE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    terms.claim = headers.get(CLAIM_HEADER).and_then(|value| value.to_str().ok()).and_then(HandoffClaim::parse);
    // Clients of the older dialects send either header.
    let other = Some(dialect.features().extensions_header).filter(|name| EXTENSIONS != *name);
    let other = other.map(|name| headers.get_all(name));
    for value in headers.get_all(EXTENSIONS).iter().chain(other.into_iter().flatten()) {
        let uris = value.to_str().map_err(|_| Fault::invalid("A2A-Extensions", "must be a list of URIs"))?;
        terms.extensions.extend(uris.split(',').map(str::trim).filter(|u| !u.is_empty()).map(str::to_owned));
    }
    if terms.extensions.len() > EXTENSIONS_MAX {
        return Err(Fault::invalid("A2A-Extensions", format!("lists more than {EXTENSIONS_MAX} extensions")));
    }
    Ok(terms)
}

/// The version that a caller asks for: the header, or else the query parameter of the same name.
pub(crate) fn version<'a>(headers: &'a HeaderMap, query: &'a str) -> Option<&'a str> {
    let header = headers.get(VERSION).and_then(|v| v.to_str().ok());
    header.or_else(|| {
        query
            .split('&')
            .filter_map(|p| p.split_once('='))
            .find(|(n, _)| n.eq_ignore_ascii_case("A2A-Version"))
            .map(|(_, v)| v)
    })
}

/// Tells the caller which extensions were active.
pub(crate) fn echo_extensions(headers: &mut HeaderMap, active: &[String], dialect: Dialect) {
    if !active.is_empty()
        && let Ok(value) = HeaderValue::from_str(&active.join(","))
    {
        headers.insert(HeaderName::from_static(dialect.features().extensions_header), value);
    }
}
