//! Counts the repository: its size, and figures about its shape.
//!
//! `cargo xtask counts` prints the figures, so that a change that promises fewer lines or fewer cycles can show it.
//! Nothing is checked here: the checks of `tidy` do that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::files::{self, File};
use crate::source::{Source, is_name};
use crate::{comments, protogen, type_names};

/// The figures of one crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CrateCounts {
    /// Lines of `src` without `#[cfg(test)]` items and without generated files.
    pub source_lines: usize,
    /// Lines of `#[cfg(test)]` items, of test modules in files of their own, and of `tests/`.
    pub test_lines: usize,
    /// Lines of files that `cargo xtask protogen` writes.
    pub generated_lines: usize,
    /// The number of names that more than one type has.
    pub doubled_names: usize,
    /// The number of words in comments that name no actor.
    pub unnamed_actors: usize,
    /// The number of function parameters whose type is a tuple.
    pub tuple_parameters: usize,
    /// The size of the largest set of top-level modules that all use each other.
    pub largest_cycle: usize,
    /// Uses of `Dialect::` outside of tests.
    pub dialect_uses: usize,
    /// Lines of code that name `SQLite`, outside of tests.
    pub sqlite_lines: usize,
}

/// The figures of the repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The figures of each crate, by the name of its folder.
    pub crates: BTreeMap<String, CrateCounts>,
    /// Lines of Python, `JavaScript` and shell scripts.
    pub script_lines: usize,
    /// Lines of documents, without the manual pages.
    pub document_lines: usize,
    /// Lines of manual pages in the repository.
    pub manual_lines: usize,
}

/// Counts the repository at `root`.
pub fn count(root: &Path) -> Result<Counts> {
    let code = files::rust_code(root)?;
    let mut counts = Counts::default();
    for file in &code {
        add(counts.crates.entry(files::crate_of(&file.path).to_owned()).or_default(), file);
    }
    for (crate_name, _) in type_names::doubled(&code).into_keys() {
        counts.crates.entry(crate_name).or_default().doubled_names += 1;
    }
    for (name, counts) in &mut counts.crates {
        counts.largest_cycle = largest_cycle(&module_uses(name, &code));
    }
    for File { path, text } in files::tracked_by_git(root)?.unwrap_or_default() {
        let lines = text.lines().count();
        match kind(&path, &text) {
            FileKind::Script => counts.script_lines += lines,
            FileKind::Document => counts.document_lines += lines,
            FileKind::Manual => counts.manual_lines += lines,
            FileKind::Other => {}
        }
    }
    Ok(counts)
}

fn add(counts: &mut CrateCounts, file: &File) {
    let File { path, text } = file;
    let lines = text.lines().count();
    if protogen::is_generated(path) {
        counts.generated_lines += lines;
        return;
    }
    counts.unnamed_actors += comments::unnamed(text).len();
    if is_test(path) {
        counts.test_lines += lines;
        return;
    }
    let whole = Source::parse(text);
    let source = whole.clone().without_tests();
    let changed = whole.code.iter().zip(&source.code).enumerate().filter(|(_, (before, after))| before != after);
    let test_lines = lines_of(&whole, &changed.map(|(at, _)| at).collect());
    counts.test_lines += test_lines;
    counts.source_lines += lines - test_lines;
    let code: String = source.code.iter().collect();
    counts.tuple_parameters += tuple_parameters(&code);
    counts.dialect_uses += code.matches("Dialect::").count();
    counts.sqlite_lines += code.lines().filter(|line| line.to_lowercase().contains("sqlite")).count();
}

/// The number of lines of the blanked items, with the gaps inside them.
fn lines_of(source: &Source, positions: &BTreeSet<usize>) -> usize {
    let lines: BTreeSet<usize> = line_numbers(source, positions);
    let mut total = 0;
    let mut previous: Option<usize> = None;
    for line in lines {
        // Blank lines and comments inside a test have no code that was blanked; short gaps belong to the test.
        total += match previous {
            Some(previous) if line - previous < TEST_GAP_LINES => line - previous,
            _ => 1,
        };
        previous = Some(line);
    }
    total
}

/// A gap of at least so many lines ends a test; comments inside a test are hardly ever longer.
const TEST_GAP_LINES: usize = 12;

fn line_numbers(source: &Source, positions: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut line = 1;
    let mut found = BTreeSet::new();
    for (at, c) in source.code.iter().enumerate() {
        if positions.contains(&at) {
            found.insert(line);
        }
        if *c == '\n' {
            line += 1;
        }
    }
    found
}

fn is_test(path: &str) -> bool {
    path.starts_with("crates/testkit/") || path.ends_with("/tests.rs") || path.contains("/tests/")
}

enum FileKind {
    Script,
    Document,
    Manual,
    Other,
}

fn kind(path: &str, text: &str) -> FileKind {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension {
        "py" | "mjs" | "js" | "ts" | "sh" => FileKind::Script,
        "md" => FileKind::Document,
        "1" if path.starts_with("docs/man/") => FileKind::Manual,
        "" if text.starts_with("#!") => FileKind::Script,
        _ => FileKind::Other,
    }
}

/// Counts parameters like `(id, agent): (&str, &str)`: two parameters in hiding.
fn tuple_parameters(code: &str) -> usize {
    let mut total = 0;
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(is_name) {
            continue;
        }
        let Some(open) = code[at..].find('(').map(|open| at + open) else { continue };
        total += code[open..=closing(code, open)].matches("): (").count();
    }
    total
}

