//! Stripe: payment intents that are authorised first and captured later.

use super::{Authorization, Charge, PaymentProcessor, ProcessorError};
use crate::service_transport::{ServiceTransport, encode_form};
use sabir_engine::BoxFuture;
use sabir_gateway::{ServiceRequest, ServiceResponse};
use sabir_proto::Secret;
use serde_json::{Value, json};
use std::sync::Arc;
use url::Url;

/// The version of Stripe's API that this client uses.
pub const STRIPE_VERSION: &str = "2025-03-31.basil";

/// A client for one Stripe account.
#[derive(Clone)]
pub struct Stripe {
    url: Url,
    key: Secret,
    transport: Arc<dyn ServiceTransport>,
}

impl std::fmt::Debug for Stripe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stripe").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// A payment intent of Stripe's, or why there is none.
type StripeResult = Result<Value, ProcessorError>;

impl Stripe {
    /// A client for an account at this URL, with its secret key.
    pub fn new(url: Url, key: Secret, transport: Arc<dyn ServiceTransport>) -> Self {
        Self { url, key, transport }
    }

    /// Calls Stripe; a POST with the same idempotency key is done once.
    pub(crate) async fn call(
        &self,
        path: &str,
        post: Option<(&[(&str, &str)], &str)>,
    ) -> Result<ServiceResponse, String> {
        let url = self.url.join(path).map_err(|_| "the address of Stripe cannot be called".to_owned())?;
        let mut headers = vec![
            ("authorization", Secret::new(format!("Bearer {}", self.key.expose()))),
            ("stripe-version", Secret::new(STRIPE_VERSION)),
        ];
        let post = post.map(|(members, once)| {
            headers.push(("idempotency-key", Secret::new(once)));
            ("application/x-www-form-urlencoded", encode_form(members))
        });
        self.transport.send(ServiceRequest { url, headers, post }).await
    }

    async fn call_payment_intent(&self, path: &str, post: Option<(&[(&str, &str)], &str)>) -> StripeResult {
        let brought = self.call(path, post).await.map_err(ProcessorError::Unknown)?;
        let body: Value = serde_json::from_slice(&brought.body).unwrap_or(Value::Null);
        match brought.status {
            200..=299 if body["id"].is_string() && body["status"].is_string() => Ok(body),
            // The same request is being processed, or the rate limit is reached.
            409 | 429 => Err(ProcessorError::Unknown(format!("Stripe answered {}", brought.status))),
            402 => {
                let words = body["error"]["message"].as_str().unwrap_or("the payment was declined").to_owned();
                let code = body["error"]["decline_code"].as_str().or(body["error"]["code"].as_str());
                Err(ProcessorError::Declined(words, code.map(|code| json!({"decline_code": code}))))
            }
            400..=499 => {
                let code = body["error"]["code"].as_str().unwrap_or("invalid_request").to_owned();
                tracing::warn!(status = brought.status, code, "Stripe refuses a request");
                Err(ProcessorError::Declined("the payment was refused".into(), Some(json!({"code": code}))))
            }
            status => Err(ProcessorError::Unknown(format!("Stripe answered {status}"))),
        }
    }

    async fn fetch_payment_intent(&self, reference: &str) -> StripeResult {
        self.call_payment_intent(&format!("v1/payment_intents/{reference}"), None).await
    }

    async fn create(&self, charge: &Charge, method: &str) -> StripeResult {
        let (id, amount) = (charge.id.to_string(), charge.amount.to_string());
        let members = [
            ("amount", &*amount),
            ("currency", &*charge.currency.to_ascii_lowercase()),
            ("payment_method", method),
            ("confirm", "true"),
            ("capture_method", "manual"),
            ("automatic_payment_methods[enabled]", "true"),
            ("automatic_payment_methods[allow_redirects]", "never"),
            ("metadata[payment_id]", &*id),
        ];
        self.call_payment_intent("v1/payment_intents", Some((&members, &format!("pay-{id}")))).await
    }

