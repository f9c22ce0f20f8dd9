//! Small documents of strangers: asked for or posted through the same door as calls, and bounded in every direction.
//!
//! This is the way out for whoever needs a key set, a table of a chain or the ear of a webhook, and should not know how
//! connections are made. The address policy and TLS are those of calls. Nothing of ours is shown: no certificate, and no
//! header but those of the request. A redirect is an answer like any other, and it is not followed: whoever sends a
//! secret, or believes what comes back, meant this address.

use crate::door::{As, Door, Outgoing, Timeouts};
use crate::{Egress, Error, Tls};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use std::time::Duration;
use url::Url;

/// What is left of an answer whose body nobody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Its status.
    pub status: StatusCode,
    /// How long it asks us to stay away.
    pub retry_after: Option<Duration>,
}

/// How much of a body that nobody wants is read, so that the connection can be used again; one with more is closed.
const UNWANTED_BYTES_MAX: usize = 64 * 1024;
/// How long that may take: whoever waits for us is told the status meanwhile.
const UNWANTED_TIME_MAX: Duration = Duration::from_millis(250);

/// Exchanges small documents. Cheap to clone, and connections are shared between clones.
#[derive(Clone)]
pub struct Documents {
    door: Door,
}

impl Documents {
    /// A way out under a policy. `patience` is for a whole exchange, from the look-up of the name to the last byte.
    pub fn new(egress: Egress, tls: &Tls, patience: Duration) -> Result<Self, Error> {
        let timeouts = Timeouts { connect: patience, answer: patience, idle: patience, total: Some(patience) };
        // What is exchanged here may be secret, so nobody watches.
        let door = Door::new(egress, &Tls { identity: None, ..tls.clone() }, timeouts, None)?;
        Ok(Self { door })
    }

    /// Sends a request and reads its answer, whatever its status. An answer of more than `bytes_max` bytes, when it is
    /// unpacked, is [`Error::TooLarge`]: half a document is none.
    pub async fn exchange(&self, request: Request<Bytes>, bytes_max: usize) -> Result<Response<Bytes>, Error> {
        let outgoing = outgoing(request)?;
        self.door
            .within(async {
                let answer = self.door.send(outgoing, As::Nobody).await?;
                let (status, headers) = (answer.status, answer.headers.clone());
                let mut response = Response::new(answer.body("the document", bytes_max).await?);
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                Ok(response)
            })
            .await
    }
    /// Sends a request of which only the status of its answer matters. What else comes is thrown away, however much it is
    /// and however it ends: whoever has said that it has the document has said all.
    pub async fn hand_over(&self, request: Request<Bytes>) -> Result<Receipt, Error> {
        let answer = self.door.within(self.door.send(outgoing(request)?, As::Nobody)).await?;
        let receipt = Receipt { status: answer.status, retry_after: answer.retry_after() };
        let unwanted = answer.body("an answer that nobody reads", UNWANTED_BYTES_MAX);
        drop(tokio::time::timeout(UNWANTED_TIME_MAX, unwanted).await);
        Ok(receipt)
    }
}

fn outgoing(request: Request<Bytes>) -> Result<Outgoing, Error> {
    let (head, body) = request.into_parts();
    let url = Url::parse(&head.uri.to_string()).map_err(|e| Error::Usage(format!("not a URL: {e}")))?;
    let body = (!body.is_empty()).then_some(body);
    Ok(Outgoing { method: head.method, url, headers: head.headers, body, secret_query: Vec::new() })
}
