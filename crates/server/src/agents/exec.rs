//! placeholder

use crate::config::agent::AgentConfig;
use sabir_engine::{Agent, Context, Ending, Failure};
use std::time::Duration;

/// Runs a command per message.
#[derive(Debug)]
pub struct Exec;

impl Exec {
    pub(crate) fn new(_config: &AgentConfig, _grace: Duration) -> Result<Self, String> {
        Err("kind = \"exec\" is not built yet".into())
    }
}

impl Agent for Exec {
    async fn turn(&self, _cx: &mut Context) -> Result<Ending, Failure> {
        Err(Failure("not built yet".into()))
    }
}
