//! `sabir audit …`: who was refused, who changed what, and whether the audit was altered afterwards.

mod envelopes;

pub(crate) use envelopes::AuditEnvelopes;

use super::{ServerTarget, block_on, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use clap::Args;
use sabir_server::admin::{AuditEntryView, ListAudit, TailAudit, VerifiedAudit, VerifyAudit, parse_position};
use serde_json::json;
use std::time::Duration;

/// The pause between two reads of the audit while it is followed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// Show the last entries of the audit, one line each; with --follow, those to come as well.
///
/// In JSON they are one document, and with --follow one object per line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir audit tail -n 50\n  \
    sabir audit tail --follow --caller key:k0123456789\n  \
    sabir audit tail --job 42 -o json")]
pub(crate) struct AuditTail {
    /// The number of entries to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    lines: usize,
    /// Go on showing new ones, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Only those of this caller.
    #[arg(long, value_name = "CALLER")]
    caller: Option<String>,
    /// Only those of this job on a chain.
    #[arg(long, value_name = "JOB")]
    job: Option<u64>,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for AuditTail {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let job = self.job.map(|job| job.to_string());
        let operation = TailAudit { count: self.lines, caller: self.caller.clone(), job: job.clone() };
        let tail = self.server.ask(operation)?;
        if out.is_json() && !self.follow {
            out.document(&json!({"entries": tail.entries}).to_string())?;
            return Ok(Exit::Done);
        }
        print_entries(&out, &tail.entries)?;
        if !self.follow {
            return Ok(Exit::Done);
        }
        block_on(follow(&out, &self.server, ListAudit { after: tail.end, caller: self.caller, job }))?
    }
}

/// Shows new entries until Ctrl-C.
async fn follow(out: &Output, server: &ServerTarget, mut wanted: ListAudit) -> Outcome {
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    loop {
        let page = server.ask_async(wanted.clone()).await?;
        print_entries(out, &page.entries)?;
        wanted.after = page.next;
        if page.more {
            continue;
        }
        tokio::select! {
            _ = &mut stop => return Ok(Exit::Interrupted),
            () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
        }
    }
}

fn print_entries(out: &Output, entries: &[AuditEntryView]) -> Result<(), Stop> {
    for one in entries {
        if out.is_json() {
            out.line(&json!(one).to_string())?;
        } else {
            out.payload(&(crate::render::escape(&entry_line(one)) + "\n"))?;
        }
    }
    Ok(())
}

/// Formats an entry as one line. Text that a caller chose is quoted where it could be read as another field.
fn entry_line(entry: &AuditEntryView) -> String {
    let AuditEntryView { seq, time, outcome, operation, scheme, reason, .. } = entry;
    let caller = quoted_if_needed(&entry.caller);
    let mut line = format!("{seq} {time} {outcome} {operation} by {caller} ({scheme}): {reason}");
    for (label, value) in [("agent", &entry.agent), ("about", &entry.about), ("job", &entry.job)] {
        if let Some(value) = value {
            line += &format!(" {label}={}", quoted_if_needed(value));
        }
    }
    if entry.count > 1 {
        line += &format!(" ×{}", entry.count);
    }
    line
}

fn quoted_if_needed(text: &str) -> String {
    let plain = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '"');
    if plain { text.to_owned() } else { format!("{text:?}") }
}

/// Check that no entry of the audit was edited, removed or inserted.
///
/// Each entry follows from the one before it. That alone cannot show that the end was cut off, or that all of it was made
/// anew; a number and a hash that were written down elsewhere can, and --known compares them. Exit code 1 if the chain is
/// broken.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir audit verify\n  \
    sabir audit verify --known 42:9abd7b8a39e4ca273f3f415ce410a021870a6334170f49d13ea3606e3b8e5b73")]
pub(crate) struct AuditVerify {
    /// The number and the hash of an entry, as an earlier run printed them.
    #[arg(long, value_name = "SEQ:HASH", value_parser = known)]
    known: Option<String>,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for AuditVerify {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let verified = self.server.ask(VerifyAudit { known: self.known })?;
        let VerifiedAudit { entries, hash, problem, .. } = &verified;
        if let Some(broken) = problem {
            let message = format!("the audit is broken: {broken}; up to entry {entries} it holds");
            let problem = Problem::new(ErrorCode::Vendor("SABIR_ERR_AUDIT_BROKEN"), message);
            return Err(problem.hint("compare it with a backup; keep the file as it is, it is evidence").into());
        }
        print_json(&out, &verified)?;
        out.text(|fields| {
            fields.field("Whole", "yes");
            fields.field("Entries", &entries.to_string());
            fields.field("Hash", hash);
            fields.field("Later", &format!("sabir audit verify --known {entries}:{hash}"));
        })?;
        Ok(Exit::Done)
    }
}

/// Checks that a text is a position in the chain; the server reads it.
fn known(text: &str) -> Result<String, String> {
    parse_position(text).map(|_| text.to_owned())
}
