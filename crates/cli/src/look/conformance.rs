//! `sabir conformance`: does an agent keep the promises of A2A?
//!
//! The checks built in here are a smoke test, named by the ids of the official compatibility kit so that a finding can be
//! looked up there; `--tck` runs the kit itself. An agent that fails is a finding, not a failure of this tool. What could
//! not be checked is shown as skipped and never counted as passed.

mod checks;
mod kit;

use crate::Invocation;
use crate::call::{Interrupts, Session, drive};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::render::Floor;
use clap::{Args, ValueEnum};
use sabir_client::{Binding, Found};
use serde::Serialize;
use std::path::PathBuf;

/// Check a live agent against the rules of A2A 1.0.
///
/// Sends a few messages over each binding that the card offers. The exit code is 0 whatever the verdict is; --strict makes
/// it 1 if the agent fails.
#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The weakest rules to check.
    #[arg(long, value_name = "LEVEL", default_value = "should")]
    level: Level,
    /// Run the official compatibility kit in this directory instead of the built-in checks.
    #[arg(long, value_name = "DIR")]
    tck: Option<PathBuf>,
    /// Exit with 1 if the agent fails.
    #[arg(long)]
    strict: bool,
}

/// How much a rule binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    May,
    Should,
    Must,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::May => "may",
            Self::Should => "should",
            Self::Must => "must",
        }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Pass,
    Fail,
    Skip,
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

/// One rule, checked over one binding.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    id: String,
    level: Level,
    /// `None` for rules about the card.
    binding: Option<String>,
    status: Status,
    /// Why it failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    agent: &'a str,
    verdict: &'static str,
    summary: Summary,
    checks: &'a [Check],
}

#[derive(Debug, Serialize)]
struct Summary {
    pass: usize,
    fail: usize,
    skip: usize,
}

impl Verb for Conformance {
    fn run(self, invocation: Invocation) -> Outcome {
        drive(invocation, Interrupts::Detach, async |session| self.go(session).await)
    }
}

impl Conformance {
    async fn go(self, session: &Session) -> Outcome {
        session.reference()?;
        let found = session.card().await?;
        let mut all = match &self.tck {
            Some(directory) => kit::run(session, &found, directory, self.level)?,
            None => self.built_in(session, &found).await?,
        };
        all.retain(|check| check.level >= self.level);
        self.report(session, &all)
    }

    async fn built_in(&self, session: &Session, found: &Found) -> Result<Vec<Check>, crate::problem::Stop> {
        let mut all = checks::of_card(found);
        let bindings = bindings(session, found);
        if bindings.is_empty() {
            let message = "the card offers no interface of A2A 1.0, which is what these checks are about";
            return Err(Problem::new(crate::problem::Code::Protocol("VersionNotSupportedError"), message)
                .hint(session.resume().command("card get"))
                .into());
        }
        for binding in bindings {
            let agent = session.connect_by(found.clone(), binding).await?;
            all.extend(checks::of_binding(&agent, binding).await);
        }
        Ok(all)
    }

    fn report(&self, session: &Session, all: &[Check]) -> Outcome {
        let count = |status: Status| all.iter().filter(|check| check.status == status).count();
        let summary = Summary { pass: count(Status::Pass), fail: count(Status::Fail), skip: count(Status::Skip) };
        let failed = summary.fail > 0;
        let verdict = match (failed, summary.pass) {
            (true, _) => "fail",
            (false, 0) => "nothing checked",
            (false, _) => "pass",
        };
        if session.out.is_json() {
            let agent = session.settings.text("agent-card").unwrap_or_default();
            let report = Report { agent: &session.out.redactor.url(agent), verdict, summary, checks: all };
            session.out.document(&serde_json::to_string(&report).expect("strings and numbers are JSON"))?;
        } else {
            let mut floor = Floor::new();
            for check in all {
                let binding = check.binding.as_deref().unwrap_or("card");
                let reason = check.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                let line = format!("{} {} {} {binding}{reason}", check.status.name(), check.id, check.level.name());
                floor.field("Check", &line);
            }
            floor.field("Passed", &summary.pass.to_string());
            floor.field("Failed", &summary.fail.to_string());
            floor.field("Skipped", &summary.skip.to_string());
            floor.field("Verdict", verdict);
            session.out.payload(&floor.finish())?;
        }
        if failed {
            session.out.warn("the agent breaks rules of A2A");
        }
        Ok(if failed && self.strict { Exit::Failed } else { Exit::Done })
    }
}

/// The bindings of the card's 1.0 interfaces: those that were asked for, or all.
fn bindings(session: &Session, found: &Found) -> Vec<Binding> {
    let wanted = session.bindings();
    let offered =
        found.card.supported_interfaces.iter().filter(|interface| interface.protocol_version.starts_with("1."));
    let mut bindings: Vec<Binding> = offered.filter_map(|interface| interface.protocol_binding.parse().ok()).collect();
    bindings.retain(|binding| wanted.is_empty() || wanted.contains(binding));
    let mut seen = Vec::new();
    bindings.retain(|binding| {
        let new = !seen.contains(binding);
        seen.push(*binding);
        new
    });
    bindings
}
