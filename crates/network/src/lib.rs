//! The booking network: venues, bookings, what is counted and paid, and the networks beside it.
//!
//! A network is an agent like any other: its intents are skills, what they take is a data part, and whoever confirms a
//! booking opens a task. So an envelope and a message in any dialect of A2A lead to the same lines, and what must be true
//! together is one commit of the task log.
//!
//! | Room | What is there |
//! |---|---|
//! | `intent` | what is asked, read strictly |
//! | `words` | what is asked in plain words |
//! | `import` | venues from a file |
//! | `record`, `registry` | what networks say about themselves, and who covers what |
//! | `via`, `route` | envelopes that are passed on, and the ways out |

pub mod import;
pub mod intent;
pub mod record;
pub mod registry;
pub mod route;
pub mod via;
pub mod words;
