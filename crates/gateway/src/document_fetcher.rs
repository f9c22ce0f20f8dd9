//! Fetches documents for the guard: its [`Fetch`], over the HTTP client.
//!
//! The guard says what it wants; this module decides how it is requested. A request carries nothing that says who we
//! are, goes only where the policy allows, and has a few seconds in all, because a caller waits for it.

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use sabir_client::{DocumentClient, Egress, Error, Tls};
use sabir_guard::fetch::{self, Fetch, FetchFault, FetchMethod, FetchResponse};
use std::time::Duration;

/// How long one document may take.
pub const FETCH_TIME_MAX: Duration = Duration::from_secs(5);

/// Fetches for the guard. Cheap to clone, and connections are shared between clones.
#[derive(Clone)]
pub struct DocumentFetcher {
    documents: DocumentClient,
}

impl DocumentFetcher {
    /// A fetcher under an address policy, with the machine's own trust in certificates and [`FETCH_TIME_MAX`].
    pub fn new(egress: Egress) -> Result<Self, Error> {
        Self::with_timeout(egress, &Tls::default(), FETCH_TIME_MAX)
    }

    /// A fetcher with other certificates to trust and another time limit. A client certificate is not shown.
    pub fn with_timeout(egress: Egress, tls: &Tls, patience: Duration) -> Result<Self, Error> {
        Ok(Self { documents: DocumentClient::new(egress, tls, patience)? })
    }
}

impl Fetch for DocumentFetcher {
    async fn fetch(&self, request: fetch::FetchRequest) -> Result<FetchResponse, FetchFault> {
        let bytes_max = request.bytes_max;
        let answer = self.documents.exchange(http_request(request)?, bytes_max).await.map_err(fetch_fault)?;
        Ok(FetchResponse { status: answer.status().as_u16(), body: answer.into_body() })
    }
}

fn http_request(request: fetch::FetchRequest) -> Result<Request<Bytes>, FetchFault> {
    let head = Request::builder().uri(request.url.as_str()).header(header::ACCEPT, "application/json");
    let written = match request.method {
        FetchMethod::Get => head.body(Bytes::new()),
        FetchMethod::Post { content_type, body } => head
            .method(http::Method::POST)
            .header(header::CONTENT_TYPE, HeaderValue::from_static(content_type))
            .body(Bytes::from(body)),
    };
    // The address may hold a key, as those of chains often do.
    written.map_err(|_| FetchFault::Failed("the address cannot be called".into()))
}

/// The client names hosts in its errors, and never the rest of an address.
fn fetch_fault(error: Error) -> FetchFault {
    match error {
        Error::TooLarge { .. } => FetchFault::TooLong,
        Error::Timeout { .. } => FetchFault::Timeout,
        other => FetchFault::Failed(other.to_string()),
    }
}
