//! A report: findings as they come, and what they add up to.
//!
//! In text each line is printed when it is known; in JSON there is one object in the end. Lines that were not reached are
//! `skip` with the reason, so that every line of the table is in every report.

use super::lines::{Level, Line};
use crate::output::Output;
use crate::problem::Stop;
use crate::render::{Paint, Tone, escape};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How wide the column of ids is.
pub(super) const NAME_COLUMNS: usize = 21;
/// The longest detail: what strangers say is quoted, not repeated.
const DETAIL_CHARS_MAX: usize = 300;
/// What takes longer than this is worth a sign of life.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a line came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Warn,
    Fail,
    Skip,
}

impl Status {
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
    line: Line,
    id: &'static str,
    status: Status,
    /// Which interface of the card it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    detail: String,
    /// What it means that something was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<&'static str>,
    fix: Option<String>,
}

/// Everything that was found.
pub(super) struct Report {
    out: Output,
    url: String,
    findings: Vec<Finding>,
    /// The interface that is being looked at.
    interface: Option<String>,
    /// It is not the first.
    further: bool,
    /// Lines that fell away for the same reason: the first, and the name of the last.
    pending: Option<(Finding, &'static str)>,
    /// How the agent can be used.
    works_as: Vec<String>,
    /// What is said where no way is known.
    useless: &'static str,
    /// Why what has not been looked at was not.
    ground: String,
    /// What is being done.
    doing: Arc<Mutex<String>>,
    begun: Instant,
    gone: Option<Stop>,
}

impl Report {
    pub(super) fn new(url: String, out: Output) -> Self {
        let ground = "no occasion".to_owned();
        let (findings, works_as) = (Vec::new(), Vec::new());
        let (interface, further, pending, useless, begun) = (None, false, None, "nothing", Instant::now());
        Self {
            out,
            url,
            findings,
            interface,
            further,
            pending,
            works_as,
            useless,
            ground,
            doing: Arc::default(),
            begun,
            gone: None,
        }
    }

    pub(super) fn ok(&mut self, line: Line, detail: impl Into<String>) {
        self.add(line, Status::Ok, detail.into(), None);
    }

    pub(super) fn skip(&mut self, line: Line, why: impl Into<String>) {
        self.add(line, Status::Skip, why.into(), None);
    }

    /// Something is wrong; how bad that is, the table says.
    pub(super) fn bad(&mut self, line: Line, detail: impl Into<String>) {
        self.bad_but(line, detail, line.row().fix);
    }

    /// The same with a remedy that fits better.
    pub(super) fn bad_but(&mut self, line: Line, detail: impl Into<String>, fix: impl Into<String>) {
        let status = match line.row().level {
            Level::Warn => Status::Warn,
            Level::Fail => Status::Fail,
        };
        self.add(line, status, detail.into(), Some(fix.into()));
    }

    /// Well or not, by what is wrong with it.
    pub(super) fn judge(&mut self, line: Line, well: impl Into<String>, wrong: Option<String>) {
        match wrong {
            None => self.ok(line, well),
            Some(wrong) => self.bad(line, wrong),
        }
    }

    fn add(&mut self, line: Line, status: Status, detail: String, fix: Option<String>) {
        let detail: String = self.out.redactor.text(&detail).chars().take(DETAIL_CHARS_MAX).collect();
        let row = line.row();
        let means = fix.is_some().then_some(row.means);
        let finding = Finding { line, id: row.id, status, interface: self.interface.clone(), detail, means, fix };
        self.show(&finding);
        self.findings.push(finding);
    }

    /// Prints a finding as it comes. Unless everything is wanted, lines that fall away for one reason are one line, and of
    /// further interfaces only complaints are shown: what is well with the first is mostly well with the rest.
    fn show(&mut self, finding: &Finding) {
        if self.out.is_json() {
            return;
        }
        let complains = finding.fix.is_some();
        if self.out.verbose {
            return self.print(&shown(finding, "", self.out.paint));
        }
        match &mut self.pending {
            Some((first, last)) if finding.status == Status::Skip && first.detail == finding.detail => {
                *last = finding.line.row().well
            }
            _ => {
                self.flush();
                if complains || (finding.status == Status::Ok && !self.further) {
                    self.print(&shown(finding, "", self.out.paint));
                } else if !self.further {
                    self.pending = Some((finding.clone(), finding.line.row().well));
                }
            }
        }
    }

    /// Prints the lines that were held back.
    fn flush(&mut self) {
        if let Some((first, last)) = self.pending.take() {
            let to = if last == first.line.row().well { String::new() } else { format!("… {last}: ") };
            self.print(&shown(&first, &to, self.out.paint));
        }
    }

    fn print(&mut self, text: &str) {
        if self.gone.is_none() {
            self.gone = self.out.payload(&(text.to_owned() + "\n")).err();
        }
    }

    /// What follows is about this interface.
    pub(super) fn about(&mut self, interface: &str) {
        self.further = self.findings.iter().any(|finding| finding.interface.is_some());
        self.interface = Some(interface.to_owned());
    }

