//! A report: findings as they come, and the sums.
//!
//! In text each line is printed when it is known; in JSON there is one object in the end. Lines that were not reached are
//! `skip` with the reason, so that every line of the table is in every report.

use super::checks::{DoctorCheck, Severity};
use crate::output::Output;
use crate::problem::Stop;
use crate::render::{Paint, Tone, escape};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How wide the column of ids is.
pub(super) const NAME_COLUMNS: usize = 21;
/// The longest detail, in characters: an agent's text is quoted, not repeated in full.
const DETAIL_CHARS_MAX: usize = 300;
/// A step that takes longer than this gets a progress line.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// The status of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckStatus {
    Ok,
    Warn,
    Fail,
    Skip,
}

impl CheckStatus {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    #[serde(skip)]
    check: DoctorCheck,
    id: &'static str,
    status: CheckStatus,
    /// Which interface of the card it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    detail: String,
    /// What is wrong, as the table says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<&'static str>,
    fix: Option<String>,
}

/// Everything that was found.
pub(super) struct DoctorReport {
    out: Output,
    url: String,
    findings: Vec<Finding>,
    /// The interface that is being looked at.
    interface: Option<String>,
    /// An earlier interface has findings already.
    is_further: bool,
    /// Skipped lines with the same reason: the first, and the name of the last.
    pending: Option<(Finding, &'static str)>,
    /// The ways in which the agent can be used.
    works_as: Vec<String>,
    /// The text that is printed if there is no such way.
    no_use_text: &'static str,
    /// The reason for lines that were not reached.
    skip_reason: String,
    /// The current step, for the progress line.
    current_step: Arc<Mutex<String>>,
    begun: Instant,
    stopped: Option<Stop>,
}

impl DoctorReport {
    pub(super) fn new(url: String, out: Output) -> Self {
        let skip_reason = "no occasion".to_owned();
        let (findings, works_as) = (Vec::new(), Vec::new());
        let (interface, is_further, pending, no_use_text, begun) = (None, false, None, "nothing", Instant::now());
        Self {
            out,
            url,
            findings,
            interface,
            is_further,
            pending,
            works_as,
            no_use_text,
            skip_reason,
            current_step: Arc::default(),
            begun,
            stopped: None,
        }
    }

    pub(super) fn ok(&mut self, check: DoctorCheck, detail: impl Into<String>) {
        self.add(check, CheckStatus::Ok, detail.into(), None);
    }

    pub(super) fn skip(&mut self, check: DoctorCheck, why: impl Into<String>) {
        self.add(check, CheckStatus::Skip, why.into(), None);
    }

    /// Reports a fault. The table gives its level.
    pub(super) fn report_fault(&mut self, check: DoctorCheck, detail: impl Into<String>) {
        self.report_fault_with_fix(check, detail, check.row().fix);
    }

    /// The same with a remedy that fits better than the one in the table.
    pub(super) fn report_fault_with_fix(
        &mut self,
        check: DoctorCheck,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let status = match check.row().level {
            Severity::Warn => CheckStatus::Warn,
            Severity::Fail => CheckStatus::Fail,
        };
        self.add(check, status, detail.into(), Some(fix.into()));
    }

    /// Reports a pass, or a fault if something is wrong.
    pub(super) fn report_result(&mut self, check: DoctorCheck, well: impl Into<String>, wrong: Option<String>) {
        match wrong {
            None => self.ok(check, well),
            Some(wrong) => self.report_fault(check, wrong),
        }
    }

    fn add(&mut self, check: DoctorCheck, status: CheckStatus, detail: String, fix: Option<String>) {
        let detail: String = self.out.redactor.text(&detail).chars().take(DETAIL_CHARS_MAX).collect();
        let row = check.row();
        let means = fix.is_some().then_some(row.means);
        let finding = Finding { check, id: row.id, status, interface: self.interface.clone(), detail, means, fix };
        self.show(&finding);
        self.findings.push(finding);
    }

