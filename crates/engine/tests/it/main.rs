//! Promises of the engine, on stores that work and on stores that fail.
//!
//! | Promise | File |
//! |---|---|
//! | agents that behave well, and those that do not | `agents` |
//! | agents with work on other servers commit a trace before it begins, and learn of a cancel | `remote_work` |
//! | after a store that refused writes for long every task still ends | `full_disk` |
//! | a subtask is found again, ends with its parent, and is one of a bounded number | `subtasks` |
//! | aliases are as good as ids, and belong to one owner | `names` |
//! | notes beside tasks affect nothing else | `notes` |
//! | webhooks get every event in order, and one receiver that fails does not delay the others | `push` |
//! | a repeated send is the same send, whatever happened to the first | `retries` |
//! | a long answer and a long conversation cost the disk a small multiple of their length | `bytes` |
//! | no schedule of crashes and delays breaks a promise, and the simulator would notice | `sim` |
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod agents;
mod bytes;
mod engine_fixture;
mod full_disk;
mod names;
mod notes;
mod push;
mod remote_work;
mod retries;
mod sim;
mod subtasks;
