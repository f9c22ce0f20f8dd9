//! A server's files as a whole: backup, restore, check, and deleting old tasks.
//!
//! Backup and check work while a server runs. Restoring and deleting need the store for themselves; a running server
//! deletes old tasks itself, see `[retention]`.

use super::service::now;
use super::{AdminError, AdminErrorCode};
use crate::config::Config;
use crate::retention::before;
use sabir_proto::AgentName;
pub use sabir_store::{CheckProgress, CheckReport, CopyError, CopyReport};
use sabir_store::{ExistingStore, StoreUrl, WriterMode};
use std::path::Path;
use std::time::Duration;

/// The URL of the store of a configuration.
fn url(config: &Config) -> Result<StoreUrl, AdminError> {
    config.store_url().map_err(|problem| AdminError::new(AdminErrorCode::NoStore, problem))
}

/// Whether a server has run with a configuration, or a key was made for one.
pub fn has_store(config: &Config) -> bool {
    config.store_url().is_ok_and(|url| url.existing_file().is_ok() || url.has_guard())
}

/// Whether this file is the store of a configuration.
pub fn is_store(config: &Config, file: &Path) -> bool {
    let own = |url: StoreUrl| url.existing_file().ok().and_then(|own| own.canonicalize().ok());
    config.store_url().ok().and_then(own).is_some_and(|own| file.canonicalize().ok() == Some(own))
}

/// Copies the store of a configuration. A server may run meanwhile.
pub fn backup(config: &Config, into: &Path, looked: &mut dyn FnMut(CheckProgress)) -> Result<CopyReport, AdminError> {
    Ok(sabir_store::backup(&url(config)?, into, looked)?)
}

/// Copies a backup to where the configuration has its store. With `replace` an existing store is renamed first.
pub fn restore(
    config: &Config,
    copy: &Path,
    replace: bool,
    looked: &mut dyn FnMut(CheckProgress),
) -> Result<CopyReport, AdminError> {
    // Only letters and digits, so that the file name needs no quotes in a shell.
    let moment: String = now().to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    let over = if replace { ExistingStore::MoveAside(format!(".before-{moment}")) } else { ExistingStore::Refuse };
    Ok(sabir_store::restore(copy, &url(config)?, &over, looked)?)
}

/// Checks every row of a store.
pub fn check(config: &Config, looked: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport, AdminError> {
    Ok(sabir_store::check(&url(config)?, looked)?)
}

/// How many settled tasks of each agent have a last status older than `age` and no pending delivery.
pub fn prunable(config: &Config, age: Duration) -> Result<Vec<(AgentName, u64)>, AdminError> {
    Ok(sabir_store::prunable_tasks(&url(config)?, before(age))?)
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
    let url = url(config)?;
    url.existing_file()?;
    let log = sabir_store::open_tasks(&url, config.open_options(WriterMode::Threaded))?.upkeep;
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
