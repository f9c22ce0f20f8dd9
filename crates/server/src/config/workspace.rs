//! `[workspace]`: apps that belong together, each a peer of all others.
//!
//! The apps of a workspace share one origin and one secret. Each is listed in a manifest, or is a directory below a
//! common one; each is served at `/apps/{id}`. No app is configured for another: the shared secret of `[auth.jwt]`
//! authenticates the caller of an app, and the app behind is called with a token under the same secret, which names the
//! same user and the same organisation.

use super::Config;
use super::agent::{AgentConfig, Kind};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use url::Url;

/// Apps in one workspace.
const APPS_MAX: usize = 1000;
/// The largest manifest or description that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The file of an app in its directory: our own section, or the package file of its framework.
const SECTION: &str = "agent.toml";
const PACKAGE: &str = "package.json";

/// `[workspace]`: where the apps are.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkspaceConfig {
    /// A directory with one directory for each app.
    pub apps: Option<PathBuf>,
    /// A file that lists the apps, or `env:NAME` for a variable that does.
    pub manifest: Option<String>,
    /// The origin of apps that have only a path.
    pub gateway: Option<String>,
}

/// An app in a manifest.
#[derive(Debug, Clone, Deserialize)]
struct WorkspaceApp {
    id: String,
    path: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    url: Option<String>,
}

/// A manifest: a list, or an object with one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Manifest {
    List(Vec<WorkspaceApp>),
    Object { apps: Vec<WorkspaceApp> },
}

/// The members of a `package.json` that describe the app.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PackageJson {
    #[serde(rename = "displayName")]
    display_name: Option<String>,
    description: Option<String>,
    #[serde(rename = "agent-native")]
    native: NativeSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NativeSection {
    url: Option<String>,
}

impl Config {
    /// Adds the apps of the workspace to the agents. An error says what is wrong, and where.
    pub(crate) fn with_apps(mut self) -> Result<Self, String> {
        let apps = self.apps()?;
        if apps.is_empty() {
            return Ok(self);
        }
        let secret = self.auth.jwt.as_ref().and_then(|jwt| jwt.secret.as_ref());
        if secret.is_none() {
            return Err("workspace: its apps know each other by one secret; give it in [auth.jwt] secret = …".into());
        }
        for app in apps {
            if self.agent.iter().any(|agent| agent.name == app.name) {
                return Err(format!("workspace: there are two agents with the name {:?}", app.name));
            }
            self.agent.push(app);
        }
        Ok(self)
    }

    fn apps(&self) -> Result<Vec<AgentConfig>, String> {
        let Some(workspace) = &self.workspace else { return Ok(Vec::new()) };
        let gateway = workspace.gateway.as_deref().map(Url::parse).transpose();
        let gateway = gateway.map_err(|e| format!("workspace: gateway is no URL: {e}"))?;
        let found = match (&workspace.apps, &workspace.manifest) {
            (Some(_), Some(_)) => return Err("workspace: apps or manifest, not both".into()),
            (None, None) => return Err("workspace: apps names a directory, or manifest a file".into()),
            (Some(directory), None) => scan(&self.resolve(directory), gateway.as_ref())?,
            (None, Some(manifest)) => {
                let (text, at) = match manifest.strip_prefix("env:") {
                    Some(name) => {
                        (std::env::var(name).map_err(|_| format!("workspace: {name} is not set"))?, manifest.clone())
                    }
                    None => {
                        let path = self.resolve(Path::new(manifest));
                        (read_file(&path)?, path.display().to_string())
                    }
                };
                read_manifest(&text, &at, gateway.as_ref())?
            }
        };
        if found.len() > APPS_MAX {
            return Err(format!("workspace: no more than {APPS_MAX} apps"));
        }
        Ok(found.into_values().collect())
    }
}

/// The apps of a manifest. A later one replaces an earlier one with the same id.
fn read_manifest(text: &str, at: &str, gateway: Option<&Url>) -> Result<BTreeMap<String, AgentConfig>, String> {
    let wrong = |what: String| format!("workspace: {at}: {what}");
    let manifest = serde_json::from_str(text);
    let apps = match manifest.map_err(|e| wrong(format!("not a list of apps with id and path: {e}")))? {
        Manifest::List(apps) | Manifest::Object { apps } => apps,
    };
    let mut found = BTreeMap::new();
    for app in apps {
        let agent = app_agent(app, gateway).map_err(wrong)?;
        found.insert(agent.name.clone(), agent);
    }
    Ok(found)
}

