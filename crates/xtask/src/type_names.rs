//! Checks that no two types of a crate share a name.
//!
//! A reader searches for a name, jumps to a symbol, or reads it in a stack trace, and must find one type.
//! `kept_names.txt` lists the exceptions, each with its reason. An exception that is no longer needed is an error too,
//! so the list only gets shorter.
//!
//! This is a scan of the text and not a parser: it knows `struct`, `enum`, `union`, `trait` and `type` at the start of
//! an item, and leaves out the associated types of traits and their implementations.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::files::{self, File};
use crate::source::{Source, is_name};
use crate::{Report, protogen};

/// The list of exceptions. Each line has a crate, a name and a reason, separated by spaces.
const KEPT: &str = "crates/xtask/kept_names.txt";

/// The exceptions that are not wire structs of dialects. More than these would be a habit.
const KEPT_MAX: usize = 30;

/// The reason of an exception whose path names the dialect: `v03::Part` cannot be confused with `v1::Part`.
const DIALECT: &str = "dialect:";

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    let kept = std::fs::read_to_string(root.join(KEPT)).with_context(|| format!("reading {KEPT}"))?;
    judge(&files::rust_code(root)?, &parse_kept(&kept)?, report);
    Ok(())
}

fn judge(files: &[File], kept: &[KeptName], report: &mut Report) {
    let doubled = doubled(files);
    for ((crate_name, name), places) in &doubled {
        if !kept.iter().any(|kept| kept.crate_name == *crate_name && kept.name == *name) {
            report.error(format!("`{name}` is the name of several types of {crate_name}: {}", places.join(", ")));
        }
    }
    for KeptName { crate_name, name, .. } in kept {
        if !doubled.contains_key(&(crate_name.clone(), name.clone())) {
            report.error(format!("{KEPT}: `{name}` names one type of {crate_name} only; remove the line"));
        }
    }
    let others = kept.iter().filter(|kept| !kept.reason.starts_with(DIALECT)).count();
    if others > KEPT_MAX {
        report.error(format!("{KEPT} has {others} exceptions beside those of dialects; {KEPT_MAX} are allowed"));
    }
}

/// An exception, with its reason.
#[derive(Debug, PartialEq, Eq)]
struct KeptName {
    crate_name: String,
    name: String,
    reason: String,
}

fn parse_kept(text: &str) -> Result<Vec<KeptName>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some(crate_name), Some(name), Some(reason)) => {
                    Ok(KeptName { crate_name: crate_name.into(), name: name.into(), reason: reason.trim().into() })
                }
                _ => bail!("{KEPT}: `{line}` is not a crate, a name and a reason"),
            }
        })
        .collect()
}

/// The names that more than one type of a crate has, by crate and name, with the places.
pub(crate) fn doubled(files: &[File]) -> BTreeMap<(String, String), Vec<String>> {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for File { path, text } in files.iter().filter(|file| !protogen::is_generated(&file.path)) {
        for TypeName { name, line } in type_names(&Source::parse(text)) {
            places.entry((files::crate_of(path).to_owned(), name)).or_default().push(format!("{path}:{line}"));
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// The definition of a type.
#[derive(Debug, PartialEq, Eq)]
struct TypeName {
    name: String,
    line: usize,
}

fn type_names(source: &Source) -> Vec<TypeName> {
    let mut found = Vec::new();
    let code: String = source.code.iter().collect();
    // The indentation of the trait or implementation that the line is in.
    let mut inside: Option<usize> = None;
    for (index, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = item_words(line);
        if let Some(end) = inside {
            if line.trim_end() == format!("{}}}", " ".repeat(end)) {
                inside = None;
            }
        } else if matches!(words.first(), Some(&"impl" | &"trait")) && !line.trim_end().ends_with('}') {
            inside = Some(indent);
        }
        let (Some(keyword), Some(name)) = (words.first(), words.get(1)) else { continue };
        let associated = *keyword == "type" && inside.is_some();
        if TYPE_KEYWORDS.contains(keyword) && !associated && name.starts_with(char::is_uppercase) {
            found.push(TypeName { name: (*name).to_owned(), line: index + 1 });
        }
    }
    found
}

const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// The words of a line from the keyword of the item on, without visibility and `unsafe`.
fn item_words(line: &str) -> Vec<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
            None => after,
        };
    }
    let mut words = rest.split(|c: char| !is_name(c)).filter(|word| !word.is_empty()).peekable();
    words.next_if(|word| *word == "unsafe");
    words.take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str, kept: &str) -> Vec<String> {
        let mut report = Report::default();
        judge(&[File::new("crates/a/src/lib.rs", text)], &parse_kept(kept).unwrap(), &mut report);
        report.errors
    }

    #[test]
    fn two_types_of_one_name_are_an_error() {
        let found = errors("pub(crate) struct Line;\nmod b {\n    enum Line {}\n    struct Other;\n}\n", "");
        assert_eq!(
            found,
            ["`Line` is the name of several types of a: crates/a/src/lib.rs:1, crates/a/src/lib.rs:3"],
            "{found:?}"
        );
    }

    #[test]
    fn an_exception_is_a_line_with_a_reason_and_goes_when_it_is_not_needed() {
        assert_eq!(errors("struct A;\nmod b { }\n    struct A;\n", "a A dialect: v1 and v03"), Vec::<String>::new());
        let stale = errors("struct A;\n", "a A dialect: v1 and v03");
        assert!(stale[0].contains("remove the line"), "{stale:?}");
        assert!(parse_kept("a A").is_err());
    }

    #[test]
    fn exceptions_beside_dialects_are_few() {
        let text: String = (0..31).map(|n| format!("struct T{n};\nunion T{n} {{}}\n")).collect();
        let kept: String = (0..31).map(|n| format!("a T{n} because\n")).collect();
        assert_eq!(errors(&text, &kept).len(), 1);
    }

    #[test]
    fn associated_types_are_not_names_of_types() {
        let text = "trait A {\n    type Out;\n}\nimpl A for B {\n    type Out = u8;\n}\ntype Out = u8;\nfn f() { // struct Out\n}\n";
        assert_eq!(errors(text, ""), Vec::<String>::new());
    }
}
