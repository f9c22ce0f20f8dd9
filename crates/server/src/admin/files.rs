//! The files of a server as a whole: copying them, putting copies back, looking whether they are whole, forgetting tasks.
//!
//! Copying and looking work beside a server that runs. Putting a copy back and forgetting need the store to themselves; a
//! server that runs forgets by itself, see `[retention]`.

use super::{AdminError, now};
use crate::config::{Config, store_path};
use crate::retention::before;
use sabir_gateway::wire;
use sabir_proto::AgentName;
use sabir_store::sqlite::{self, SqliteGuard, SqliteLog};
pub use sabir_store::sqlite::{Checked, Copied, CopyError, Looked, Over};
use sabir_store::{OpenError, Retention as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What was kept of what was said about a task, oldest first, as JSON.
pub fn exchanges(config: &Config, task: &str) -> Result<Vec<serde_json::Value>, AdminError> {
    let path = config.wire_directory().map_err(AdminError::Url)?.ok_or(AdminError::Memory)?;
    Ok(wire::read(&path, task).map_err(|e| OpenError::Io { path, reason: e.to_string() })?)
}

/// Where the store of a configuration is.
pub fn store_at(config: &Config) -> Result<PathBuf, AdminError> {
    store_path(config).map_err(AdminError::Url)?.ok_or(AdminError::Memory)
}

/// The same, where there must be one.
fn existing(config: &Config) -> Result<PathBuf, AdminError> {
    let task_log = store_at(config)?;
    // A directory where the first key was made before the first start has no task log yet.
    if task_log.exists() { Ok(task_log) } else { Err(AdminError::NoStore(task_log)) }
}

/// Copies the store of a configuration, whether a server works on it or not.
pub fn backup(config: &Config, into: &Path, looked: &mut dyn FnMut(Looked)) -> Result<Copied, AdminError> {
    Ok(sqlite::backup(&existing(config)?, into, looked)?)
}

/// Puts a copy where the configuration has its store. With `replace` a store that is there is put aside.
pub fn restore(
    config: &Config,
    copy: &Path,
    replace: bool,
    looked: &mut dyn FnMut(Looked),
) -> Result<Copied, AdminError> {
    let task_log = store_at(config)?;
    if !copy.exists() {
        return Err(AdminError::NoStore(copy.into()));
    }
    if let Some(directory) = task_log.parent() {
        crate::app::make_private(directory)
            .map_err(|e| OpenError::Io { path: directory.into(), reason: e.to_string() })?;
    }
    // Letters and digits alone, so that the name needs no quotes.
    let moment: String = now().to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    let over = if replace { Over::Aside(format!(".before-{moment}")) } else { Over::Nothing };
    Ok(sqlite::restore(copy, &task_log, &over, looked)?)
}

/// Looks at every row of both files.
pub fn check(config: &Config, looked: &mut dyn FnMut(Looked)) -> Result<Checked, AdminError> {
    Ok(sqlite::check(&existing(config)?, looked)?)
}

/// The guard's file that belongs to a task log.
pub fn guard_beside(task_log: &Path) -> PathBuf {
    SqliteGuard::path_beside(task_log)
}

/// How many settled tasks of each agent had their last status longer ago than this, and are owed to nobody.
pub fn prunable(config: &Config, age: Duration) -> Result<Vec<(AgentName, u64)>, AdminError> {
    Ok(sqlite::forgettable(&existing(config)?, before(age))?)
}

/// Forgets them, of all agents or of one, and says how many there were; `told` hears of it on the way.
pub async fn prune(
    config: &Config,
    age: Duration,
    agent: Option<&AgentName>,
    compact: bool,
    told: &mut dyn FnMut(u64),
) -> Result<u64, AdminError> {
    let task_log = existing(config)?;
    let durability = config.store.durability.into();
    let writing = sqlite::Writing::Threaded;
    let log = SqliteLog::open(&task_log, sqlite::Options { durability, writing, metrics: Default::default() })?;
    let below = before(age);
    let mut tasks = 0;
    for name in log.agents().await?.into_iter().filter(|name| agent.is_none_or(|agent| agent == name)) {
        let mut from = None;
        loop {
            let forgotten = log.forget(&name, below, from).await?;
            tasks += forgotten.tasks;
            told(tasks);
            from = forgotten.next;
            if from.is_none() {
                break;
            }
        }
    }
    if compact {
        log.compact().await?;
    }
    Ok(tasks)
}
