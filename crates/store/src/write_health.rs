//! The health of a store: whether it takes writes, and whether its data is readable. A disk that is full, or has become
//! read-only, is no reason to stop: what is stored can still be read, and the operator must be told. The same goes for
//! a file that is damaged in one place.

use crate::{StoreError, StoreFuture};

/// A store whose health can be checked.
pub trait WriteHealth: Send + Sync + 'static {
    /// The error of the last write, if it failed.
    fn write_error(&self) -> Option<StoreError>;

    /// The first damage that a read has found since the store was opened. It stays until the store is opened again: no
    /// successful read proves that the rest is whole.
    fn damage(&self) -> Option<StoreError>;

    /// Writes a little and removes it again, to find out whether writes work again. While no caller sends because
    /// nothing can be stored, no other write would find out.
    fn probe(&self) -> StoreFuture<()>;
}
