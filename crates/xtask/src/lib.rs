//! Tasks of the repository: generating the code that is checked in, and the checks of `tidy`.
//!
//! [`protogen`] turns the `.proto` files of `wire` into Rust. [`tidy`] runs every check and collects the problems in a
//! [`Report`]. It is a library function, so that `cargo test` runs it without a separate command.
//!
//! Every check has two functions: one reads the repository, the other judges plain values. The tests call the second
//! with made-up mistakes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

mod comments;
pub mod counts;
mod deps;
mod doc_paths;
mod files;
mod length;
mod machine_paths;
mod metric_names;
mod network_words;
pub mod protogen;
mod source;
mod spawns;
mod type_names;

/// The problems that the checks have found. Errors fail the build; notes are only printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Problems to be fixed, each with the place and the rule.
    pub errors: Vec<String>,
    /// Notes, such as a file growing long, or a check that had nothing to do.
    pub notes: Vec<String>,
}

impl Report {
    fn error(&mut self, text: impl Into<String>) {
        self.errors.push(text.into());
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Runs every check over the repository at `root`.
///
/// A check that cannot run counts as an error, and the other checks still run: a person who fixes three problems wants
/// to see all three at once.
pub fn tidy(root: &Path) -> Report {
    let mut report = Report::default();
    for (subject, check) in CHECKS {
        if let Err(reason) = check(root, &mut report) {
            report.error(format!("{subject}: the check could not run: {reason:#}"));
        }
    }
    report
}

/// The root of this workspace.
pub fn workspace_root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().context("finding the root of the workspace")
}

type Check = fn(&Path, &mut Report) -> Result<()>;

const CHECKS: [(&str, Check); 10] = [
    ("dependencies", deps::check),
    ("length", length::check),
    ("protobuf", protobuf_is_fresh),
    ("metrics", metric_names::check),
    ("words", machine_paths::check),
    ("spawns", spawns::check),
    ("words of the network", network_words::check),
    ("type names", type_names::check),
    ("comments", comments::check),
    ("paths in documents", doc_paths::check),
];

fn protobuf_is_fresh(root: &Path, report: &mut Report) -> Result<()> {
    for file in protogen::stale(root)? {
        report.error(format!("{file} is not what the .proto files give; run `cargo xtask protogen`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_cannot_run_is_an_error_and_the_others_still_run() {
        let nowhere = tempfile::tempdir().unwrap();
        let report = tidy(nowhere.path());
        assert!(report.errors.iter().any(|e| e.starts_with("dependencies: the check could not run")), "{report:?}");
        assert!(report.errors.iter().any(|e| e.starts_with("protobuf: the check could not run")), "{report:?}");
    }
}
