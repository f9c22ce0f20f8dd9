//! The result of a replay, as text and as JSON.

use super::replayer::ReplayOutcome;
use crate::cassette::RecordedExchange;
use crate::output::Output;
use crate::problem::Stop;
use serde_json::{Value, json};

/// Most differences of one exchange that are printed as text.
const SHOWN_MAX: usize = 20;

pub(super) struct ReplayReport<'a> {
    out: &'a Output,
    agent: String,
    same: usize,
    different: usize,
    skipped: usize,
    exchanges: Vec<Value>,
}

impl<'a> ReplayReport<'a> {
    pub(super) fn new(out: &'a Output, agent: String) -> Result<Self, Stop> {
        let report = Self { out, agent, same: 0, different: 0, skipped: 0, exchanges: Vec::new() };
        report.out.text(|fields| fields.field("Agent", &out.redactor.url(&report.agent)))?;
        Ok(report)
    }

    pub(super) fn add(&mut self, exchange: &RecordedExchange, outcome: ReplayOutcome) -> Result<(), Stop> {
        let operation = operation_name(exchange);
        let (result, differences, reason) = match outcome {
            ReplayOutcome::Compared(found) if found.is_empty() => ("same", found, None),
            ReplayOutcome::Compared(found) => ("different", found, None),
            ReplayOutcome::Skipped(reason) => ("skipped", Vec::new(), Some(reason)),
        };
        match result {
            "same" => self.same += 1,
            "different" => self.different += 1,
            _ => self.skipped += 1,
        }
        self.out.text(|fields| {
            let why = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            fields.field("Exchange", &format!("{} {operation} {result}{why}", exchange.exchange));
            for one in differences.iter().take(SHOWN_MAX) {
                let words = format!("{}: {} was recorded, {} is said now", one.path, one.recorded, one.now);
                fields.field("Difference", &words);
            }
            if differences.len() > SHOWN_MAX {
                fields.field("Difference", &format!("and {} more", differences.len() - SHOWN_MAX));
            }
        })?;
        let differences: Vec<Value> = differences
            .into_iter()
            .map(|one| json!({ "path": one.path, "recorded": one.recorded, "now": one.now }))
            .collect();
        self.exchanges.push(json!({
            "exchange": exchange.exchange,
            "line": exchange.line,
            "operation": operation,
            "result": result,
            "reason": reason,
            "differences": differences,
        }));
        Ok(())
    }

    /// Prints the sums. Returns whether no answer differs.
    pub(super) fn finish(self) -> Result<bool, Stop> {
        self.out.text(|fields| {
            fields.field("Same", &self.same.to_string());
            fields.field("Different", &self.different.to_string());
            fields.field("Skipped", &self.skipped.to_string());
        })?;
        if self.out.is_json() {
            let document = json!({
                "agent": self.out.redactor.url(&self.agent),
                "same": self.same,
                "different": self.different,
                "skipped": self.skipped,
                "exchanges": self.exchanges,
            });
            self.out.document(&document.to_string())?;
        }
        Ok(self.different == 0)
    }
}

/// What was asked, in a word or two.
fn operation_name(exchange: &RecordedExchange) -> String {
    match exchange.request.body.value()["method"].as_str() {
        Some(method) if exchange.binding == "JSONRPC" => method.to_owned(),
        _ => format!("{} {}", exchange.request.method, exchange.request.path),
    }
}
