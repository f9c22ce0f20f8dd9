//! The simulator: an engine, its store and its clients, where a seed decides what goes wrong.
//!
//! | Module | What is there |
//! |---|---|
//! | [`executor`] | which job runs next, and the virtual time |
//! | `log` | the store, with commits that come late, a disk that fills up, and planted faults |
//! | `faults` | the injected faults and their rates in this seed |
//! | `simulation` | processes that start, crash and start again |
//! | `endpoint` | how clients reach the process that is alive |
//! | `client`, `stream`, `reads` | what clients do: send, retry, cancel; follow; get, list, subscribe |
//! | `receivers` | receivers of push notifications, and their faults |
//! | `observations` | what clients have observed |
//! | `checks` | the promises that are checked against it |
//!
//! Nothing here reads a clock, a thread or a random number of its own, so a seed that fails once fails always: run it
//! again with more `println!`.

pub mod executor;

mod checks;
mod client;
mod endpoint;
mod faults;
mod log;
mod observations;
mod reads;
mod receivers;
mod simulation;
mod stream;
mod trace;

pub use faults::Sabotage;
pub use trace::Digest;

use std::fmt;

/// The options of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// The backend of the log.
    pub store: Store,
    /// A planted fault that breaks a promise, to test that a check notices it.
    pub sabotage: Option<Sabotage>,
}

/// The kinds of log that a run can use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Store {
    /// The model: fast, and the simplest thing that can be right.
    #[default]
    Model,
    /// In an SQLite file that is closed and opened again at every crash.
    Sqlite,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The seed that reproduces it.
    pub seed: u64,
    /// The name of the promise.
    pub promise: &'static str,
    /// What happened instead.
    pub detail: String,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promise = self.promise.replace('_', " ");
        writeln!(f, "seed {}: broken promise: {promise}: {}", self.seed, self.detail)?;
        self.tail.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl std::error::Error for Violation {}

/// Runs one simulation to its end and checks every promise.
///
/// # Errors
/// The first broken promise, with the seed.
pub fn run(seed: u64, options: Options) -> Result<Digest, Violation> {
    simulation::Simulation::new(seed, options).run()
}
