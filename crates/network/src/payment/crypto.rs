//! Payments by a transfer that is on a chain already: looked up, and accepted once.

use super::x402::asset_units;
use super::{Authorization, Charge, PaymentProcessor, ProcessorError};
use crate::service_transport::ServiceTransport;
use sabir_engine::BoxFuture;
use sabir_gateway::ServiceRequest;
use serde_json::{Value, json};
use std::sync::Arc;
use url::Url;

/// The event of a token transfer: the hash of `Transfer(address,address,uint256)`.
const TRANSFER: &str = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/// Transfers of one asset to one address of one chain.
#[derive(Clone)]
pub struct Crypto {
    /// The chain's JSON-RPC endpoint. The URL may contain a key.
    pub url: Url,
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
    /// The required confirmations, the transaction's own block included.
    pub confirmations: u64,
    /// The client that calls the chain.
    pub transport: Arc<dyn ServiceTransport>,
}

impl std::fmt::Debug for Crypto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crypto").field("network", &self.network).field("asset", &self.asset).finish_non_exhaustive()
    }
}

impl Crypto {
    async fn call_rpc(&self, method: &str, params: Value) -> Result<Value, ProcessorError> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let post = Some(("application/json", body.to_string()));
        let errand = ServiceRequest { url: self.url.clone(), headers: Vec::new(), post };
        let brought = self.transport.send(errand).await.map_err(ProcessorError::Unknown)?;
        let mut said: Value = serde_json::from_slice(&brought.body).unwrap_or(Value::Null);
        if brought.status != 200 || !said["error"].is_null() || said.get("result").is_none() {
            return Err(ProcessorError::Unknown(format!("the chain answered {}", brought.status)));
        }
        Ok(said["result"].take())
    }

    async fn verify_transfer(&self, charge: &Charge) -> Result<Authorization, ProcessorError> {
        let no = ProcessorError::declined;
        let token = |name| charge.token.text(name).unwrap_or_default();
        let hash = token("transaction").to_ascii_lowercase();
        if token("network") != self.network || !token("asset").eq_ignore_ascii_case(&self.asset) {
            return Err(no(format!("only {} on {} is taken", self.asset, self.network)));
        }
        if charge.currency != self.currency {
            return Err(no(format!("only {} is paid like this", self.currency)));
        }
        if hash.len() != 66 || !hash.starts_with("0x") || !hash[2..].bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(no("the transaction is no hash".to_owned()));
        }
        let wanted = asset_units(charge.amount, self.more_digits).ok_or_else(|| no("that is too much".to_owned()))?;
        let receipt = self.call_rpc("eth_getTransactionReceipt", json!([hash])).await?;
        if receipt.is_null() {
            return Err(no("there is no such transaction, or not yet".to_owned()));
        }
        if receipt["status"] != "0x1" {
            return Err(no("the transaction failed".to_owned()));
        }
        let logs = receipt["logs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let paid: u128 = logs.iter().filter_map(|log| self.amount_paid_to_us(log)).fold(0, u128::saturating_add);
        if paid < wanted {
            return Err(no(format!("the transaction pays {paid} of {wanted}")));
        }
        let head = self.call_rpc("eth_blockNumber", json!([])).await?;
        let (Some(at), Some(head)) = (number(&receipt["blockNumber"]), number(&head)) else {
            return Err(ProcessorError::Unknown("the chain does not say how far it is".into()));
        };
        let deep = head.saturating_sub(at) + u128::from(head >= at);
        if deep < u128::from(self.confirmations) {
            let details = json!({"confirmations": u64::try_from(deep).unwrap_or(0), "needed": self.confirmations});
            return Err(ProcessorError::Declined(
                "the transaction is too recent; try again later".into(),
                Some(details),
            ));
        }
        Ok(Authorization { reference: hash })
    }

    /// The amount that a line of the chain's log pays to us.
    fn amount_paid_to_us(&self, log: &Value) -> Option<u128> {
        let topics = log["topics"].as_array()?;
        let topic = |at: usize| topics.get(at).and_then(Value::as_str);
        let to = topic(2)?.get(26..)?;
        let is_ours = log["address"].as_str()?.eq_ignore_ascii_case(&self.asset)
            && topic(0)?.eq_ignore_ascii_case(TRANSFER)
            && self.pay_to.strip_prefix("0x")?.eq_ignore_ascii_case(to)
            && log["removed"] != true;
        is_ours.then(|| number(&log["data"])).flatten()
    }
}

/// A number in the chain's notation. One that is too large for any price is invalid.
fn number(value: &Value) -> Option<u128> {
    let digits = value.as_str()?.strip_prefix("0x")?.trim_start_matches('0');
    if digits.is_empty() { Some(0) } else { u128::from_str_radix(digits, 16).ok() }
}

impl PaymentProcessor for Crypto {
    fn name(&self) -> &'static str {
        "crypto"
    }

    fn single_use_key(&self, charge: &Charge) -> Option<String> {
        let hash = charge.token.text("transaction").unwrap_or_default().to_ascii_lowercase();
        Some(format!("crypto:{}:{hash}", self.network))
    }

    fn authorize<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Authorization, ProcessorError>> {
        Box::pin(self.verify_transfer(charge))
    }

    fn capture<'a>(&'a self, _: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, ProcessorError>> {
        // The money was transferred before the authorisation.
        let receipt = json!({"processor": "crypto", "network": self.network, "transaction": reference});
        Box::pin(std::future::ready(Ok(receipt)))
    }

    fn void<'a>(&'a self, charge: &'a Charge, reference: Option<&'a str>) -> BoxFuture<'a, Result<(), ProcessorError>> {
        if reference.is_some() {
            tracing::warn!(payment = %charge.id, "a transfer on a chain cannot be taken back; pay it back by hand");
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
