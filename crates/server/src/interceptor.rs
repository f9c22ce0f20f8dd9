//! An interceptor may stand between the sockets and everything that is served.
//!
//! `sabir serve` has none. The demo server has one: it refuses, breaks and alters responses on purpose, so that clients
//! can be tested, and that code must not run for real requests.

use crate::app::App;
use crate::body::Body;
use crate::peer::Peer;
use http::{Request, Response};
use hyper::body::Incoming;
use sabir_engine::BoxFuture;
use sabir_proto::AgentCard;
use std::sync::Arc;

/// Stands before `stack::serve`, and calls it for each request that is to be served.
pub(crate) trait Interceptor: Send + Sync {
    /// Adds to an agent's card the credentials that this interceptor demands, and makes the extended card if there is
    /// one.
    fn extend_card(&self, card: &mut AgentCard) -> Option<AgentCard>;

    /// Responds to one request.
    fn serve(
        self: Arc<Self>,
        app: Arc<App>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> BoxFuture<'static, Response<Body>>;
}
