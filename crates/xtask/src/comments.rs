//! Checks that comments name the actor, and say more than the name of the item.
//!
//! "Nobody", "whoever" and "somebody" stand where a reader needs to know which part acts: the caller, the upstream, the
//! store, the operator. A doc comment of a few letters on a public item repeats the name of the item.

use std::path::Path;

use anyhow::Result;

use crate::files::{self, File};
use crate::source::Source;
use crate::{Report, protogen};

/// Words for an actor that the comment does not name.
pub(crate) const UNNAMED: [&str; 6] = ["nobody", "whoever", "whomever", "somebody", "anybody", "everybody"];

/// A doc comment of a public item has at least so many characters.
const DOC_CHARS_MIN: usize = 20;

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    judge(&files::rust_code(root)?, report);
    Ok(())
}

fn judge(files: &[File], report: &mut Report) {
    for File { path, text } in files.iter().filter(|file| !protogen::is_generated(&file.path)) {
        for (line, word) in unnamed(text) {
            report.error(format!("{path}:{line}: `{word}` names no actor; say which part or which person it is"));
        }
        for (line, comment) in short_docs(text) {
            report.error(format!("{path}:{line}: `{comment}` says nothing that the name of the item does not say"));
        }
    }
}

/// The lines on which comments have a word of [`UNNAMED`].
pub(crate) fn unnamed(text: &str) -> Vec<(usize, &'static str)> {
    if text.contains("UNNAMED: [&str;") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, comment) in comments(text) {
        let words = comment.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
        for word in words {
            found.extend(UNNAMED.into_iter().filter(|unnamed| *unnamed == word).map(|unnamed| (index + 1, unnamed)));
        }
    }
    found
}

/// The line comments of a file: the number of the line, counted from zero, and the text after the slashes.
fn comments(text: &str) -> Vec<(usize, &str)> {
    let source = Source::parse(text);
    let code: String = source.code.iter().collect();
    let lines = text.lines().zip(code.lines()).enumerate();
    let found = lines.filter_map(|(index, (line, code))| {
        // The scanner leaves blanks for a comment, so it is what the line has after the last of its code.
        let kept: usize = code.trim_end().chars().count();
        let start = line.char_indices().nth(kept).map_or(line.len(), |(at, _)| at);
        let comment = line[start..].trim_start();
        comment.starts_with("//").then(|| (index, comment.trim_start_matches(['/', '!']).trim()))
    });
    found.collect()
}

/// Doc comments of one short line that stand before a public item.
fn short_docs(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_doc = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("///"));
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| is_doc(*at)) {
        let alone = !is_doc(at + 1) && (at == 0 || !is_doc(at - 1));
        let item = lines[at + 1..].iter().find(|line| !line.starts_with("#["));
        let public = item.is_some_and(|item| item.starts_with("pub ") || item.starts_with("pub("));
        let comment = line.trim_start_matches('/').trim();
        if alone && public && comment.chars().count() < DOC_CHARS_MIN {
            found.push((at + 1, comment.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut report = Report::default();
        judge(&[File::new("crates/a/src/lib.rs", text)], &mut report);
        report.errors
    }

    #[test]
    fn a_comment_without_an_actor_is_an_error() {
        let word = UNNAMED[0];
        let found = errors(&format!("fn f() {{}} // {word} calls it\n/// {word}'s task\nlet x = \"{word}\";\n"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/lib.rs:1: "), "{found:?}");
        assert_eq!(errors("// `somebodys_name`, nobodyElse and \"http://nobody\"\n").len(), 1, "whole words only");
    }

    #[test]
    fn a_doc_comment_that_says_nothing_is_an_error() {
        assert_eq!(errors("/// When.\npub at: u64,\n").len(), 1);
        assert_eq!(errors("/// When.\n#[serde(default)]\npub(crate) at: u64,\n").len(), 1);
        assert_eq!(errors("/// When.\nat: u64,\n").len(), 0, "private items may be brief");
        assert_eq!(errors("/// When the caller sent it, as the caller's clock has it.\npub at: u64,\n").len(), 0);
        assert_eq!(errors("/// One.\n/// Two, and more of it.\npub at: u64,\n").len(), 0, "two lines are no label");
    }
}
