//! `sabir billing …`: what was counted, and the biller that charges for it.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::Outcome;
use clap::Args;
use sabir_server::admin::{CheckBilling, RunBilling};

/// Send what was counted to the biller: one meter event for each payer and day.
///
/// A server does this by itself every night at 00:15 UTC where [network.billing] names a biller. What was sent is
/// marked, and never sent under another name: a run that was broken off, or whose answers got lost, is simply run
/// again. Bookings of keys without a customer stay where they are. Batches that the biller refuses for good, that are
/// older than 35 days, or whose arrival at the biller can no longer be found out, are kept for the operator to look at.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir billing run --dry-run\n  \
    sabir billing run -o json\n\n\
    In the configuration:\n  \
    [network.billing]\n  \
    secret_key = \"env:STRIPE_SECRET_KEY\"\n  \
    event_name = \"agnt_booking\"\n  \
    meter = \"mtr_…\"                # so that its sums can be asked for")]
pub(crate) struct BillingRun {
    /// Only show what would be sent.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for BillingRun {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let list = self.server.ask(RunBilling { dry_run: self.dry_run })?;
        print_json(&out, &list)?;
        let batches = list.batches;
        out.text(|fields| {
            if batches.is_empty() {
                fields.field("Batches", "none");
            }
            for batch in &batches {
                let reason = batch.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                let what = format!("{} bookings of {}: {}{reason}", batch.count, batch.day, batch.status);
                fields.field(&batch.customer, &what);
            }
        })?;
        Ok(if batches.iter().any(|batch| matches!(&*batch.status, "open" | "manual")) {
            Exit::Failed
        } else {
            Exit::Done
        })
    }
}

/// Compare what was booked with what was counted, and say what is yet to be billed.
///
/// Exits with 1 where they differ, or where a batch waits for the operator.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir billing check\n  \
    sabir billing check -o json")]
pub(crate) struct BillingCheck {
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for BillingCheck {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let tally = self.server.ask(CheckBilling {})?;
        print_json(&out, &tally)?;
        out.text(|fields| {
            fields.field("Bookings", &tally.bookings.to_string());
            fields.field("Counted", &tally.counted.to_string());
            fields.field("Drift", &tally.drift.to_string());
            fields.field("Unsynced", &tally.unsynced.to_string());
            fields.field("Without customer", &tally.without_customer.to_string());
            fields.field("Open batches", &tally.open_batches.to_string());
            fields.field("Manual batches", &tally.manual_batches.to_string());
        })?;
        Ok(if tally.whole { Exit::Done } else { Exit::Failed })
    }
}
