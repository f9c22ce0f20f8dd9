//! The simulator: an engine, its store and its clients in a world where a seed decides what goes wrong.
//!
//! | Room | What is there |
//! |---|---|
//! | [`executor`] | who runs next and what time it is |
//! | `log` | the store, with commits that come late, a disk that fills up, and planted faults |
//! | `faults` | what may go wrong, and how often in this seed |
//! | `world` | processes that start, crash and start again |
//! | `door` | how clients reach the process that happens to be alive |
//! | `client`, `stream`, `look` | what clients do: send, retry, cancel; follow; get, list, subscribe |
//! | `receivers` | who is pushed to, and takes it or not |
//! | `ledger` | what clients were told |
//! | `checks` | what must be true of all that |
//!
//! Nothing here reads a clock, a thread or a random number of its own, so a seed that fails once fails always: run it
//! again with more `println!`.

pub mod executor;

mod checks;
mod client;
mod door;
mod faults;
mod ledger;
mod log;
mod look;
mod receivers;
mod stream;
mod trace;
mod world;

pub use faults::Sabotage;
pub use trace::Digest;

use std::fmt;

/// What a run is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the log is.
    pub store: Store,
    /// A fault that breaks a promise, to see whether anybody notices.
    pub sabotage: Option<Sabotage>,
}

/// Where the log of a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Store {
    /// In memory: fast, and the simplest thing that can be right.
    #[default]
    Memory,
    /// In an SQLite file that is closed and opened again at every crash.
    Sqlite,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The seed that does it again.
    pub seed: u64,
    /// The promise.
    pub promise: &'static str,
    /// What happened instead.
    pub detail: String,
    /// The last things that happened.
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

/// Runs one world to its end and checks everything.
///
/// # Errors
/// The first broken promise, with the seed.
pub fn run(seed: u64, options: Options) -> Result<Digest, Violation> {
    world::World::new(seed, options).run()
}
