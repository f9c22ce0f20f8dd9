//! What the verifiers promise, seen from outside.

mod canonical;
mod strangers;
mod tampering;
