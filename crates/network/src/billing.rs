//! Billing: sends metered usage to the biller, a batch for each payer and day, each with its own id.
//!
//! A batch is claimed in one commit, marked before it is sent, and closed once the biller has it. After a crash the
//! same batch is sent again under the same id, which the biller recognises for a day. After that day the biller's own
//! sums are compared first; and where those do not decide it either, an operator has to look.

mod meter;

pub use meter::StripeMeter;

use sabir_engine::{BoxFuture, Host};
use sabir_proto::Timestamp;
use sabir_store::{Batch, BatchStatus, BatchUpdate, BillingTotals, DAY_MS, Ledger, StoreError};
use std::time::Duration;

/// How long the biller recognises an id. It guarantees 24 hours; an hour less is safe.
pub const IDEMPOTENCY_WINDOW_MS: i64 = DAY_MS - 3_600_000;
/// How old the last booking of a batch may be for the biller to accept it, in days.
pub const BILLABLE_DAYS: i64 = 35;
/// Attempts to send a batch in one run.
pub const ATTEMPTS_MAX: u32 = 3;
/// The first pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// The biller's response to a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BillingResult {
    /// The biller has accepted the batch.
    Accepted,
    /// The biller will never accept it, for this reason.
    Refused(String),
    /// The result is unknown, or the biller cannot take it now. The batch may be sent again under the same id.
    Unknown(String),
}

/// What the biller's own sums say about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconciliation {
    /// The sums contain the batch.
    Found,
    /// The sums do not contain it.
    Missing,
    /// The sums fit neither case.
    Unclear,
}

/// The service that bills usage.
pub trait Biller: Send + Sync + 'static {
    /// Sends a batch under its own id.
    fn bill<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, BillingResult>;

    /// Compares the biller's sums with a batch, given that `known` bookings of the same payer and day are in them
    /// already.
    fn reconcile<'a>(&'a self, batch: &'a Batch, known: u64) -> BoxFuture<'a, Result<Reconciliation, String>>;
}

/// The result of a billing run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BillingRun {
    /// Batches that the biller has now.
    pub synced: Vec<Batch>,
    /// Batches that the next run tries again, and why.
    pub open: Vec<(Batch, String)>,
    /// Batches that an operator has to look at, and why.
    pub manual: Vec<(Batch, String)>,
}

/// Batches that a run would send: open ones, and those that it would claim.
pub async fn preview(ledger: &dyn Ledger, now: Timestamp) -> Result<Vec<Batch>, StoreError> {
    let mut batches = ledger.batches(false).await?;
    batches.retain(|batch| batch.status == BatchStatus::Open);
    batches.extend(ledger.claimable_usage(now, now).await?);
    Ok(batches)
}

/// Bills all usage metered before now. Batches that are not begun within the time stay open for the next run.
pub async fn run(
    ledger: &dyn Ledger,
    biller: &dyn Biller,
    host: &dyn Host,
    within: Option<Duration>,
) -> Result<BillingRun, StoreError> {
    let began = host.now();
    ledger.claim_usage(began, began).await?;
    let mut run = BillingRun::default();
    for batch in ledger.batches(false).await? {
        if let BatchStatus::Manual(why) = &batch.status {
            let why = why.clone();
            run.manual.push((batch, why));
            continue;
        }
        let passed = Duration::from_millis(u64::try_from(host.now().millis() - began.millis()).unwrap_or(0));
        if within.is_some_and(|within| passed > within) {
            run.open.push((batch, "there was no time for it; run again".into()));
            continue;
        }
        match bill_batch(ledger, biller, &batch, host).await? {
            BillingResult::Accepted => {
                ledger.update_batch(&batch.id, BatchUpdate::Synced(host.now())).await?;
                run.synced.push(batch);
            }
            BillingResult::Refused(why) => {
                tracing::error!(batch = batch.id, why, "a batch cannot be billed; an operator has to look at it");
                ledger.update_batch(&batch.id, BatchUpdate::Manual(why.clone())).await?;
                run.manual.push((batch, why));
            }
            BillingResult::Unknown(why) => {
                tracing::warn!(batch = batch.id, why, "a batch was not billed; it is tried again the next time");
                run.open.push((batch, why));
            }
        }
    }
    Ok(run)
}

/// Bills one batch.
async fn bill_batch(
    ledger: &dyn Ledger,
    biller: &dyn Biller,
    batch: &Batch,
    host: &dyn Host,
) -> Result<BillingResult, StoreError> {
    let since = |at: Timestamp| host.now().millis().saturating_sub(at.millis());
    if since(batch.last_at) > BILLABLE_DAYS * DAY_MS {
        return Ok(BillingResult::Refused(format!("its bookings are older than {BILLABLE_DAYS} days")));
    }
    if batch.sent_at.is_some_and(|at| since(at) >= IDEMPOTENCY_WINDOW_MS) {
        let same = |other: &&Batch| other.customer == batch.customer && other.day == batch.day;
        let all = ledger.batches(true).await?;
        let synced = all.iter().filter(same).filter(|other| matches!(other.status, BatchStatus::Synced(_)));
        let known = synced.map(|other| other.count).sum();
        match biller.reconcile(batch, known).await {
            Ok(Reconciliation::Found) => return Ok(BillingResult::Accepted),
            Ok(Reconciliation::Missing) => {}
            Ok(Reconciliation::Unclear) => {
                return Ok(BillingResult::Refused("the biller may or may not have it: its sums do not tell".into()));
            }
            Err(why) => return Ok(BillingResult::Unknown(why)),
        }
    }
    ledger.update_batch(&batch.id, BatchUpdate::Sent(host.now())).await?;
    let (mut tries, mut pause) = (1, PAUSE);
    loop {
        match biller.bill(batch).await {
            BillingResult::Unknown(_) if tries < ATTEMPTS_MAX => {
                host.sleep(pause).await;
                (tries, pause) = (tries + 1, pause * 4);
            }
            billed => return Ok(billed),
        }
    }
}

/// Whether bookings, usage and batches agree.
pub fn is_consistent(tally: &BillingTotals) -> bool {
    tally.drift() == 0 && tally.manual == 0
}
