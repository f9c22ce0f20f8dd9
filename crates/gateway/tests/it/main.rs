//! What is promised about going out, with servers on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

mod courier;
mod delegate;
mod egress;
mod outbound;
mod parcel;
mod stub;
