//! Sends envelopes to booking networks of AGNT, and reads the answers.
//!
//! An envelope gets one timestamp, and is sent until it is answered. The network recognises a retry by sender, intent
//! and timestamp, so a retry carries the same timestamp and nothing is done twice. Each attempt is signed anew, because
//! a signature is valid only once.
//!
//! The timestamps of one sender increase by at least a microsecond; otherwise the network would take two bookings of
//! one instant for one.

mod signing;

pub use sabir_wire::agnt::{
    Envelope, EnvelopeHop, Intent, NETWORK, NanoTimestamp, NetworkAnswer, Problem, ProblemCode, TTL_MAX, VIA_MAX,
};
pub use signing::{EnvelopeKey, EnvelopeMac, KEY_BYTES_MIN, KeyDerivation, sign_envelope, verify_payload};

use crate::http_client::{ConnectionPool, HttpClient, OutgoingRequest, sensitive_header};
use crate::retry::jitter;
use crate::{Capacity, EndpointClient, Error, Observation, Secret};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use sabir_wire::agnt::{NetworkAnswerError, read_answer};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// The largest answer. A hundred venues with their descriptions fit several times.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The number of attempts for an envelope, including the first one.
pub const ATTEMPTS_MAX: u32 = 5;
/// The time during which an envelope is retried. The network refuses a timestamp after five minutes; the rest is for
/// clock differences.
pub const RETRY_TIME_MAX: Duration = Duration::from_secs(120);
/// The pause before the first retry; it doubles each time.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// The time for transport, in addition to the time that the envelope gives the answer.
const TRANSIT_TIME: Duration = Duration::from_secs(1);

/// Why an envelope has no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The network refused the envelope.
    #[error("{}: {}", .0.code.name(), .0.message)]
    Refused(Problem),
    /// The network refused with a code that we do not know.
    #[error("{code}: {message}")]
    Unknown {
        /// The code of the network.
        code: String,
        /// The message of the network.
        message: String,
        /// Whether the network says that a retry may succeed.
        retryable: bool,
        /// The HTTP status of the answer.
        http: u16,
    },
    /// The response is not an answer of a network.
    #[error("not an answer of a network, HTTP status {http}: {reason}")]
    Malformed {
        /// The fault of the response.
        reason: String,
        /// The HTTP status of the response.
        http: u16,
    },
    /// The request failed without a response.
    #[error(transparent)]
    Transport(#[from] Error),
}

impl EnvelopeError {
    /// Whether the same envelope, with the same timestamp, may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(problem) => problem.code.is_retryable(),
            Self::Unknown { retryable, .. } => *retryable,
            // A proxy that cannot reach its server answers in its own words.
            Self::Malformed { http, .. } => matches!(http, 429 | 500..),
            Self::Transport(error) => error.is_transient(),
        }
    }

    /// The delay that the network asks for before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(problem) => problem.retry_after,
            Self::Transport(error) => error.retry_after(),
            Self::Unknown { .. } | Self::Malformed { .. } => None,
        }
    }
}

/// The transport of envelopes: sends one, and returns one answer. Cheap to clone.
#[derive(Clone)]
pub struct EnvelopeTransport {
    http_client: HttpClient,
}

impl EnvelopeTransport {
    pub(crate) const fn new(http_client: HttpClient) -> Self {
        Self { http_client }
    }

    /// Uses the HTTP client of an endpoint, which has no observer.
    pub fn from_endpoint(endpoint: &EndpointClient) -> Self {
        Self { http_client: endpoint.http_client() }
    }

    /// The same transport with a capacity for all answers together.
    #[must_use]
    pub fn with_capacity(self, room: Capacity) -> Self {
        Self { http_client: self.http_client.with_capacity(room) }
    }

    /// Sends an envelope once, unchanged, and waits for its answer. Redirects are not followed, because the request
    /// carries a key.
    pub async fn exchange(
        &self,
        at: &Url,
        key: Option<&Secret>,
        envelope: &Envelope,
        time: Duration,
    ) -> Result<NetworkAnswer, EnvelopeError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert(header::AUTHORIZATION, sensitive_header(&format!("Bearer {}", key.expose()))?);
        }
        let (status, after, body) = self.post(at, headers, envelope.write().into(), time).await?;
        read_answer(&body, status).map_err(|unanswered| match unanswered {
            NetworkAnswerError::Refused(problem) => {
                EnvelopeError::Refused(Problem { retry_after: problem.retry_after.or(after), ..problem })
            }
            NetworkAnswerError::UnknownCode { code, message, retryable } => {
                EnvelopeError::Unknown { code, message, retryable, http: status }
            }
            NetworkAnswerError::NotAnAnswer(reason) => EnvelopeError::Malformed { reason, http: status },
        })
    }

    /// Posts a document; returns the status, `Retry-After` and body of the answer.
    pub async fn post(
        &self,
        at: &Url,
        mut headers: HeaderMap,
        body: Bytes,
        time: Duration,
    ) -> Result<(u16, Option<Duration>, Bytes), Error> {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let url = at.clone();
        let outgoing =
            OutgoingRequest { method: Method::POST, url, headers, body: Some(body), secret_query: Vec::new() };
        let exchange = async {
            let answer = self.http_client.send(outgoing, ConnectionPool::AgentWithCertificate).await?;
            let (status, after) = (answer.status.as_u16(), answer.retry_after());
            Ok((status, after, answer.body("the answer", ANSWER_BYTES_MAX).await?))
        };
        let late = |_| Err(Error::Timeout { what: "waiting for an answer", after: time });
        tokio::time::timeout(time, exchange).await.unwrap_or_else(late)
    }
}

