//! Signed records of other networks.

use crate::{StoreError, StoreFuture};
use sabir_proto::Timestamp;

/// Records in one ledger, withdrawn ones included.
pub const NETWORKS_MAX: usize = 10_000;

/// The record that a network publishes about itself. The text is stored as it was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRecord {
    /// The id of the network, such as `network:agnt`.
    pub network: String,
    /// The sequence number, which rises with every record of one network.
    pub seq: u64,
    pub record: String,
    pub signature: String,
    /// The registry it was first published at.
    pub origin: String,
    /// The time at which this ledger stored it.
    pub received_at: Timestamp,
    /// The record is invalid after this time.
    pub expires_at: Timestamp,
    /// The network has withdrawn.
    pub gone: bool,
    /// Two different records with this number were seen; neither is believed.
    pub disputed: bool,
    /// The number of the change that stored it; assigned by the ledger, and rising.
    pub change: u64,
}

/// The result of storing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPutOutcome {
    /// The record is stored.
    Stored,
    /// The very same record is stored already.
    Unchanged,
    /// A later record is stored.
    Stale,
    /// Another record with the same number is stored; from now on neither is believed.
    Disputed,
}

/// Why a record was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The ledger holds as many records as it may.
    #[error("there may be no more than {NETWORKS_MAX} records of networks")]
    TooMany,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The stored records of other networks.
pub trait Networks: Send + Sync + 'static {
    /// Stores a record, if it is later than the stored one.
    fn put_network(&self, record: NetworkRecord) -> StoreFuture<NetworkPutOutcome, NetworkError>;

    /// The record of a network, also if it is withdrawn, expired or disputed.
    fn network(&self, network: &str) -> StoreFuture<Option<NetworkRecord>>;

    /// All records that are believed at this time, by the name of the network.
    fn networks(&self, now: Timestamp) -> StoreFuture<Vec<NetworkRecord>>;

    /// At most `limit` changes after this one, oldest first; withdrawn and disputed records too.
    fn network_changes(&self, after: u64, limit: usize) -> StoreFuture<Vec<NetworkRecord>>;

    /// Deletes a record; false where there is none.
    fn forget_network(&self, network: &str) -> StoreFuture<bool>;
}
