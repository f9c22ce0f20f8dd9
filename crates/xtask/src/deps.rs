//! Checks the dependencies between our crates: the manifests must agree with `ARCHITECTURE.md`.
//!
//! The rules that matter most are absences: no SQL in the engine, no sockets in translation. A crate boundary makes the
//! compiler keep them, and this check keeps the boundaries. The list may have neither fewer nor more dependencies than
//! the manifests, since a list that is only almost true is not read.
//!
//! Only normal dependencies count. Tests may depend on anything, and `testkit` and `xtask` exist for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::Report;

/// Crates that do not ship, and so may depend on any other.
const UNCHECKED_CRATES: [&str; 2] = ["testkit", "xtask"];

/// Maps each crate to those it depends on, by their names in the list.
type CrateDependencies = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).context("reading ARCHITECTURE.md")?;
    compare(&dependencies_in_manifests(&metadata(root)?)?, &dependencies_in_document(&architecture)?, report);
    Ok(())
}

fn metadata(root: &Path) -> Result<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("cargo metadata is not UTF-8")
}

/// The dependencies in the manifests, from the output of `cargo metadata --no-deps`.
fn dependencies_in_manifests(metadata: &str) -> Result<CrateDependencies> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        dependencies: Vec<Dependency>,
    }
    #[derive(Deserialize)]
    struct Dependency {
        name: String,
        /// `None` for a normal dependency.
        kind: Option<String>,
    }

    let Metadata { packages } = serde_json::from_str(metadata).context("reading cargo metadata")?;
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let targets = |package: &Package| {
        let normal = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
        normal.map(|dependency| dependency.name.as_str()).filter(|name| ours.contains(name)).map(short).collect()
    };
    Ok(packages.iter().map(|package| (short(&package.name), targets(package))).collect())
}

/// The name of a package in the list: `sabir-engine` is `engine`, and the facade is `sabir` in both.
fn short(package: &str) -> String {
    package.strip_prefix("sabir-").unwrap_or(package).to_owned()
}

/// The dependencies in the document: the first fenced block whose first line has the form `engine → proto store`.
fn dependencies_in_document(architecture: &str) -> Result<CrateDependencies> {
    let mut lines = architecture.lines();
    while lines.by_ref().any(|line| line.trim_start().starts_with("```")) {
        let block = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```"));
        let block: Vec<&str> = block.filter(|line| !line.trim().is_empty()).collect();
        if block.first().is_some_and(|line| edge(line).is_some()) {
            let edges = block.iter().map(|line| edge(line).with_context(|| format!("cannot read `{line}`")));
            return edges.collect::<Result<_>>().context("the dependency list in ARCHITECTURE.md");
        }
    }
    bail!("ARCHITECTURE.md has no fenced block with lines such as `engine → proto store`")
}

/// Parses one line of the list; `∅` stands for none, and a remark in parentheses may follow.
fn edge(line: &str) -> Option<(String, BTreeSet<String>)> {
    let (from, to) = line.split_once('→')?;
    let to = to.split('(').next().unwrap_or_default();
    let is_crate = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let names: BTreeSet<&str> = to.split_whitespace().collect();
    let targets = match names.first() {
        // A line without a name after the arrow is a mistake, or belongs to a drawing; a crate without dependencies has
        // `∅`.
        None => return None,
        Some(&"∅") if names.len() == 1 => BTreeSet::new(),
        Some(_) => names,
    };
    let readable = is_crate(from.trim()) && targets.iter().all(|name| is_crate(name));
    readable.then(|| (from.trim().to_owned(), targets.into_iter().map(String::from).collect()))
}

/// Compares both. The list may have crates that do not exist yet, which is noted, but no wrong dependency between
/// crates that exist.
fn compare(actual: &CrateDependencies, listed: &CrateDependencies, report: &mut Report) {
    for name in listed.keys().filter(|name| !actual.contains_key(*name)) {
        report.note(format!("ARCHITECTURE.md lists the crate `{name}`, which does not exist"));
    }
    for (name, targets) in actual.iter().filter(|(name, _)| !UNCHECKED_CRATES.contains(&name.as_str())) {
        let Some(promised) = listed.get(name) else {
            report.error(format!("crate `{name}` is missing from the dependency list in ARCHITECTURE.md"));
            continue;
        };
        for target in targets.difference(promised) {
            report.error(format!("crate `{name}` depends on `{target}`, which ARCHITECTURE.md does not list"));
        }
        for target in promised.difference(targets).filter(|target| actual.contains_key(*target)) {
            report.error(format!("ARCHITECTURE.md says that `{name}` depends on `{target}`, but it does not"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# Architecture\n\n```text\n cli → (a drawing)\n  │\n```\n\nAs a list:\n\n```text\n\
        proto    → ∅\nstore    → proto\nengine   → proto store\ngateway  → proto engine\ncli      → proto   (the binary)\n```\n";

    fn metadata(packages: &[(&str, &[(&str, &str)])]) -> String {
        let packages = packages.iter().map(|(name, dependencies)| {
            let dependencies = dependencies.iter().map(|(name, kind)| {
                let kind = (!kind.is_empty()).then_some(kind);
                serde_json::json!({"name": name, "kind": kind, "optional": false})
            });
            serde_json::json!({"name": name, "dependencies": dependencies.collect::<Vec<_>>()})
        });
        serde_json::json!({"packages": packages.collect::<Vec<_>>()}).to_string()
    }

    fn judge(packages: &[(&str, &[(&str, &str)])]) -> Report {
        let mut report = Report::default();
        compare(
            &dependencies_in_manifests(&metadata(packages)).unwrap(),
            &dependencies_in_document(LIST).unwrap(),
            &mut report,
        );
        report
    }

    #[test]
    fn a_list_that_is_true_passes() {
        let report = judge(&[
            ("sabir-proto", &[("serde", ""), ("sabir-testkit", "dev")]),
            ("sabir-store", &[("sabir-proto", "")]),
            ("sabir-cli", &[("sabir-proto", "")]),
            ("sabir-testkit", &[("sabir-store", "")]),
            ("xtask", &[("sabir-proto", "")]),
        ]);
        assert_eq!(report.errors, Vec::<String>::new());
        assert_eq!(report.notes.len(), 2, "engine and gateway are yet to come: {report:?}");
    }

    #[test]
    fn every_disagreement_is_named() {
        let report = judge(&[
            ("sabir-proto", &[("sabir-store", "")]),
            ("sabir-store", &[("sabir-proto", "dev")]),
            ("sabir-wire", &[]),
        ]);
        assert_eq!(
            report.errors,
            [
                "crate `proto` depends on `store`, which ARCHITECTURE.md does not list",
                "ARCHITECTURE.md says that `store` depends on `proto`, but it does not",
                "crate `wire` is missing from the dependency list in ARCHITECTURE.md",
            ]
        );
    }

    #[test]
    fn a_list_that_cannot_be_read_is_refused() {
        assert!(dependencies_in_document("no list").is_err());
        assert!(dependencies_in_document("```\nproto → ∅\n```").is_ok());
        let reason = format!("{:#}", dependencies_in_document("```\nproto → ∅\nstore -> proto\n```").unwrap_err());
        assert!(reason.contains("store -> proto"), "{reason}");
    }
}
