//! Tests of the dialects through the public functions of the crate.
#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it should be")]

mod agreement;
mod any;
mod cards;
mod fixtures;
mod hostile_input;
mod lenient_reading;
mod losses;
mod mask;
mod oracle;
mod pairs;
mod refusals;
mod roundtrip;
mod transcode;
mod transfer;
mod unreadable_input;
mod v03_proto;

use proptest::test_runner::Config;
use sabir_proto::MessageId;
use sabir_wire::HttpRequest;

/// The number of values for each property. No file of past failures is kept: a failing value is printed in full.
fn cases() -> Config {
    Config { cases: 1000, failure_persistence: None, ..Config::default() }
}

/// The path and the query of a request.
fn target(request: &HttpRequest) -> (&str, &str) {
    request.path.split_once('?').unwrap_or((&request.path, ""))
}

/// The id for messages that come without one.
fn mint() -> MessageId {
    MessageId::parse("minted").unwrap()
}
