//! Calling any agent.

pub mod secret;
