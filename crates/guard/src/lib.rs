//! Guard.
