//! Calling any agent.

pub mod secret;
pub mod signature;
