//! One envelope from its arrival to its response: its facts, and its record.

use super::answer::Outcome;
use super::{allow, left, record, too_late};
use crate::app::App;
use crate::body::{Body, JSON, answer};
use crate::host::TokioHost;
use crate::network::{Network, Ticket};
use crate::peer::Peer;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use sabir_engine::Host as _;
use sabir_guard::Identity;
use sabir_guard::authn::agnt::Slot;
use sabir_proto::agnt::{Intent, Problem, ProblemCode};
use sabir_proto::{Object, Timestamp};
use sabir_wire::agnt::{Envelope, Moment, Sketch, TTL_DEFAULT, refuse};
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Marks the result of an earlier envelope.
const REPLAY: HeaderName = HeaderName::from_static("a2a-idempotent-replay");

/// What is known of an envelope so far.
pub(super) struct Visit {
    pub(super) app: Arc<App>,
    pub(super) network: Arc<Network>,
    /// Its number in this process.
    pub(super) number: u64,
    arrived: Instant,
    pub(super) received: Timestamp,
    pub(super) remote: IpAddr,
    pub(super) sketch: Sketch,
    /// When it was sent, according to its sender.
    pub(super) sent: Option<Moment>,
    pub(super) ttl_ms: u64,
    pub(super) key: Option<String>,
    pub(super) tier: Option<String>,
    pub(super) agent_id: Option<String>,
    pub(super) intent: Option<Intent>,
    pub(super) signed: Option<Slot>,
    /// Its payload, after its signature was verified.
    pub(super) payload: Option<Object>,
}

impl Visit {
    pub(super) fn begin(app: &Arc<App>, network: &Arc<Network>, peer: &Peer) -> Self {
        Self {
            app: app.clone(),
            network: network.clone(),
            number: network.passages.number(),
            arrived: Instant::now(),
            received: TokioHost.now(),
            remote: peer.address,
            sketch: Sketch::default(),
            sent: None,
            ttl_ms: TTL_DEFAULT,
            key: None,
            tier: None,
            agent_id: None,
            intent: None,
            signed: None,
            payload: None,
        }
    }

    /// Sets the key of the sender, once it is authenticated.
    pub(super) fn know(&mut self, identity: &Identity) {
        let key = identity.key();
        self.key = key.map(|key| key.id.to_string());
        self.tier = key.and_then(|key| key.terms.tier.clone());
        self.agent_id = match &*identity.senders() {
            [only] => Some((*only).to_owned()),
            _ => None,
        };
    }

    /// Sets the members of the envelope, once it is decoded.
    pub(super) fn read(&mut self, envelope: &Envelope) {
        (self.sketch, self.sent, self.ttl_ms) = (envelope.sketch(), envelope.timestamp, envelope.ttl_ms);
    }

    /// Hands the record to the pending records, so that it is stored in one step with the effect of the envelope.
    pub(super) fn enter(&self) -> Ticket {
        self.network.passages.enter(self.number, self.arrived, record::so_far(self))
    }

    /// The time that is left for the response.
    pub(super) fn left(&self) -> Duration {
        left(self.arrived, self.ttl_ms)
    }

    /// The time since the envelope arrived.
    pub(super) fn took(&self) -> Duration {
        self.arrived.elapsed()
    }

    /// Builds the response, and stores the record.
    pub(super) fn end(self, outcome: Outcome) -> Response<Body> {
        let status = match &outcome.said {
            Ok(_) => StatusCode::OK,
            Err(problem) => http_status(problem),
        };
        self.finish(outcome, status)
    }

    /// Responds with an HTTP status that the problem does not imply.
    pub(super) fn turn_back(self, problem: &Problem, status: StatusCode) -> Response<Body> {
        self.finish(Outcome::refused(problem.clone()), status)
    }

    /// Responds that the time has run out. The background task that finishes the work stores the record.
    pub(super) fn late(self) -> Response<Body> {
        self.network.metrics.undelivered();
        self.respond(&Outcome::refused(too_late()), StatusCode::GATEWAY_TIMEOUT)
    }

    fn finish(self, outcome: Outcome, status: StatusCode) -> Response<Body> {
        self.network.metrics.answered(&self, &outcome);
        self.keep(&outcome, status);
        self.respond(&outcome, status)
    }

    fn keep(&self, outcome: &Outcome, status: StatusCode) {
        // The engine has stored the record together with the effect.
        if !outcome.recorded {
            self.network.record(record::of(self, outcome, status.as_u16()));
        }
    }

    fn respond(&self, outcome: &Outcome, status: StatusCode) -> Response<Body> {
        let body = match &outcome.said {
            Ok(payload) => sabir_wire::agnt::answer(&self.sketch, payload, now()),
            Err(problem) => refuse(&self.sketch, problem, &self.network.id, now()),
        };
        let mut response = answer(status, JSON, body);
        allow(&mut response);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if outcome.replay {
            headers.insert(REPLAY, HeaderValue::from_static("true"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Err(Problem { retry_after: Some(wait), .. }) = &outcome.said {
            // Whole seconds, rounded up, so that the next attempt does not come too early.
            let seconds = u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1);
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// Finishes the work in a background task, which counts and records the final result.
    pub(super) fn leave(&self, work: impl Future<Output = Outcome> + Send + 'static) {
        let behind = self.copy();
        TokioHost.spawn(Box::pin(async move {
            let came_to = work.await;
            let outcome = if came_to.is_first() { came_to } else { Outcome::refused(too_late()) };
            let status = if outcome.said.is_ok() { StatusCode::OK } else { StatusCode::GATEWAY_TIMEOUT };
            behind.network.metrics.answered_late(&behind, &outcome);
            behind.keep(&outcome, status);
        }));
    }

    fn copy(&self) -> Self {
        Self {
            app: self.app.clone(),
            network: self.network.clone(),
            sketch: self.sketch.clone(),
            key: self.key.clone(),
            tier: self.tier.clone(),
            agent_id: self.agent_id.clone(),
            payload: self.payload.clone(),
            ..*self
        }
    }
}

fn http_status(problem: &Problem) -> StatusCode {
    let status = StatusCode::from_u16(problem.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    debug_assert!(status != StatusCode::INTERNAL_SERVER_ERROR || problem.code == ProblemCode::Internal);
    status
}

/// The present time in microseconds.
fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Moment::from_nanos(micros.saturating_mul(1000))
}
