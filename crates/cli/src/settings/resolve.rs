//! Resolution: one value per setting, with the place it came from.

use super::kind;
use super::value::ParseSetting;
use super::{Layers, SETTINGS, Setting, Settings, ValueKind, find};
use crate::problem::Problem;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::fmt;
use std::path::PathBuf;

/// How near to the user a value was set. The nearest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    Default,
    Global,
    Local,
    Environment,
    Flag,
}

/// The place where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Flag,
    Variable(String),
    Local(PathBuf),
    Global(PathBuf),
    Default,
}

impl SettingSource {
    pub(crate) const fn precedence(&self) -> Precedence {
        match self {
            Self::Flag => Precedence::Flag,
            Self::Variable(_) => Precedence::Environment,
            Self::Local(_) => Precedence::Local,
            Self::Global(_) => Precedence::Global,
            Self::Default => Precedence::Default,
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => write!(f, "env {name}"),
            Self::Local(path) | Self::Global(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting with its values and their source. Without values, the setting is not set.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedSetting {
    pub(crate) setting: &'static Setting,
    pub(crate) values: Vec<String>,
    pub(crate) source: SettingSource,
}

impl ResolvedSetting {
    /// Checks the values by the kind of the setting.
    pub(super) fn check(&self) -> Result<(), Problem> {
        self.values.iter().try_for_each(|value| self.setting.kind.check(value)).map_err(|wrong| self.problem(&wrong))
    }

    pub(super) fn parse<T: ParseSetting>(&self, text: &str) -> Result<T, Problem> {
        T::parse_setting(self.setting.kind, text).map_err(|wrong| self.problem(&wrong))
    }

    fn problem(&self, wrong: &str) -> Problem {
        let flag = self.setting.flag;
        let place = match &self.source {
            SettingSource::Flag | SettingSource::Default => format!("--{flag}"),
            other => format!("--{flag} ({other})"),
        };
        Problem::usage(format!("{place} cannot be used: {wrong}")).hint("sabir config show --help")
    }
}

/// How `send` and `task get` treat a task that is not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Wait until it is settled or waits for input or credentials.
    UntilSettled,
    /// Report it as it is.
    ReturnAtOnce,
}

impl Settings {
    /// Resolves everything. `chain` is what was parsed, from the program down to the command: a flag may stand anywhere.
    pub(crate) fn resolve(layers: &Layers, chain: &[&ArgMatches]) -> Result<Self, Problem> {
        let resolved: Vec<ResolvedSetting> =
            SETTINGS.iter().map(|setting| resolve_one(setting, layers, chain)).collect();
        let warnings = warnings(layers, &resolved);
        Self::parse(resolved, warnings)
    }

    /// Every setting as it was given.
    pub(crate) fn all(&self) -> &[ResolvedSetting] {
        &self.all
    }

    /// Whether to wait for a task. `--wait` and `--async` are two names for one choice, so the nearer one counts, and
    /// `--wait` where both are equally near: it only repeats the default.
    pub(crate) fn waiting(&self, without: WaitMode) -> Result<WaitMode, Problem> {
        let (wait, detach) = (&self.wait, &self.return_at_once);
        if wait.is_typed() && detach.is_typed() {
            return Err(Problem::usage("--wait and --async exclude each other").hint("leave one of them out"));
        }
        let detach_is_nearer = detach.precedence() > wait.precedence();
        let stays = match (wait.copied(), detach.copied()) {
            (None, None) => return Ok(without),
            (Some(wait), None) => wait,
            (None, Some(detach)) => !detach,
            (Some(_), Some(detach)) if detach_is_nearer => !detach,
            (Some(wait), Some(_)) => wait,
        };
        Ok(if stays { WaitMode::UntilSettled } else { WaitMode::ReturnAtOnce })
    }
}

/// One setting: the flag nearest the command, else what is configured.
fn resolve_one(setting: &'static Setting, layers: &Layers, chain: &[&ArgMatches]) -> ResolvedSetting {
    let typed = chain.iter().rev().find_map(|matches| typed(setting, matches));
    if let Some(values) = typed {
        return ResolvedSetting { setting, values, source: SettingSource::Flag };
    }
    match layers.find(setting) {
        Some((value, source)) => ResolvedSetting { setting, values: split(setting, value), source },
        None => ResolvedSetting { setting, values: Vec::new(), source: SettingSource::Default },
    }
}

/// What was typed for a setting at one level of the command, if the level takes it.
fn typed(setting: &Setting, matches: &ArgMatches) -> Option<Vec<String>> {
    let known = matches.try_contains_id(setting.flag).unwrap_or(false);
    if !known || matches.value_source(setting.flag) != Some(ValueSource::CommandLine) {
        return None;
    }
    match setting.kind {
        ValueKind::Switch => Some(vec![matches.get_flag(setting.flag).to_string()]),
        _ => Some(matches.get_many::<String>(setting.flag)?.cloned().collect()),
    }
}

/// A variable holds a list, one item per line; on a single line, commas part the items.
fn split(setting: &Setting, value: String) -> Vec<String> {
    if !setting.repeatable {
        return vec![value];
    }
    let between = if value.contains('\n') { '\n' } else { ',' };
    value.split(between).map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Warnings about the places where values were set.
fn warnings(layers: &Layers, resolved: &[ResolvedSetting]) -> Vec<String> {
    let mut said = layers.remarks.clone();
    for file in [&layers.local, &layers.global].into_iter().flatten() {
        let from_here = |one: &&ResolvedSetting| match &one.source {
            SettingSource::Local(path) | SettingSource::Global(path) => *path == file.path,
            SettingSource::Flag | SettingSource::Variable(_) | SettingSource::Default => false,
        };
        let names: Vec<&str> =
            resolved.iter().filter(from_here).filter(|one| one.setting.secret).map(|one| one.setting.flag).collect();
        if file.readable_by_others && !names.is_empty() {
            let (path, names) = (file.path.display(), names.join(", "));
            said.push(format!("{path} holds a secret ({names}) and others can read it; chmod 600 {path}"));
        }
        let insecure = resolved.iter().filter(from_here).any(|one| one.setting.flag == "insecure" && on(one));
        if file.discovered && insecure {
            said.push(format!("{} switches the check of certificates off (A2ACLI_INSECURE)", file.path.display()));
        }
    }
    for one in resolved.iter().filter(|one| one.source.precedence() < Precedence::Local) {
        if let (Some(file), Some(variable)) = (layers.ignored_file(one.setting), one.setting.variable()) {
            let path = file.path.display();
            said.push(format!("{path} would have cards believed more easily ({variable}), which is ignored; name the file with --config if you mean it"));
        }
    }
    said
}

fn on(resolved: &ResolvedSetting) -> bool {
    resolved.values.first().is_some_and(|value| kind::switch(value) == Ok(true))
}

/// What is configured for a setting, before anything is parsed: errors of the parser have to be printed too.
pub(crate) fn configured(layers: &Layers, flag: &str) -> Option<String> {
    layers.find(find(flag)?).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use sabir_client::Binding;
    use std::path::Path;
    use std::time::Duration;

    /// What a file holds and what is typed.
    fn settings(file: &str, typed: &[&str]) -> Result<Settings, Problem> {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("settings.env");
        std::fs::write(&path, file).unwrap();
        let layers = Layers::load(Some(path.to_str().unwrap())).unwrap();
        let command = super::super::arguments(Command::new("sabir"), "config show", &layers);
        let matches = command.try_get_matches_from([&["sabir"], typed].concat()).unwrap();
        Settings::resolve(&layers, &[&matches])
    }

    #[test]
    fn a_flag_beats_a_file_and_a_list_is_replaced() {
        let settings = settings(
            "A2ACLI_TRANSPORT=grpc,rest\nA2ACLI_TIMEOUT=3",
            &["--transport", "json-rpc", "--poll-interval=5s"],
        )
        .unwrap();
        assert_eq!(settings.transport.list(), [Binding::JsonRpc]);
        assert_eq!(settings.timeout.copied(), Some(Duration::from_secs(3)));
        assert_eq!(settings.poll_interval.given.source, SettingSource::Flag);
        assert!(
            matches!(&settings.timeout.given.source, SettingSource::Local(path) if path.ends_with(Path::new("settings.env")))
        );
        assert_eq!(settings.bearer.given.source, SettingSource::Default);
    }

    #[test]
    fn nothing_but_the_flag_switches_streaming_on() {
        assert!(!settings("A2ACLI_STREAM=1\nSTREAM=1", &[]).unwrap().stream.is_on());
        assert!(settings("", &["--stream"]).unwrap().stream.is_on());
    }

    fn parameters(settings: &Settings) -> Vec<String> {
        settings.svc_param.list().iter().map(|one| format!("{}: {}", one.name, one.value)).collect()
    }

    #[test]
    fn lists_in_variables_have_commas_or_lines() {
        let one = settings("A2ACLI_SVC_PARAM=a:1, b:2", &[]).unwrap();
        assert_eq!(parameters(&one), ["a: 1", "b: 2"]);
        let two = settings("A2ACLI_SVC_PARAM=\"a:1,5\nb:2\"", &[]).unwrap();
        assert_eq!(parameters(&two), ["a: 1,5", "b: 2"]);
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_with_its_place() {
        let problem = settings("A2ACLI_OUTPUT=yaml", &[]).unwrap_err();
        assert!(problem.message.contains("--output") && problem.message.contains("settings.env"), "{problem:?}");
        assert!(settings("", &["--timeout", "soon"]).is_err());
    }

    #[test]
    fn waiting_is_said_in_two_words_and_the_nearer_counts() {
        use WaitMode::{ReturnAtOnce, UntilSettled};
        for (file, typed, expected) in [
            ("", vec![], UntilSettled),
            ("", vec!["--async"], ReturnAtOnce),
            ("", vec!["--no-wait"], ReturnAtOnce),
            ("A2ACLI_ASYNC=1", vec![], ReturnAtOnce),
            ("A2ACLI_ASYNC=1", vec!["--wait"], UntilSettled),
            ("A2ACLI_ASYNC=1", vec!["--watch"], UntilSettled),
            ("A2ACLI_WAIT=1", vec!["--async"], ReturnAtOnce),
            ("A2ACLI_WAIT=0", vec![], ReturnAtOnce),
            ("A2ACLI_ASYNC=0", vec![], UntilSettled),
            ("A2ACLI_ASYNC=1\nA2ACLI_WAIT=1", vec![], UntilSettled),
        ] {
            assert_eq!(settings(file, &typed).unwrap().waiting(UntilSettled).unwrap(), expected, "{file} {typed:?}");
        }
        assert!(settings("", &["--wait", "--async"]).unwrap().waiting(UntilSettled).is_err());
    }

    #[test]
    fn an_open_file_with_a_secret_is_warned_about() {
        let warned = settings("A2ACLI_BEARER=secret-token", &[]).unwrap().warnings;
        assert!(warned.iter().any(|warning| warning.contains("bearer") && warning.contains("chmod")), "{warned:?}");
        let quiet = settings("A2ACLI_BEARER=secret-token", &["--bearer", "other"]).unwrap().warnings;
        assert_eq!(quiet, Vec::<String>::new());
    }
}
