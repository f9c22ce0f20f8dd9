//! Credentials that are made for one request, at the last moment: signatures over its bytes, tokens that grow old.
//!
//! A transport asks here when a request is complete and about to leave, so that a signature is over exactly what goes
//! out, and asks again for every repetition: nothing that was made for one request is sent with another. What is made
//! goes to the origin of the interface that was chosen, and no redirect is followed with it.

use crate::Error;
use http::{HeaderMap, Method};
use sabir_proto::card::SecurityScheme;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use url::Url;

/// A request that is about to leave, as whoever authorises it sees it.
#[derive(Debug, Clone, Copy)]
pub struct Leaving<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes, without credentials.
    pub url: &'a Url,
    /// Its body, to the byte, and empty where it has none; `None` over gRPC, where bodies cannot be signed.
    pub body: Option<&'a [u8]>,
}

/// Headers in the making.
pub type Proof<'a> = Pin<Box<dyn Future<Output = Result<HeaderMap, Error>> + Send + 'a>>;

/// A credential that is made for each request.
pub trait Authorise: Send + Sync + fmt::Debug {
    /// The headers that authorise this request. What is secret about them, or could be used again, is marked sensitive;
    /// whatever else the request had under these names is replaced.
    fn authorise<'a>(&'a self, request: Leaving<'a>) -> Proof<'a>;

    /// The same headers without anything that is worth something: for rehearsals, which show what would be sent. Values
    /// that are only known later are sensitive.
    fn rehearse(&self) -> HeaderMap;

    /// Whether this is what a scheme of a card asks for.
    fn fits(&self, scheme: &SecurityScheme) -> bool;

    /// Told that these headers were not accepted; true where asking again may give better ones, as of a token that was
    /// taken back before its time.
    fn refused<'a>(&'a self, _: &'a HeaderMap) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(std::future::ready(false))
    }

    /// Whether it is over the bytes of the body, so that it cannot be shown over gRPC.
    fn signs_bodies(&self) -> bool;
}
