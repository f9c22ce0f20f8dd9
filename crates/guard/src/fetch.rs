//! The HTTP client interface: small documents, which the server fetches for the guard.

use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use url::Url;

/// A request for a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// The URL of the document.
    pub url: Url,
    /// The method, with the body of a POST.
    pub method: FetchMethod,
    /// The longest accepted answer, in bytes. A longer one is a fault, not a shorter document.
    pub bytes_max: usize,
}

/// The HTTP method of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchMethod {
    /// By `GET`.
    Get,
    /// By `POST`, with a body.
    Post {
        /// The `Content-Type`.
        content_type: &'static str,
        /// The body.
        body: Vec<u8>,
    },
}

/// An answer, whatever its status: some peers put their answer into a 500.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The body, no longer than was asked for.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchFault {
    /// Longer than [`FetchRequest::bytes_max`].
    #[error("the answer is too long")]
    TooLong,
    /// Not in time.
    #[error("no answer in time")]
    Timeout,
    /// Anything else, in words without secrets.
    #[error("{0}")]
    Failed(String),
}

/// Fetches documents.
///
/// An implementation applies the usual rules for outgoing requests (which addresses, TLS, proxies), follows no
/// redirect, sends no credential, and gives up after a few seconds: callers wait for the answer.
pub trait Fetch: Send + Sync {
    /// Fetches one document.
    fn fetch(&self, request: FetchRequest) -> impl Future<Output = Result<FetchResponse, FetchFault>> + Send;
}

impl<F: Fetch> Fetch for Arc<F> {
    fn fetch(&self, request: FetchRequest) -> impl Future<Output = Result<FetchResponse, FetchFault>> + Send {
        (**self).fetch(request)
    }
}

/// Fetches, and checks the limit again.
pub(crate) async fn fetch_bounded(fetch: &impl Fetch, request: FetchRequest) -> Result<FetchResponse, FetchFault> {
    let bytes_max = request.bytes_max;
    let answer = fetch.fetch(request).await?;
    if answer.body.len() > bytes_max { Err(FetchFault::TooLong) } else { Ok(answer) }
}

#[cfg(test)]
pub(crate) mod fakes {
    use super::*;
    use std::sync::Mutex;

    type Respond = dyn Fn(&FetchRequest) -> Result<FetchResponse, FetchFault> + Send + Sync;

    /// Answers with a function, records the requests, and yields once so that other tasks get a turn in between.
    pub(crate) struct FakeFetch {
        respond: Mutex<Box<Respond>>,
        pub(crate) requests: Mutex<Vec<FetchRequest>>,
    }

    impl FakeFetch {
        pub(crate) fn new(
            respond: impl Fn(&FetchRequest) -> Result<FetchResponse, FetchFault> + Send + Sync + 'static,
        ) -> Arc<Self> {
            Arc::new(Self { respond: Mutex::new(Box::new(respond)), requests: Mutex::default() })
        }

        pub(crate) fn respond_with(
            &self,
            respond: impl Fn(&FetchRequest) -> Result<FetchResponse, FetchFault> + Send + Sync + 'static,
        ) {
            *self.respond.lock().unwrap() = Box::new(respond);
        }

        pub(crate) fn request_count(&self) -> usize {
            self.requests.lock().unwrap().len()
        }
    }

    impl Fetch for FakeFetch {
        async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchFault> {
            self.requests.lock().unwrap().push(request.clone());
            tokio::task::yield_now().await;
            (self.respond.lock().unwrap())(&request)
        }
    }

    pub(crate) fn answer(status: u16, body: impl Into<Vec<u8>>) -> Result<FetchResponse, FetchFault> {
        Ok(FetchResponse { status, body: Bytes::from(body.into()) })
    }
}
