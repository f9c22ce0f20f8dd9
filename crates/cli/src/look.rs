//! Commands that inspect an agent or a file: diagnose, compare, measure, record, convert.

pub(crate) mod bench;
pub(crate) mod call;
mod cassette;
pub(crate) mod conformance;
pub(crate) mod convert;
pub(crate) mod doctor;
pub(crate) mod lattice;
pub(crate) mod mock;
pub(crate) mod record;
pub(crate) mod replay;
