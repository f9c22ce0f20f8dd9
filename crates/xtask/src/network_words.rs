//! Checks that `proto` and `engine` know nothing of the booking network: no word of it is in their sources.
//!
//! The network is one agent among others. A rule of its own inside the vocabulary or the engine would apply to every
//! agent, and no build could leave the network out.

use std::path::Path;

use anyhow::Result;

use crate::Report;
use crate::files::{self, File};

/// The sources that do not know the network.
const FOLDERS: [&str; 2] = ["crates/proto/src/", "crates/engine/src/"];

/// The words of the network, in lower case.
const WORDS: [&str; 3] = ["agnt", "booking", "venue"];

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    judge(&files::rust_sources(root)?, report);
    Ok(())
}

fn judge(files: &[File], report: &mut Report) {
    for File { path, text } in files.iter().filter(|file| FOLDERS.iter().any(|folder| file.path.starts_with(folder))) {
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            if let Some(word) = WORDS.iter().find(|word| line.contains(**word)) {
                let number = number + 1;
                report
                    .error(format!("{path}:{number}: `{word}` is a word of the booking network; see ARCHITECTURE.md"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(path: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        judge(&[File::new(path, text)], &mut report);
        report.errors
    }

    #[test]
    fn a_word_of_the_network_is_an_error_in_code_and_in_comments() {
        let found = errors("crates/engine/src/retry.rs", "use a;\n// AGNT's envelopes\nfn book(at: VenueId) {}\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/engine/src/retry.rs:2: `agnt`"), "{found:?}");
        assert!(found[1].starts_with("crates/engine/src/retry.rs:3: `venue`"), "{found:?}");
    }

    #[test]
    fn other_crates_may_know_it() {
        assert_eq!(errors("crates/network/src/venue.rs", "// a booking"), Vec::<String>::new());
        assert_eq!(errors("crates/proto/tests/it/main.rs", "// a booking"), Vec::<String>::new());
    }
}
