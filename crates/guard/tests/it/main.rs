//! What the verifiers promise, seen from outside.

mod strangers;
mod tampering;
