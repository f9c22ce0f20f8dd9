//! The places settings come from, read once at start: the environment and two files.

use super::resolve::SettingSource;
use super::{AllowedSources, Setting};
use super::{dotenv, kind};
use crate::problem::Problem;
use sabir_client::signature::SignatureMode;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Shared by all implementations of the CLI specification.
const PREFIX: &str = "A2ACLI_";
/// Largest file that is read, in bytes: settings are a page, not a book.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is configured outside the command line.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    environment: BTreeMap<String, String>,
    pub(crate) local: Option<SettingsFile>,
    pub(crate) global: Option<SettingsFile>,
    /// Warnings about the files themselves.
    pub(crate) remarks: Vec<String>,
}

/// One file of settings.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    pub(crate) path: PathBuf,
    /// Found by looking around, not named by the user: a checked-out directory may not be trusted.
    pub(crate) discovered: bool,
    /// Others on this machine can read it.
    pub(crate) readable_by_others: bool,
    entries: BTreeMap<String, String>,
}

impl Layers {
    /// What this process was started with. `config` is the value of `--config`, which stands before its variable.
    pub(crate) fn load(config: Option<&str>) -> Result<Self, Problem> {
        let environment = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
            .collect();
        let here = std::env::current_dir().ok();
        Self::read(environment, config, here.as_deref(), &global_candidates())
    }

    /// The same from given inputs, for tests.
    fn read(
        environment: BTreeMap<String, String>,
        config: Option<&str>,
        here: Option<&Path>,
        global: &[PathBuf],
    ) -> Result<Self, Problem> {
        let mut remarks = Vec::new();
        let named = config.map(str::to_owned).or_else(|| environment.get("A2ACLI_CONFIG").cloned());
        let local = match named {
            Some(path) => Some(SettingsFile::read(Path::new(&path), false)?.map_err(|reason| {
                Problem::usage(format!("cannot read {path}: {reason}"))
                    .hint("give --config the path of a file with lines such as A2ACLI_AGENT_CARD=https://…")
            })?),
            None => match here.and_then(nearest_env_file) {
                Some(path) => {
                    let file = SettingsFile::read(&path, true)?;
                    file.inspect_err(|reason| remarks.push(format!("cannot read {}: {reason}", path.display()))).ok()
                }
                None => None,
            },
        };
        let mut layers = Self { environment, local, global: None, remarks };
        if let Some(path) = global.iter().find(|path| path.is_file()) {
            let file = SettingsFile::read(path, false)?;
            let unread = |reason: &std::io::Error| format!("cannot read {}: {reason}", path.display());
            layers.global = file.inspect_err(|reason| layers.remarks.push(unread(reason))).ok();
        }
        Ok(layers)
    }

    /// The value of a setting and where it was found; what is empty counts as unset.
    pub(crate) fn find(&self, setting: &Setting) -> Option<(String, SettingSource)> {
        let variable = setting.variable()?;
        if let Some(value) = self.environment.get(&variable).filter(|value| !value.is_empty()) {
            return Some((value.clone(), SettingSource::Variable(variable)));
        }
        if setting.sources == AllowedSources::NoFile {
            return None;
        }
        let local = self.local.as_ref().filter(|_| self.ignored_file(setting).is_none());
        let local = local.map(|file| (file, SettingSource::Local(file.path.clone())));
        let global = self.global.as_ref().map(|file| (file, SettingSource::Global(file.path.clone())));
        local.into_iter().chain(global).find_map(|(file, source)| Some((file.value_of(&variable)?.to_owned(), source)))
    }

