//! Exchanges small documents with untrusted servers over the same HTTP client as calls, with a bound on size and time.
//!
//! For callers that need a key set, a table of a chain or a webhook delivery, and not an agent. The address policy and
//! TLS are those of calls. No certificate of ours is sent, and no header but those of the request. A redirect is
//! returned as an answer and not followed: a caller that sends a secret, or trusts the answer, meant this address.

use crate::http_client::{ConnectionPool, HttpClient, OutgoingRequest, Timeouts};
use crate::{Egress, Error, Tls};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use std::pin::pin;
use std::time::Duration;
use url::Url;

/// The part of an answer that is kept when the caller does not want the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// The HTTP status of the answer.
    pub status: StatusCode,
    /// The `Retry-After` delay, if the server sent one.
    pub retry_after: Option<Duration>,
}

/// The bytes of an unwanted body that are read, so that the connection can be reused; a longer body closes it.
const UNWANTED_BYTES_MAX: usize = 64 * 1024;
/// The time that reading an unwanted body may take; the caller waits for the status meanwhile.
const UNWANTED_TIME_MAX: Duration = Duration::from_millis(250);

/// Exchanges small documents. Cheap to clone, and connections are shared between clones.
#[derive(Clone)]
pub struct DocumentClient {
    http_client: HttpClient,
}

impl DocumentClient {
    /// A client under an address policy. `patience` limits a whole exchange, from the name look-up to the last byte.
    pub fn new(egress: Egress, tls: &Tls, patience: Duration) -> Result<Self, Error> {
        let timeouts = Timeouts { connect: patience, answer: patience, idle: patience, total: Some(patience) };
        // The documents may be secret, so there is no observer.
        let http_client = HttpClient::new(egress, &Tls { identity: None, ..tls.clone() }, timeouts, None)?;
        Ok(Self { http_client })
    }

    /// Sends a request and reads its answer, whatever its status. An answer of more than `bytes_max` bytes, when it is
    /// unpacked, is [`Error::TooLarge`]: a truncated document is of no use.
    pub async fn exchange(&self, request: Request<Bytes>, bytes_max: usize) -> Result<Response<Bytes>, Error> {
        let outgoing = outgoing(request)?;
        let exchanged = pin!(async {
            let answer = self.http_client.send(outgoing, ConnectionPool::Other).await?;
            let (status, headers) = (answer.status, answer.headers.clone());
            let mut response = Response::new(answer.body("the document", bytes_max).await?);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        });
        self.http_client.with_total_timeout(exchanged).await
    }
    /// Sends a request of which only the status of the answer matters. The body is discarded, whatever its size and
    /// however it ends: a server that answers with a status has received the document.
    pub async fn send_for_status(&self, request: Request<Bytes>) -> Result<ResponseHead, Error> {
        let sent = pin!(self.http_client.send(outgoing(request)?, ConnectionPool::Other));
        let answer = self.http_client.with_total_timeout(sent).await?;
        let receipt = ResponseHead { status: answer.status, retry_after: answer.retry_after() };
        let unwanted = answer.body("an answer that is not read", UNWANTED_BYTES_MAX);
        drop(tokio::time::timeout(UNWANTED_TIME_MAX, unwanted).await);
        Ok(receipt)
    }
}

fn outgoing(request: Request<Bytes>) -> Result<OutgoingRequest, Error> {
    let (head, body) = request.into_parts();
    let url = Url::parse(&head.uri.to_string()).map_err(|e| Error::Usage(format!("not a URL: {e}")))?;
    let body = (!body.is_empty()).then_some(body);
    Ok(OutgoingRequest { method: head.method, url, headers: head.headers, body, secret_query: Vec::new() })
}
