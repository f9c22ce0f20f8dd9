//! Calls to services that are no agents: a trait for the gateway's HTTP client, which tests replace.

use sabir_engine::BoxFuture;
use sabir_gateway::{Brought, Errand, Errands};

/// Calls services over HTTP. An error does not say whether the request arrived.
pub trait Messenger: Send + Sync + 'static {
    /// Sends a request and returns the response; or says, in words without secrets, why there is none.
    fn run(&self, errand: Errand) -> BoxFuture<'_, Result<Brought, String>>;
}

impl Messenger for Errands {
    fn run(&self, errand: Errand) -> BoxFuture<'_, Result<Brought, String>> {
        Box::pin(async move { Self::run(self, errand).await.map_err(|error| error.to_string()) })
    }
}

/// Encodes members as a form, in the given order.
pub(crate) fn form(members: &[(&str, &str)]) -> String {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(members);
    text.finish()
}
