//! Checks that the source files which the documents name exist.
//!
//! A reader who follows a path to a file that was renamed loses trust in the whole page. The documents write paths the
//! short way: `wire/src/codes.rs` or `wire/codes.rs` for `crates/wire/src/codes.rs`, and `codes.rs` alone where the
//! sentence before has named the directory.

use std::path::Path;

use anyhow::Result;

use crate::Report;
use crate::files::{self, File};

/// The documents whose paths are checked, and the directories of such documents. Change logs and recorded sessions may
/// name files that no longer exist.
const DOCUMENTS: [&str; 4] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "README.md"];
const DIRECTORIES: [&str; 4] = ["docs", "docs/decisions", "docs/dialects", "docs/guides"];

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    let exists = |path: &str| root.join(path).exists();
    let sources: Vec<String> = files::rust_code(root)?.into_iter().map(|file| file.path).collect();
    judge(&files::documents(root, &DOCUMENTS, &DIRECTORIES)?, &sources, exists, report);
    Ok(())
}

fn judge(documents: &[File], sources: &[String], exists: impl Fn(&str) -> bool, report: &mut Report) {
    for File { path, text } in documents {
        for (index, line) in text.lines().enumerate() {
            for named in paths(line).filter(|named| !is_there(named, sources, &exists)) {
                report.error(format!("{path}:{}: there is no file `{named}`", index + 1));
            }
        }
    }
}

/// The Rust files, and the directories of sources, that a line names in backticks.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let is_source = |text: &str| text.len() > 3 && text.ends_with(".rs") || text.contains("/src/");
    line.split('`').skip(1).step_by(2).filter(move |text| is_path(text) && is_source(text))
}

fn is_there(named: &str, sources: &[String], exists: impl Fn(&str) -> bool) -> bool {
    let in_crate = named.split_once('/').map(|(name, rest)| format!("crates/{name}/src/{rest}"));
    let tail = format!("/{named}");
    exists(named)
        || exists(&format!("crates/{named}"))
        || in_crate.is_some_and(|path| exists(&path))
        || sources.iter().any(|source| source.ends_with(&tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut report = Report::default();
        let there = ["crates/wire/src/codes.rs", "crates/guard/src/authn/", "examples/echo.rs"];
        let sources = ["crates/wire/src/codes.rs".to_owned()];
        judge(&[File::new("docs/page.md", text)], &sources, |path| there.contains(&path), &mut report);
        report.errors
    }

    #[test]
    fn a_file_that_does_not_exist_is_an_error() {
        let found = errors("fine\nsee `wire/src/gone.rs`, `gone.rs` and `guard/src/gone/`");
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "docs/page.md:2: there is no file `wire/src/gone.rs`");
    }

    #[test]
    fn files_are_found_by_every_way_of_writing_them() {
        let fine = "`crates/wire/src/codes.rs` `wire/src/codes.rs` `wire/codes.rs` `codes.rs` `guard/src/authn/` \
                    `examples/echo.rs` `*/src/metrics.rs` gone.rs `.rs`";
        assert_eq!(errors(fine), Vec::<String>::new());
    }
}
