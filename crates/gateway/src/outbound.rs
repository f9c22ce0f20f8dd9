//! Fetches documents for the guard: its [`Fetch`], over the HTTP client.
//!
//! The guard says what it wants; this module decides how it is requested. A request carries nothing that says who we
//! are, goes only where the policy allows, and has a few seconds in all, because a caller waits for it.

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use sabir_client::{Documents, Egress, Error, Tls};
use sabir_guard::fetch::{self, Answer, Fetch, FetchFault, Method};
use std::time::Duration;

/// How long one document may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Fetches for the guard. Cheap to clone, and connections are shared between clones.
#[derive(Clone)]
pub struct Outbound {
    documents: Documents,
}

impl Outbound {
    /// A fetcher under an address policy, with the machine's own trust in certificates and [`PATIENCE`].
    pub fn new(egress: Egress) -> Result<Self, Error> {
        Self::with(egress, &Tls::default(), PATIENCE)
    }

    /// A fetcher with other certificates to trust and another time limit. A client certificate is not shown.
    pub fn with(egress: Egress, tls: &Tls, patience: Duration) -> Result<Self, Error> {
        Ok(Self { documents: Documents::new(egress, tls, patience)? })
    }
}

impl Fetch for Outbound {
    async fn fetch(&self, request: fetch::Request) -> Result<Answer, FetchFault> {
        let bytes_max = request.bytes_max;
        let answer = self.documents.exchange(write(request)?, bytes_max).await.map_err(fault)?;
        Ok(Answer { status: answer.status().as_u16(), body: answer.into_body() })
    }
}

fn write(request: fetch::Request) -> Result<Request<Bytes>, FetchFault> {
    let head = Request::builder().uri(request.url.as_str()).header(header::ACCEPT, "application/json");
    let written = match request.method {
        Method::Get => head.body(Bytes::new()),
        Method::Post { content_type, body } => head
            .method(http::Method::POST)
            .header(header::CONTENT_TYPE, HeaderValue::from_static(content_type))
            .body(Bytes::from(body)),
    };
    // The address may hold a key, as those of chains often do.
    written.map_err(|_| FetchFault::Failed("the address cannot be called".into()))
}

/// The client names hosts in its errors, and never the rest of an address.
fn fault(error: Error) -> FetchFault {
    match error {
        Error::TooLarge { .. } => FetchFault::TooLong,
        Error::Timeout { .. } => FetchFault::Timeout,
        other => FetchFault::Failed(other.to_string()),
    }
}
