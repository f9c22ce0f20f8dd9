//! The official kit: run as its own documentation says, and its report taken over.

use super::report::{CheckResult, ConformanceReport, Verdict};
use super::table::RequirementLevel;
use crate::call::Session;
use crate::problem::{ErrorCode, Problem, Stop};
use sabir_client::Binding;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

/// Where the kit leaves its report, in its own directory.
const REPORT: &str = "reports/compatibility.json";
/// The largest report that is read, in bytes.
const REPORT_BYTES_MAX: u64 = 32 << 20;

#[derive(Deserialize)]
struct KitReport {
    per_requirement: BTreeMap<String, KitRequirement>,
}

#[derive(Deserialize)]
struct KitRequirement {
    level: String,
    status: String,
    #[serde(default)]
    transports: BTreeMap<String, String>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    description: String,
}

/// Runs the kit against the agent. What it prints goes to standard error.
pub(super) async fn run(
    session: &Session,
    directory: &Path,
    level: RequirementLevel,
    report: &mut ConformanceReport<'_>,
) -> Result<(), Stop> {
    let script = directory.join("run_tck.py");
    if !script.is_file() {
        return Err(Problem::usage(format!("--tck {}: there is no run_tck.py", directory.display()))
            .hint("give the directory of a checkout of a2a-tck")
            .into());
    }
    let agent = session.settings.agent_card.text().unwrap_or_default();
    let mut command = tokio::process::Command::new("python3");
    command.arg("run_tck.py").args(["--sut-host", agent, "--level", &level.name().to_ascii_lowercase()]);
    let transports = session.settings.transport.list();
    if !transports.is_empty() {
        let names: Vec<&str> = transports.iter().map(|binding| transport(*binding)).collect();
        command.args(["--transport", &names.join(",")]);
    }
    command.current_dir(directory).stdin(Stdio::null()).stdout(std::io::stderr()).kill_on_drop(true);
    let begun = SystemTime::now();
    let failed = |words: String| {
        Problem::new(ErrorCode::Vendor("SABIR_ERR_TCK"), words)
            .hint(format!("run it by hand: cd {} && python3 run_tck.py --sut-host {agent}", directory.display()))
    };
    // Its exit code says whether the agent passed; that is in the report as well.
    command.status().await.map_err(|error| failed(format!("python3 cannot be run: {error}")))?;
    let path = directory.join(REPORT);
    let written = std::fs::metadata(&path).and_then(|about| Ok((about.modified()?, about.len())));
    match written {
        Ok((modified, length)) if modified >= begun && length <= REPORT_BYTES_MAX => {}
        // A report of another run would speak of another agent.
        _ => return Err(failed(format!("the kit left no new report at {}", path.display())).into()),
    }
    let text = std::fs::read(&path).map_err(|error| failed(format!("cannot read {}: {error}", path.display())))?;
    let checks =
        parse_report(&text, level).map_err(|error| failed(format!("{} is not understood: {error}", path.display())))?;
    report.add(checks)
}

const fn transport(binding: Binding) -> &'static str {
    match binding {
        Binding::JsonRpc => "jsonrpc",
        Binding::HttpJson => "http_json",
        Binding::Grpc | Binding::Envelope => "grpc",
    }
}

/// The kit's words as ours. What it did not test is a skip.
fn parse_report(text: &[u8], level: RequirementLevel) -> Result<Vec<CheckResult>, serde_json::Error> {
    let compatibility: KitReport = serde_json::from_slice(text)?;
    let mut checks = Vec::new();
    for (id, requirement) in compatibility.per_requirement {
        let Some(of) = requirement.level.parse::<RequirementLevel>().ok().filter(|of| *of <= level) else { continue };
        let mut transports = requirement.transports;
        if transports.is_empty() {
            transports.insert(String::new(), requirement.status.clone());
        }
        for (name, status) in transports {
            let result = match status.as_str() {
                "PASS" => Verdict::Pass,
                "FAIL" => Verdict::Fail,
                _ => Verdict::Skip,
            };
            let reason = match result {
                Verdict::Pass => None,
                Verdict::Fail => {
                    Some(requirement.errors.first().cloned().unwrap_or_else(|| "the kit does not say".into()))
                }
                Verdict::Skip => Some(status.to_ascii_lowercase()),
            };
            checks.push(CheckResult {
                id: id.clone(),
                level: of.name(),
                binding: Some(name).filter(|name| !name.is_empty()).map(|name| format!("{name} (kit)")),
                title: requirement.description.clone(),
                result,
                reason: reason.map(|reason| reason.chars().take(300).collect()),
            });
        }
    }
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_the_kit_is_taken_over() {
        let text = br#"{"summary":{"must_compatibility":"50.0%"},"per_requirement":{
            "CORE-SEND-001":{"level":"MUST","status":"FAIL","transports":{"grpc":"PASS","jsonrpc":"FAIL"},"errors":["boom"],"description":"d"},
            "CORE-CAP-001":{"level":"MUST","status":"NOT TESTED","transports":{}},
            "CORE-HIST-001":{"level":"SHOULD","status":"PASS","transports":{"grpc":"PASS"}}},"per_transport":{}}"#;
        let checks = parse_report(text, RequirementLevel::Must).unwrap();
        let told: Vec<_> = checks.iter().map(|c| (c.id.as_str(), c.binding.as_deref(), c.result)).collect();
        assert_eq!(
            told,
            [
                ("CORE-CAP-001", None, Verdict::Skip),
                ("CORE-SEND-001", Some("grpc (kit)"), Verdict::Pass),
                ("CORE-SEND-001", Some("jsonrpc (kit)"), Verdict::Fail),
            ]
        );
        assert_eq!(checks[2].reason.as_deref(), Some("boom"));
        assert!(parse_report(b"{}", RequirementLevel::May).is_err());
    }
}
