//! The agent as an argument: `sabir task get https://agent.example t-1` in place of `--agent-card`.

use clap::Args;

/// Whether a word is the address of an agent, and not a task or a message: it has a scheme.
pub(crate) fn is_address(word: &str) -> bool {
    word.contains("://") && !word.contains(char::is_whitespace)
}

/// The agent, for commands that take no other argument.
#[derive(Debug, Args)]
pub(crate) struct AgentArgument {
    /// The agent: a host, a URL or a file. In place of --agent-card.
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

impl AgentArgument {
    /// The agent that was typed, if any.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }
}
