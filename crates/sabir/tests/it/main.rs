//! Tests of the crate `sabir` as an author of agents uses it.

mod names;
mod serve;
mod testing;
