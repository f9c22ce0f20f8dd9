//! Promises of the stores, and of the engine on top of them, kept whatever happens.
//!
//! | Promise | File |
//! |---|---|
//! | every backend keeps the same contract and gives the same answers | `contract` |
//! | what is ours survives, what is not is left alone, a full disk is not the end | `files` |
//! | agents that behave, and those that do not | `agents` |
//! | agents whose work goes on elsewhere leave a trace before it does, and hear of a cancel | `elsewhere` |
//! | a store that takes no writes for long makes nobody forgotten | `full` |
//! | a task that is opened for another is found again, ends with it, and is one of a number that is bounded | `kin` |
//! | names that callers give their tasks are as good as ids, and nobody else's | `names` |
//! | notes beside tasks are in nobody's way | `notes` |
//! | a send that is repeated is the same send, whatever became of the first | `retries` |
//! | a long answer and a long conversation cost the disk a small multiple of their length | `bytes` |
//! | no schedule of crashes and delays breaks a promise, and the simulator would notice | `sim` |
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod agents;
mod bytes;
mod contract;
mod desk;
mod elsewhere;
mod files;
mod full;
mod kin;
mod names;
mod notes;
mod outbox;
mod push;
mod retries;
mod sim;
