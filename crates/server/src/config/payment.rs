//! `[network.payments]` and `[network.billing]`: which payments are accepted, and which service bills the bookings.

use sabir_guard::config::SecretReference;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The default URL of Stripe.
const STRIPE_URL: &str = "https://api.stripe.com/";

/// `[network.payments]`: the accepted payments.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PaymentsConfig {
    /// The maximum of one payment, in minor units of its currency.
    pub payment_max: Option<u64>,
    /// The maximum of all payments of one key in one currency on one UTC day.
    pub day_max: Option<u64>,
    /// Accepts tokens of type `test`, which move no money. Not in production.
    pub test: bool,
    /// Payments through Stripe.
    pub stripe: Option<StripeConfig>,
    /// Payments by the protocol x402.
    pub x402: Option<X402Config>,
    /// Transfers that were made on a chain before.
    pub crypto: Option<CryptoConfig>,
}

impl PaymentsConfig {
    /// Whether any method of payment is configured.
    pub(crate) const fn is_enabled(&self) -> bool {
        self.test || self.stripe.is_some() || self.x402.is_some() || self.crypto.is_some()
    }
}

/// `[network.payments.stripe]`: payments through Stripe.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StripeConfig {
    /// The account's secret key, as `env:NAME` or `file:PATH`.
    pub secret_key: SecretReference,
    /// The URL of the Stripe API.
    #[serde(default = "stripe_url")]
    pub url: String,
}

/// `[network.payments.x402]`: payments by x402.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct X402Config {
    /// The URL of the facilitator.
    pub facilitator: String,
    /// A token for the facilitator, as `env:NAME` or `file:PATH`.
    pub token: Option<SecretReference>,
    /// The asset that is paid, and its recipient.
    #[serde(flatten)]
    pub asset: AssetConfig,
    /// Further values that the scheme needs, such as the asset's `name` and `version`.
    #[serde(default)]
    pub extra: BTreeMap<String, String>,
}

/// `[network.payments.crypto]`: transfers on a chain.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CryptoConfig {
    /// The URL of the chain's JSON-RPC, as `env:NAME` or `file:PATH`, because it most often contains a key.
    pub rpc: SecretReference,
    /// The asset that is paid, and its recipient.
    #[serde(flatten)]
    pub asset: AssetConfig,
    /// Confirmations that a transfer needs, its own block included.
    #[serde(default = "confirmations")]
    pub confirmations: u64,
}

/// An asset on a chain, and the recipient of payments.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct AssetConfig {
    /// The chain as a CAIP-2 id, such as `eip155:8453`.
    pub network: String,
    /// The contract of the asset.
    pub asset: String,
    /// Our address on the chain.
    pub pay_to: String,
    /// The currency that the asset represents.
    #[serde(default = "dollar")]
    pub currency: String,
    /// How many more digits the asset has than the currency: 4 for six digits and cents.
    #[serde(default = "more_digits")]
    pub more_digits: u32,
}

/// `[network.billing]`: the billing of counted bookings.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BillingConfig {
    /// The account's secret key, as `env:NAME` or `file:PATH`.
    pub secret_key: SecretReference,
    /// The URL of the Stripe API.
    #[serde(default = "stripe_url")]
    pub url: String,
    /// The event name of the meter.
    pub event_name: String,
    /// The id of the meter, by which its sums are read.
    pub meter: Option<String>,
    /// Whether bookings are billed every night at 00:15 UTC.
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
