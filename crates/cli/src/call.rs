//! Commands that talk to an agent, and those about doing so.

pub(crate) mod config;
