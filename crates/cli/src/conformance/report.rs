//! Results, in the order of the table: printed as each part is done, and added up in the end.

use super::table::{REQUIREMENTS, Requirement, RequirementLevel, RequirementScope, find};
use crate::call::Session;
use crate::output::Output;
use crate::problem::Stop;
use crate::render::{Fields, Paint, escape};
use sabir_client::Binding;
use serde::Serialize;

/// The longest reason, in characters: an agent's text is quoted, not repeated in full.
const REASON_CHARS_MAX: usize = 300;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Pass,
    Fail,
    Skip,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

/// One check that was made, or not.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CheckResult {
    pub(super) id: String,
    pub(super) level: &'static str,
    /// Over which binding; none for what is about the card.
    pub(super) binding: Option<String>,
    pub(super) title: String,
    pub(super) result: Verdict,
    /// Why, unless it passed.
    pub(super) reason: Option<String>,
}

/// Everything that was found.
pub(super) struct ConformanceReport<'a> {
    out: &'a Output,
    agent: String,
    level: RequirementLevel,
    /// What was recorded since the last part was closed.
    open: Vec<(&'static str, Result<(), String>, bool)>,
    checks: Vec<CheckResult>,
    /// How many results were recorded, for the progress line.
    recorded: usize,
}

impl<'a> ConformanceReport<'a> {
    pub(super) fn new(session: &'a Session, level: RequirementLevel) -> Result<Self, Stop> {
        let agent = session.settings.agent_card.text().unwrap_or_default().to_owned();
        let report = Self { out: &session.out, agent, level, open: Vec::new(), checks: Vec::new(), recorded: 0 };
        report.out.text(|fields| {
            fields.field("Agent", &session.out.redactor.url(&report.agent));
            fields.field("Level", level.name());
        })?;
        Ok(report)
    }

    /// Records that a requirement is kept, or in which way it is not. The first failure stands.
    pub(super) fn record(&mut self, id: &'static str, kept: Result<(), String>) {
        debug_assert!(find(id).is_some(), "{id} is not in the table");
        self.recorded += 1;
        if self.out.shows_progress() {
            self.out.spin(self.recorded, &format!("{} checks made, last {id}", self.recorded));
        }
        match self.open.iter_mut().find(|(known, ..)| *known == id) {
            Some((_, known, skipped)) if known.is_ok() || *skipped => (*known, *skipped) = (kept, false),
            Some(_) => {}
            None => self.open.push((id, kept, false)),
        }
    }

    /// Records why a requirement could not be looked at.
    pub(super) fn skip(&mut self, id: &'static str, reason: &str) {
        if !self.open.iter().any(|(known, ..)| *known == id) {
            self.open.push((id, Err(reason.to_owned()), true));
        }
    }

    /// Ends a part: requirements that were not recorded are skips, for this reason.
    pub(super) fn end_part(
        &mut self,
        scope: RequirementScope,
        binding: Option<Binding>,
        unseen: &str,
    ) -> Result<(), Stop> {
        let of_part = |requirement: &&Requirement| requirement.scope == scope && requirement.level <= self.level;
        let mut closed = Vec::new();
        for requirement in REQUIREMENTS.iter().filter(of_part) {
            let known = self.open.iter().find(|(id, ..)| *id == requirement.id);
            let (result, reason) = match known {
                Some((_, Ok(()), _)) => (Verdict::Pass, None),
                // A failure at the level MAY is only a skip.
                Some((_, Err(reason), false)) if requirement.level != RequirementLevel::May => {
                    (Verdict::Fail, Some(reason.clone()))
                }
                Some((_, Err(reason), _)) => (Verdict::Skip, Some(reason.clone())),
                None => (Verdict::Skip, Some(unseen.to_owned())),
            };
            closed.push(CheckResult {
                id: requirement.id.to_owned(),
                level: requirement.level.name(),
                binding: binding.map(|binding| binding.name().to_owned()),
                title: requirement.title.to_owned(),
                result,
                reason: reason.map(|reason| reason.chars().take(REASON_CHARS_MAX).collect()),
            });
        }
        self.open.retain(|(id, ..)| find(id).is_some_and(|requirement| requirement.scope != scope));
        self.add(closed)
    }

