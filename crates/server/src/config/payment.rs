//! `[network.payments]` and `[network.billing]`: whose money is taken, and who bills what was counted.

use sabir_guard::config::Reference;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Where Stripe is.
const STRIPE_URL: &str = "https://api.stripe.com/";

/// `[network.payments]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PaymentsConfig {
    /// The most that one payment may come to, in minor units of its currency.
    pub payment_max: Option<u64>,
    /// The most that all payments of one key in one currency may come to on one day of UTC.
    pub day_max: Option<u64>,
    /// Take tokens of type `test`, which move no money. Not in production.
    pub test: bool,
    /// Payments through Stripe.
    pub stripe: Option<StripeConfig>,
    /// Payments by x402.
    pub x402: Option<X402Config>,
    /// Transfers that are on a chain already.
    pub crypto: Option<CryptoConfig>,
}

impl PaymentsConfig {
    /// Whether there is any way to pay.
    pub(crate) const fn is_taken(&self) -> bool {
        self.test || self.stripe.is_some() || self.x402.is_some() || self.crypto.is_some()
    }
}

/// `[network.payments.stripe]`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StripeConfig {
    /// The account's secret key, as `env:NAME` or `file:PATH`.
    pub secret_key: Reference,
    /// Where Stripe is.
    #[serde(default = "stripe_url")]
    pub url: String,
}

/// `[network.payments.x402]`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct X402Config {
    /// The facilitator.
    pub facilitator: String,
    /// A token for it, as `env:NAME` or `file:PATH`.
    pub token: Option<Reference>,
    /// What is paid, and to whom.
    #[serde(flatten)]
    pub asset: AssetConfig,
    /// What the scheme wants to know besides, such as the asset's `name` and `version`.
    #[serde(default)]
    pub extra: BTreeMap<String, String>,
}

/// `[network.payments.crypto]`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CryptoConfig {
    /// The chain's JSON-RPC, as `env:NAME` or `file:PATH`: its address most often holds a key.
    pub rpc: Reference,
    /// What is paid, and to whom.
    #[serde(flatten)]
    pub asset: AssetConfig,
    /// Blocks that have to be on top of a transfer, its own included.
    #[serde(default = "confirmations")]
    pub confirmations: u64,
}

/// What is paid on a chain, and to whom.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct AssetConfig {
    /// The chain, as CAIP-2 writes it, such as `eip155:8453`.
    pub network: String,
    /// The asset's contract.
    pub asset: String,
    /// Our address.
    pub pay_to: String,
    /// The currency the asset stands for.
    #[serde(default = "dollar")]
    pub currency: String,
    /// How many more digits the asset has than the currency: 4 for six digits and cents.
    #[serde(default = "more_digits")]
    pub more_digits: u32,
}

/// `[network.billing]`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BillingConfig {
    /// The account's secret key, as `env:NAME` or `file:PATH`.
    pub secret_key: Reference,
    /// Where Stripe is.
    #[serde(default = "stripe_url")]
    pub url: String,
    /// What the meter listens to.
    pub event_name: String,
    /// The meter's id, by which its sums are asked for.
    pub meter: Option<String>,
    /// Bill every night at 00:15 UTC.
    #[serde(default = "yes")]
    pub nightly: bool,
}

fn stripe_url() -> String {
    STRIPE_URL.into()
}

fn dollar() -> String {
    "USD".into()
}

const fn more_digits() -> u32 {
    4
}

const fn confirmations() -> u64 {
    12
}

const fn yes() -> bool {
    true
}
