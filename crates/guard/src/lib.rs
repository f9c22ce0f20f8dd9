//! Who is calling, and may they: credentials, signatures, trust, and the signatures under our own cards.
//!
//! | Room | What is there |
//! |---|---|
//! | [`authn`] | one verifier for each way to say who one is |
//! | [`certificate`] | what a certificate says of itself |
//! | [`fetch`] | the way out: key sets, metadata and chain tables are documents that somebody else fetches for us |
//! | [`sign`] | signing cards, and the keys for it |
//!
//! A verifier is a function of the request, of what is configured and of the time it is given. It answers with who is
//! calling, or with a reason, which is for our log: what a peer is told is decided elsewhere. No socket is opened here,
//! no clock is read, and no secret is in any `Debug` or `Display`.

pub mod authn;
pub mod certificate;
pub mod fetch;
pub mod sign;

mod memo;

use sabir_proto::Timestamp;

/// Whole seconds since 1970, which is how most of our peers count.
fn seconds(time: Timestamp) -> i64 {
    time.millis().div_euclid(1000)
}
