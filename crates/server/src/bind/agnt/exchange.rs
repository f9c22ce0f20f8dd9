//! One envelope from its arrival to its response: its facts, and its record.

use super::answer::EnvelopeOutcome;
use super::{add_allow_header, record, time_left, too_late};
use crate::app::App;
use crate::body::{Body, JSON, answer};
use crate::network::Network;
use crate::peer::Peer;
use crate::tokio_host::TokioHost;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use sabir_engine::Host as _;
use sabir_guard::Identity;
use sabir_guard::authn::agnt::KeySlot;
use sabir_network::{EnvelopeCall, PendingRecord};
use sabir_proto::{CallAttachment, Object, Timestamp};
use sabir_wire::agnt::{
    Envelope, EnvelopeHead, Intent, NanoTimestamp, Problem, ProblemCode, TTL_DEFAULT, write_refusal,
};
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Marks the result of an earlier envelope.
const REPLAY: HeaderName = HeaderName::from_static("a2a-idempotent-replay");

/// What is known of an envelope so far.
pub(super) struct EnvelopeExchange {
    pub(super) app: Arc<App>,
    pub(super) network: Arc<Network>,
    arrived: Instant,
    pub(super) received: Timestamp,
    pub(super) remote: IpAddr,
    pub(super) sketch: EnvelopeHead,
    /// When it was sent, according to its sender.
    pub(super) sent: Option<NanoTimestamp>,
    pub(super) ttl_ms: u64,
    pub(super) key: Option<String>,
    pub(super) tier: Option<String>,
    pub(super) intent: Option<Intent>,
    pub(super) signed: Option<KeySlot>,
    /// Its payload, after its signature was verified.
    pub(super) payload: Option<Object>,
}

impl EnvelopeExchange {
    pub(super) fn begin(app: &Arc<App>, network: &Arc<Network>, peer: &Peer) -> Self {
        Self {
            app: app.clone(),
            network: network.clone(),
            arrived: Instant::now(),
            received: TokioHost.now(),
            remote: peer.address,
            sketch: EnvelopeHead::default(),
            sent: None,
            ttl_ms: TTL_DEFAULT,
            key: None,
            tier: None,
            intent: None,
            signed: None,
            payload: None,
        }
    }

    /// Sets the key of the sender, once it is authenticated.
    pub(super) fn set_identity(&mut self, identity: &Identity) {
        let key = identity.key();
        self.key = key.map(|key| key.id.to_string());
        self.tier = key.and_then(|key| key.terms.tier.clone());
    }

    /// Sets the members of the envelope, once it is decoded.
    pub(super) fn set_envelope(&mut self, envelope: &Envelope) {
        (self.sketch, self.sent, self.ttl_ms) = (envelope.head(), envelope.timestamp, envelope.ttl_ms);
    }

    /// What the agent learns beside the message. The record of an envelope with an effect is in it, so that the agent
    /// commits both in one step.
    pub(super) fn attachment(&self, envelope: &Envelope, intent: Intent) -> CallAttachment {
        let record = || PendingRecord::new(self.arrived, record::partial_record(self));
        CallAttachment::new(EnvelopeCall {
            from: envelope.from.clone(),
            correlation_id: record::correlation_id(&envelope.context),
            timestamp: envelope.timestamp,
            time_max: self.time_left(),
            via: envelope.via.clone(),
            record: if intent.has_effect() { record() } else { PendingRecord::default() },
        })
    }

    /// The time that is left for the response.
    pub(super) fn time_left(&self) -> Duration {
        time_left(self.arrived, self.ttl_ms)
    }

    /// The time since the envelope arrived.
    pub(super) fn elapsed(&self) -> Duration {
        self.arrived.elapsed()
    }

    /// Builds the response, and stores the record.
    pub(super) fn complete(self, outcome: EnvelopeOutcome) -> Response<Body> {
        let status = match &outcome.result {
            Ok(_) => StatusCode::OK,
            Err(problem) => http_status(problem),
        };
        self.finish(outcome, status)
    }

    /// Responds with an HTTP status that the problem does not imply.
    pub(super) fn complete_with_status(self, problem: &Problem, status: StatusCode) -> Response<Body> {
        self.finish(EnvelopeOutcome::refused(problem.clone()), status)
    }

    /// Responds that the time has run out. The background task that finishes the work stores the record.
    pub(super) fn complete_late(self) -> Response<Body> {
        self.network.metrics.undelivered();
        self.respond(&EnvelopeOutcome::refused(too_late()), StatusCode::GATEWAY_TIMEOUT)
    }

    fn finish(self, outcome: EnvelopeOutcome, status: StatusCode) -> Response<Body> {
        self.network.metrics.answered(&self, &outcome);
        self.store_record(&outcome, status);
        self.respond(&outcome, status)
    }

    fn store_record(&self, outcome: &EnvelopeOutcome, status: StatusCode) {
        // The engine has stored the record together with the effect.
        if !outcome.recorded {
            self.network.record(record::complete_record(self, outcome, status.as_u16()));
        }
    }

    fn respond(&self, outcome: &EnvelopeOutcome, status: StatusCode) -> Response<Body> {
        let body = match &outcome.result {
            Ok(payload) => sabir_wire::agnt::write_answer(&self.sketch, payload, now()),
            Err(problem) => write_refusal(&self.sketch, problem, &self.network.id, now()),
        };
        let mut response = answer(status, JSON, body);
        add_allow_header(&mut response);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if outcome.replay {
            headers.insert(REPLAY, HeaderValue::from_static("true"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Err(Problem { retry_after: Some(wait), .. }) = &outcome.result {
            // Whole seconds, rounded up, so that the next attempt does not come too early.
            let seconds = u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1);
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// Finishes the work in a background task, which counts and records the final result.
    pub(super) fn finish_in_background(&self, work: impl Future<Output = EnvelopeOutcome> + Send + 'static) {
        let behind = self.copy();
        self.app.tasks.spawn_work(async move {
            let came_to = work.await;
            let outcome = if came_to.is_first() { came_to } else { EnvelopeOutcome::refused(too_late()) };
            let status = if outcome.result.is_ok() { StatusCode::OK } else { StatusCode::GATEWAY_TIMEOUT };
            behind.network.metrics.answered_late(&behind, &outcome);
            behind.store_record(&outcome, status);
        });
    }

    fn copy(&self) -> Self {
        Self {
            app: self.app.clone(),
            network: self.network.clone(),
            sketch: self.sketch.clone(),
            key: self.key.clone(),
            tier: self.tier.clone(),
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
fn now() -> NanoTimestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    NanoTimestamp::from_nanos(micros.saturating_mul(1000))
}
