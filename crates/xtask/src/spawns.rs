//! Checks that every background task has an owner that ends it.
//!
//! A detached task outlives shutdown, loses its panic, and no limit counts it. Hence only the file that owns the tasks of
//! a server may spawn; all other code gives it a future, or uses a `JoinSet` that ends with its owner.

use std::path::Path;

use anyhow::Result;

use crate::Report;
use crate::files::{self, File};
use crate::source::{Source, is_name};

/// The files that own tasks. A new one must say in its module comment which code ends the tasks.
const ALLOWED: [&str; 1] = ["crates/server/src/tokio_host.rs"];

/// The two names of one function, and the host of commands, whose tasks end only with their runtime.
const SPAWN: [&str; 3] = ["tokio::spawn", "tokio::task::spawn", "TokioHost.spawn"];

pub(crate) fn check(root: &Path, report: &mut Report) -> Result<()> {
    judge(&files::rust_sources(root)?, report);
    Ok(())
}

fn judge(files: &[File], report: &mut Report) {
    for File { path, text } in files.iter().filter(|file| !may_spawn(&file.path)) {
        let source = Source::parse(text).without_tests();
        for spawn in SPAWN {
            for at in uses(&source, spawn) {
                report.error(format!("{path}:{}: `{spawn}` outside of {}", source.line(at), ALLOWED.join(", ")));
            }
        }
    }
}

/// Whether a file may spawn. Tests own their tasks for as long as they run, and the testkit is for tests.
fn may_spawn(path: &str) -> bool {
    let test = path.starts_with("crates/testkit/") || path.ends_with("/tests.rs") || path.contains("/tests/");
    test || ALLOWED.contains(&path)
}

/// The positions at which a path is used as a whole: `tokio::task::spawn_blocking` is another function.
fn uses(source: &Source, path: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = source.find(path, from) {
        from = at + path.len();
        if !source.code.get(from).is_some_and(|c| is_name(*c)) {
            found.push(at);
        }
    }
    found
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
    fn spawning_where_nobody_awaits_is_an_error() {
        let found =
            errors("crates/engine/src/push.rs", "fn f() {\n    tokio::spawn(g());\n    tokio::task::spawn(g());\n}");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/engine/src/push.rs:2: "), "{found:?}");
    }

    #[test]
    fn owners_and_tests_may_spawn() {
        let text = "fn f() { tokio::spawn(g()); }";
        for path in
            ["crates/server/src/tokio_host.rs", "crates/testkit/src/world.rs", "crates/engine/src/push/tests.rs"]
        {
            assert_eq!(errors(path, text), Vec::<String>::new());
        }
        let unit_test = format!("#[cfg(test)]\nmod tests {{ {text} }}");
        assert_eq!(errors("crates/engine/src/push.rs", &unit_test), Vec::<String>::new());
    }

    #[test]
    fn only_the_call_itself_counts() {
        let text = "// tokio::spawn\nconst A: &str = \"tokio::spawn\"; fn f() { tokio::task::spawn_blocking(g); }";
        assert_eq!(errors("crates/engine/src/push.rs", text), Vec::<String>::new());
    }
}
