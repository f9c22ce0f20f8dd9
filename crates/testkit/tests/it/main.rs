//! Promises of the stores, and of the engine on top of them, under all faults.
//!
//! | Promise | File |
//! |---|---|
//! | every backend keeps the same contract and gives the same answers | `contract` |
//! | our file survives, another program's is not changed, a full disk is not fatal | `files` |
//! | agents that behave well, and those that do not | `agents` |
//! | agents with work on other servers commit a trace before it begins, and learn of a cancel | `elsewhere` |
//! | after a store that refused writes for long every task still ends | `full` |
//! | a subtask is found again, ends with its parent, and is one of a bounded number | `kin` |
//! | aliases are as good as ids, and belong to one owner | `names` |
//! | notes beside tasks affect nothing else | `notes` |
//! | a repeated send is the same send, whatever happened to the first | `retries` |
//! | a long answer and a long conversation cost the disk a small multiple of their length | `bytes` |
//! | no schedule of crashes and delays breaks a promise, and the simulator would notice | `sim` |
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod agents;
mod bytes;
mod contract;
mod engine_fixture;
mod files;
mod full_disk;
mod names;
mod notes;
mod outbox;
mod push;
mod remote_work;
mod retries;
mod sim;
mod subtasks;
