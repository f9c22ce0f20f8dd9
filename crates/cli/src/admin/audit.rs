//! `sabir audit …`: who was refused, who changed what, and whether the audit was altered afterwards.

mod envelopes;

pub(crate) use envelopes::AuditEnvelopes;

use super::{ServerFiles, problem, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use clap::Args;
use sabir_server::admin::{Admin, AuditEntry, ChainPosition, ChainVerification, Expect, Hash, LinkedEntry};
use serde_json::{Value, json};
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
    server: ServerFiles,
}

impl Verb for AuditTail {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let admin = self.server.open(Expect::Existing)?;
        let job = self.job.map(|job| job.to_string());
        let caller = self.caller.clone();
        let wanted = move |entry: &AuditEntry| {
            caller.as_ref().is_none_or(|caller| entry.caller == *caller) && (job.is_none() || entry.job == job)
        };
        let (last, end) = wait(admin.last_entries(self.lines, &wanted))?;
        if out.is_json() && !self.follow {
            let entries: Vec<Value> = last.iter().map(entry_json).collect();
            out.document(&json!({"entries": entries}).to_string())?;
            return Ok(Exit::Done);
        }
        print_entries(&out, &last)?;
        if self.follow { follow(&out, &admin, end, &wanted) } else { Ok(Exit::Done) }
    }
}

/// Shows new entries until Ctrl-C.
fn follow(out: &Output, admin: &Admin, mut after: u64, wanted: &dyn Fn(&AuditEntry) -> bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Problem::internal(format!("cannot start: {e}")))?;
    runtime.block_on(async {
        let stop = tokio::signal::ctrl_c();
        tokio::pin!(stop);
        loop {
            let mut page = admin.entries_after(after).await.map_err(problem)?;
            let more = page.last().map(|one| one.entry.seq);
            page.retain(|one| wanted(&one.entry));
            print_entries(out, &page)?;
            if let Some(seq) = more {
                after = seq;
                continue;
            }
            tokio::select! {
                _ = &mut stop => return Ok(Exit::Interrupted),
                () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
            }
        }
    })
}

fn print_entries(out: &Output, entries: &[LinkedEntry]) -> Result<(), Stop> {
    for one in entries {
        if out.is_json() {
            out.line(&entry_json(one).to_string())?;
        } else {
            out.payload(&(crate::render::escape(&entry_line(&one.entry)) + "\n"))?;
        }
    }
    Ok(())
}

/// An entry for programs, with its place in the chain.
fn entry_json(one: &LinkedEntry) -> Value {
    let mut all = serde_json::to_value(&one.entry).unwrap_or_default();
    all["hash"] = json!(one.hash.to_string());
    all
}

/// Formats an entry as one line. Text that a caller chose is quoted where it could be read as another field.
fn entry_line(entry: &AuditEntry) -> String {
    let outcome = serde_json::to_value(entry.outcome).ok();
    let outcome = outcome.as_ref().and_then(Value::as_str).unwrap_or_default();
    let caller = quoted_if_needed(&entry.caller);
    let mut line = format!(
        "{} {} {outcome} {} by {caller} ({}): {}",
        entry.seq, entry.time, entry.operation, entry.scheme, entry.reason
    );
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
    known: Option<ChainPosition>,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for AuditVerify {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let admin = self.server.open(Expect::Existing)?;
        let ChainVerification { entries, hash, first_break: broken } = wait(admin.verify_audit(self.known))?;
        if let Some(broken) = broken {
            let message =
                format!("the audit in {} is broken: {broken}; up to entry {entries} it holds", admin.path().display());
            let problem = Problem::new(ErrorCode::Vendor("SABIR_ERR_AUDIT_BROKEN"), message);
            return Err(problem.hint("compare it with a backup; keep the file as it is, it is evidence").into());
        }
        if out.is_json() {
            out.document(&json!({"whole": true, "entries": entries, "hash": hash.to_string()}).to_string())?;
            return Ok(Exit::Done);
        }
        out.text(|fields| {
            fields.field("Whole", "yes");
            fields.field("Entries", &entries.to_string());
            fields.field("Hash", &hash.to_string());
            fields.field("Later", &format!("sabir audit verify --known {entries}:{hash}"));
        })?;
        Ok(Exit::Done)
    }
}

fn known(text: &str) -> Result<ChainPosition, String> {
    let wrong = || "it is the number of an entry, a colon, and the 64 digits of its hash".to_owned();
    let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
    let seq = seq.parse().map_err(|_| wrong())?;
    Ok(ChainPosition { seq, hash: Hash::parse(hash).ok_or_else(wrong)? })
}
