//! Write an agent, serve it durably in every binding.
//!
//! ```no_run
//! use sabir::{Agent, Context, Ending, Failure, Service};
//!
//! struct Echo;
//!
//! impl Agent for Echo {
//!     async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
//!         let parts = cx.message().parts.clone();
//!         cx.artifact("echo", parts).await?;
//!         Ok(Ending::complete())
//!     }
//! }
//!
//! # async fn run() -> Result<(), sabir::StartError> {
//! Service::new().agent("echo", Echo).start().await?.run(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
//!
//! What an agent may count on, crashes included, is in the documentation of [`Agent`].

pub use sabir_client as client;
pub use sabir_engine::{Agent, AnyAgent, Context, Ending, Failure, Nature, Recovery};
pub use sabir_proto as proto;
pub use sabir_server::config::ConfigError;
pub use sabir_server::{Config, Server, StartError};

use sabir_server::config::agent::{AgentConfig, CardConfig, Kind};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// A server of agents written in Rust.
#[derive(Default)]
pub struct Service {
    config: Config,
    agents: HashMap<String, Arc<dyn AnyAgent>>,
}

impl Service {
    /// On 127.0.0.1:4000, with its data in `./sabir-data`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, but for what `SABIR_*` variables say: `SABIR_SERVER__LISTEN`, `SABIR_STORE__URL` and so on.
    pub fn from_env() -> Result<Self, ConfigError> {
        Config::load(None, Config::variables()).map(Self::with)
    }

    /// With a configuration read elsewhere; its own agents are served as well.
    pub fn with(config: Config) -> Self {
        Self { config, agents: HashMap::new() }
    }

    /// Adds an agent. The first one is the default, served at the root too.
    #[must_use]
    pub fn agent(self, name: &str, agent: impl Agent) -> Self {
        self.agent_with_card(name, agent, CardConfig::default())
    }

    /// Adds an agent with a card.
    #[must_use]
    pub fn agent_with_card(mut self, name: &str, agent: impl Agent, card: CardConfig) -> Self {
        let default = self.config.agent.is_empty();
        // The kind is a stand-in: an agent of one's own takes the place of the built-in one.
        self.config.agent.push(AgentConfig { default, card, ..AgentConfig::new(name, Kind::Echo) });
        self.agents.insert(name.to_owned(), Arc::new(agent));
        self
    }

    /// Where to listen; port 0 picks a free one.
    #[must_use]
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.config.server.listen = address;
        self
    }

    /// Where to keep tasks.
    #[must_use]
    pub fn data(mut self, directory: &Path) -> Self {
        self.config.store.url = format!("sqlite:{}", directory.join("sabir.db").display());
        self
    }

    /// Opens the store and listens.
    pub async fn start(self) -> Result<Server, StartError> {
        Server::start_with(self.config, self.agents).await
    }
}
