//! Stripe's billing meters: usage is sent as events, and Stripe computes the price.

use super::{Biller, BillingResult, Reconciliation};
use crate::payment::Stripe;
use sabir_engine::BoxFuture;
use sabir_store::{Batch, DAY_MS};
use serde_json::Value;

/// A meter of a Stripe account.
#[derive(Debug, Clone)]
pub struct StripeMeter {
    pub stripe: Stripe,
    /// The event name that the meter counts.
    pub event_name: String,
    /// The id of the meter, needed to read its sums.
    pub id: Option<String>,
}

impl StripeMeter {
    async fn send(&self, batch: &Batch) -> BillingResult {
        let (name, value) = (format!("agnt-{}", batch.id), batch.count.to_string());
        let at = batch.last_at.millis().div_euclid(1000).to_string();
        let members = [
            ("event_name", &*self.event_name),
            ("identifier", &*name),
            ("timestamp", &*at),
            ("payload[stripe_customer_id]", &*batch.customer),
            ("payload[value]", &*value),
        ];
        let brought = match self.stripe.call("v1/billing/meter_events", Some((&members, &name))).await {
            Ok(brought) => brought,
            Err(why) => return BillingResult::Unknown(why),
        };
        let said: Value = serde_json::from_slice(&brought.body).unwrap_or(Value::Null);
        let words = said["error"]["message"].as_str().unwrap_or_default();
        match brought.status {
            200..=299 => BillingResult::Accepted,
            // Stripe knows the id, so it has the batch.
            400 if words.contains("identifier") && words.contains("already") => BillingResult::Accepted,
            // The error concerns all batches, not this one: the key is wrong, or the rate limit is reached.
            401 | 403 | 404 | 408 | 409 | 429 => BillingResult::Unknown(format!("Stripe answered {}", brought.status)),
            400..=499 => BillingResult::Refused(format!("Stripe refuses it: {words}")),
            status => BillingResult::Unknown(format!("Stripe answered {status}")),
        }
    }

    async fn reconcile_with_sums(&self, batch: &Batch, known: u64) -> Result<Reconciliation, String> {
        let Some(id) = &self.id else { return Ok(Reconciliation::Unclear) };
        let from = batch.day.saturating_mul(DAY_MS / 1000);
        let (start, end) = (from.to_string(), from.saturating_add(DAY_MS / 1000).to_string());
        let query = crate::service_transport::encode_form(&[
            ("customer", &batch.customer),
            ("start_time", &start),
            ("end_time", &end),
            ("value_grouping_window", "day"),
        ]);
        let path = format!("v1/billing/meters/{id}/event_summaries?{query}");
        let brought = self.stripe.call(&path, None).await?;
        if brought.status != 200 {
            return Err(format!("Stripe answered {}", brought.status));
        }
        let said: Value =
            serde_json::from_slice(&brought.body).map_err(|_| "Stripe's sums cannot be read".to_owned())?;
        let sums = said["data"].as_array().ok_or_else(|| "Stripe's sums cannot be read".to_owned())?;
        let sum: f64 = sums.iter().filter_map(|sum| sum["aggregated_value"].as_f64()).sum();
        #[expect(clippy::cast_precision_loss, reason = "no day has 2^53 bookings")]
        let (without, with) = (known as f64, (known + batch.count) as f64);
        Ok(match sum {
            sum if (sum - with).abs() < 0.5 => Reconciliation::Found,
            sum if (sum - without).abs() < 0.5 => Reconciliation::Missing,
            _ => Reconciliation::Unclear,
        })
    }
}

impl Biller for StripeMeter {
    fn bill<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, BillingResult> {
        Box::pin(self.send(batch))
    }

    fn reconcile<'a>(&'a self, batch: &'a Batch, known: u64) -> BoxFuture<'a, Result<Reconciliation, String>> {
        Box::pin(self.reconcile_with_sums(batch, known))
    }
}
