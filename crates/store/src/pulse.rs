//! Whether a store takes writes. A disk that is full, or has become read-only, is no reason to stop: what is stored can
//! still be read, and whoever looks after the server must be told.

use crate::{Answer, StoreError};

/// A store that can be asked how it is.
pub trait Pulse: Send + Sync + 'static {
    /// Why the last write was refused, if it was.
    fn trouble(&self) -> Option<StoreError>;

    /// Writes a little and takes it back: whether writes are taken again. Where nobody sends because nothing can be
    /// stored, nobody else would find out.
    fn probe(&self) -> Answer<()>;
}
