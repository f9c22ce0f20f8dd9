//! What must survive: the task log and what is committed with it.
//!
//! The engine sees only [`TaskLog`]; behind it stand [`memory`] (tests, throw-away servers) and [`sqlite`] (one file,
//! one writer, group commit). What must happen together is one [`Step`], and a step is durable before anybody hears
//! of it.
//!
//! Absent on purpose: HTTP, dialects, and the rules of the task state machine. The store keeps events and whatever
//! snapshot it is given; what they mean is the engine's business.

pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;

mod answer;
mod error;
mod list;
mod metrics;
mod note;
mod step;
mod task_log;

pub use answer::Answer;
pub use error::{AppendError, OpenError, StoreError};
pub use list::{Listed, Listing, PageToken};
pub use metrics::Metrics;
pub use note::{MORE, NOTES_MAX, Note};
pub use step::{Digest, Effect, Opening, Placement, RetryMark, Scope, Step};
pub use task_log::{Base, KeptRetry, OutboxRow, Progress, Stored, TaskLog};
