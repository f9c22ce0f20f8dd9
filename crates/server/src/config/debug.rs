//! `[debug]`: what the server records to find faults.

use super::Config;
use sabir_gateway::exchange_log::{ExchangeLog, ExchangeLogMode};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// `[debug]`: recording of exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DebugConfig {
    /// Which exchanges with callers and with remote agents are recorded: `off`, `errors` or `all`.
    #[schemars(with = "String")]
    pub wire: ExchangeLogMode,
}

impl Config {
    /// The directory of the recorded exchanges; `None` for a store in memory.
    pub(crate) fn exchange_log_directory(&self) -> Result<Option<PathBuf>, String> {
        Ok(self.data_file()?.map(|path| path.with_file_name("wire")))
    }

    /// Opens the log of exchanges.
    pub(crate) fn open_exchange_log(&self) -> Result<ExchangeLog, String> {
        let Some(directory) = self.exchange_log_directory()? else { return Ok(ExchangeLog::off()) };
        ExchangeLog::open(self.debug.wire, &directory).map_err(|e| format!("{}: {e}", directory.display()))
    }
}