    /// The file whose value for a setting is ignored: it was only discovered, and it would lower the trust that cards
    /// need or say whom to believe about them. The author of a checkout must not vouch for the agents that it names.
    pub(crate) fn ignored_file(&self, setting: &Setting) -> Option<&SettingsFile> {
        let variable = setting.variable()?;
        let file = self.local.as_ref().filter(|file| file.discovered)?;
        let value = file.value_of(&variable)?;
        let otherwise = self.global.as_ref().and_then(|file| file.value_of(&variable));
        let lowers = match setting.flag {
            "card-trust" => {
                let mode = |text: &str| text.parse::<SignatureMode>().ok();
                // What is no mode at all is refused by name, like any value that cannot be used.
                mode(value).is_some_and(|here| here < otherwise.and_then(mode).unwrap_or_default())
            }
            "card-roots-only" => {
                kind::switch(value) == Ok(false) && otherwise.is_some_and(|text| kind::switch(text) == Ok(true))
            }
            "trusted-keys" | "trusted-ca" | "key-registry" => true,
            _ => false,
        };
        lowers.then_some(file)
    }
}

impl SettingsFile {
    /// What it says about a setting; what is empty counts as nothing.
    fn value_of(&self, variable: &str) -> Option<&str> {
        self.entries.get(variable).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The outer error is a line that cannot be read, the inner one a file that cannot.
    fn read(path: &Path, discovered: bool) -> Result<std::io::Result<Self>, Problem> {
        let (text, open) = match contents(path) {
            Ok(read) => read,
            Err(reason) => return Ok(Err(reason)),
        };
        if !discovered && is_toml(path, &text) {
            let path = path.display();
            return Err(Problem::usage(format!(
                "{path} is the configuration of a server, and --config takes a file of A2ACLI_… lines here"
            ))
            .hint(format!(
                "commands that read a server's files take it: --server-config {path}; sabir serve --config {path}"
            )));
        }
        let entries = dotenv::parse(&text, PREFIX).map_err(|(line, what)| {
            Problem::usage(format!("{}:{line}: cannot read this line: {what}", path.display()))
                .hint("write A2ACLI_NAME=value, or put # before the line")
        })?;
        let entries = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Ok(Self { path, discovered, readable_by_others: open, entries }))
    }
}

/// Whether a file is TOML: by its name, or by a line that opens a section.
fn is_toml(path: &Path, text: &str) -> bool {
    let section =
        |line: &str| line.starts_with('[') && line.split('#').next().is_some_and(|l| l.trim_end().ends_with(']'));
    path.extension().is_some_and(|extension| extension == "toml") || text.lines().any(|line| section(line.trim()))
}

/// The text of a file, and whether others can read it.
fn contents(path: &Path) -> std::io::Result<(String, bool)> {
    use std::os::unix::fs::PermissionsExt;
    let file = std::fs::File::open(path)?;
    let open = file.metadata()?.permissions().mode() & 0o044 != 0;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("it is over the limit of {FILE_BYTES_MAX} bytes")));
    }
    Ok((text, open))
}

/// The `.env` of a directory or of the nearest parent that has one, as git looks for its repository.
fn nearest_env_file(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|directory| directory.join(".env")).find(|path| path.is_file())
}

