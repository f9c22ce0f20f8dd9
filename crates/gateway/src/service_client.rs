//! Calls HTTP services that are no agents, in their own protocols: payment processors, billers, chains.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, header};
use sabir_client::{DocumentClient, Egress, Error, Tls};
use sabir_proto::Secret;
use std::time::Duration;
use url::Url;

/// The longest answer, in bytes; a longer one is an error.
pub const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// A request to a service.
#[derive(Debug, Clone)]
pub struct ServiceRequest {
    /// The URL of the service.
    pub url: Url,
    /// Headers besides those that every request has. Any of them may be a secret.
    pub headers: Vec<(&'static str, Secret)>,
    /// The content type and the body of a POST; `None` for a GET.
    pub post: Option<(&'static str, String)>,
}

/// The answer of a service, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceResponse {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The wait that the service asks for, if any.
    pub retry_after: Option<Duration>,
    /// The body of the answer.
    pub body: Bytes,
}

/// Sends requests to services, under the address policy. Cheap to clone.
#[derive(Clone)]
pub struct ServiceClient {
    documents: DocumentClient,
}

impl std::fmt::Debug for ServiceClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Errands").finish_non_exhaustive()
    }
}

impl ServiceClient {
    /// A client under an address policy; `patience` is for a whole exchange.
    pub fn new(egress: Egress, tls: &Tls, patience: Duration) -> Result<Self, Error> {
        Ok(Self { documents: DocumentClient::new(egress, tls, patience)? })
    }

    /// Sends a request and returns the answer. After an error it is not known whether the request arrived.
    pub async fn send(&self, errand: ServiceRequest) -> Result<ServiceResponse, Error> {
        let mut request = Request::builder().uri(errand.url.as_str()).header(header::ACCEPT, "application/json");
        for (name, value) in &errand.headers {
            let unfit = |_| Error::Usage(format!("{name} cannot be sent as a header"));
            let mut text = HeaderValue::from_str(value.expose()).map_err(unfit)?;
            text.set_sensitive(true);
            request = request.header(HeaderName::from_static(name), text);
        }
        let request = match errand.post {
            Some((content_type, body)) => request
                .method(http::Method::POST)
                .header(header::CONTENT_TYPE, HeaderValue::from_static(content_type))
                .body(Bytes::from(body)),
            None => request.body(Bytes::new()),
        };
        // The address may hold a key, as those of chains often do.
        let request = request.map_err(|_| Error::Usage("the address cannot be called".into()))?;
        let answer = self.documents.exchange(request, RESPONSE_BYTES_MAX).await?;
        let wait = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let retry_after = wait.map(Duration::from_secs);
        Ok(ServiceResponse { status: answer.status().as_u16(), retry_after, body: answer.into_body() })
    }
}