    /// Adds results, for example those of the official kit.
    pub(super) fn add(&mut self, checks: Vec<CheckResult>) -> Result<(), Stop> {
        // For a person the failures come first, in the end.
        if !self.out.is_pretty() {
            self.out.text(|fields| checks.iter().for_each(|check| fields.field("Check", &check_line(check))))?;
        }
        self.checks.extend(checks);
        Ok(())
    }

    /// Prints the sums and the verdict. Returns whether the agent passed.
    pub(super) fn finish(self) -> Result<bool, Stop> {
        let count = |result: Verdict| self.checks.iter().filter(|check| check.result == result).count();
        let (passed, failed, skipped) = (count(Verdict::Pass), count(Verdict::Fail), count(Verdict::Skip));
        // A run in which every check was skipped does not pass.
        let good = failed == 0 && passed > 0;
        let verdict = if good { "pass" } else { "fail" };
        if self.out.is_json() {
            let document = serde_json::json!({
                "agent": self.out.redactor.url(&self.agent),
                "level": self.level.name(),
                "verdict": verdict,
                "summary": { "pass": passed, "fail": failed, "skip": skipped },
                "checks": self.checks,
            });
            self.out.document(&document.to_string())?;
        }
        if self.out.is_pretty() {
            self.out.payload(&pretty(&self.checks, self.out.paint, self.out.verbose))?;
        }
        self.out.text(|fields| {
            fields.field("Passed", &passed.to_string());
            fields.field("Failed", &failed.to_string());
            fields.field("Skipped", &skipped.to_string());
            fields.field("Verdict", verdict);
        })?;
        Ok(good)
    }
}

/// Failures first, then how many checks of each binding passed, failed and were skipped. Everything with `verbose`.
fn pretty(checks: &[CheckResult], paint: Paint, verbose: bool) -> String {
    let mut text = String::new();
    let mut shown: Vec<&CheckResult> = checks.iter().filter(|check| verbose || check.result == Verdict::Fail).collect();
    shown.sort_by_key(|check| match check.result {
        Verdict::Fail => 0,
        Verdict::Skip => 1,
        Verdict::Pass => 2,
    });
    for check in shown {
        let rest = check_line(check);
        let rest = rest.strip_prefix(check.result.name()).unwrap_or(&rest);
        text += &format!("{}{}\n", paint.state(check.result.name()), escape(rest));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let mut bindings: Vec<&str> = Vec::new();
    for check in checks {
        let binding = check.binding.as_deref().unwrap_or("card");
        if !bindings.contains(&binding) {
            bindings.push(binding);
        }
    }
    let mut fields = Fields::new();
    for binding in bindings {
        let of = |result: Verdict| {
            let here = checks.iter().filter(|check| check.binding.as_deref().unwrap_or("card") == binding);
            here.filter(|check| check.result == result).count().to_string()
        };
        fields.field("Part", binding);
        fields.field("Passed", &of(Verdict::Pass));
        fields.field("Failed", &of(Verdict::Fail));
        fields.field("Skipped", &of(Verdict::Skip));
    }
    text + &fields.pretty(paint, None) + "\n"
}

/// `pass CORE-SEND-001 MUST JSONRPC what it says`
fn check_line(check: &CheckResult) -> String {
    let binding = check.binding.as_deref().unwrap_or("-");
    let mut line = format!("{} {} {} {binding} {}", check.result.name(), check.id, check.level, check.title);
    if let Some(reason) = &check.reason {
        line += &format!(": {}", reason.replace('\n', " "));
    }
    line
}
