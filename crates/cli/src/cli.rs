//! The commands: the parser, the groups of `help`, the manual and the dispatch all come from one table.

use crate::problem::{Outcome, Problem};
use crate::settings::{Layers, arguments, output_alone};
use crate::{
    Invocation, admin, bench, call, cassette, completion, conformance, convert, doctor, lattice, manual, mcp, raw_call,
    run,
};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, ColorChoice, Command};

/// The width of help. Fixed, so that help prints the same text on every terminal.
const HELP_COLUMNS: usize = 110;

/// A command: its arguments, and the function that runs it.
pub(crate) trait Verb: Args {
    fn run(self, invocation: Invocation) -> Outcome;
}

/// What a command is for, as `help` groups them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelpGroup {
    Talk,
    Look,
    Run,
    Administer,
    Tool,
    /// Help does not list the command.
    Hidden,
}

/// Which settings a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptedSettings {
    /// Every global setting, and the settings of the command.
    Settings,
    /// Only the output format: the command calls no agent but prints a result.
    Output,
    /// None: the command calls no agent.
    Nothing,
}

/// One command in [`COMMANDS`].
pub(crate) struct CommandEntry {
    /// The words of the command, such as `task get`.
    pub(crate) path: &'static str,
    pub(crate) group: HelpGroup,
    takes: AcceptedSettings,
    build: fn(Command) -> Command,
    pub(crate) run: fn(&ArgMatches, Invocation) -> Outcome,
}

impl CommandEntry {
    /// Whether the command reads the settings.
    pub(crate) fn takes_settings(&self) -> bool {
        self.takes == AcceptedSettings::Settings
    }
}

const fn entry<V: Verb>(path: &'static str, group: HelpGroup, takes: AcceptedSettings) -> CommandEntry {
    CommandEntry { path, group, takes, build: V::augment_args, run: run_verb::<V> }
}

fn run_verb<V: Verb>(matches: &ArgMatches, invocation: Invocation) -> Outcome {
    let verb = V::from_arg_matches(matches).map_err(|error| Problem::usage(first_paragraph(&error.to_string())))?;
    verb.run(invocation)
}

