//! Commands that run something.

pub(crate) mod serve;