/// A sender of envelopes to one network.
#[derive(Clone)]
pub struct EnvelopeSender {
    transport: EnvelopeTransport,
    at: Url,
    from: String,
    key: Option<Secret>,
    envelope_mac: Option<Arc<dyn EnvelopeMac>>,
    /// The last timestamp, in microseconds.
    last: Arc<Mutex<i64>>,
}

impl fmt::Debug for EnvelopeSender {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Envelopes").field("at", &self.at.as_str()).field("from", &self.from).finish_non_exhaustive()
    }
}

impl EnvelopeSender {
    /// A sender to the endpoint of a network.
    pub fn new(transport: EnvelopeTransport, at: Url, from: impl Into<String>) -> Self {
        Self { transport, at, from: from.into(), key: None, envelope_mac: None, last: Arc::default() }
    }

    /// Sets the API key for the network.
    #[must_use]
    pub fn with_key(mut self, key: Secret) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the key that signs the envelopes.
    #[must_use]
    pub fn with_signing(mut self, seal: Arc<dyn EnvelopeMac>) -> Self {
        self.envelope_mac = Some(seal);
        self
    }

    /// The agent id of the sender.
    pub fn sender(&self) -> &str {
        &self.from
    }

    /// Returns a timestamp later than all earlier ones.
    pub fn next_timestamp(&self) -> NanoTimestamp {
        let now = i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = now.max(last.saturating_add(1));
        NanoTimestamp::from_nanos(last.saturating_mul(1000))
    }

    /// Sends an envelope until it is answered, refused for good, or the time is up. An envelope without a timestamp
    /// gets one; an envelope with a timestamp is a retry of the envelope that had it before.
    pub async fn send(&self, mut envelope: Envelope) -> Result<NetworkAnswer, EnvelopeError> {
        envelope.from.clone_from(&self.from);
        envelope.timestamp.get_or_insert_with(|| self.next_timestamp());
        let begun = tokio::time::Instant::now();
        let mut attempt = 1;
        loop {
            let unserved = match self.send_once(&envelope).await {
                Ok(answered) => return Ok(answered),
                Err(unserved) => unserved,
            };
            let pause = unserved.retry_after().unwrap_or_else(|| jitter(PAUSE_FIRST * 2_u32.pow(attempt - 1)));
            if !unserved.is_transient() || attempt >= ATTEMPTS_MAX || begun.elapsed() + pause > RETRY_TIME_MAX {
                return Err(unserved);
            }
            attempt += 1;
            self.transport.http_client.observe(&Observation::Retry { attempt, pause, reason: &unserved.to_string() });
            tokio::time::sleep(pause).await;
        }
    }

    async fn send_once(&self, envelope: &Envelope) -> Result<NetworkAnswer, EnvelopeError> {
        let mut envelope = envelope.clone();
        if let Some(key) = &self.envelope_mac {
            let at = i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX);
            sign_envelope(&mut envelope, &self.from, at, &**key)?;
        }
        let time = Duration::from_millis(envelope.ttl_ms).min(TTL_MAX) + TRANSIT_TIME;
        let answered = self.transport.exchange(&self.at, self.key.as_ref(), &envelope, time).await?;
        let payload = verify_payload(answered.payload, self.envelope_mac.as_deref())
            .map_err(|reason| EnvelopeError::Malformed { reason, http: 200 })?;
        Ok(NetworkAnswer { payload, ..answered })
    }
}

/// The problem that a relay returns to its own sender.
impl From<EnvelopeError> for Problem {
    fn from(unserved: EnvelopeError) -> Self {
        let after = unserved.retry_after();
        let problem = match unserved {
            EnvelopeError::Refused(problem) => return problem,
            EnvelopeError::Transport(Error::Timeout { .. }) => {
                Self::new(ProblemCode::TtlExceeded, "there was no answer in time")
            }
            other => Self::new(ProblemCode::VenueUnreachable, other.to_string()),
        };
        Self { retry_after: after, ..problem }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Egress;

    #[test]
    fn timestamps_rise_however_fast_they_are_asked_for() {
        let client = crate::Client::builder().egress(Egress::public().and_loopback()).build().unwrap();
        let sender = EnvelopeSender::new(
            EnvelopeTransport::from_client(&client),
            Url::parse("http://127.0.0.1:1/a2a/v1").unwrap(),
            "a",
        );
        let (other, mut last) = (sender.clone(), sender.next_timestamp());
        for _ in 0..1000 {
            for moment in [sender.next_timestamp(), other.next_timestamp()] {
                assert!(moment > last && moment.nanos() % 1000 == 0, "{moment} after {last}");
                last = moment;
            }
        }
    }
}
