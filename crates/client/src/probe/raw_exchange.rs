//! Raw requests and answers of an agent.

use crate::http_client::IncomingResponse;
use crate::{Agent, Error, RequestPreview};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::time::{Duration, Instant};
use url::Url;

/// An answer of an agent whose body has not been read.
pub struct RawResponse {
    /// The HTTP status of the answer.
    pub status: StatusCode,
    /// The headers of the answer.
    pub headers: HeaderMap,
    /// The time until the head arrived.
    pub elapsed: Duration,
    answer: IncomingResponse,
}

impl Agent {
    /// Sends a prepared request over HTTP, with the credentials of this agent and without retries.
    pub async fn send_raw(&self, written: RequestPreview) -> Result<RawResponse, Error> {
        let RequestPreview { method, url, mut headers, body, .. } = written;
        let at: Url = url.parse().map_err(|e| Error::Usage(format!("{url} is not a URL: {e}")))?;
        // The credentials of this agent are only for this agent.
        if at.origin() != self.chosen_interface().url.origin() {
            return Err(Error::Usage(format!("{url} is not at the agent's own origin")));
        }
        let body = body.map(Bytes::from);
        let begun = Instant::now();
        let mut answer = match &body {
            // Tries the fallback URLs, where the endpoint may be at one of several paths.
            Some(body) if at == self.chosen_interface().url => {
                self.transport().post(headers.clone(), body.clone()).await?
            }
            _ => self.transport().request(method.clone(), at.clone(), headers.clone(), body.clone()).await?,
        };
        // Servers of 1.0.0 may know only the older media type.
        if answer.status == StatusCode::UNSUPPORTED_MEDIA_TYPE && body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            answer = self.transport().request(method, at, headers, body).await?;
        }
        let (status, headers) = (answer.status, answer.headers.clone());
        Ok(RawResponse { status, headers, elapsed: begun.elapsed(), answer })
    }
}

impl RawResponse {
    /// The media type of the body, in lower case and without parameters; empty if it has none.
    pub fn media_type(&self) -> String {
        self.answer.media_type()
    }

    /// Reads the whole body of the answer.
    pub async fn body(self, limit: usize) -> Result<Bytes, Error> {
        self.answer.body("the answer", limit).await
    }

    /// Reads the next piece; `None` at the end. Silence beyond the patience is [`Error::Timeout`], a broken connection
    /// [`Error::Unreachable`].
    pub async fn next_chunk(&mut self, patience: Duration) -> Result<Option<Bytes>, Error> {
        self.answer.chunk(patience).await
    }
}
