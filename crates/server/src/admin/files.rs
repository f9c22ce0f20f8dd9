//! A server's files as a whole: backup, restore, check, and deleting old tasks.
//!
//! Backup and check work while a server runs. Restoring and deleting need the store for themselves; a running server
//! deletes old tasks itself, see `[retention]`.

use super::{AdminError, now};
use crate::config::{Config, store_path};
use crate::retention::before;
use sabir_gateway::exchange_log;
use sabir_proto::AgentName;
use sabir_store::sqlite::{self, SqliteGuard, SqliteLog};
pub use sabir_store::sqlite::{CheckProgress, CheckReport, CopyError, CopyReport, ExistingStore};
use sabir_store::{OpenError, Retention as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The recorded requests and responses about a task, oldest first, as JSON.
pub fn exchanges(config: &Config, task: &str) -> Result<Vec<serde_json::Value>, AdminError> {
    let path = config.exchange_log_directory().map_err(AdminError::Url)?.ok_or(AdminError::Memory)?;
    Ok(exchange_log::read_exchanges(&path, task).map_err(|e| OpenError::Io { path, reason: e.to_string() })?)
}

/// The path of the store of a configuration.
pub fn store_at(config: &Config) -> Result<PathBuf, AdminError> {
    store_path(config).map_err(AdminError::Url)?.ok_or(AdminError::Memory)
}

/// The path of the store; an error if it does not exist.
fn existing(config: &Config) -> Result<PathBuf, AdminError> {
    let task_log = store_at(config)?;
    // A directory where the first key was made before the first start has no task log yet.
    if task_log.exists() { Ok(task_log) } else { Err(AdminError::NoStore(task_log)) }
}

/// Copies the store of a configuration. A server may run meanwhile.
pub fn backup(config: &Config, into: &Path, looked: &mut dyn FnMut(CheckProgress)) -> Result<CopyReport, AdminError> {
    Ok(sqlite::backup(&existing(config)?, into, looked)?)
}

/// Copies a backup to where the configuration has its store. With `replace` an existing store is renamed first.
pub fn restore(
    config: &Config,
    copy: &Path,
    replace: bool,
    looked: &mut dyn FnMut(CheckProgress),
) -> Result<CopyReport, AdminError> {
    let task_log = store_at(config)?;
    if !copy.exists() {
        return Err(AdminError::NoStore(copy.into()));
    }
    if let Some(directory) = task_log.parent() {
        crate::app::make_private(directory)
            .map_err(|e| OpenError::Io { path: directory.into(), reason: e.to_string() })?;
    }
    // Only letters and digits, so that the file name needs no quotes in a shell.
    let moment: String = now().to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    let over = if replace { ExistingStore::MoveAside(format!(".before-{moment}")) } else { ExistingStore::Refuse };
    Ok(sqlite::restore(copy, &task_log, &over, looked)?)
}

/// Checks every row of both files.
pub fn check(config: &Config, looked: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport, AdminError> {
    Ok(sqlite::check(&existing(config)?, looked)?)
}

/// The guard's file that belongs to a task log.
pub fn guard_file_beside(task_log: &Path) -> PathBuf {
    SqliteGuard::path_beside(task_log)
}

/// How many settled tasks of each agent have a last status older than `age` and no pending delivery.
pub fn prunable(config: &Config, age: Duration) -> Result<Vec<(AgentName, u64)>, AdminError> {
    Ok(sqlite::prunable_tasks(&existing(config)?, before(age))?)
}

/// Deletes these tasks, of all agents or of one, and returns their number; `told` gets the number so far after each
/// step.
pub async fn prune(
    config: &Config,
    age: Duration,
    agent: Option<&AgentName>,
    compact: bool,
    told: &mut dyn FnMut(u64),
) -> Result<u64, AdminError> {
    let task_log = existing(config)?;
    let durability = config.store.durability.into();
    let writing = sqlite::WriterMode::Threaded;
    let log = SqliteLog::open(&task_log, sqlite::Options { durability, writer_mode: writing, ..Default::default() })?;
    let below = before(age);
    let mut tasks = 0;
    for name in log.agents().await?.into_iter().filter(|name| agent.is_none_or(|agent| agent == name)) {
        let mut from = None;
        loop {
            let forgotten = log.prune(&name, below, from).await?;
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
