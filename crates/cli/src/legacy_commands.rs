//! Translates the commands of the older `a2a` tool into today's commands, before anything is parsed.
//!
//! The older `a2a` tool took the agent's address as the first argument of each verb. Here the agent is always
//! `--agent-card`, so only that word moves. The help does not mention the old commands.

/// Old verbs: the words typed, today's words, and how many positional arguments follow the address.
const VERBS: [(&[&str], &[&str]); 10] = [
    (&["discover"], &["card", "get"]),
    (&["get", "card"], &["card", "get"]),
    (&["get", "task"], &["task", "get"]),
    (&["get", "tasks"], &["task", "list"]),
    (&["list", "tasks"], &["task", "list"]),
    (&["list", "task"], &["task", "list"]),
    (&["cancel"], &["task", "cancel"]),
    (&["subscribe"], &["task", "subscribe"]),
    (&["resubscribe"], &["task", "subscribe"]),
    (&["stream"], &["send", "--stream"]),
];

/// Rewrites the arguments in today's syntax.
pub(crate) fn rewrite(mut arguments: Vec<String>) -> Vec<String> {
    let rest: Vec<String> = arguments.split_off(arguments.len().min(1));
    arguments.extend(translated(rest));
    arguments
}

fn translated(words: Vec<String>) -> Vec<String> {
    let Some(first) = words.first() else { return words };
    if is_address(first) {
        // `sabir https://host "hi"`
        return [vec!["send".to_owned()], addressed(words)].concat();
    }
    if words == ["version"] {
        return vec!["--version".to_owned()];
    }
    let said = |old: &[&str]| words.len() >= old.len() && words.iter().zip(old).all(|(word, old)| word == old);
    match VERBS.iter().find(|(old, _)| said(old)) {
        None => words,
        Some((old, new)) => {
            let rest = words[old.len()..].to_vec();
            [new.iter().map(|word| (*word).to_owned()).collect(), addressed(rest)].concat()
        }
    }
}

/// Puts `--agent-card` before the first word if it is an address.
fn addressed(mut words: Vec<String>) -> Vec<String> {
    if words.first().is_some_and(|word| is_address(word)) {
        words.insert(0, "--agent-card".to_owned());
    }
    words
}

fn is_address(word: &str) -> bool {
    ["http://", "https://", "file://"].iter().any(|scheme| word.starts_with(scheme))
}

/// The options that are read before the arguments are parsed: the format of a parser error, and the file with the
/// settings that help shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlyOptions {
    pub(crate) output: Option<String>,
    pub(crate) color: Option<String>,
    pub(crate) config: Option<String>,
}

impl EarlyOptions {
    pub(crate) fn of(arguments: &[String]) -> Self {
        let mut scan = Self::default();
        // `serve` and other commands that call no agent read the file of their `--config` themselves.
        let apart = crate::cli::reads_no_settings(arguments);
        let mut words = arguments.iter().skip(1).map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--" => break,
                "-o" | "--output" => scan.output = words.next().map(str::to_owned),
                "--color" => scan.color = words.next().map(str::to_owned),
                "--config" if !apart => scan.config = words.next().map(str::to_owned),
                _ => {
                    let given = |flag: &str| word.strip_prefix(flag).map(str::to_owned);
                    let short = given("-o").map(|value| value.trim_start_matches('=').to_owned());
                    scan.output = given("--output=").or(short).or(scan.output);
                    scan.color = given("--color=").or(scan.color);
                    scan.config = given("--config=").filter(|_| !apart).or(scan.config);
                }
            }
        }
        scan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn old_words_are_understood() {
        for (typed, meant) in [
            ("sabir https://a hi", "sabir send --agent-card https://a hi"),
            ("sabir discover https://a -o json", "sabir card get --agent-card https://a -o json"),
            ("sabir get card https://a", "sabir card get --agent-card https://a"),
            ("sabir get task https://a t-1", "sabir task get --agent-card https://a t-1"),
            ("sabir list tasks https://a", "sabir task list --agent-card https://a"),
            ("sabir cancel https://a t-1", "sabir task cancel --agent-card https://a t-1"),
            ("sabir subscribe t-1", "sabir task subscribe t-1"),
            ("sabir version", "sabir --version"),
            ("sabir send discover", "sabir send discover"),
            ("sabir task get t", "sabir task get t"),
            ("sabir", "sabir"),
        ] {
            assert_eq!(rewrite(words(typed)), words(meant));
        }
    }

    #[test]
    fn the_format_is_found_before_parsing() {
        for (typed, output) in [
            ("sabir send -o json", Some("json")),
            ("sabir send -ojson", Some("json")),
            ("sabir --output=json x", Some("json")),
            ("sabir send -- -o json", None),
            ("sabir send --output", None),
        ] {
            assert_eq!(EarlyOptions::of(&words(typed)).output.as_deref(), output, "{typed}");
        }
        assert_eq!(EarlyOptions::of(&words("sabir send --config a.env")).config.as_deref(), Some("a.env"));
        assert_eq!(EarlyOptions::of(&words("sabir serve --config a.toml")).config, None);
        assert_eq!(EarlyOptions::of(&words("sabir key list --config=a.toml")).config, None);
    }
}