/// Every command, in the order of `help`.
pub(crate) const COMMANDS: &[CommandEntry] = &[
    entry::<call::send::SendCommand>("send", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::chat::Chat>("chat", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::card::CardGet>("card get", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::card::CardVerify>("card verify", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::task::TaskGet>("task get", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::task::TaskList>("task list", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::task::TaskCancel>("task cancel", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::task::TaskSubscribe>("task subscribe", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<admin::exchange_log::TaskWire>("task wire", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<call::task::TaskDownload>("task download", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::push::PushConfigCreate>("task push-config create", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::push::PushConfigGet>("task push-config get", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::push::PushConfigList>("task push-config list", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::push::PushConfigDelete>("task push-config delete", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::push::PushConfigListen>("task push-config listen", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::envelope::EnvelopeSend>("envelope send", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::network::NetworkList>("network list", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::network::NetworkAdd>("network add", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::network::NetworkPublish>("network publish", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::network::NetworkRemove>("network remove", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::auth::AuthLogin>("auth login", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::auth::AuthStatus>("auth status", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::auth::AuthLogout>("auth logout", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<call::config::ConfigShow>("config show", HelpGroup::Talk, AcceptedSettings::Settings),
    entry::<doctor::Doctor>("doctor", HelpGroup::Look, AcceptedSettings::Settings),
    entry::<raw_call::RawCall>("call", HelpGroup::Look, AcceptedSettings::Settings),
    entry::<conformance::Conformance>("conformance", HelpGroup::Look, AcceptedSettings::Settings),
    entry::<bench::Bench>("bench", HelpGroup::Look, AcceptedSettings::Settings),
    entry::<cassette::record::Record>("record", HelpGroup::Look, AcceptedSettings::Settings),
    entry::<cassette::replay::Replay>("replay", HelpGroup::Look, AcceptedSettings::Settings),
    entry::<cassette::mock::Mock>("mock", HelpGroup::Look, AcceptedSettings::Nothing),
    entry::<convert::Convert>("convert", HelpGroup::Look, AcceptedSettings::Nothing),
    entry::<lattice::LatticeCheck>("lattice check", HelpGroup::Look, AcceptedSettings::Output),
    entry::<run::serve::Serve>("serve", HelpGroup::Run, AcceptedSettings::Nothing),
    entry::<run::init::Init>("init", HelpGroup::Run, AcceptedSettings::Output),
    entry::<run::demo::DemoServer>("demo-server", HelpGroup::Run, AcceptedSettings::Nothing),
    entry::<mcp::Mcp>("mcp", HelpGroup::Run, AcceptedSettings::Settings),
    entry::<admin::config::ConfigCheck>("config check", HelpGroup::Run, AcceptedSettings::Output),
    entry::<admin::config::ConfigSchema>("config schema", HelpGroup::Run, AcceptedSettings::Output),
    entry::<admin::agent::AgentAdd>("agent add", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentList>("agent list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentShow>("agent show", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentProfiles>("agent profiles", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentCardShow>("agent card", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentHistory>("agent history", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentRefresh>("agent refresh", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentApprove>("agent approve", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentEnable>("agent enable", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentDisable>("agent disable", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::agent::AgentRemove>("agent remove", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::key::KeyCreate>("key create", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::key::KeyList>("key list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::key::KeyRotate>("key rotate", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::key::KeyRevoke>("key revoke", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::org::OrgAdd>("org add", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::org::OrgList>("org list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::org::OrgRemove>("org remove", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::venue::VenueImport>("venue import", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::venue::VenueAdd>("venue add", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::venue::VenueList>("venue list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::venue::VenueDisable>("venue disable", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::venue::VenueEnable>("venue enable", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::booking::BookingList>("booking list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::booking::BookingShow>("booking show", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::booking::BookingTransition>("booking transition", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::billing::BillingRun>("billing run", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::billing::BillingCheck>("billing check", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::webhook::WebhookAdd>("webhook add", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::webhook::WebhookList>("webhook list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::webhook::WebhookRotate>("webhook rotate", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::webhook::WebhookRemove>("webhook remove", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::rank::AgentRank>("agent rank", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::explain::Explain>("explain", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::audit::AuditTail>("audit tail", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::audit::AuditVerify>("audit verify", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::audit::AuditEnvelopes>("audit envelopes", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::inbox::InboxList>("inbox list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::inbox::InboxShow>("inbox show", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::inbox::InboxReply>("inbox reply", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::push::PushList>("push list", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::push::PushShow>("push show", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::push::PushRetry>("push retry", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::push::PushDrop>("push drop", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::push::PushTest>("push test", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::backup::Backup>("backup", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::backup::Restore>("restore", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::db::DbCheck>("db check", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::db::DbPrune>("db prune", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::card::CardSign>("card sign", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<admin::card::CardKeysCommand>("card keys", HelpGroup::Administer, AcceptedSettings::Output),
    entry::<completion::Completion>("completion", HelpGroup::Tool, AcceptedSettings::Nothing),
    entry::<manual::Man>("man", HelpGroup::Tool, AcceptedSettings::Nothing),
    entry::<manual::Manual>("manual", HelpGroup::Hidden, AcceptedSettings::Nothing),
];

/// Commands that only group subcommands, with the line that help shows for each.
const COMMAND_GROUPS: &[(&str, &str)] = &[
    ("card", "Read cards, check who vouches for them, and vouch for one's own"),
    ("task", "Look at tasks and steer them"),
    ("task push-config", "Have an agent notify a webhook about a task"),
    ("envelope", "Talk to a booking network in its own envelopes"),
    ("network", "See which booking networks a registry knows, and put one in"),
    ("auth", "Log in to agents"),
    ("config", "See what is configured"),
    ("agent", "Put agents that are elsewhere behind a server, and see to their cards"),
    ("lattice", "See who can grant what to whom, before anything runs"),
    ("key", "Issue API keys and take them back"),
    ("org", "Say whose tokens are signed with a secret of their own"),
    ("venue", "Say what the booking network of a server can book"),
    ("booking", "See what was booked, and say how it goes on"),
    ("billing", "Send the metered usage to the biller, and see whether the books agree"),
    ("webhook", "Notify a webhook of what happens to the bookings of a key"),
    ("inbox", "See the tasks that wait for a person, across all agents of a server, and answer them"),
    ("push", "See what a server owes to webhooks; task push-config registers them with an agent"),
    ("audit", "See who was refused, who changed what, and what came to the booking network"),
    ("db", "Look after the files of a server"),
];

/// How much `sabir help` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelpLength {
    /// The commands a new user needs first.
    Short,
    /// Every command and every option.
    Full,
}

/// The commands that the short help shows, grouped by what a user wants to do.
const SHORT_HELP_COMMANDS: &[(&str, &[&str])] = &[
    ("Talk to an agent", &["chat", "send", "card get", "task get", "task list"]),
    ("Find out what is wrong", &["doctor", "call", "explain"]),
    ("Run agents", &["init", "serve"]),
    ("Look after a server", &["agent add", "key create", "inbox list"]),
];

/// Whether the user asks for the full help: `sabir help all`, `sabir help --all` or `sabir --help --all`.
pub(crate) fn wants_full_help(arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    matches!(words.as_slice(), ["help" | "--help" | "-h", "all" | "--all"] | ["--all", "--help" | "-h"])
}

/// Builds the parser. Its help shows the values that are configured now.
pub(crate) fn command(layers: &Layers, length: HelpLength) -> Command {
    let root = Command::new("sabir")
        .about("Talk to agents, look into them and run them: every dialect of A2A behind one command")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true)
        .propagate_version(true)
        .arg(version())
        .override_usage("sabir <command> [arguments] [options]")
        .subcommand_required(true)
        .disable_help_subcommand(false)
        .term_width(HELP_COLUMNS)
        .color(ColorChoice::Never)
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}",
            match length {
                HelpLength::Short => overview(),
                HelpLength::Full => format!("{}\n\nGlobal options:\n{{options}}", groups()),
            }
        ));
    let root = arguments(root, "", layers);
    COMMANDS.iter().fold(root, |root, entry| {
        let words: Vec<&'static str> = entry.path.split(' ').collect();
        add_to_tree(root, "", &words, entry, layers)
    })
}

/// `-v`, in lower case: the CLI specification assigns it to the version.
fn version() -> Arg {
    let version = Arg::new("version").short('v').long("version").action(ArgAction::Version);
    version.visible_short_alias('V').help("Print the version").help_heading("Global options")
}

/// Adds a command to the tree, and the group commands above it.
fn add_to_tree(parent: Command, above: &str, words: &[&'static str], entry: &CommandEntry, layers: &Layers) -> Command {
    let [word, rest @ ..] = words else { return parent };
    let path = format!("{above} {word}").trim_start().to_owned();
    if rest.is_empty() {
        let leaf = (entry.build)(Command::new(*word).disable_version_flag(true)).hide(entry.group == HelpGroup::Hidden);
        let leaf = match entry.takes {
            AcceptedSettings::Settings => arguments(leaf, &path, layers),
            AcceptedSettings::Output => output_alone(leaf, layers),
            AcceptedSettings::Nothing => leaf,
        };
        return parent.subcommand(leaf.arg(version()));
    }
    if parent.find_subcommand(word).is_none() {
        let about = COMMAND_GROUPS.iter().find(|(family, _)| *family == path).map_or("", |(_, about)| about);
        let family = Command::new(*word).about(about).subcommand_required(true).disable_version_flag(true);
        return parent.subcommand(add_to_tree(family, &path, rest, entry, layers));
    }
    parent.mut_subcommand(word, |family| add_to_tree(family, &path, rest, entry, layers))
}

/// What a command does, in a line.
fn about(entry: &CommandEntry) -> String {
    (entry.build)(Command::new("")).get_about().map(ToString::to_string).unwrap_or_default()
}

/// The text of the short help: the first commands, and how to list all of them.
fn overview() -> String {
    let mut text = String::new();
    for (heading, paths) in SHORT_HELP_COMMANDS {
        text += &format!("{heading}:\n");
        for entry in paths.iter().filter_map(|path| COMMANDS.iter().find(|entry| entry.path == *path)) {
            text += &format!("  {:<13}{}\n", entry.path, about(entry));
        }
        text.push('\n');
    }
    text + "An agent is a host, a URL or a file: sabir chat https://agent.example\n\n\
            `sabir help <command>` tells more about each. `sabir help all` lists every command and option: tasks and\n\
            push-config, auth, config, conformance, bench, record and replay, agents, keys, audit, push, backup,\n\
            demo-server, completion …"
}

/// The commands by group, in place of one long list.
fn groups() -> String {
    let mut text = String::new();
    for (group, heading) in [
        (HelpGroup::Talk, "Talk to an agent"),
        (HelpGroup::Look, "Look into agents and messages"),
        (HelpGroup::Run, "Run agents"),
        (HelpGroup::Administer, "Administer a server"),
        (HelpGroup::Tool, "This tool"),
    ] {
        let entries: Vec<&CommandEntry> = COMMANDS.iter().filter(|entry| entry.group == group).collect();
        if entries.is_empty() {
            continue;
        }
        text += &format!("{heading}:\n");
        for entry in entries {
            text += &format!("  {:<26}{}\n", entry.path, about(entry));
        }
        text.push('\n');
    }
    text + "`sabir help <command>` tells more about each."
}

/// The command that was chosen, and what was parsed on the way to it.
pub(crate) fn chosen_command(matches: &ArgMatches) -> Result<(&'static CommandEntry, Vec<&ArgMatches>), Problem> {
    let mut chain = vec![matches];
    let mut path = Vec::new();
    while let Some((word, below)) = chain.last().and_then(|matches| matches.subcommand()) {
        path.push(word);
        chain.push(below);
    }
    let path = path.join(" ");
    let entry = COMMANDS.iter().find(|entry| entry.path == path);
    entry.map(|entry| (entry, chain)).ok_or_else(|| Problem::usage("no command was given").hint("sabir help"))
}

/// Converts a parser error into a problem.
pub(crate) fn parse_problem(error: &clap::Error, arguments: &[String]) -> Problem {
    let path = path_of(arguments);
    let help = format!("sabir {path} --help").replace("  ", " ");
    let message = match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let known: Vec<&str> =
                COMMANDS.iter().filter(|entry| entry.group != HelpGroup::Hidden).map(|entry| entry.path).collect();
            let under = known.iter().filter_map(|known| known.strip_prefix(path.as_str())).map(str::trim);
            format!("a command is missing; there are {}", under.collect::<Vec<_>>().join(", "))
        }
        _ => first_paragraph(&error.to_string()),
    };
    let suggested = error.get(ContextKind::SuggestedArg).or_else(|| error.get(ContextKind::SuggestedSubcommand));
    let near = match suggested {
        Some(ContextValue::String(word)) => Some(word.clone()),
        Some(ContextValue::Strings(words)) => words.first().cloned(),
        _ => None,
    };
    let typed = match error.get(ContextKind::InvalidArg).or_else(|| error.get(ContextKind::InvalidSubcommand)) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let problem = Problem::usage(message);
    if let Some((_, hint)) = OTHER_TOOLS.iter().find(|(command, _)| *command == typed) {
        return problem.hint(*hint);
    }
    match near.filter(|near| is_misspelling(typed, near)) {
        Some(word) => problem.hint(format!("did you mean {word}? {help}")),
        None => problem.hint(help),
    }
}

/// Commands of other tools that Sabir does not have, and what to type instead.
const OTHER_TOOLS: [(&str, &str); 5] = [
    ("logs", "sabir serve writes its log to standard error; sabir task wire shows the requests of one task"),
    ("status", "sabir doctor URL checks an agent; sabir agent list shows the agents of the server in this folder"),
    ("top", "sabir task list URL lists tasks; the server has figures at /metrics"),
    ("ps", "sabir task list URL lists the tasks of an agent"),
    ("run", "sabir serve --exec COMMAND serves a command as an agent"),
];

/// Whether the typed word is probably a misspelling of `meant`: at most a third of its letters are wrong.
fn is_misspelling(typed: &str, meant: &str) -> bool {
    let letters = |word: &str| -> Vec<char> { word.trim_start_matches('-').chars().collect() };
    let (typed, meant) = (letters(typed), letters(meant));
    edit_distance(&typed, &meant) <= (meant.len().max(typed.len()) / 3).max(1)
}

/// The edit distance: insertions, deletions, replacements and swaps of neighbouring letters.
fn edit_distance(from: &[char], to: &[char]) -> usize {
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (at, letter) in from.iter().enumerate() {
        let mut row = vec![at + 1];
        for (place, wanted) in to.iter().enumerate() {
            let replaced = rows[at][place] + usize::from(letter != wanted);
            let mut fewest = replaced.min(row[place] + 1).min(rows[at][place + 1] + 1);
            if at > 0 && place > 0 && *letter == to[place - 1] && from[at - 1] == *wanted {
                fewest = fewest.min(rows[at - 1][place - 1] + 1);
            }
            row.push(fewest);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

/// Whether the typed command reads no settings; its `--config` then names another kind of file.
pub(crate) fn reads_no_settings(arguments: &[String]) -> bool {
    let path = path_of(arguments);
    COMMANDS.iter().any(|entry| entry.path == path && !entry.takes_settings())
}

/// The words of the arguments that name a command.
fn path_of(arguments: &[String]) -> String {
    let mut path = String::new();
    for word in arguments.iter().skip(1).take_while(|word| !word.starts_with('-')) {
        let longer = format!("{path} {word}").trim_start().to_owned();
        if !COMMANDS.iter().any(|entry| entry.path == longer || entry.path.starts_with(&format!("{longer} "))) {
            break;
        }
        path = longer;
    }
    path
}

/// The parser's message without its usage and advice.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraph: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    paragraph.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        command(&Layers::default(), HelpLength::Full).debug_assert();
    }

    #[test]
    fn the_short_help_fits_a_screen_and_names_commands_that_exist() {
        let text = command(&Layers::default(), HelpLength::Short).render_help().to_string();
        assert!(text.lines().count() <= 30, "{text}");
        for path in SHORT_HELP_COMMANDS.iter().flat_map(|(_, paths)| *paths) {
            assert!(text.contains(&format!("  {path} ")), "{path}");
        }
    }

    #[test]
    fn what_is_far_from_every_command_is_not_guessed_at() {
        let hint = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = command(&Layers::default(), HelpLength::Short).try_get_matches_from(&words).unwrap_err();
            parse_problem(&error, &words).hint.unwrap()
        };
        assert!(hint("sabir sned").contains("did you mean send?"));
        assert!(hint("sabir logs").contains("standard error"));
        assert!(hint("sabir task lst").contains("did you mean list?"));
        assert!(hint("sabir bench --streem").contains("did you mean --stream?"));
        for far in ["sabir logs", "sabir bench --requests 5", "sabir status"] {
            assert!(!hint(far).contains("did you mean"), "{far}: {}", hint(far));
        }
    }

    #[test]
    fn every_command_is_there_once() {
        let mut seen = std::collections::HashSet::new();
        assert!(COMMANDS.iter().all(|entry| seen.insert(entry.path)));
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        for entry in COMMANDS {
            assert!((entry.build)(Command::new("x")).get_about().is_some(), "{}", entry.path);
        }
        for (family, about) in COMMAND_GROUPS {
            assert!(!about.is_empty(), "{family}");
        }
    }

    #[test]
    fn the_words_of_a_command_are_found() {
        let path = |text: &str| path_of(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(path("sabir config show --x"), "config show");
        assert_eq!(path("sabir config --x"), "config");
        assert_eq!(path("sabir nonsense"), "");
        let apart = |text: &str| reads_no_settings(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(
            apart("sabir serve --config a") && apart("sabir key list --config a") && !apart("sabir send --config a")
        );
    }
}
