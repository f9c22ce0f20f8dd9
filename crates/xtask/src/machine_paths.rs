//! Checks for paths of the machine that a file happens to be written on.
//!
//! A path that exists only on one machine does not work on any other, and easily slips in with pasted output.

use std::path::Path;

use anyhow::Result;

use crate::Report;
use crate::files::{self, File};

/// The paths to look for, in pieces, so that this file does not find itself.
const ABSOLUTE: [&str; 2] = [concat!("/", "work", "/"), concat!("/", "root", "/")];
const ANYWHERE: [&str; 1] = [concat!("..", "/", "shared")];

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    match files::tracked_by_git(root)? {
        Some(files) => judge(&files, report),
        None => {
            report.note("not a git checkout, so the text files were not searched for words that should not be there")
        }
    }
    Ok(())
}

fn judge(files: &[File], report: &mut Report) {
    for File { path, text } in files {
        for (index, line) in text.lines().enumerate() {
            for word in words_in_line(line) {
                report.error(format!("{path}:{}: `{word}` means something on one machine only", index + 1));
            }
        }
    }
}

fn words_in_line(line: &str) -> impl Iterator<Item = &'static str> {
    let absolute = ABSOLUTE.into_iter().filter(|word| line.match_indices(word).any(|(at, _)| starts_path(&line[..at])));
    absolute.chain(ANYWHERE.into_iter().filter(|word| line.contains(word)))
}

/// Whether a slash after `before` is the first of an absolute path. It is not in `bench/work/`, `~/work/` or
/// `https://work/`, though it is in a `file://` URL.
fn starts_path(before: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "_-.~/$})]*".contains(c);
    before.ends_with("file://") || !before.ends_with(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut report = Report::default();
        judge(&[File::new("README.md", text)], &mut report);
        report.errors
    }

    #[test]
    fn paths_of_one_machine_are_errors() {
        let [work, root] = ABSOLUTE;
        let found = errors(&format!("fine\ncd {work}main\n\"{root}.cargo\"\nfile://{work}a\nsee {}", ANYWHERE[0]));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("README.md:2: "), "{found:?}");
        assert!(found[3].starts_with("README.md:5: "), "{found:?}");
    }

    #[test]
    fn relative_paths_and_addresses_are_not() {
        let [work, root] = ABSOLUTE;
        let fine = format!("bench{work}x ~{work}x $HOME{work}x https:/{work}x example.com{root}x /workshop/ /rooted");
        assert_eq!(errors(&fine), Vec::<String>::new());
    }
}
