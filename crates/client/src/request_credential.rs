//! Credentials that are made for each request, just before it is sent: signatures over its bytes, and short-lived
//! tokens.
//!
//! A transport calls this when a request is complete, so a signature covers exactly the bytes sent. It calls again for
//! every retry: headers made for one request are never sent with another. They go only to the origin of the chosen
//! interface, and the client follows no redirect with them.

use crate::Error;
use http::{HeaderMap, Method};
use sabir_proto::card::SecurityScheme;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use url::Url;

/// A request that is about to be sent, as [`RequestCredential`] sees it.
#[derive(Debug, Clone, Copy)]
pub struct UnsentRequest<'a> {
    /// The HTTP method; `POST` for gRPC.
    pub method: &'a Method,
    /// The URL of the request, without credentials.
    pub url: &'a Url,
    /// The exact bytes of the body, empty where there is none; `None` over gRPC, where bodies cannot be signed.
    pub body: Option<&'a [u8]>,
}

/// The future of the headers that authorise one request.
pub type AuthHeadersFuture<'a> = Pin<Box<dyn Future<Output = Result<HeaderMap, Error>> + Send + 'a>>;

/// A credential that is made for each request.
pub trait RequestCredential: Send + Sync + fmt::Debug {
    /// The headers that authorise this request. Secret or reusable values are marked sensitive. They replace all other
    /// headers of the same names.
    fn authorise<'a>(&'a self, request: UnsentRequest<'a>) -> AuthHeadersFuture<'a>;

    /// The same headers without secret values, for a dry run that shows what would be sent. Values that are only known
    /// when sending are marked sensitive.
    fn preview(&self) -> HeaderMap;

    /// Whether this credential satisfies a security scheme of a card.
    fn satisfies(&self, scheme: &SecurityScheme) -> bool;

    /// Called when the agent did not accept these headers. Returns true where calling [`RequestCredential::authorise`] again
    /// may give better ones, for instance after a token was revoked early.
    fn on_rejected<'a>(&'a self, _: &'a HeaderMap) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(std::future::ready(false))
    }

    /// Whether the credential is a signature over the body, which cannot be sent over gRPC.
    fn signs_bodies(&self) -> bool;
}
