//! The promises of the crate `sabir`, as an author of agents sees them.

mod names;
mod serve;
mod testing;
