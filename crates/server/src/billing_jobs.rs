//! The payment services of the network, and the jobs that release holds and bill bookings.

use crate::agents::reveal;
use crate::config::Config;
use crate::config::payment::{AssetConfig, BillingConfig, PaymentsConfig};
use crate::tokio_host::TokioHost;
use sabir_engine::{Host as _, TaskLog};
use sabir_gateway::{ServiceClient, Tls};
use sabir_guard::authenticator::SecretResolver;
use sabir_network::ServiceTransport;
use sabir_network::billing::{self, Biller, StripeMeter};
use sabir_network::payment::{
    Crypto, PaymentCaps, PaymentProcessor, PaymentService, Stripe, TestProcessor, X402, release_holds,
};
use sabir_store::{DAY_MS, Ledger};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How long a service has for one answer. Longer than a caller waits, because a payment completes without the caller.
const SERVICE_TIME_MAX: Duration = Duration::from_secs(30);
/// How long an operator's billing request may run; a little less than the timeout of the request.
pub(crate) const BILL_REQUEST_TIME_MAX: Duration = Duration::from_secs(20);
/// The pause between two checks for expired holds.
const HOLDS_EVERY: Duration = Duration::from_secs(60);
/// When the nightly billing runs, after midnight UTC.
const BILLED_AT_MS: i64 = 15 * 60 * 1000;

/// The payment service; without processors if none are configured.
pub(crate) fn payment_service(config: &Config, secrets: &dyn SecretResolver) -> Result<PaymentService, String> {
    let Some(payments) = config.network.as_ref().map(|network| &network.payments) else {
        return Ok(PaymentService::default());
    };
    let processors = processors(config, payments, secrets)?;
    Ok(PaymentService::new(processors, PaymentCaps { payment_max: payments.payment_max, day_max: payments.day_max }))
}

fn processors(
    config: &Config,
    payments: &PaymentsConfig,
    secrets: &dyn SecretResolver,
) -> Result<Vec<Arc<dyn PaymentProcessor>>, String> {
    let mut processors: Vec<Arc<dyn PaymentProcessor>> = Vec::new();
    if payments.test {
        if config.is_production() {
            return Err("network.payments.test: tokens that move no money are not taken in production".into());
        }
        processors.push(Arc::new(TestProcessor));
    }
    if let Some(stripe) = &payments.stripe {
        let key = reveal(secrets, "network.payments.stripe.secret_key", &stripe.secret_key)?;
        let url = base_url("network.payments.stripe.url", &stripe.url)?;
        processors.push(Arc::new(Stripe::new(url, key, service_client(config)?)));
    }
    if let Some(x402) = &payments.x402 {
        let token = x402.token.as_ref().map(|token| reveal(secrets, "network.payments.x402.token", token));
        let AssetConfig { network, asset, pay_to, currency, more_digits } = x402.asset.clone();
        processors.push(Arc::new(X402 {
            url: base_url("network.payments.x402.facilitator", &x402.facilitator)?,
            token: token.transpose()?,
            network,
            asset,
            pay_to,
            currency,
            more_digits,
            extra: x402.extra.iter().map(|(name, text)| (name.clone(), text.clone().into())).collect(),
            transport: service_client(config)?,
        }));
    }
    if let Some(crypto) = &payments.crypto {
        let rpc = reveal(secrets, "network.payments.crypto.rpc", &crypto.rpc)?;
        let AssetConfig { network, asset, pay_to, currency, more_digits } = crypto.asset.clone();
        let wrong = |_| "network.payments.crypto.rpc: it is no address".to_owned();
        processors.push(Arc::new(Crypto {
            url: Url::parse(rpc.expose().trim()).map_err(wrong)?,
            network,
            asset,
            pay_to,
            currency,
            more_digits,
            confirmations: crypto.confirmations,
            transport: service_client(config)?,
        }));
    }
    Ok(processors)
}