/// The position at which the parenthesis at `open` is closed.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at;
        }
    }
    code.len() - 1
}

type ModuleUses = BTreeMap<String, BTreeSet<String>>;

/// The other top-level modules that each module of a crate names by `crate::`.
fn module_uses(crate_name: &str, files: &[File]) -> ModuleUses {
    let prefix = format!("crates/{crate_name}/src/");
    let of_crate = files.iter().filter_map(|file| Some((file.path.strip_prefix(&prefix)?, &file.text)));
    let mut uses = ModuleUses::new();
    for (path, text) in of_crate {
        let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let code: String = Source::parse(text).without_tests().code.iter().collect();
        let used = uses.entry(module.to_owned()).or_default();
        for (at, name) in code.match_indices("crate::") {
            used.extend(first_names(&code[at + name.len()..]));
        }
    }
    let modules: BTreeSet<String> =
        uses.keys().filter(|name| !matches!(name.as_str(), "lib" | "main")).cloned().collect();
    uses.retain(|name, _| modules.contains(name));
    for (name, used) in &mut uses {
        used.retain(|other| modules.contains(other) && other != name);
    }
    uses
}

/// The names right after `crate::`: one, or those of a group in braces.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| is_name(*c)).collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let mut depth = 0_usize;
    let mut found = Vec::new();
    let mut start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if start && is_name(c) => {
                found.push(name(&group[at..]));
                start = false;
            }
            _ => {}
        }
    }
    found
}

/// The size of the largest set of modules of which each reaches each other; 1 if there is no cycle.
fn largest_cycle(uses: &ModuleUses) -> usize {
    let reachable: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|name| (name, reachable_from(uses, name))).collect();
    let size = |name: &String| {
        1 + reachable[name].iter().filter(|other| **other != name && reachable[*other].contains(name)).count()
    };
    uses.keys().map(size).max().unwrap_or_default()
}

fn reachable_from<'a>(uses: &'a ModuleUses, from: &str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = uses[from].iter().collect();
    while let Some(name) = open.pop() {
        if found.insert(name) {
            open.extend(&uses[name]);
        }
    }
    found
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEAD: [&str; 10] =
            ["crate", "source", "tests", "generated", "doubled", "unnamed", "tuples", "cycle", "Dialect::", "sqlite"];
        let row = |cells: [String; 10]| {
            let [first, rest @ ..] = cells;
            let rest: String = rest.iter().map(|cell| format!("{cell:>10}")).collect();
            format!("{first:<10}{rest}")
        };
        writeln!(f, "{}", row(HEAD.map(str::to_owned)))?;
        let mut all = CrateCounts::default();
        for (name, counts) in &self.crates {
            writeln!(f, "{}", row(counts.cells(name)))?;
            all.add(counts);
        }
        writeln!(f, "{}", row(all.cells("all")))?;
        writeln!(
            f,
            "\nscripts {}, documents {}, manual pages {} lines",
            self.script_lines, self.document_lines, self.manual_lines
        )
    }
}

impl CrateCounts {
    fn cells(&self, name: &str) -> [String; 10] {
        let numbers = [
            self.source_lines,
            self.test_lines,
            self.generated_lines,
            self.doubled_names,
            self.unnamed_actors,
            self.tuple_parameters,
            self.largest_cycle,
            self.dialect_uses,
            self.sqlite_lines,
        ];
        let mut cells = numbers.iter().map(usize::to_string);
        std::array::from_fn(|at| if at == 0 { name.to_owned() } else { cells.next().unwrap_or_default() })
    }

    fn add(&mut self, other: &Self) {
        self.source_lines += other.source_lines;
        self.test_lines += other.test_lines;
        self.generated_lines += other.generated_lines;
        self.doubled_names += other.doubled_names;
        self.unnamed_actors += other.unnamed_actors;
        self.tuple_parameters += other.tuple_parameters;
        self.largest_cycle = self.largest_cycle.max(other.largest_cycle);
        self.dialect_uses += other.dialect_uses;
        self.sqlite_lines += other.sqlite_lines;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_told_from_lines_of_source() {
        let mut counts = CrateCounts::default();
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    // why\n    fn b() {}\n}\n";
        add(&mut counts, &File::new("crates/a/src/lib.rs", text));
        assert_eq!((counts.source_lines, counts.test_lines), (2, 5));
        add(&mut counts, &File::new("crates/a/tests/it.rs", "fn c() {}\n"));
        assert_eq!((counts.source_lines, counts.test_lines), (2, 6));
    }

    #[test]
    fn a_parameter_that_is_a_tuple_is_counted() {
        assert_eq!(
            tuple_parameters("fn f((a, b): (&str, u8), c: (u8, u8)) -> (u8, u8) { let (d, e): (u8, u8) = g(); }"),
            1
        );
    }

    #[test]
    fn modules_that_use_each_other_are_a_cycle() {
        let files = [
            File::new("crates/a/src/lib.rs", "mod x; mod y; mod z;"),
            File::new("crates/a/src/x.rs", "use crate::y::Y;"),
            File::new("crates/a/src/y/deep.rs", "use crate::{z::{Z, x}, other};"),
            File::new("crates/a/src/z.rs", "fn f() { crate::x::g() } // crate::w"),
            File::new("crates/a/src/w.rs", "#[cfg(test)]\nmod tests { use crate::x; }"),
        ];
        let uses = module_uses("a", &files);
        assert_eq!(uses["y"], BTreeSet::from(["z".to_owned()]));
        assert!(uses["w"].is_empty());
        assert_eq!(largest_cycle(&uses), 3);
    }
}