    /// The authorisation that a payment intent stands for.
    fn authorization_of(charge: &Charge, intent: &Value) -> Result<Authorization, ProcessorError> {
        let status = intent["status"].as_str().unwrap_or_default();
        let same = intent["amount"].as_u64() == Some(charge.amount)
            && intent["currency"].as_str().is_some_and(|code| code.eq_ignore_ascii_case(&charge.currency));
        let reference = intent["id"].as_str().unwrap_or_default().to_owned();
        match status {
            "requires_capture" if same => Ok(Authorization { reference }),
            "processing" => Err(ProcessorError::Unknown("Stripe is still at it".into())),
            _ if !same => Err(ProcessorError::declined("the payment intent is for another amount")),
            _ => Err(ProcessorError::Declined(
                format!("the payment cannot be made like this: it {}", status.replace('_', " ")),
                Some(json!({"status": status})),
            )),
        }
    }
}

/// Whether a text is an id of Stripe's, which may go into a path.
fn is_stripe_id(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl PaymentProcessor for Stripe {
    fn name(&self) -> &'static str {
        "stripe"
    }

    fn single_use_key(&self, charge: &Charge) -> Option<String> {
        charge.token.text("payment_intent").map(|intent| format!("stripe:{intent}"))
    }

    fn authorize<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Authorization, ProcessorError>> {
        Box::pin(async move {
            let intent = match (charge.token.text("payment_method"), charge.token.text("payment_intent")) {
                (Some(method), _) => self.create(charge, method).await?,
                (None, Some(intent)) if is_stripe_id(intent) => self.fetch_payment_intent(intent).await?,
                _ => return Err(ProcessorError::declined("the token names no payment of Stripe's")),
            };
            Self::authorization_of(charge, &intent)
        })
    }

    fn capture<'a>(&'a self, charge: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, ProcessorError>> {
        Box::pin(async move {
            let path = format!("v1/payment_intents/{reference}/capture");
            let asked = self.call_payment_intent(&path, Some((&[], &format!("capture-{}", charge.id)))).await;
            let intent = match asked {
                // It may have been captured when an earlier response was lost.
                Err(ProcessorError::Declined(words, details)) => match self.fetch_payment_intent(reference).await? {
                    intent if intent["status"] == "succeeded" => intent,
                    _ => return Err(ProcessorError::Declined(words, details)),
                },
                other => other?,
            };
            match intent["status"].as_str() {
                Some("succeeded") => Ok(json!({
                    "processor": "stripe",
                    "reference": reference,
                    "charge": intent["latest_charge"],
                    "amount": charge.amount,
                    "currency": charge.currency,
                })),
                Some("processing") => Err(ProcessorError::Unknown("Stripe is still at it".into())),
                _ => Err(ProcessorError::declined("the money could not be taken")),
            }
        })
    }

    fn void<'a>(&'a self, charge: &'a Charge, reference: Option<&'a str>) -> BoxFuture<'a, Result<(), ProcessorError>> {
        Box::pin(async move {
            let reference = match (reference, charge.token.text("payment_method")) {
                (Some(reference), _) => reference.to_owned(),
                // Repeating the request under the same id shows whether there is anything to void.
                (None, Some(method)) => match self.create(charge, method).await {
                    Ok(intent) => intent["id"].as_str().unwrap_or_default().to_owned(),
                    Err(ProcessorError::Declined(..)) => return Ok(()),
                    Err(unknown) => return Err(unknown),
                },
                // A payment intent that the caller made is the caller's to cancel.
                (None, None) => return Ok(()),
            };
            let path = format!("v1/payment_intents/{reference}/cancel");
            match self.call_payment_intent(&path, Some((&[], &format!("void-{}", charge.id)))).await {
                Ok(_) => Ok(()),
                Err(ProcessorError::Declined(words, _)) => match self.fetch_payment_intent(&reference).await? {
                    intent if intent["status"] == "requires_capture" => Err(ProcessorError::Unknown(words)),
                    intent if intent["status"] == "succeeded" => Err(ProcessorError::Unknown("it was captured".into())),
                    _ => Ok(()),
                },
                Err(unknown) => Err(unknown),
            }
        })
    }
}
