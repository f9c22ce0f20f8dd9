//! Request bodies on their way in: the limits of size, of time, and of all bodies together.
//!
//! A caller can send a body before it is authenticated, so all such bodies share one budget. Bytes are counted as they
//! arrive, whatever length was declared, and released when the request is decoded or dropped.

use crate::app::App;
use crate::body::{self, RETRY_AFTER_SECONDS};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sabir_gateway::{Capacity, CapacityShare};
use sabir_proto::Fault;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// A complete body, counted until it is decoded.
#[derive(Debug)]
pub(crate) struct ReceivedBody {
    pub(crate) body: Bytes,
    pub(crate) share: CapacityShare,
}

/// Why a body was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error("the body is too large")]
    TooLarge,
    #[error("the body took too long to arrive")]
    TimedOut,
    #[error("too much is on its way at present; try again")]
    Crowded,
    #[error("the body broke off: {0}")]
    Broken(#[from] hyper::Error),
}

/// The limits of one body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(crate) bytes_max: usize,
    pub(crate) time_max: Duration,
}

/// A body that is being received.
#[derive(Debug)]
pub(crate) struct IncomingBody {
    body: Incoming,
    share: CapacityShare,
    limits: BodyLimits,
    /// The timeout; set when the body has to be waited for the first time.
    timeout: Option<Pin<Box<Sleep>>>,
}

impl IncomingBody {
    pub(crate) fn new(body: Incoming, room: &Capacity, limits: BodyLimits) -> Self {
        Self { body, share: room.share(), limits, timeout: None }
    }

    /// Its share of the budget.
    pub(crate) fn into_share(self) -> CapacityShare {
        self.share
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = ReceiveError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ReceiveError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(if !this.share.add(bytes) {
                    Err(ReceiveError::Crowded)
                } else if this.share.bytes() > this.limits.bytes_max {
                    Err(ReceiveError::TooLarge)
                } else {
                    Ok(frame)
                }))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                // A small body arrives together with its head; no timer is set for it.
                let time_max = this.limits.time_max;
                let late = this.timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(time_max)));
                late.as_mut().poll(cx).map(|()| Some(Err(ReceiveError::TimedOut)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that was refused: the status and the fault for its sender.
pub(crate) struct RejectedBody {
    pub(crate) status: StatusCode,
    pub(crate) fault: Fault,
}

impl RejectedBody {
    /// The response in the form of a binding.
    pub(crate) fn into_response(
        self,
        refuse: impl FnOnce(StatusCode, &Fault) -> Response<body::Body>,
    ) -> Response<body::Body> {
        let mut response = refuse(self.status, &self.fault);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
        }
        response
    }
}

/// Reads the body within the limits of its size, its time, and all bodies together.
pub(crate) async fn collect(
    app: &App,
    headers: &http::HeaderMap,
    body: Incoming,
    most: usize,
) -> Result<ReceivedBody, RejectedBody> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<usize>().ok());
    let read = if declared.is_some_and(|n| n > most) {
        Err(ReceiveError::TooLarge)
    } else {
        let bounds = BodyLimits { bytes_max: most, time_max: app.body_time_max };
        let mut arriving = IncomingBody::new(body, &app.inflight, bounds);
        Box::pin(async move {
            let body = (&mut arriving).collect().await?.to_bytes();
            Ok(ReceivedBody { body, share: arriving.into_share() })
        })
        .await
    };
    read.map_err(|trouble| {
        let (status, fault) = match trouble {
            ReceiveError::TooLarge => {
                let problem = format!("the body is over the limit of {most} bytes (body_bytes_max)");
                (StatusCode::PAYLOAD_TOO_LARGE, Fault::InvalidRequest(problem))
            }
            ReceiveError::TimedOut => (StatusCode::REQUEST_TIMEOUT, Fault::InvalidRequest(trouble.to_string())),
            ReceiveError::Crowded => {
                app.metrics.shed();
                (StatusCode::SERVICE_UNAVAILABLE, Fault::Unavailable(trouble.to_string()))
            }
            // The client cannot read this response any more; it is made in any case.
            ReceiveError::Broken(_) => (StatusCode::BAD_REQUEST, Fault::InvalidRequest(trouble.to_string())),
        };
        RejectedBody { status, fault }
    })
}