/// The apps below a directory: each directory with a description.
fn scan(directory: &Path, gateway: Option<&Url>) -> Result<BTreeMap<String, AgentConfig>, String> {
    let wrong = |at: &Path, what: &dyn std::fmt::Display| format!("workspace: {}: {what}", at.display());
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(|e| wrong(directory, &e))? {
        let at = entry.map_err(|e| wrong(directory, &e))?.path();
        let Some(id) = at.file_name().and_then(|name| name.to_str()).map(canonical) else { continue };
        let (section, package) = (at.join(SECTION), at.join(PACKAGE));
        let agent = if section.is_file() {
            let mut keys: toml::Table =
                toml::from_str(&read_file(&section)?).map_err(|e| wrong(&section, &e.message()))?;
            keys.insert("name".into(), id.clone().into());
            let agent: Result<AgentConfig, _> = toml::Value::Table(keys).try_into();
            AgentConfig { app: true, ..agent.map_err(|e| wrong(&section, &e.message()))? }
        } else if package.is_file() {
            let said: PackageJson = serde_json::from_str(&read_file(&package)?).map_err(|e| wrong(&package, &e))?;
            let (name, description, url) = (said.display_name, said.description, said.native.url);
            let path = format!("/{id}");
            app_agent(WorkspaceApp { id: id.clone(), path, name, description, url }, gateway)
                .map_err(|e| wrong(&package, &e))?
        } else {
            continue;
        };
        if found.insert(id.clone(), agent).is_some() {
            return Err(wrong(&at, &"there are two apps with this id"));
        }
    }
    Ok(found)
}

/// Turns an app into an agent.
fn app_agent(app: WorkspaceApp, gateway: Option<&Url>) -> Result<AgentConfig, String> {
    let id = canonical(&app.id);
    if id.is_empty() || !app.path.starts_with('/') {
        return Err(format!("app {:?}: each has an id, and a path that begins with /", app.id));
    }
    let url = match (app.url, gateway) {
        (Some(url), _) => url,
        (None, Some(gateway)) => format!("{}{}", gateway.as_str().trim_end_matches('/'), app.path),
        (None, None) => {
            return Err(format!("app {id:?}: it has no url, and no gateway is named at which {} is", app.path));
        }
    };
    let mut agent = AgentConfig::new(&id, Kind::A2a);
    agent.url = Some(url);
    agent.app = true;
    agent.card.name = app.name;
    agent.card.description = app.description;
    Ok(agent)
}

/// The id of an app in its one spelling. The assets app has had several ids.
fn canonical(id: &str) -> String {
    let id = id.trim().to_ascii_lowercase();
    if matches!(&*id, "image" | "images" | "asset") { "assets".into() } else { id }
}

fn read_file(path: &Path) -> Result<String, String> {
    let wrong = |what: String| format!("workspace: {}: {what}", path.display());
    let size = std::fs::metadata(path).map_err(|e| wrong(e.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(wrong(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(found: &BTreeMap<String, AgentConfig>) -> Vec<(&str, &str)> {
        found.iter().map(|(id, agent)| (id.as_str(), agent.url.as_deref().unwrap_or_default())).collect()
    }

    #[test]
    fn a_manifest_is_a_list_or_has_one() {
        let gateway = Url::parse("http://127.0.0.1:8080/").unwrap();
        let list = r#"[{"id":"Mail","path":"/mail","isDispatch":false},{"id":"images","path":"/assets","url":"https://a.example"}]"#;
        for text in [list.to_owned(), format!("{{\"apps\":{list}}}")] {
            let found = read_manifest(&text, "here", Some(&gateway)).unwrap();
            assert_eq!(urls(&found), [("assets", "https://a.example"), ("mail", "http://127.0.0.1:8080/mail")]);
            assert!(found.values().all(|agent| agent.app));
        }
        let refused = |text: &str| read_manifest(text, "here", None).unwrap_err();
        assert!(refused(list).contains("no gateway is named"));
        assert!(refused(r#"[{"id":"a","path":"a","url":"https://a"}]"#).contains("begins with /"));
        assert!(refused(r#"[{"path":"/a"}]"#).contains("here"));
    }

    #[test]
    fn every_directory_that_describes_an_app_is_one() {
        let apps = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = apps.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("mail/package.json", r#"{"name":"mail","displayName":"Mail","description":"Letters"}"#);
        put("books/agent.toml", "kind = \"echo\"\n[card]\ndescription = \"Ours\"\n");
        put("notes/readme.txt", "nothing");
        let gateway = Url::parse("http://127.0.0.1:8080").unwrap();
        let found = scan(apps.path(), Some(&gateway)).unwrap();
        assert_eq!(urls(&found), [("books", ""), ("mail", "http://127.0.0.1:8080/mail")]);
        assert_eq!(found["mail"].card.name.as_deref(), Some("Mail"));
        assert!(scan(apps.path(), None).unwrap_err().contains("package.json"));
        assert!(scan(&apps.path().join("none"), None).is_err());
    }

    #[test]
    fn a_workspace_needs_its_secret_and_names_of_its_own() {
        let apps = tempfile::tempdir().unwrap();
        std::fs::create_dir(apps.path().join("a")).unwrap();
        std::fs::write(apps.path().join("a/agent.toml"), "kind = \"echo\"\n").unwrap();
        let config = |text: &str| {
            let workspace = format!("[workspace]\napps = {:?}\n", apps.path());
            Config::read(&format!("{workspace}{text}")).unwrap().with_apps()
        };
        assert!(config("").unwrap_err().contains("[auth.jwt] secret"));
        let secret = "[auth.jwt]\nsecret = \"env:S\"\n";
        assert_eq!(config(secret).unwrap().agent.len(), 1);
        let twice = config(&format!("{secret}[[agent]]\nname = \"a\"\nkind = \"echo\"\n"));
        assert!(twice.unwrap_err().contains("two agents"));
    }
}
