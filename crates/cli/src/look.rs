//! Commands that look at something and change nothing.

pub(crate) mod bench;
pub(crate) mod conformance;
pub(crate) mod convert;
pub(crate) mod doctor;