/// The biller, if one is configured.
pub(crate) fn biller(config: &Config, secrets: &dyn SecretResolver) -> Result<Option<Arc<dyn Biller>>, String> {
    let Some(section) = config.network.as_ref().and_then(|network| network.billing.as_ref()) else { return Ok(None) };
    let BillingConfig { secret_key, url, event_name, meter, .. } = section;
    let key = reveal(secrets, "network.billing.secret_key", secret_key)?;
    let stripe = Stripe::new(base_url("network.billing.url", url)?, key, service_client(config)?);
    Ok(Some(Arc::new(StripeMeter { stripe, event_name: event_name.clone(), id: meter.clone() })))
}

fn service_client(config: &Config) -> Result<Arc<dyn ServiceTransport>, String> {
    let errands =
        ServiceClient::new(config.egress.policy(), &Tls::default(), SERVICE_TIME_MAX).map_err(|e| e.to_string())?;
    Ok(Arc::new(errands))
}

/// A base URL, to which paths are appended.
fn base_url(key: &str, text: &str) -> Result<Url, String> {
    let with_end = format!("{}/", text.trim_end_matches('/'));
    Url::parse(&with_end).ok().filter(|url| url.has_host()).ok_or_else(|| format!("{key}: {text:?} is no address"))
}

/// Releases the slots of holds that have expired. Never ends.
pub(crate) async fn release_expired_holds(log: Arc<dyn TaskLog>, ledger: Arc<dyn Ledger>) {
    loop {
        match release_holds(&*log, &*ledger, TokioHost.now()).await {
            Ok(0) => {}
            Ok(released) => tracing::warn!(released, "gave back slots whose holds had expired"),
            Err(error) => tracing::error!(%error, "holds cannot be looked at; trying again"),
        }
        TokioHost.sleep(HOLDS_EVERY).await;
    }
}

/// Bills the counted bookings every night. Never ends.
pub(crate) async fn bill_nightly(ledger: Arc<dyn Ledger>, biller: Arc<dyn Biller>) {
    loop {
        let now = TokioHost.now().millis();
        let wait = DAY_MS - (now - BILLED_AT_MS).rem_euclid(DAY_MS);
        TokioHost.sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
        match billing::run(&*ledger, &*biller, &TokioHost, None).await {
            Ok(run) => {
                let (synced, open, manual) = (run.synced.len(), run.open.len(), run.manual.len());
                tracing::info!(synced, open, manual, "billed what was counted");
            }
            Err(error) => tracing::error!(%error, "what was counted could not be billed; the next night tries again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth_setup::ConfiguredSecrets;

    fn config(text: &str) -> Config {
        Config::read(text).unwrap()
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        let refused = |text: &str| {
            let config = config(text);
            payment_service(&config, &ConfiguredSecrets::new(&config)).unwrap_err()
        };
        let stripe = "[network.payments.stripe]\nsecret_key = \"env:SABIR_TEST_NO_SUCH_VARIABLE\"\n";
        assert!(refused(stripe).contains("network.payments.stripe.secret_key"), "{}", refused(stripe));
        let literal = "[network.payments.stripe]\nsecret_key = \"sk_live_1\"\n";
        assert!(!refused(literal).contains("sk_live_1"), "a secret is not repeated");
        let x402 = "[network.payments.x402]\nfacilitator = \"nowhere\"\nnetwork = \"eip155:1\"\nasset = \"0x1\"\npay_to = \"0x2\"\n";
        assert!(refused(x402).contains("network.payments.x402.facilitator"));
        let open = config("[network.payments]\ntest = true\nday_max = 10\n");
        assert!(payment_service(&open, &ConfiguredSecrets::new(&open)).unwrap().is_enabled());
        let none = config("[network]\n");
        assert!(!payment_service(&none, &ConfiguredSecrets::new(&none)).unwrap().is_enabled());
        assert!(biller(&none, &ConfiguredSecrets::new(&none)).unwrap().is_none());
    }
}
