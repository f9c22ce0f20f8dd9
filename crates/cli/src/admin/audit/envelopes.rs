//! `sabir audit envelopes`: the envelopes that the booking network received, and the outcome of each.

use crate::Invocation;
use crate::admin::span::moment_past;
use crate::admin::{ServerTarget, print_json};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::render::escape;
use clap::Args;
use sabir_proto::Timestamp;
use sabir_server::admin::{EnvelopeView, ListEnvelopes, ROWS_MAX};

/// Show envelopes that came to the booking network, the latest first: the sender, the intent and the outcome.
///
/// Every envelope is there, those that were refused as well. Payment data, signatures and credentials are removed
/// before it is stored. One that changed nothing is written with the next commit, or within a second.
/// docs/guides/sql.md says how to ask the same of the file by SQL.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir audit envelopes -n 50\n  \
    sabir audit envelopes --intent booking.confirm --status slot_unavailable\n  \
    sabir audit envelopes --key k0123456789 --since 24h -o json")]
pub(crate) struct AuditEnvelopes {
    /// The number of envelopes to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    lines: usize,
    /// Only those with this key, by its id.
    #[arg(long, value_name = "KEY_ID")]
    key: Option<String>,
    /// Only those from this agent.
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// Only those with this intent.
    #[arg(long, value_name = "INTENT")]
    intent: Option<String>,
    /// Only those that ended like this: ok, duplicate, or the code of a problem.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those since then: a span such as 24h, or a date such as 2026-11-16.
    #[arg(long, value_name = "WHEN", value_parser = moment_past)]
    since: Option<Timestamp>,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for AuditEnvelopes {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        if !(1..=ROWS_MAX).contains(&self.lines) {
            return Err(Problem::usage(format!("-n is between 1 and {ROWS_MAX}")).into());
        }
        let Self { lines: limit, key, from, intent, status, since, server } = self;
        let list = server.ask(ListEnvelopes { since, key, from, intent, status, limit })?;
        print_json(&out, &list)?;
        if !out.is_json() {
            for one in &list.envelopes {
                out.payload(&(escape(&record_line(one)) + "\n"))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Formats a record as one line. Text that a caller chose is quoted where it could be read as another field.
fn record_line(one: &EnvelopeView) -> String {
    let intent = if one.intent.is_empty() { "unknown" } else { &one.intent };
    let mut line = format!(
        "{} {intent} {} {} in {} ms from={}",
        one.received_at,
        one.status,
        one.http_status,
        one.latency_ms,
        super::quoted_if_needed(&one.from)
    );
    let more = [("key", &one.key), ("signed", &one.signed), ("booking", &one.booking_id), ("at", &one.remote_addr)];
    for (label, value) in more {
        if let Some(value) = value {
            line += &format!(" {label}={}", super::quoted_if_needed(value));
        }
    }
    line
}
