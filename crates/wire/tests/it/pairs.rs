//! Converts every dialect into every other: the meaning arrives, except for the losses that are noted.
//!
//! A value is written in dialect A, converted into B, and read in 1.0. That must mean what A's text means in 1.0,
//! except for the noted losses; the test removes exactly what the notes name, on both sides.
//!
//! | Module | What is there |
//! |---|---|
//! | here | running a property on all pairs |
//! | `requests` | calls, and the operations that a dialect has |
//! | `replies` | tasks, messages, push configurations, errors |
//! | `events` | one event at a time |
//! | `streams` | whole streams, as a server encodes them |
//! | `meaning` | when two texts mean the same |
//! | `coverage` | the kinds of values that were tried |
//!
//! Each property is tried on 300 values, or on as many as `SABIR_CASES` says, and each value goes through all 36 pairs.
//! Values are the same in every run, unless `SABIR_SEED` is another number.

pub(crate) mod coverage;
mod events;
pub(crate) mod meaning;
mod replies;
mod requests;
mod reserved_members;
mod streams;

use coverage::Coverage;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use sabir_proto::{Fault, MessageId};
use sabir_wire::{Dialect, Loss, Losses, TextKind, convert};
use serde_json::Value;
use std::fmt::Debug;

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

/// Runs a property, and returns the kinds of values it was run on.
fn try_on<T: Debug>(
    strategy: &BoxedStrategy<T>,
    check: impl Fn(&T, &Coverage) -> Result<(), TestCaseError>,
) -> Coverage {
    let seed = number("SABIR_SEED").unwrap_or(7);
    let cases = number("SABIR_CASES").unwrap_or(300);
    let rng_seed = RngSeed::Fixed(seed.into());
    let config = Config { cases, failure_persistence: None, rng_seed, max_shrink_iters: 2000, ..Config::default() };
    let tally = Coverage::default();
    if let Err(failure) = TestRunner::new(config).run(strategy, |value| check(&value, &tally)) {
        panic!("SABIR_SEED={seed}: {failure}");
    }
    tally
}

/// Every pair, a dialect with itself included.
fn pairs() -> impl Iterator<Item = (Dialect, Dialect)> {
    Dialect::ALL.into_iter().flat_map(|from| Dialect::ALL.into_iter().map(move |to| (from, to)))
}

/// Ids in order: two conversions of one text give its messages without ids the same ids.
fn minting() -> impl FnMut() -> MessageId {
    let mut count = 0;
    move || {
        count += 1;
        MessageId::parse(&format!("minted-{count}")).unwrap()
    }
}

/// A converted text and its losses.
#[derive(Debug)]
struct Translation {
    text: String,
    losses: Vec<Loss>,
}

fn translate(from: Dialect, to: Dialect, kind: TextKind, text: &str) -> Result<Translation, Fault> {
    let mut losses = Losses::new();
    let text = convert(from, to, kind, text, &mut minting(), &mut losses)?;
    assert_eq!(losses.omitted(), 0, "more losses than notes; the values of this test are too large");
    Ok(Translation { text, losses: losses.notes().to_vec() })
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Checks that a dialect refuses what it does not have, with a text.
#[track_caller]
fn refused(outcome: Result<Translation, Fault>, why: &str) -> Result<(), TestCaseError> {
    match outcome {
        Err(Fault::UnsupportedOperation(words)) if !words.is_empty() => Ok(()),
        other => Err(TestCaseError::fail(format!("{why}: {other:?}"))),
    }
}

/// Converts a text of A into B and then into 1.0, and also straight into 1.0.
struct RoundTrip {
    meant: Vec<Value>,
    told: String,
    got: Vec<Value>,
    losses: Vec<Loss>,
}

impl RoundTrip {
    fn new(from: Dialect, by: Dialect, kind: TextKind, text: &str, tally: &Coverage) -> Result<Self, TestCaseError> {
        let fail = |step: &str, fault: Fault| TestCaseError::fail(format!("{from} by {by}, {step}: {fault}\n{text}"));
        let meant = translate(from, Dialect::V1, kind, text).map_err(|f| fail("straight", f))?;
        let told = translate(from, by, kind, text).map_err(|f| fail("there", f))?;
        tally.translated(from, by, &told.losses);
        let mut losses = [meant.losses, told.losses].concat();
        let mut got = Vec::new();
        for line in told.text.lines() {
            let back = translate(by, Dialect::V1, kind, line).map_err(|f| fail("back", f))?;
            losses.extend(back.losses);
            got.extend(back.text.lines().map(parsed));
        }
        Ok(Self { meant: meant.text.lines().map(parsed).collect(), told: told.text, got, losses })
    }
}
