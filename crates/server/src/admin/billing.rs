//! Billing: a run of the biller, and whether bookings and billing records agree.

use super::AdminError;
use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator, now};
use crate::billing_jobs;
use crate::tokio_host::TokioHost;
use sabir_network::billing::{self, BillingRun};
use sabir_proto::Timestamp;
use sabir_store::{Batch, BillingTotals, DAY_MS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sends the counted bookings to the biller.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RunBilling {
    /// Only reports what would be sent.
    pub dry_run: bool,
}

/// Compares the bookings with the counted events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckBilling {}

/// Batches, with the result of each.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BatchList {
    pub batches: Vec<BatchView>,
}

/// A billing batch: the bookings of one payer on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchView {
    /// Its name; the biller knows it as `agnt-` and this.
    pub batch_id: String,
    /// The customer who pays.
    pub customer: String,
    /// The day of the bookings, in UTC.
    pub day: String,
    /// The number of bookings in the batch.
    pub count: u64,
    /// `synced`, `open` or `manual`; `would_be_sent` where nothing was sent.
    pub status: String,
    /// Why it is not synced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How far bookings and billing records agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TallyView {
    pub bookings: u64,
    pub counted: u64,
    pub drift: i64,
    pub unsynced: u64,
    pub without_customer: u64,
    pub open_batches: u64,
    pub manual_batches: u64,
    /// Nothing drifts, and no batch waits for an operator.
    pub whole: bool,
}

impl Perform for RunBilling {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::post("/billing/run", "Send the counted bookings to the biller");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<BatchList, AdminError> {
        let network = service.network()?;
        if self.dry_run {
            return Ok(BatchList { batches: preview_views(billing::preview(network.ledger(), now()).await?) });
        }
        let none = "this server has no biller: [network.billing] is not in the configuration";
        let biller = network.biller.as_ref().ok_or_else(|| AdminError::refused(none))?;
        let time_max = Some(billing_jobs::BILL_REQUEST_TIME_MAX);
        let run = billing::run(network.ledger(), &**biller, &TokioHost, time_max).await?;
        service.record_change(operator, "billing.run", None).await?;
        Ok(BatchList { batches: run_views(run) })
    }
}

impl Perform for CheckBilling {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::get("/billing/check", "Compare the bookings with the counted events");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<TallyView, AdminError> {
        Ok(tally_view(service.network()?.ledger().billing_totals().await?))
    }
}

fn preview_views(batches: Vec<Batch>) -> Vec<BatchView> {
    batches.into_iter().map(|batch| view(batch, "would_be_sent", None)).collect()
}

fn run_views(run: BillingRun) -> Vec<BatchView> {
    let synced = run.synced.into_iter().map(|batch| view(batch, "synced", None));
    let open = run.open.into_iter().map(|(batch, why)| view(batch, "open", Some(why)));
    let manual = run.manual.into_iter().map(|(batch, why)| view(batch, "manual", Some(why)));
    synced.chain(open).chain(manual).collect()
}

fn view(batch: Batch, status: &str, reason: Option<String>) -> BatchView {
    let day = Timestamp::from_millis(batch.day.saturating_mul(DAY_MS)).to_string();
    BatchView {
        batch_id: batch.id,
        customer: batch.customer,
        day: day.split('T').next().unwrap_or_default().to_owned(),
        count: batch.count,
        status: status.to_owned(),
        reason,
    }
}

fn tally_view(tally: BillingTotals) -> TallyView {
    TallyView {
        bookings: tally.bookings,
        counted: tally.counted,
        drift: tally.drift(),
        unsynced: tally.unsynced,
        without_customer: tally.without_customer,
        open_batches: tally.open,
        manual_batches: tally.manual,
        whole: billing::is_consistent(&tally),
    }
}
