//! Calling any agent.

pub mod oauth;
pub mod secret;
pub mod signature;
