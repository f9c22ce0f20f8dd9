//! Admits a gRPC request before its message is decoded.
//!
//! ```text
//! collect (no longer than announced, no longer than allowed) → tenant → authenticate, rate → count members → decode
//! ```
//!
//! A message of 16 MiB can become a gigabyte when it is decoded. So nothing is decoded for a caller that presents no
//! credential, and no message with more members than allowed. The tenant inside the message selects the agent whose
//! rules apply; a walk over the encoded message finds it without decoding.

use super::GrpcPackage;
use crate::app::App;
use crate::bind::RequestHead;
use crate::incoming_body::{BodyLimits, IncomingBody, ReceiveError};
use crate::peer::Peer;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sabir_gateway::{Capacity, CapacityShare};
use sabir_guard::Admitted;
use sabir_proto::Fault;
use sabir_wire::wire_format::{MemberCount, RequestShape, WalkError};
use std::time::Instant;

/// The prefix of a message: whether it is compressed, and its length.
const FRAME_BYTES: usize = 5;
/// Copies of a message's bytes that exist while it is decoded: as received, in the decoder's buffer, and decoded.
const COPIES: usize = 3;
/// The bytes that a member costs besides its content: the largest generated struct, in a list that grew by doubling.
const MEMBER_BYTES: usize = 256;

/// A caller whose message may be decoded.
pub(super) struct Admission {
    pub(super) started: Instant,
    /// `None` for the method that gives the public card.
    pub(super) admitted: Option<Admitted>,
    /// The share of the budget that the message holds until it is decoded.
    pub(super) share: CapacityShare,
}

impl Admission {
    /// For a method that runs without an admission; no method does.
    pub(super) fn none(app: &App) -> Self {
        Self { started: Instant::now(), admitted: None, share: app.inflight.share() }
    }
}

/// Receives one message, authenticates its caller, and reserves the cost of decoding it. Returns the message in its
/// frame.
pub(super) async fn admit(
    app: &App,
    package: GrpcPackage,
    parts: &Parts,
    body: Incoming,
    peer: &Peer,
) -> Result<(Bytes, Admission), tonic::Status> {
    let most = app.limits.body_bytes_max;
    let bounds = BodyLimits { bytes_max: most.saturating_add(FRAME_BYTES), time_max: app.body_time_max };
    let mut arriving = IncomingBody::new(body, &app.inflight, bounds);
    let collected = collect(&mut arriving, most).await;
    let framed = collected.map_err(|trouble| package.receive_error(app, trouble))?;
    let mut admission = Admission { started: Instant::now(), admitted: None, share: arriving.into_share() };
    // The generated service refuses a path that is no method, and reads no body.
    let Some(shape) = RequestShape::of_path(parts.uri.path()) else { return Ok((framed, admission)) };
    // It refuses a compressed message too.
    let message = framed.get(FRAME_BYTES..).filter(|_| framed[0] == 0).unwrap_or_default();
    let checked = async {
        let tenant = shape.tenant(message);
        if !is_public_method(app, package, parts.uri.path()) {
            let head = RequestHead { uri: &parts.uri, headers: &parts.headers, peer };
            let served = app.agent(tenant.unwrap_or_default());
            admission.admitted = Some(app.admit(served.as_ref(), &head.evidence(app, None)).await?);
        }
        tenant.map_err(refuse)?;
        let members_max = MemberCount { parts: app.limits.parts_max, all: app.limits.grpc_members_max };
        let members = shape.count_members(message, members_max).map_err(refuse)?;
        Ok(message.len() * COPIES + members.all * MEMBER_BYTES)
    };
    let cost = checked.await.map_err(|fault: Fault| {
        app.metrics.request("unknown", package.name(), Err(&fault), admission.started.elapsed());
        package.refuse(&fault)
    })?;
    // A single message always fits, whatever it costs.
    if !admission.share.hold(cost.min(Capacity::for_large(app.limits.inflight_bytes_max))) {
        return Err(package.receive_error(app, ReceiveError::Crowded));
    }
    Ok((framed, admission))
}

/// Whether a method is answered without authentication: the card method of 0.3, if there is only a public card.
fn is_public_method(app: &App, package: GrpcPackage, path: &str) -> bool {
    matches!(package, GrpcPackage::V03)
        && path.ends_with("/GetAgentCard")
        && app.default_agent().is_some_and(|served| served.card.capabilities.extended_agent_card != Some(true))
}

fn refuse(error: WalkError) -> Fault {
    match error {
        WalkError::Malformed => Fault::invalid("message", error.to_string()),
        WalkError::Parts(most) => Fault::invalid("message.parts", format!("{error}, the limit (parts_max = {most})")),
        WalkError::Members(most) => Fault::invalid(
            "message",
            format!("{error}, the limit (grpc_members_max = {most}); send large data as the bytes of a file"),
        ),
    }
}

/// Receives one message in its frame. A length over the limit is refused as soon as it is announced.
async fn collect(arriving: &mut IncomingBody, most: usize) -> Result<Bytes, ReceiveError> {
    let mut collected = MessageBytes::default();
    while let Some(frame) = arriving.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        collected.push(data);
        if let Some(announced) = announced_length(collected.bytes())
            && (announced > most || collected.bytes().len() > announced + FRAME_BYTES)
        {
            return Err(ReceiveError::TooLarge);
        }
    }
    Ok(collected.finish())
}

/// The length that the frame announces.
fn announced_length(framed: &[u8]) -> Option<usize> {
    let length = framed.get(1..FRAME_BYTES)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(length)).ok()
}

/// The received bytes. A message that arrives in one piece, as nearly all do, is not copied.
#[derive(Default)]
struct MessageBytes {
    first: Bytes,
    joined: Option<BytesMut>,
}

impl MessageBytes {
    fn push(&mut self, data: Bytes) {
        match &mut self.joined {
            Some(joined) => joined.extend_from_slice(&data),
            None if self.first.is_empty() => self.first = data,
            None => {
                let mut joined = BytesMut::from(&*std::mem::take(&mut self.first));
                joined.extend_from_slice(&data);
                self.joined = Some(joined);
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.joined.as_deref().unwrap_or(&self.first)
    }

    fn finish(self) -> Bytes {
        self.joined.map_or(self.first, BytesMut::freeze)
    }
}
