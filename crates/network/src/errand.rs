//! How services that are no agents are reached: by errands of the gateway, or of a test.

use sabir_engine::BoxFuture;
use sabir_gateway::{Brought, Errand, Errands};

/// Whoever goes on errands. An error says nothing about whether the question arrived.
pub trait Messenger: Send + Sync + 'static {
    /// Asks, and brings the answer; or says, in words without secrets, why there is none.
    fn run(&self, errand: Errand) -> BoxFuture<'_, Result<Brought, String>>;
}

impl Messenger for Errands {
    fn run(&self, errand: Errand) -> BoxFuture<'_, Result<Brought, String>> {
        Box::pin(async move { Self::run(self, errand).await.map_err(|error| error.to_string()) })
    }
}

/// Members as a form, in the order they are given.
pub(crate) fn form(members: &[(&str, &str)]) -> String {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(members);
    text.finish()
}
