//! What may stand between the sockets and everything that is served.
//!
//! `sabir serve` has nothing here. The demo server does: it refuses, breaks and bends answers on purpose, so that
//! clients can practise, and none of that belongs on the way of a request that is meant.

use crate::app::App;
use crate::body::Body;
use crate::peer::Peer;
use http::{Request, Response};
use hyper::body::Incoming;
use sabir_engine::BoxFuture;
use sabir_proto::AgentCard;
use std::sync::Arc;

/// Stands before `stack::serve`, which it calls when it wants a request to be served.
pub(crate) trait Front: Send + Sync {
    /// Adds to an agent's card what this front demands of callers, and makes the extended card if there is one.
    fn introduce(&self, card: &mut AgentCard) -> Option<AgentCard>;

    /// Answers one request.
    fn serve(
        self: Arc<Self>,
        app: Arc<App>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> BoxFuture<'static, Response<Body>>;
}
