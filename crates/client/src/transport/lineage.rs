//! What came before a message, said once more beside it.
//!
//! Where a task comes from travels in the metadata of messages, and whoever stands between two servers may drop
//! metadata and pass headers on. So the same claim goes in a header as well, where it fits into one.

use http::{HeaderMap, HeaderName, HeaderValue};
use sabir_proto::{Call, LINEAGE, LINEAGE_HEADER};
use serde_json::value::RawValue;

/// Bytes of the header; servers take several times that for all of them.
const BYTES_MAX: usize = 2048;

/// Puts the claim of a message, if it makes one, into the headers of its request.
pub(super) fn tell(call: &Call, headers: &mut HeaderMap) {
    let (Call::Send(send) | Call::Stream(send)) = call else { return };
    let metadata = send.message.metadata.as_ref().filter(|metadata| metadata.as_str().contains(LINEAGE));
    let claim = metadata.and_then(|metadata| metadata.member::<&RawValue>(LINEAGE)).map(RawValue::get);
    // What holds other than plain characters goes in the metadata alone.
    let claim = claim.filter(|claim| claim.len() <= BYTES_MAX).and_then(|claim| HeaderValue::from_str(claim).ok());
    if let Some(claim) = claim {
        headers.insert(HeaderName::from_static(LINEAGE_HEADER), claim);
    }
}