/// Where the global file may be, the first that exists counts. The directory is `a2a-cli` for every implementation.
fn global_candidates() -> Vec<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let xdg = of("XDG_CONFIG_HOME");
    let home = of("HOME").map(|home| home.join(".config"));
    xdg.into_iter().chain(home).map(|directory| directory.join("a2a-cli").join(".env")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::find;

    fn world(
        environment: &[(&str, &str)],
        config: Option<&str>,
        here: &Path,
        global: &Path,
    ) -> Result<Layers, Problem> {
        let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Layers::read(environment, config, Some(here), &[global.to_owned()])
    }

    #[test]
    fn the_nearer_place_wins() {
        let root = tempfile::TempDir::new().unwrap();
        let below = root.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        let (local, global, named) =
            (root.path().join("a/.env"), root.path().join("global"), root.path().join("named"));
        std::fs::write(&local, "A2ACLI_TIMEOUT=3\nA2ACLI_AGENT_CARD=local\nA2ACLI_CONFIG=nowhere\nA2ACLI_STREAM=1")
            .unwrap();
        std::fs::write(&global, "A2ACLI_TIMEOUT=4\nA2ACLI_AGENT_CARD=global\nA2ACLI_OUTPUT=json").unwrap();
        std::fs::write(&named, "A2ACLI_AGENT_CARD=named").unwrap();
        let value = |layers: &Layers, flag: &str| layers.find(find(flag).unwrap()).map(|(value, _)| value);

        let layers = world(&[("A2ACLI_TIMEOUT", "2"), ("A2ACLI_STREAM", "1")], None, &below, &global).unwrap();
        assert_eq!(value(&layers, "timeout").as_deref(), Some("2"));
        assert_eq!(value(&layers, "agent-card").as_deref(), Some("local"));
        assert_eq!(value(&layers, "output").as_deref(), Some("json"));
        assert_eq!(value(&layers, "bearer"), None);
        assert_eq!((value(&layers, "stream"), value(&layers, "config")), (None, None));
        assert!(layers.local.as_ref().unwrap().discovered);

        let layers = world(&[("A2ACLI_TIMEOUT", "")], Some(named.to_str().unwrap()), &below, &global).unwrap();
        assert_eq!(value(&layers, "agent-card").as_deref(), Some("named"));
        assert_eq!(value(&layers, "timeout").as_deref(), Some("4"), "an empty variable counts as unset");
        assert!(!layers.local.as_ref().unwrap().discovered);
    }

    #[test]
    fn a_file_that_was_only_discovered_may_ask_more_of_cards_and_no_less() {
        let root = tempfile::TempDir::new().unwrap();
        let (local, global) = (root.path().join(".env"), root.path().join("global"));
        for (flag, mine, theirs, counts) in [
            ("card-trust", "require", "off", "require"),
            ("card-trust", "require", "if-present", "require"),
            ("card-trust", "if-present", "require", "require"),
            ("card-trust", "if-present", "if-present", "if-present"),
            ("card-trust", "", "require", "require"),
            ("card-roots-only", "true", "false", "true"),
            ("card-roots-only", "", "true", "true"),
            ("trusted-keys", "mine.json", "theirs.json", "mine.json"),
            ("trusted-keys", "", "theirs.json", ""),
            ("trusted-ca", "", "theirs.pem", ""),
            ("key-registry", "https://mine.example", "https://theirs.example", "https://mine.example"),
        ] {
            let variable = find(flag).unwrap().variable().unwrap();
            std::fs::write(&local, format!("{variable}={theirs}")).unwrap();
            std::fs::write(&global, format!("{variable}={mine}")).unwrap();
            let warned = |layers: &Layers| {
                let warnings = crate::settings::Settings::resolve(layers, &[]).unwrap().warnings;
                warnings.iter().any(|words| words.contains(&variable) && words.contains("ignored"))
            };
            let value = |layers: &Layers| layers.find(find(flag).unwrap()).map(|(value, _)| value).unwrap_or_default();
            let layers = world(&[], None, root.path(), &global).unwrap();
            assert_eq!(value(&layers), counts, "{flag}: {mine}, {theirs}");
            assert_eq!(warned(&layers), counts != theirs, "{flag}: {mine}, {theirs}");
            // The same file counts when `--config` names it, and what is nearer than either counts always.
            let layers = world(&[], Some(local.to_str().unwrap()), root.path(), &global).unwrap();
            assert_eq!((value(&layers).as_str(), warned(&layers)), (theirs, false), "{flag}: {mine}, {theirs}");
            let layers = world(&[(&variable, theirs)], None, root.path(), &global).unwrap();
            assert_eq!((value(&layers).as_str(), warned(&layers)), (theirs, false), "{flag}: {mine}, {theirs}");
        }
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let root = tempfile::TempDir::new().unwrap();
        let nowhere = root.path().join("nowhere");
        let problem = world(&[("A2ACLI_CONFIG", nowhere.to_str().unwrap())], None, root.path(), &nowhere).unwrap_err();
        assert!(problem.message.contains("nowhere"), "{problem:?}");
        std::fs::write(root.path().join(".env"), "fine=1\nnot fine\n").unwrap();
        let problem = world(&[], None, root.path(), &nowhere).unwrap_err();
        assert!(problem.message.contains(".env:2: "), "{problem:?}");
    }
}
