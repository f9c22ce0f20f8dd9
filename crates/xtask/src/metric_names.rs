//! Checks the metrics: the guide explains every name that we export.
//!
//! A metric is an interface: dashboards depend on it, and operators meet it at night without the source. A name that no
//! document explains is of no use to them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::Report;
use crate::files::{self, File};
use crate::source::{Source, is_name};

const GUIDE: &str = "docs/guides/metrics.md";
const PREFIX: &str = "sabir_";

/// The endings that the exposition format adds to the registered name: `_total` for counters, and the unit.
const SUFFIXES: [&str; 6] = ["", "_total", "_seconds", "_seconds_total", "_bytes", "_bytes_total"];

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    // A guide that cannot be read counts as empty, so every name is an error.
    let guide = fs::read_to_string(root.join(GUIDE)).unwrap_or_default();
    judge(&files::rust_sources(root)?, &guide, report);
    Ok(())
}

fn judge(files: &[File], guide: &str, report: &mut Report) {
    let mut files = files.iter().filter(|file| file.path.ends_with("/metrics.rs")).peekable();
    if files.peek().is_none() {
        report.note("no crate has a metrics.rs, so there are no metric names to look for");
    }
    let explained = words(guide);
    for File { path, text } in files {
        for name in names(text) {
            if !SUFFIXES.iter().any(|suffix| explained.contains(&format!("{name}{suffix}"))) {
                report.error(format!("{path}: the metric `{name}` is not explained in {GUIDE}"));
            }
        }
    }
}

/// The metric names in the string literals of a file, without those of its tests. Crate names look alike but are not in
/// quotes.
fn names(text: &str) -> BTreeSet<String> {
    let literals = Source::parse(text).without_tests().literals;
    literals.iter().flat_map(|literal| words(&literal.text)).collect()
}

/// Every word of a text that looks like the name of a metric.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !is_name(c));
    words.filter(|word| word.len() > PREFIX.len() && word.starts_with(PREFIX)).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(code: &str, guide: &str) -> Vec<String> {
        let mut report = Report::default();
        judge(&[File::new("crates/server/src/metrics.rs", code)], guide, &mut report);
        report.errors
    }

    #[test]
    fn a_metric_without_explanation_is_an_error() {
        let code = r#"register("sabir_calls", "Calls."); register("sabir_tasks_open", "Open tasks.");"#;
        assert_eq!(
            errors(code, "`sabir_calls_total` counts calls. `sabir_tasks_open_max` is something else."),
            ["crates/server/src/metrics.rs: the metric `sabir_tasks_open` is not explained in docs/guides/metrics.md"]
        );
        assert_eq!(errors(code, "").len(), 2);
        assert_eq!(errors(code, "| sabir_calls | … |\n| sabir_tasks_open | … |"), Vec::<String>::new());
    }

    #[test]
    fn crate_names_comments_and_tests_are_not_metrics() {
        let code =
            "use sabir_engine::Task; // sabir_old\n#[cfg(test)]\nmod tests { const A: &str = \"sabir_made_up\"; }";
        assert_eq!(errors(code, ""), Vec::<String>::new());
    }

    #[test]
    fn having_no_metrics_at_all_is_noted() {
        let mut report = Report::default();
        judge(&[File::new("crates/server/src/lib.rs", "\"sabir_calls\"")], "", &mut report);
        assert_eq!((report.errors.len(), report.notes.len()), (0, 1));
    }
}
