//! Stripe: payment intents that are authorised first and captured later.

use super::{Charge, PaymentProcessor, Promise, Refused};
use crate::errand::{Messenger, form};
use sabir_engine::BoxFuture;
use sabir_gateway::{Brought, Errand};
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
    messenger: Arc<dyn Messenger>,
}

impl std::fmt::Debug for Stripe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stripe").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// A payment intent of Stripe's, or why there is none.
type Said = Result<Value, Refused>;

impl Stripe {
    /// A client for an account at this URL, with its secret key.
    pub fn new(url: Url, key: Secret, messenger: Arc<dyn Messenger>) -> Self {
        Self { url, key, messenger }
    }

    /// Calls Stripe; a POST with the same idempotency key is done once.
    pub(crate) async fn ask(&self, path: &str, post: Option<(&[(&str, &str)], &str)>) -> Result<Brought, String> {
        let url = self.url.join(path).map_err(|_| "the address of Stripe cannot be called".to_owned())?;
        let mut headers = vec![
            ("authorization", Secret::new(format!("Bearer {}", self.key.expose()))),
            ("stripe-version", Secret::new(STRIPE_VERSION)),
        ];
        let post = post.map(|(members, once)| {
            headers.push(("idempotency-key", Secret::new(once)));
            ("application/x-www-form-urlencoded", form(members))
        });
        self.messenger.run(Errand { url, headers, post }).await
    }

    async fn intent(&self, path: &str, post: Option<(&[(&str, &str)], &str)>) -> Said {
        let brought = self.ask(path, post).await.map_err(Refused::Unknown)?;
        let body: Value = serde_json::from_slice(&brought.body).unwrap_or(Value::Null);
        match brought.status {
            200..=299 if body["id"].is_string() && body["status"].is_string() => Ok(body),
            // The same request is being processed, or the rate limit is reached.
            409 | 429 => Err(Refused::Unknown(format!("Stripe answered {}", brought.status))),
            402 => {
                let words = body["error"]["message"].as_str().unwrap_or("the payment was declined").to_owned();
                let code = body["error"]["decline_code"].as_str().or(body["error"]["code"].as_str());
                Err(Refused::Declined(words, code.map(|code| json!({"decline_code": code}))))
            }
            400..=499 => {
                let code = body["error"]["code"].as_str().unwrap_or("invalid_request").to_owned();
                tracing::warn!(status = brought.status, code, "Stripe refuses a request");
                Err(Refused::Declined("the payment was refused".into(), Some(json!({"code": code}))))
            }
            status => Err(Refused::Unknown(format!("Stripe answered {status}"))),
        }
    }

    async fn found(&self, reference: &str) -> Said {
        self.intent(&format!("v1/payment_intents/{reference}"), None).await
    }

    async fn create(&self, charge: &Charge, method: &str) -> Said {
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
        self.intent("v1/payment_intents", Some((&members, &format!("pay-{id}")))).await
    }

    /// The authorisation that a payment intent stands for.
    fn promised(charge: &Charge, intent: &Value) -> Result<Promise, Refused> {
        let status = intent["status"].as_str().unwrap_or_default();
        let same = intent["amount"].as_u64() == Some(charge.amount)
            && intent["currency"].as_str().is_some_and(|code| code.eq_ignore_ascii_case(&charge.currency));
        let reference = intent["id"].as_str().unwrap_or_default().to_owned();
        match status {
            "requires_capture" if same => Ok(Promise { reference }),
            "processing" => Err(Refused::Unknown("Stripe is still at it".into())),
            _ if !same => Err(Refused::declined("the payment intent is for another amount")),
            _ => Err(Refused::Declined(
                format!("the payment cannot be made like this: it {}", status.replace('_', " ")),
                Some(json!({"status": status})),
            )),
        }
    }
}

/// Whether a text is an id of Stripe's, which may go into a path.
fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl PaymentProcessor for Stripe {
    fn name(&self) -> &'static str {
        "stripe"
    }

    fn once(&self, charge: &Charge) -> Option<String> {
        charge.token.text("payment_intent").map(|intent| format!("stripe:{intent}"))
    }

    fn promise<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Promise, Refused>> {
        Box::pin(async move {
            let intent = match (charge.token.text("payment_method"), charge.token.text("payment_intent")) {
                (Some(method), _) => self.create(charge, method).await?,
                (None, Some(intent)) if is_name(intent) => self.found(intent).await?,
                _ => return Err(Refused::declined("the token names no payment of Stripe's")),
            };
            Self::promised(charge, &intent)
        })
    }

    fn capture<'a>(&'a self, charge: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, Refused>> {
        Box::pin(async move {
            let path = format!("v1/payment_intents/{reference}/capture");
            let asked = self.intent(&path, Some((&[], &format!("capture-{}", charge.id)))).await;
            let intent = match asked {
                // It may have been captured when an earlier response was lost.
                Err(Refused::Declined(words, details)) => match self.found(reference).await? {
                    intent if intent["status"] == "succeeded" => intent,
                    _ => return Err(Refused::Declined(words, details)),
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
                Some("processing") => Err(Refused::Unknown("Stripe is still at it".into())),
                _ => Err(Refused::declined("the money could not be taken")),
            }
        })
    }

    fn void<'a>(&'a self, charge: &'a Charge, reference: Option<&'a str>) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(async move {
            let reference = match (reference, charge.token.text("payment_method")) {
                (Some(reference), _) => reference.to_owned(),
                // Repeating the request under the same id shows whether there is anything to void.
                (None, Some(method)) => match self.create(charge, method).await {
                    Ok(intent) => intent["id"].as_str().unwrap_or_default().to_owned(),
                    Err(Refused::Declined(..)) => return Ok(()),
                    Err(unknown) => return Err(unknown),
                },
                // A payment intent that the caller made is the caller's to cancel.
                (None, None) => return Ok(()),
            };
            let path = format!("v1/payment_intents/{reference}/cancel");
            match self.intent(&path, Some((&[], &format!("void-{}", charge.id)))).await {
                Ok(_) => Ok(()),
                Err(Refused::Declined(words, _)) => match self.found(&reference).await? {
                    intent if intent["status"] == "requires_capture" => Err(Refused::Unknown(words)),
                    intent if intent["status"] == "succeeded" => Err(Refused::Unknown("it was captured".into())),
                    _ => Ok(()),
                },
                Err(unknown) => Err(unknown),
            }
        })
    }
}
