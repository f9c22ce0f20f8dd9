//! x402: a signed transfer that a facilitator verifies, and settles in the last step, since it cannot be taken back.

use super::{Authorization, Charge, PaymentProcessor, ProcessorError};
use crate::service_transport::ServiceTransport;
use sabir_engine::BoxFuture;
use sabir_gateway::ServiceRequest;
use sabir_proto::Secret;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use url::Url;

/// How long a settlement may take, in the terms for payers.
const SETTLE_SECONDS: u32 = 60;

/// Payments in one asset to one address, through a facilitator.
#[derive(Clone)]
pub struct X402 {
    /// The URL of the facilitator.
    pub url: Url,
    /// The bearer token for the facilitator, if it needs one.
    pub token: Option<Secret>,
    /// The chain, in CAIP-2 notation.
    pub network: String,
    /// The contract of the asset.
    pub asset: String,
    /// The address that is paid.
    pub pay_to: String,
    /// The currency the asset stands for.
    pub currency: String,
    /// How many more digits the asset has than `currency`.
    pub more_digits: u32,
    /// Further data of the scheme, such as the asset's name and version.
    pub extra: Map<String, Value>,
    /// The client that calls the facilitator.
    pub transport: Arc<dyn ServiceTransport>,
}

impl std::fmt::Debug for X402 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("X402").field("network", &self.network).field("asset", &self.asset).finish_non_exhaustive()
    }
}

/// An amount of a currency in units of an asset with more digits.
pub(super) fn asset_units(amount: u64, more_digits: u32) -> Option<u128> {
    10u128.checked_pow(more_digits)?.checked_mul(u128::from(amount))
}

impl X402 {
    /// Our payment terms. The terms that the payer accepted are compared with these.
    fn requirements(&self, charge: &Charge) -> Result<Value, ProcessorError> {
        if charge.currency != self.currency {
            return Err(ProcessorError::declined(format!("only {} is paid like this", self.currency)));
        }
        let amount =
            asset_units(charge.amount, self.more_digits).ok_or_else(|| ProcessorError::declined("that is too much"))?;
        Ok(json!({
            "scheme": "exact",
            "network": self.network,
            "amount": amount.to_string(),
            "asset": self.asset,
            "payTo": self.pay_to,
            "maxTimeoutSeconds": SETTLE_SECONDS,
            "extra": self.extra,
        }))
    }

    fn declined_with_terms(&self, words: &str, requirements: &Value) -> ProcessorError {
        ProcessorError::Declined(words.into(), Some(json!({"x402Version": 2, "accepts": [requirements]})))
    }

    async fn call_facilitator(
        &self,
        path: &str,
        charge: &Charge,
        requirements: &Value,
    ) -> Result<Value, ProcessorError> {
        let payload = charge.token.object("payload");
        let body = json!({"x402Version": 2, "paymentPayload": payload, "paymentRequirements": requirements});
        let unreachable = |_| ProcessorError::Unknown("the facilitator cannot be called".into());
        let url = self.url.join(path).map_err(unreachable)?;
        let token = self.token.iter().map(|token| ("authorization", Secret::new(format!("Bearer {}", token.expose()))));
        let post = Some(("application/json", body.to_string()));
        let errand = ServiceRequest { url, headers: token.collect(), post };
        let brought = self.transport.send(errand).await.map_err(ProcessorError::Unknown)?;
        let said: Value = serde_json::from_slice(&brought.body).unwrap_or(Value::Null);
        // Facilitators refuse with 200 as well as with 400; a refusal counts only as a JSON object.
        match brought.status {
            200..=499 if brought.status != 429 && said.is_object() => Ok(said),
            status => Err(ProcessorError::Unknown(format!("the facilitator answered {status}"))),
        }
    }
}

/// The authorization in the payload, whose nonce makes the transfer unique.
fn authorization(charge: &Charge) -> Option<&Map<String, Value>> {
    charge.token.object("payload")?.get("payload")?.as_object()?.get("authorization")?.as_object()
}

fn same(one: Option<&Value>, other: &Value) -> bool {
    match (one.and_then(Value::as_str), other.as_str()) {
        (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
        _ => false,
    }
}

impl PaymentProcessor for X402 {
    fn name(&self) -> &'static str {
        "x402"
    }

    fn single_use_key(&self, charge: &Charge) -> Option<String> {
        let text = |name: &str| authorization(charge)?.get(name)?.as_str().map(str::to_ascii_lowercase);
        // Without a readable nonce, a digest of the whole token is used.
        let nonce = text("from").zip(text("nonce")).map(|(from, nonce)| format!("{from}:{nonce}"));
        Some(format!("x402:{}:{}", self.network, nonce.unwrap_or_else(|| charge.token.digest())))
    }

    fn authorize<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Authorization, ProcessorError>> {
        Box::pin(async move {
            let requirements = self.requirements(charge)?;
            let accepted = charge.token.object("payload").and_then(|payload| payload.get("accepted"));
            let named = ["scheme", "network", "amount", "asset", "payTo"];
            let agrees = named.iter().all(|name| same(accepted.and_then(|all| all.get(*name)), &requirements[*name]));
            let transfer = authorization(charge);
            let to = same(transfer.and_then(|all| all.get("to")), &requirements["payTo"]);
            let value = same(transfer.and_then(|all| all.get("value")), &requirements["amount"]);
            if !agrees || !to || !value {
                return Err(self.declined_with_terms("the payment is not what is asked for here", &requirements));
            }
            let said = self.call_facilitator("verify", charge, &requirements).await?;
            match said["isValid"].as_bool() {
                Some(true) => {
                    let nonce = transfer.and_then(|all| all.get("nonce")).and_then(Value::as_str);
                    Ok(Authorization { reference: nonce.map_or_else(|| charge.token.digest(), str::to_owned) })
                }
                Some(false) => {
                    let why = said["invalidReason"].as_str().unwrap_or("the payment is not valid");
                    Err(self.declined_with_terms(why, &requirements))
                }
                None => Err(ProcessorError::Unknown("the facilitator does not say".into())),
            }
        })
    }

    fn capture<'a>(&'a self, charge: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, ProcessorError>> {
        Box::pin(async move {
            let requirements = self.requirements(charge)?;
            let said = self.call_facilitator("settle", charge, &requirements).await?;
            match said["success"].as_bool() {
                Some(true) => Ok(json!({
                    "processor": "x402",
                    "reference": reference,
                    "transaction": said["transaction"],
                    "network": said["network"],
                    "payer": said["payer"],
                })),
                Some(false) => {
                    let why = said["errorReason"].as_str().unwrap_or("the payment could not be settled");
                    let used = ["nonce", "already", "duplicate"].iter().any(|word| why.contains(word));
                    // An earlier settlement of ours may have used the nonce when its response was lost.
                    Err(if used { ProcessorError::Unknown(why.to_owned()) } else { ProcessorError::declined(why) })
                }
                None => Err(ProcessorError::Unknown("the facilitator does not say".into())),
            }
        })
    }

    fn void<'a>(&'a self, _: &'a Charge, _: Option<&'a str>) -> BoxFuture<'a, Result<(), ProcessorError>> {
        // A transfer that is not settled expires by itself.
        Box::pin(std::future::ready(Ok(())))
    }
}
