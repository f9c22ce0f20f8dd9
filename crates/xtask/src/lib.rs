//! Chores of the repository: regenerating what is checked in, and noticing what reviewers should not have to.
//!
//! [`protogen`] turns the `.proto` files of `wire` into Rust. [`tidy`] runs every check and gathers what they found in a
//! [`Report`]; it is a library function so that `cargo test` runs it too, and nobody has to remember a command.
//!
//! Every check is split in two: one function that reads the repository, and one that judges plain values. The second is
//! the one with the tests, each of which shows it a made-up mistake.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

mod comments;
pub mod counts;
mod deps;
mod files;
mod length;
mod metric_names;
pub mod protogen;
mod source;
mod spawns;
mod type_names;
mod words;

/// What the checks have found. Errors fail the build; notes are for whoever happens to read them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Things to be put right, each naming the place and the rule.
    pub errors: Vec<String>,
    /// Things worth knowing: a file growing long, a check that had nothing to do.
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
/// A check that cannot run counts as an error and does not keep the others from running, because a person who mends
/// three things wants to hear of all three at once.
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

const CHECKS: [(&str, Check); 8] = [
    ("dependencies", deps::check),
    ("length", length::check),
    ("protobuf", protobuf_is_fresh),
    ("metrics", metric_names::check),
    ("words", words::check),
    ("spawns", spawns::check),
    ("type names", type_names::check),
    ("comments", comments::check),
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
