//! Commands that run something.

pub(crate) mod demo;
pub(crate) mod serve;
