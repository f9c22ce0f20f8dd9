//! Who asks, and what came with it: what the server knows and the network needs.

use sabir_proto::Caller;
use sabir_store::Interaction;

/// Who asks, as the door has recognised it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patron {
    /// The id of its key, if it has one.
    pub key: Option<String>,
    /// The visible beginning of the key.
    pub prefix: Option<String>,
    /// Its tier.
    pub tier: Option<String>,
    /// The agents its key is bound to.
    pub agents: Vec<String>,
    /// Who pays for it.
    pub customer: Option<String>,
}

/// Whoever knows the patrons. All of it is in memory: nothing waits.
pub trait Patrons: Send + Sync + 'static {
    /// Who a caller is.
    fn patron(&self, caller: &Caller) -> Patron;

    /// Who has a key, by its id.
    fn holder(&self, key: &str) -> Patron;

    /// The record of an envelope, by the number of its passage, as of one that went well. It is told once, to whoever
    /// writes it with what was done.
    fn record(&self, _passage: u64) -> Option<Interaction> {
        None
    }
}

/// Where nobody has a key.
#[derive(Debug, Clone, Copy)]
pub struct Strangers;

impl Patrons for Strangers {
    fn patron(&self, _: &Caller) -> Patron {
        Patron::default()
    }

    fn holder(&self, _: &str) -> Patron {
        Patron::default()
    }
}
