//! Whether a store takes writes, and whether what it holds is whole. A disk that is full, or has become read-only, is no
//! reason to stop: what is stored can still be read, and the operator must be told. The same goes for a file that is
//! damaged in one place.

use crate::{Answer, StoreError};

/// A store that can be asked how it is.
pub trait Pulse: Send + Sync + 'static {
    /// Why the last write was refused, if it was.
    fn trouble(&self) -> Option<StoreError>;

    /// What was found damaged by a read since the store was opened. It stays until the store is opened again: no read that
    /// goes well says that the rest is whole.
    fn damage(&self) -> Option<StoreError>;

    /// Writes a little and takes it back: whether writes are taken again. Where nobody sends because nothing can be
    /// stored, nobody else would find out.
    fn probe(&self) -> Answer<()>;
}
