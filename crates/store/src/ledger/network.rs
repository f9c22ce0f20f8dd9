//! Records of other networks, as they signed them.

use crate::{Answer, StoreError};
use sabir_proto::Timestamp;

/// Records in one ledger, those that are gone included.
pub const NETWORKS_MAX: usize = 10_000;

/// What a network says of itself. The text is kept as it was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRecord {
    /// Such as `network:agnt`.
    pub network: String,
    /// Rises with every record of one network.
    pub seq: u64,
    /// The record: JSON.
    pub record: String,
    /// Its signature.
    pub signature: String,
    /// The registry it was first put into.
    pub origin: String,
    /// When it was put in here.
    pub received_at: Timestamp,
    /// It is worth nothing after this.
    pub expires_at: Timestamp,
    /// The network has taken itself out.
    pub gone: bool,
    /// Two records of the same number were seen; neither is believed.
    pub disputed: bool,
    /// The number of the change that put it here; given by the ledger, and rising.
    pub change: u64,
}

/// What putting a record in came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPut {
    /// It is the one that is kept now.
    Kept,
    /// It is the very one that is kept.
    Known,
    /// A later one is kept.
    Stale,
    /// Another one of the same number is kept; from now on neither is believed.
    Disputed,
}

/// Why a record was not put in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// As many as there may be.
    #[error("there may be no more than {NETWORKS_MAX} records of networks")]
    TooMany,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Records of networks.
pub trait Networks: Send + Sync + 'static {
    /// Puts a record in, if it is later than what is kept.
    fn put_network(&self, record: NetworkRecord) -> Answer<NetworkPut, NetworkError>;

    /// The record of a network, whether it is gone, expired or disputed.
    fn network(&self, network: &str) -> Answer<Option<NetworkRecord>>;

    /// All records that are believed at this time, by the name of the network.
    fn networks(&self, now: Timestamp) -> Answer<Vec<NetworkRecord>>;

    /// At most `limit` changes after this one, oldest first; those that are gone or disputed as well.
    fn network_changes(&self, after: u64, limit: usize) -> Answer<Vec<NetworkRecord>>;

    /// Forgets a record altogether; false where there is none.
    fn forget_network(&self, network: &str) -> Answer<bool>;
}
