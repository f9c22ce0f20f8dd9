//! Completion in a shell: the script that a shell loads, and the candidates it then asks for.
//!
//! The script calls this program on each press of Tab, with the words typed so far behind `--` and the name of the shell
//! in the variable `SABIR_COMPLETE`. Commands and options come from the parser. Agents, tasks, keys and questions come from
//! this program's own commands (`sabir agent list`, `sabir task list`), run with a time limit, so that they are found by
//! the same settings and credentials as when the command is run. A command that fails offers nothing and says nothing.

mod bash;

use crate::Invocation;
use crate::call::target::is_address;
use crate::cli::{HelpLength, Verb, command};
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::run::serve::configured;
use crate::settings::Layers;
use bash::Bash;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Elvish, Fish, Powershell, Shells, Zsh};
use sabir_server::admin::has_store;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The variable that names the shell whose words are completed.
const VARIABLE: &str = "SABIR_COMPLETE";
/// How long a person waits for candidates that a command has to fetch.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How many tasks are offered: more do not fit a screen.
const TASKS_MAX: &str = "50";

/// The shells that can ask for candidates.
const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Print a completion script for a shell.
///
/// The script asks this program for candidates, so that agents, tasks and keys are completed as well.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    source <(sabir completion bash)\n  \
    sabir completion zsh > ~/.zfunc/_sabir\n  \
    sabir completion fish > ~/.config/fish/completions/sabir.fish")]
pub(crate) struct Completion {
    /// The shell.
    shell: Shell,
}

impl Verb for Completion {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let mut script = Vec::new();
        let failed = |error| Problem::internal(format!("cannot write the script: {error}"));
        let shell = SHELLS.completer(&self.shell.to_string());
        let shell = shell.ok_or_else(|| Problem::internal(format!("{} has no completion", self.shell)))?;
        shell.write_registration(VARIABLE, "sabir", "sabir", &program(), &mut script).map_err(failed)?;
        out.payload(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}

/// The program that the script calls: by name if the user found it by name, else by its absolute path.
fn program() -> String {
    let typed = std::env::args().next().unwrap_or_default();
    if !typed.contains('/') {
        return "sabir".to_owned();
    }
    std::path::absolute(&typed).map_or(typed, |path| path.display().to_string())
}

/// Prints the candidates if a shell asks for them. Returns whether it did.
pub(crate) fn answered() -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let asked = CompleteEnv::with_factory(|| with_candidates(command(&Layers::default(), HelpLength::Full), ""))
        .var(VARIABLE)
        .bin("sabir")
        .shells(SHELLS);
    // A shell shows what a completion prints on standard error in the middle of the line that is being typed.
    asked.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()).unwrap_or(true)
}

/// Assigns a source of candidates to each argument of each command. No other place does this.
fn with_candidates(command: Command, path: &str) -> Command {
    let here = format!("{path} {}", command.get_name()).trim_start_matches(" sabir").trim_start().to_owned();
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = below
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, |below| with_candidates(below, &here)));
    command.mut_args(|argument| {
        let id = argument.get_id().as_str();
        let is_positional = argument.is_positional();
        let names = argument.get_value_names().unwrap_or_default();
        let first = names.first().map(|name| name.as_str().to_owned()).unwrap_or_default();
        let source: fn() -> Vec<Candidate> = match (here.as_str(), id, first.as_str()) {
            (_, "agent-card", _) => agents,
            (_, "task-id", _) => tasks,
            ("inbox show" | "inbox reply", _, "TASK_ID") => questions,
            (_, _, "TASK_ID") if is_positional => tasks,
            ("key rotate" | "key revoke", "id", _) => keys,
            (other, "name", _) if other.starts_with("agent ") && is_positional => agent_names,
            (_, "agent", "NAME") => agent_names,
            // If an agent is configured, the user may leave it out: the first word is then the task.
            (_, _, "AGENT") if names.iter().any(|name| name == "TASK_ID") => agents_or_tasks,
            (_, _, "AGENT") if is_positional => agents,
            _ => return argument,
        };
        argument.add(ArgValueCompleter::new(move |typed: &OsStr| fitting(source(), typed)))
    })
}

/// One value that the user may type, and its description.
#[derive(Debug)]
struct Candidate {
    value: String,
    help: String,
}

fn fitting(candidates: Vec<Candidate>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fits = candidates.into_iter().filter(|one| one.value.starts_with(typed.as_ref()));
    fits.map(|one| CompletionCandidate::new(one.value).help(Some(one.help.into()))).collect()
}

/// The agents of the server whose files are here, the agents that the user has logged in to, and the configured one.
fn agents() -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Ok(config) = configured(None, None) {
        let base = config.server.public_url.clone().unwrap_or_else(|| format!("http://{}", config.server.listen));
        let base = base.trim_end_matches('/');
        for agent in agent_names() {
            found.push(Candidate { value: format!("{base}/agents/{}", agent.value), help: agent.help });
        }
    }
    for kept in list(&["auth", "status"], "tokens") {
        found.extend(candidate(&kept, "agent", "logged in"));
    }
    if let Some(agent) = std::env::var("A2ACLI_AGENT_CARD").ok().filter(|agent| is_address(agent)) {
        found.push(Candidate { value: agent, help: "A2ACLI_AGENT_CARD".to_owned() });
    }
    found.sort_by(|one, other| one.value.cmp(&other.value));
    found.dedup_by(|one, other| one.value == other.value);
    found
}

