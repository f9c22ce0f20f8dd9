//! A well-known document with its cache headers.

use crate::body::{Body, JSON, answer};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, VARY};
use http::{HeaderMap, Response, StatusCode};
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime};

/// How long a client may keep a document without asking again.
const MAX_AGE: &str = "public, max-age=60";

/// The bytes, and the validators by which a client recognises its copy.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    bytes: Bytes,
    /// The opaque part of the tag.
    tag: String,
    strength: TagStrength,
    modified: SystemTime,
}

/// What two documents with the same tag have in common (RFC 9110 §8.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagStrength {
    /// All bytes are equal.
    Strong,
    /// The content is equal.
    Weak,
}

impl Document {
    pub(crate) fn new(bytes: Vec<u8>, modified: SystemTime) -> Self {
        let tag = hash(&bytes, &[]);
        Self { bytes: bytes.into(), tag, strength: TagStrength::Strong, modified: whole_seconds(modified) }
    }

    /// A signed document. Most signatures differ each time they are made, and a restart must not change the tag: it
    /// covers the signed content and the names of the signers.
    pub(crate) fn signed(bytes: Vec<u8>, of: &[u8], signers: &[&str], modified: SystemTime) -> Self {
        let tag = hash(of, signers);
        Self { bytes: bytes.into(), tag, strength: TagStrength::Weak, modified: whole_seconds(modified) }
    }

    pub(crate) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The document, or 304 if the client's copy is current.
    pub(crate) fn respond(&self, request: &HeaderMap, vary: Option<&'static str>) -> Response<Body> {
        let mut response = if self.is_current(request) {
            let mut unchanged = Response::new(Body::Whole(None));
            *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
            unchanged
        } else {
            answer(StatusCode::OK, JSON, self.bytes.clone())
        };
        let headers = response.headers_mut();
        let etag = match self.strength {
            TagStrength::Strong => format!("\"{}\"", self.tag),
            TagStrength::Weak => format!("W/\"{}\"", self.tag),
        };
        let texts = [(ETAG, etag), (LAST_MODIFIED, httpdate::fmt_http_date(self.modified))];
        for (name, text) in texts {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(MAX_AGE));
        if let Some(vary) = vary {
            headers.insert(VARY, HeaderValue::from_static(vary));
        }
        response
    }

    fn is_current(&self, request: &HeaderMap) -> bool {
        // The validator decides where there is one (RFC 9110 §13.2.2); the date is only for clients without.
        if let Some(tags) = request.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok()) {
            let ours = format!("\"{}\"", self.tag);
            return tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == ours);
        }
        let since = request.get(IF_MODIFIED_SINCE).and_then(|v| v.to_str().ok());
        since.and_then(|date| httpdate::parse_http_date(date).ok()).is_some_and(|date| self.modified <= date)
    }
}

fn hash(bytes: &[u8], more: &[&str]) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    for word in more {
        hash.update([0]);
        hash.update(word);
    }
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// A date header has whole seconds, and must equal the time it is compared with.
fn whole_seconds(time: SystemTime) -> SystemTime {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}
