//! Calling any agent.