/// The names of the agents of the server whose files are here.
fn agent_names() -> Vec<Candidate> {
    let is_server_here = configured(None, None).is_ok_and(|config| !config.agent.is_empty() || has_store(&config));
    if !is_server_here {
        return Vec::new();
    }
    list(&["agent", "list"], "agents")
        .iter()
        .filter_map(|agent| candidate(agent, "name", text(agent, "kind")))
        .collect()
}

/// The newest tasks of the agent that was typed, or of the configured one.
fn tasks() -> Vec<Candidate> {
    let agent = agent_of(&typed_words());
    let mut words = vec!["task", "list", "--page-size", TASKS_MAX, "--timeout", "1s"];
    words.extend(agent.as_deref());
    let tasks = list(&words, "tasks");
    tasks
        .iter()
        .filter_map(|task| candidate(task, "id", task["status"]["state"].as_str().unwrap_or_default()))
        .collect()
}

fn agents_or_tasks() -> Vec<Candidate> {
    if agent_of(&typed_words()).is_some() {
        return tasks();
    }
    let mut found = agents();
    if std::env::var_os("A2ACLI_AGENT_CARD").is_some() {
        found.extend(tasks());
    }
    found
}

/// The keys of the server whose files are here.
fn keys() -> Vec<Candidate> {
    let is_server_here = configured(None, None).is_ok_and(|config| has_store(&config));
    let keys = if is_server_here { list(&["key", "list"], "keys") } else { Vec::new() };
    keys.iter().filter_map(|key| candidate(key, "id", text(key, "name"))).collect()
}

/// The questions that wait for a person.
fn questions() -> Vec<Candidate> {
    let is_server_here = configured(None, None).is_ok_and(|config| has_store(&config));
    let questions = if is_server_here { list(&["inbox", "list"], "questions") } else { Vec::new() };
    questions.iter().filter_map(|question| candidate(question, "taskId", text(question, "agent"))).collect()
}

fn candidate(object: &Value, member: &str, help: &str) -> Option<Candidate> {
    let value = object[member].as_str()?;
    // A shell takes candidates apart at spaces and line ends, and shows them as they are.
    let is_plain = !value.is_empty() && value.chars().all(|letter| letter.is_ascii_graphic());
    is_plain.then(|| Candidate { value: value.to_owned(), help: crate::render::escape(help) })
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member].as_str().unwrap_or_default()
}

/// What was typed after the name of the program, without the word that is being completed.
fn typed_words() -> Vec<String> {
    let words = std::env::args().skip_while(|word| word != "--").skip(2);
    let words: Vec<String> = words.collect();
    words.split_last().map(|(_, before)| before.to_vec()).unwrap_or_default()
}

/// The agent among the words: behind its flag, or the first word that is an address.
fn agent_of(words: &[String]) -> Option<String> {
    let flag = words.iter().position(|word| word == "-a" || word == "--agent-card");
    let behind_flag = flag.and_then(|at| words.get(at + 1));
    behind_flag.or_else(|| words.iter().find(|word| is_address(word))).cloned()
}

/// The objects of a list that a command of this program prints.
fn list(words: &[&str], member: &str) -> Vec<Value> {
    let Some(Value::Array(objects)) = run(words).map(|mut said| said[member].take()) else { return Vec::new() };
    objects
}

/// Runs a command of this program and reads its JSON. `None` if it fails or takes too long.
fn run(words: &[&str]) -> Option<Value> {
    let mut child = std::process::Command::new(std::env::current_exe().ok()?)
        .args(words)
        .args(["-o", "json"])
        .env_remove(VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdout = child.stdout.take()?;
    // Read beside waiting: a command that writes more than a pipe holds would never end.
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let is_done = ended_in_time(&mut child);
    if !is_done {
        // The command may have ended in the meantime; waiting removes the process entry in both cases.
        drop(child.kill());
        drop(child.wait());
    }
    let text = reader.join().ok()?.ok()?;
    is_done.then(|| serde_json::from_str(&text).ok()).flatten()
}

fn ended_in_time(child: &mut Child) -> bool {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) if begun.elapsed() < WAIT_MAX => std::thread::sleep(Duration::from_millis(5)),
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_agent_is_found_among_the_words() {
        let found = |line: &str| agent_of(&words(line));
        assert_eq!(found("task get http://a.example").as_deref(), Some("http://a.example"));
        assert_eq!(found("task get -a card.json").as_deref(), Some("card.json"));
        assert_eq!(found("task get"), None);
        assert_eq!(found("task get -a"), None);
    }

    #[test]
    fn what_a_shell_would_take_apart_is_not_offered() {
        let offered = |value: &str| candidate(&serde_json::json!({ "id": value }), "id", "").is_some();
        assert!(offered("task-1"));
        assert!(!offered("task 1") && !offered("") && !offered("a\nb") && !offered("\u{202e}x"));
    }

    #[test]
    fn every_source_belongs_to_an_argument() {
        let root = with_candidates(command(&Layers::default(), HelpLength::Full), "");
        let has = |path: &[&str], id: &str| {
            let command = path.iter().fold(&root, |command, name| command.find_subcommand(name).expect("a command"));
            let argument = command.get_arguments().find(|argument| argument.get_id() == id);
            argument.expect("an argument").get::<ArgValueCompleter>().is_some()
        };
        assert!(has(&["send"], "agent-card"));
        assert!(has(&["task", "get"], "words"));
        assert!(has(&["card", "get"], "agent"));
        assert!(has(&["agent", "show"], "name"));
        assert!(has(&["key", "revoke"], "id"));
        assert!(has(&["inbox", "reply"], "task"));
        assert!(!has(&["send"], "output"));
    }
}
