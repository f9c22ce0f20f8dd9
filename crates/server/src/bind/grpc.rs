//! gRPC.

use crate::app::App;
use crate::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use std::sync::Arc;

pub(crate) async fn serve(_app: &Arc<App>, _request: Request<Incoming>) -> Response<Body> {
    crate::body::answer(StatusCode::NOT_IMPLEMENTED, crate::body::TEXT, "")
}
