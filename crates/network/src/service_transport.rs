//! Calls to services that are no agents: a trait for the gateway's HTTP client, which tests replace.

use sabir_engine::BoxFuture;
use sabir_gateway::{ServiceClient, ServiceRequest, ServiceResponse};

/// Calls services over HTTP. An error does not say whether the request arrived.
pub trait ServiceTransport: Send + Sync + 'static {
    /// Sends a request and returns the response; or says, in words without secrets, why there is none.
    fn send(&self, errand: ServiceRequest) -> BoxFuture<'_, Result<ServiceResponse, String>>;
}

impl ServiceTransport for ServiceClient {
    fn send(&self, errand: ServiceRequest) -> BoxFuture<'_, Result<ServiceResponse, String>> {
        Box::pin(async move { Self::send(self, errand).await.map_err(|error| error.to_string()) })
    }
}

/// Encodes members as a form, in the given order.
pub(crate) fn encode_form(members: &[(&str, &str)]) -> String {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(members);
    text.finish()
}
