//! Billing, for operators: the result of a run, and whether bookings and billing records agree.

use sabir_network::billing::{self, BillingRun};
use sabir_proto::Timestamp;
use sabir_store::{Batch, BillingTotals, DAY_MS};
use serde::{Deserialize, Serialize};

/// A billing batch as the admin commands show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the tally")]
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

pub(crate) fn preview_views(batches: Vec<Batch>) -> Vec<BatchView> {
    batches.into_iter().map(|batch| view(batch, "would_be_sent", None)).collect()
}

pub(crate) fn run_views(run: BillingRun) -> Vec<BatchView> {
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

pub(crate) fn tally_view(tally: BillingTotals) -> TallyView {
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
