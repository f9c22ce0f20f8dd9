//! Promises of the stores and of the engine on top of them, kept whatever happens.

mod contract;
mod files;
mod sim;