    /// Prints a finding as it comes. Without --verbose, skipped lines with one reason are one line, and further
    /// interfaces show only faults: what works with the first mostly works with the rest.
    fn show(&mut self, finding: &Finding) {
        if self.out.is_json() {
            return;
        }
        let complains = finding.fix.is_some();
        if self.out.verbose {
            return self.print(&finding_line(finding, "", self.out.paint));
        }
        match &mut self.pending {
            Some((first, last)) if finding.status == CheckStatus::Skip && first.detail == finding.detail => {
                *last = finding.check.row().well
            }
            _ => {
                self.flush();
                if complains || (finding.status == CheckStatus::Ok && !self.is_further) {
                    self.print(&finding_line(finding, "", self.out.paint));
                } else if !self.is_further {
                    self.pending = Some((finding.clone(), finding.check.row().well));
                }
            }
        }
    }

    /// Prints the lines that were held back.
    fn flush(&mut self) {
        if let Some((first, last)) = self.pending.take() {
            let to = if last == first.check.row().well { String::new() } else { format!("… {last}: ") };
            self.print(&finding_line(&first, &to, self.out.paint));
        }
    }

    fn print(&mut self, text: &str) {
        if self.stopped.is_none() {
            self.stopped = self.out.payload(&(text.to_owned() + "\n")).err();
        }
    }

    /// Begins the findings of this interface.
    pub(super) fn begin_interface(&mut self, interface: &str) {
        self.is_further = self.findings.iter().any(|finding| finding.interface.is_some());
        self.interface = Some(interface.to_owned());
    }

    /// Ends the findings of the interface.
    pub(super) fn done(&mut self) {
        self.flush();
        let here = self.findings.iter().filter(|finding| finding.interface == self.interface);
        let (well, skipped) = here.fold((0, 0), |(well, skipped), finding| match finding.status {
            CheckStatus::Ok => (well + 1, skipped),
            CheckStatus::Skip => (well, skipped + 1),
            CheckStatus::Warn | CheckStatus::Fail => (well, skipped),
        });
        if self.is_further && well > 0 && !self.out.is_json() && !self.out.verbose {
            let name = self.interface.clone().unwrap_or_default();
            self.print(&format!("{:<5} {name:<NAME_COLUMNS$} {well} lines ok, {skipped} skipped", "ok"));
        }
        (self.interface, self.is_further) = (None, false);
    }

    /// Sets the reason for all lines that are not reached from here on.
    pub(super) fn skip_remaining(&mut self, why: impl Into<String>) {
        self.skip_reason = why.into();
    }

    /// Adds a way in which the agent can be used.
    pub(super) fn add_use(&mut self, how: String) {
        self.works_as.push(how);
    }

    /// Sets the text for an agent of which it is not known whether it can be used.
    pub(super) fn usability_unknown(&mut self, why: &'static str) {
        self.no_use_text = why;
    }

    /// Sets the current step, for the progress line.
    pub(super) fn set_step(&self, what: &str) {
        let of = self.interface.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        *self.current_step.lock().unwrap_or_else(PoisonError::into_inner) = format!("{of}{what}");
    }

    /// Shows the progress line from time to time. Never returns.
    pub(super) fn progress(&self) -> impl Future<Output = ()> + use<> {
        let (out, doing, begun) = (self.out.clone(), self.current_step.clone(), self.begun);
        async move {
            if !out.shows_progress() {
                return std::future::pending().await;
            }
            loop {
                tokio::time::sleep(PROGRESS_DELAY).await;
                let what = doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
                out.progress(&format!("{what}, {} s", begun.elapsed().as_secs()));
            }
        }
    }

    fn count(&self, status: CheckStatus) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }

    /// Adds the lines that were not reached, and prints the sums. Returns the JSON object, and whether anything fails.
    pub(super) fn finish(&mut self) -> Result<(String, bool), Stop> {
        (self.interface, self.is_further) = (None, false);
        let seen: Vec<DoctorCheck> = self.findings.iter().map(|finding| finding.check).collect();
        let missing: Vec<DoctorCheck> =
            DoctorCheck::ALL.iter().copied().filter(|check| !seen.contains(check)).collect();
        for check in missing {
            self.skip(check, self.skip_reason.clone());
        }
        self.flush();
        let (failures, warnings) = (self.count(CheckStatus::Fail), self.count(CheckStatus::Warn));
        let works_as = if self.works_as.is_empty() { self.no_use_text.to_owned() } else { self.works_as.join("; ") };
        let object = ReportDocument { url: &self.url, checks: &self.findings, failures, warnings, works_as: &works_as };
        let json = serde_json::to_string(&object).expect("strings and numbers are JSON");
        if self.out.is_json() {
            self.out.document(&json)?;
        } else {
            let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
            let sum = format!("{}, {}", plural(failures, "failure"), plural(warnings, "warning"));
            if self.out.is_pretty() && self.works_as.len() > 1 {
                self.print(&format!("\n{sum}. Works today as:"));
                let ways: Vec<String> = self.works_as.iter().map(|way| format!("  {}", escape(way))).collect();
                self.print(&ways.join("\n"));
            } else {
                self.print(&format!("{sum}. Works today as: {works_as}."));
            }
        }
        match self.stopped.take() {
            Some(gone) => Err(gone),
            None => Ok((json, failures > 0)),
        }
    }
}

#[derive(Serialize)]
struct ReportDocument<'a> {
    url: &'a str,
    checks: &'a [Finding],
    failures: usize,
    warnings: usize,
    works_as: &'a str,
}

/// One line of text, with something before its detail. What agents say cannot steer the terminal. A complaint names its id,
/// by which the guide explains it.
fn finding_line(finding: &Finding, before: &str, paint: Paint) -> String {
    let of = finding.interface.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let detail = finding.detail.split_whitespace().collect::<Vec<_>>().join(" ");
    let status = finding.status.name();
    let status = format!("{}{}", paint.state(status), " ".repeat(5_usize.saturating_sub(status.len())));
    let text = format!("{:<NAME_COLUMNS$} {before}{of}{detail}", finding.check.row().well);
    let text = match &finding.fix {
        Some(fix) => format!("{}. Fix: {fix} [{}]", text.trim_end_matches('.'), finding.id),
        None => text,
    };
    match finding.status {
        CheckStatus::Skip => format!("{status} {}", paint.tint(Tone::Dim, &escape(&text))),
        _ => format!("{status} {}", escape(&text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    fn report() -> DoctorReport {
        let out = Output::new(Format::Json, crate::render::ColorChoice::Never, Arc::default());
        DoctorReport::new("http://h".into(), out)
    }

    #[test]
    fn a_finding_is_one_line_that_steers_nothing() {
        let mut report = report();
        report.begin_interface("JSONRPC 1.0");
        report.report_fault(DoctorCheck::RpcJson, "said:\n\u{1b}[31mred");
        let text = finding_line(&report.findings[0], "", Paint::default());
        assert!(text.starts_with("fail  answers are JSON      JSONRPC 1.0: said:"), "{text}");
        assert!(!text.contains(['\n', '\u{1b}']) && text.contains(". Fix: look for a proxy"), "{text}");
    }

    #[test]
    fn every_line_is_in_every_report() {
        let mut report = report();
        report.report_fault(DoctorCheck::Dns, "no such name");
        report.skip_remaining("the name does not resolve");
        let (json, fails) = report.finish().unwrap();
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["checks"].as_array().unwrap().len(), DoctorCheck::ALL.len());
        assert!(fails && object["failures"] == 1 && object["warnings"] == 0 && object["works_as"] == "nothing");
        assert!(object["checks"][1]["status"] == "skip" && object["checks"][1]["fix"].is_null());
    }
}
