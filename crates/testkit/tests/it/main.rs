//! Promises of the stores and of the engine on top of them, kept whatever happens.

mod agents;
mod bytes;
mod contract;
mod desk;
mod files;
mod sim;