    /// That was all about this interface.
    pub(super) fn done(&mut self) {
        self.flush();
        let here = self.findings.iter().filter(|finding| finding.interface == self.interface);
        let (well, skipped) = here.fold((0, 0), |(well, skipped), finding| match finding.status {
            Status::Ok => (well + 1, skipped),
            Status::Skip => (well, skipped + 1),
            Status::Warn | Status::Fail => (well, skipped),
        });
        if self.further && well > 0 && !self.out.is_json() && !self.out.verbose {
            let name = self.interface.clone().unwrap_or_default();
            self.print(&format!("{:<5} {name:<NAME_COLUMNS$} {well} lines ok, {skipped} skipped", "ok"));
        }
        (self.interface, self.further) = (None, false);
    }

    /// Why nothing more can be looked at from here on.
    pub(super) fn no_ground(&mut self, why: impl Into<String>) {
        self.ground = why.into();
    }

    /// The agent can be used like this.
    pub(super) fn works(&mut self, how: String) {
        self.works_as.push(how);
    }

    /// Whether it can be used could not be found out.
    pub(super) fn cannot_tell(&mut self, why: &'static str) {
        self.useless = why;
    }

    /// What is being done, for those who wait.
    pub(super) fn doing(&self, what: &str) {
        let of = self.interface.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = format!("{of}{what}");
    }

    /// Shows now and then what is being done. Never ends.
    pub(super) fn progress(&self) -> impl Future<Output = ()> + use<> {
        let (out, doing, begun) = (self.out.clone(), self.doing.clone(), self.begun);
        async move {
            if !out.watched() {
                return std::future::pending().await;
            }
            loop {
                tokio::time::sleep(PATIENCE).await;
                let what = doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
                out.progress(&format!("{what}, {} s", begun.elapsed().as_secs()));
            }
        }
    }

    fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }

    /// Puts what was not reached in, and tells the sum. Gives the object, and whether anything fails.
    pub(super) fn finish(&mut self) -> Result<(String, bool), Stop> {
        (self.interface, self.further) = (None, false);
        let seen: Vec<Line> = self.findings.iter().map(|finding| finding.line).collect();
        let missing: Vec<Line> = Line::ALL.iter().copied().filter(|line| !seen.contains(line)).collect();
        for line in missing {
            self.skip(line, self.ground.clone());
        }
        self.flush();
        let (failures, warnings) = (self.count(Status::Fail), self.count(Status::Warn));
        let works_as = if self.works_as.is_empty() { self.useless.to_owned() } else { self.works_as.join("; ") };
        let object = Object { url: &self.url, checks: &self.findings, failures, warnings, works_as: &works_as };
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
        match self.gone.take() {
            Some(gone) => Err(gone),
            None => Ok((json, failures > 0)),
        }
    }
}

#[derive(Serialize)]
struct Object<'a> {
    url: &'a str,
    checks: &'a [Finding],
    failures: usize,
    warnings: usize,
    works_as: &'a str,
}

/// One line of text, with something before its detail. What agents say cannot steer the terminal. A complaint names its id,
/// by which the guide explains it.
fn shown(finding: &Finding, before: &str, paint: Paint) -> String {
    let of = finding.interface.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let detail = finding.detail.split_whitespace().collect::<Vec<_>>().join(" ");
    let status = finding.status.name();
    let status = format!("{}{}", paint.state(status), " ".repeat(5_usize.saturating_sub(status.len())));
    let text = format!("{:<NAME_COLUMNS$} {before}{of}{detail}", finding.line.row().well);
    let text = match &finding.fix {
        Some(fix) => format!("{}. Fix: {fix} [{}]", text.trim_end_matches('.'), finding.id),
        None => text,
    };
    match finding.status {
        Status::Skip => format!("{status} {}", paint.tint(Tone::Dim, &escape(&text))),
        _ => format!("{status} {}", escape(&text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    fn report() -> Report {
        let out = Output::new(Format::Json, crate::render::ColorChoice::Never, Arc::default());
        Report::new("http://h".into(), out)
    }

    #[test]
    fn a_finding_is_one_line_that_steers_nothing() {
        let mut report = report();
        report.about("JSONRPC 1.0");
        report.bad(Line::RpcJson, "said:\n\u{1b}[31mred");
        let text = shown(&report.findings[0], "", Paint::default());
        assert!(text.starts_with("fail  answers are JSON      JSONRPC 1.0: said:"), "{text}");
        assert!(!text.contains(['\n', '\u{1b}']) && text.contains(". Fix: look for a proxy"), "{text}");
    }

    #[test]
    fn every_line_is_in_every_report() {
        let mut report = report();
        report.bad(Line::Dns, "no such name");
        report.no_ground("the name does not resolve");
        let (json, fails) = report.finish().unwrap();
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["checks"].as_array().unwrap().len(), Line::ALL.len());
        assert!(fails && object["failures"] == 1 && object["warnings"] == 0 && object["works_as"] == "nothing");
        assert!(object["checks"][1]["status"] == "skip" && object["checks"][1]["fix"].is_null());
    }
}
