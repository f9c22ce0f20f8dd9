//! The holder of the API key behind a caller: data that the server has and the network needs.

use sabir_proto::Caller;

/// The holder of a key, as the server has authenticated it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyHolder {
    /// The id of the key, if the caller has one.
    pub key: Option<String>,
    /// The visible prefix of the key.
    pub prefix: Option<String>,
    /// The rate tier of the key.
    pub tier: Option<String>,
    /// The agents that the key is bound to.
    pub agents: Vec<String>,
    /// The biller's customer id of the payer.
    pub customer: Option<String>,
}

/// Looks up key holders. All of it is in memory: nothing waits.
pub trait KeyHolderDirectory: Send + Sync + 'static {
    /// The key holder behind a caller.
    fn by_caller(&self, caller: &Caller) -> KeyHolder;

    /// The holder of the key with this id.
    fn by_key(&self, key: &str) -> KeyHolder;
}

/// A lookup without any keys.
#[derive(Debug, Clone, Copy)]
pub struct NoKeyHolders;

impl KeyHolderDirectory for NoKeyHolders {
    fn by_caller(&self, _: &Caller) -> KeyHolder {
        KeyHolder::default()
    }

    fn by_key(&self, _: &str) -> KeyHolder {
        KeyHolder::default()
    }
}
