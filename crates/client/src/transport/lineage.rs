//! The lineage header, which repeats the lineage of a message.
//!
//! The lineage of a task is in the metadata of its messages, and proxies may drop metadata and keep headers. So the
//! same claim is also sent in a header, if it fits.

use http::{HeaderMap, HeaderName, HeaderValue};
use sabir_proto::{Call, LINEAGE, LINEAGE_HEADER};
use serde_json::value::RawValue;

/// The longest header value in bytes; servers accept several times that for all headers.
const BYTES_MAX: usize = 2048;

/// Adds the lineage of a message, if it has one, to the headers of its request.
pub(super) fn add_lineage_header(call: &Call, headers: &mut HeaderMap) {
    let (Call::Send(send) | Call::Stream(send)) = call else { return };
    let metadata = send.message.metadata.as_ref().filter(|metadata| metadata.as_str().contains(LINEAGE));
    let claim = metadata.and_then(|metadata| metadata.member::<&RawValue>(LINEAGE)).map(RawValue::get);
    // A claim with other than ASCII characters stays in the metadata only.
    let claim = claim.filter(|claim| claim.len() <= BYTES_MAX).and_then(|claim| HeaderValue::from_str(claim).ok());
    if let Some(claim) = claim {
        headers.insert(HeaderName::from_static(LINEAGE_HEADER), claim);
    }
}
