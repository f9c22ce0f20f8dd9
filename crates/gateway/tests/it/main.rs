//! What is promised about going out, with servers on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

mod courier;
mod egress;
mod handoff;
mod outbound;
mod parcel;
mod stub;
