//! Running the official compatibility kit, and reading what it wrote.

use super::{Check, Level, Status};
use crate::call::Session;
use crate::problem::{Code, Problem};
use sabir_client::{Binding, Found};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Deserialize)]
struct Compatibility {
    #[serde(default)]
    per_requirement: BTreeMap<String, Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    #[serde(default)]
    status: String,
    #[serde(default)]
    level: String,
    #[serde(default)]
    errors: Vec<serde_json::Value>,
}

/// Runs the kit in its directory. What it says goes to standard error; its report is the result.
pub(super) fn run(session: &Session, found: &Found, directory: &Path, level: Level) -> Result<Vec<Check>, Problem> {
    let failed = |what: String| {
        Problem::new(Code::Vendor("SABIR_ERR_TCK"), what)
            .hint("--tck names a checkout of the kit with run_tck.py in it")
    };
    let host = match &found.url {
        Some(url) => url.origin().ascii_serialization(),
        None => return Err(Problem::usage("the kit needs an agent with an address").hint("--agent-card https://…")),
    };
    if !directory.join("run_tck.py").is_file() {
        return Err(failed(format!("there is no run_tck.py in {}", directory.display())));
    }
    let own = directory.join(".venv/bin/python");
    let python = if own.is_file() { own } else { "python3".into() };
    let mut command = Command::new(python);
    command.current_dir(directory).args(["run_tck.py", "--sut-host", &host, "--level", level.name()]);
    let transports: Vec<&str> = session.bindings().into_iter().map(word).collect();
    if !transports.is_empty() {
        command.args(["--transport", &transports.join(",")]);
    }
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let status = status.map_err(|error| failed(format!("the kit does not start: {error}")))?;
    let report = directory.join("reports/compatibility.json");
    let text = std::fs::read(&report)
        .map_err(|error| failed(format!("the kit ended with {status} and left no {}: {error}", report.display())))?;
    let read: Compatibility = serde_json::from_slice(&text)
        .map_err(|error| failed(format!("{} cannot be read: {error}", report.display())))?;
    Ok(read.per_requirement.into_iter().map(|(id, one)| one.check(id)).collect())
}

/// The kit's word for a binding.
const fn word(binding: Binding) -> &'static str {
    match binding {
        Binding::JsonRpc => "jsonrpc",
        Binding::HttpJson => "http_json",
        Binding::Grpc => "grpc",
    }
}

impl Requirement {
    fn check(self, id: String) -> Check {
        let status = match self.status.to_ascii_lowercase().as_str() {
            "pass" | "passed" => Status::Pass,
            "fail" | "failed" | "error" => Status::Fail,
            // Whatever else the kit calls it, it was not shown.
            _ => Status::Skip,
        };
        let level = match self.level.to_ascii_lowercase().as_str() {
            "may" => Level::May,
            "should" => Level::Should,
            _ => Level::Must,
        };
        let reason = match status {
            Status::Pass => None,
            Status::Fail | Status::Skip => Some(self.errors.first().map_or(self.status, ToString::to_string)),
        };
        Check { id, level, binding: None, status, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kit_did_not_show_is_not_passed() {
        let text = r#"{"summary":{"must_compatibility":"50%"},"per_requirement":{
            "A-1":{"status":"PASS","level":"MUST"},"A-2":{"status":"FAIL","level":"SHOULD","errors":["why"]},
            "A-3":{"status":"NOT TESTED","level":"MAY"},"A-4":{}}}"#;
        let read: Compatibility = serde_json::from_str(text).unwrap();
        let checks: Vec<Check> = read.per_requirement.into_iter().map(|(id, one)| one.check(id)).collect();
        let found: Vec<(Status, Level)> = checks.iter().map(|check| (check.status, check.level)).collect();
        assert_eq!(
            found,
            [
                (Status::Pass, Level::Must),
                (Status::Fail, Level::Should),
                (Status::Skip, Level::May),
                (Status::Skip, Level::Must)
            ]
        );
    }
}
