//! Checks the length of files and functions: a note first, an error later.
//!
//! Length is a poor measure of quality, but a long file or function often shows a problem. The soft limits only print a
//! note. The hard ones are errors, set where splitting has always paid. Test code counts like any other, because
//! reviewers read it like any other.

use std::path::Path;

use anyhow::Result;

use crate::files::{self, File};
use crate::source::{Source, is_name};
use crate::{Report, protogen};

const FILE_LINES_SOFT: usize = 500;
const FILE_LINES_HARD: usize = 1000;
const FUNCTION_LINES_SOFT: usize = 80;
const FUNCTION_LINES_HARD: usize = 150;

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    judge(&files::rust_sources(root)?, report);
    Ok(())
}

fn judge(files: &[File], report: &mut Report) {
    for File { path, text } in files.iter().filter(|file| !protogen::is_generated(&file.path)) {
        let lines = text.lines().count();
        if lines > FILE_LINES_HARD {
            report.error(format!("{path} has {lines} lines; a file may have {FILE_LINES_HARD}, split it by subject"));
        } else if lines > FILE_LINES_SOFT {
            report.note(format!("{path} has {lines} lines, more than {FILE_LINES_SOFT}"));
        }
        for Function { name, line, lines } in functions(&Source::parse(text)) {
            if lines > FUNCTION_LINES_HARD {
                report.error(format!(
                    "{path}:{line}: `{name}` has {lines} lines; a function may have {FUNCTION_LINES_HARD}"
                ));
            } else if lines > FUNCTION_LINES_SOFT {
                report.note(format!("{path}:{line}: `{name}` has {lines} lines, more than {FUNCTION_LINES_SOFT}"));
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    /// From the line of `fn` to that of the closing brace, both included.
    lines: usize,
}

/// Every function that has a body, nested ones on their own as well.
fn functions(source: &Source) -> Vec<Function> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = source.find("fn ", from) {
        from = at + 3;
        let part_of_a_name = at > 0 && is_name(source.code[at - 1]);
        let name: String =
            source.code[from..].iter().skip_while(|c| c.is_whitespace()).take_while(|c| is_name(**c)).collect();
        if part_of_a_name || name.is_empty() {
            continue;
        }
        if let Some(block) = source.block(from) {
            let line = source.line(at);
            found.push(Function { name, line, lines: source.line(block.end - 1) - line + 1 });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(path: &str, text: &str) -> Report {
        let mut report = Report::default();
        judge(&[File::new(path, text)], &mut report);
        report
    }

    /// A function of exactly so many lines, with braces that must not count.
    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    say(\"}\", '}'); // }\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_over_the_limit_is_an_error_and_one_near_it_a_note() {
        let long = report("crates/a/src/lib.rs", &"//\n".repeat(FILE_LINES_HARD + 1));
        assert_eq!(long.errors.len(), 1, "{long:?}");
        assert!(long.errors[0].contains("crates/a/src/lib.rs has 1001 lines"), "{long:?}");
        let longish = report("crates/a/src/lib.rs", &"//\n".repeat(FILE_LINES_HARD));
        assert_eq!((longish.errors.len(), longish.notes.len()), (0, 1), "{longish:?}");
        assert_eq!(report("crates/a/src/lib.rs", &"//\n".repeat(FILE_LINES_SOFT)), Report::default());
    }

    #[test]
    fn generated_files_may_be_of_any_length() {
        let text = "//\n".repeat(FILE_LINES_HARD + 1);
        assert_eq!(report("crates/wire/src/pb/lf_a2a_v1.rs", &text), Report::default());
        assert_eq!(report("crates/wire/src/pb/by_hand.rs", &text).errors.len(), 1);
    }

    #[test]
    fn a_function_over_the_limit_is_an_error_and_one_near_it_a_note() {
        let long = report("a.rs", &format!("\n{}", function(FUNCTION_LINES_HARD + 1)));
        assert_eq!(long.errors, ["a.rs:2: `long` has 151 lines; a function may have 150"]);
        let longish = report("a.rs", &function(FUNCTION_LINES_HARD));
        assert_eq!((longish.errors.len(), longish.notes.len()), (0, 1), "{longish:?}");
        assert_eq!(report("a.rs", &function(FUNCTION_LINES_SOFT)), Report::default());
    }

    #[test]
    fn functions_are_told_from_what_resembles_them() {
        let text = "
            trait T { fn declared(&self, x: [u8; 4]); }
            type F = fn (u8) -> u8;
            // fn commented() {}
            const S: &str = \"fn quoted() {}\";
            pub(crate) async fn outer<'a>(x: &'a [u8; 2]) -> Option<[u8; 2]>
            where
                u8: Copy,
            {
                fn inner() {}
            }";
        let found: Vec<_> = functions(&Source::parse(text)).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("outer".into(), 6), ("inner".into(), 1)]);
    }
}
