//! Tests of the README and of the pages in `docs`: the parser takes every command they print, and the server reads every
//! configuration they print.
//!
//! Commands are parsed and never executed; `conformance/docs/run` executes those that say what they print. A `toml` block
//! that is no `sabir.toml` has the comment `<!-- not sabir.toml: REASON -->` in the line before it.

mod shell;

use crate::cli::{self, HelpLength};
use crate::legacy_commands;
use crate::settings::Layers;
use sabir_server::Config;
use std::path::{Path, PathBuf};

/// What a `toml` block that shows a part of an agent's section stands in.
const AGENT: &str = "[[agent]]\nname = \"example\"\nkind = \"echo\"\n";
/// What the line before a `toml` block begins with if the block is something else.
const NOT_CONFIGURATION: &str = "<!-- not sabir.toml: ";

/// A fenced block of a page.
#[derive(Debug)]
struct Block {
    /// The page and the line of the fence, for messages.
    place: String,
    language: String,
    /// The line before the fence.
    before: String,
    text: String,
}

/// The fenced blocks of the README and of every page below `docs`, except those that only show history (decisions, recorded
/// sessions) and the command reference, which the program writes.
fn blocks() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    collect_pages(&root.join("docs"), &mut pages);
    pages.sort();
    pages
        .iter()
        .flat_map(|page| blocks_of(&page.display().to_string(), &std::fs::read_to_string(page).unwrap()))
        .collect()
}

fn collect_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["decisions", "sessions", "man"].contains(&&*name) {
            collect_pages(&path, pages);
        } else if name.ends_with(".md") && name != "cli.md" {
            pages.push(path);
        }
    }
}

fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let (mut found, mut open, mut before) = (Vec::new(), None::<Block>, String::new());
    for (number, line) in text.lines().enumerate() {
        match (open.take(), line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let place = format!("{page}:{}", number + 1);
                let language = language.to_owned();
                open = Some(Block { place, language, before: before.clone(), text: String::new() });
            }
            (Some(block), Some(_)) => found.push(block),
            (Some(block), None) => open = Some(Block { text: format!("{}{line}\n", block.text), ..block }),
            (None, None) => {}
        }
        line.clone_into(&mut before);
    }
    assert!(open.is_none(), "{page}: a block has no end");
    found
}

/// The commands of a block that begin with the word sabir, word by word. Output that stands between commands is
/// skipped.
fn commands(block: &Block) -> Vec<Vec<String>> {
    let script = match &*block.language {
        "sh" => block.text.clone(),
        "console" => prompted(&block.text, false),
        "text" => prompted(&block.text, true),
        _ => return Vec::new(),
    };
    shell::commands(&script).into_iter().filter_map(of_sabir).collect()
}

/// The lines that a person types: those with a prompt and, where that is said, those that begin with the program's name.
fn prompted(text: &str, bare: bool) -> String {
    let (mut script, mut goes_on) = (String::new(), false);
    for line in text.lines() {
        let typed = line.strip_prefix("$ ").or_else(|| (goes_on || bare && line.starts_with("sabir ")).then_some(line));
        goes_on = typed.is_some_and(|typed| typed.ends_with('\\'));
        script.extend(typed.into_iter().flat_map(|typed| [typed, "\n"]));
    }
    script
}

/// The words from sabir on, if that is the program: also behind `cargo run … --`, which starts it.
fn of_sabir(words: Vec<String>) -> Option<Vec<String>> {
    let program = words.first()?;
    if program == "sabir" || program.ends_with("/sabir") {
        return Some(words);
    }
    let rest = words.iter().position(|word| word == "--")? + 1;
    (words.starts_with(&["cargo".to_owned(), "run".to_owned()]) && !words.contains(&"--example".to_owned()))
        .then(|| [vec!["sabir".to_owned()], words[rest..].to_vec()].concat())
}

/// What the parser says against a command.
fn refusal(words: &[String]) -> Option<String> {
    let words = legacy_commands::rewrite(words.to_vec());
    match cli::command(&Layers::default(), HelpLength::Short).try_get_matches_from(&words) {
        Err(error) if error.use_stderr() => Some(error.to_string()),
        _ => None,
    }
}

/// What the server says against a configuration, whole or as a part of an agent's section.
fn unreadable(text: &str) -> Option<String> {
    let whole = Config::read(text).err()?;
    let part = Config::read(&format!("{AGENT}{text}")).err()?;
    Some(format!("{whole}\nand below an [[agent]]: {part}"))
}

#[test]
fn the_parser_takes_every_command_of_the_pages() {
    let (mut parsed, mut wrong) = (0, Vec::new());
    for block in blocks() {
        for words in commands(&block) {
            parsed += 1;
            wrong.extend(refusal(&words).map(|why| format!("{}: {}\n{why}", block.place, words.join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 80, "only {parsed} commands were found");
}

#[test]
fn the_server_reads_every_configuration_of_the_pages() {
    let (mut read, mut wrong) = (0, Vec::new());
    for block in blocks().iter().filter(|block| block.language == "toml") {
        let reason = block.before.strip_prefix(NOT_CONFIGURATION).map(|rest| rest.trim_end_matches("-->").trim());
        match (reason, unreadable(&block.text)) {
            (None, None) => read += 1,
            (None, Some(why)) => wrong.push(format!("{}: {why}", block.place)),
            (Some(""), _) => wrong.push(format!("{}: the comment gives no reason", block.place)),
            (Some(_), None) => {
                wrong.push(format!("{}: this is a sabir.toml, and the comment says it is none", block.place))
            }
            (Some(_), Some(_)) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 30, "only {read} configurations were found");
}

#[test]
fn a_misspelled_command_flag_or_key_is_found() {
    let page = "# Page\n```sh\nA=1 sabir sned x | sabir serve --ecko; echo \"$(sabir key creat)\" # sabir no\n```\n\
                ```text\nsabir task lst \\\n  --x\nsabir-data\n```\n```console\n$ sabir send --oops\nsabir says no\n```\n\
                ```sh\ncargo run --release -- serv\n```\n";
    let blocks = blocks_of("page.md", page);
    let found: Vec<Vec<String>> = blocks.iter().flat_map(commands).collect();
    assert_eq!(found.len(), 6, "{found:?}");
    for words in &found {
        assert!(refusal(words).is_some(), "{words:?}");
    }
    assert_eq!(blocks[0].place, "page.md:2");
    assert!(unreadable("[server]\nlisen = \"127.0.0.1:1\"\n").is_some());
    assert!(unreadable("[agent.breaker]\nfailure = 5\n").is_some());
    assert!(unreadable("[agent.breaker]\nfailures = 5\n").is_none());
}
