//! Calling any agent.

pub mod native_token;
pub mod oauth;
pub mod secret;
pub mod signature;
pub mod tokens;
