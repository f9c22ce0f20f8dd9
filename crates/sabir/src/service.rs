//! A server of agents written in Rust.

use crate::{Agent, AnyAgent, CardConfig, Config, ConfigError, Requirements, Server, SkillConfig, StartError};
use sabir_server::StoreUrl;
use sabir_server::config::agent::{AgentConfig, Kind};
use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// A server of agents written in Rust.
///
/// ```no_run
/// # use sabir::{Agent, Context, Ending, Failure, Service};
/// # struct Echo;
/// # impl Agent for Echo {
/// #     async fn turn(&self, _: &mut Context) -> Result<Ending, Failure> { Ok(Ending::complete()) }
/// # }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// Service::from_env()?.agent("echo", Echo).serve().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Service {
    config: Config,
    agents: HashMap<String, Arc<dyn AnyAgent>>,
}

impl Service {
    /// A server on 127.0.0.1:4000 that stores its data in `./sabir-data`.
    pub fn new() -> Self {
        Self::default()
    }

    /// A server with the settings of `SABIR_*` variables: `SABIR_SERVER__LISTEN`, `SABIR_STORE__URL` and so on.
    pub fn from_env() -> Result<Self, ConfigError> {
        Config::load(None, Config::variables()).map(Self::with)
    }

    /// A server with a given configuration; the agents of the configuration are served as well.
    pub fn with(config: Config) -> Self {
        Self { config, agents: HashMap::new() }
    }

    /// Adds an agent. The first one is the default, served at the root too.
    #[must_use]
    pub fn agent(self, name: &str, agent: impl Agent) -> Self {
        self.agent_with_card(name, agent, CardConfig::default())
    }

    /// Adds an agent with a card.
    ///
    /// ```
    /// # use sabir::{Agent, Context, Ending, Failure, Service};
    /// # struct Booking;
    /// # impl Agent for Booking {
    /// #     async fn turn(&self, _: &mut Context) -> Result<Ending, Failure> { Ok(Ending::complete()) }
    /// # }
    /// use sabir::{CardConfig, skill};
    ///
    /// let card = CardConfig {
    ///     description: Some("Books tables at restaurants".into()),
    ///     skills: vec![skill("table", "Book a table", "Finds a free table and books it")],
    ///     ..CardConfig::default()
    /// };
    /// let service = Service::new().agent_with_card("booking", Booking, card);
    /// ```
    #[must_use]
    pub fn agent_with_card(mut self, name: &str, agent: impl Agent, card: CardConfig) -> Self {
        let default = self.config.agent.is_empty();
        // The kind is only a placeholder: the server runs the agent in `agents` in place of the built-in one.
        self.config.agent.push(AgentConfig { default, card, ..AgentConfig::new(name, Kind::Echo) });
        self.agents.insert(name.to_owned(), Arc::new(agent));
        self
    }

    /// Sets the address to listen on; port 0 picks a free one.
    #[must_use]
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.config.server.listen = address;
        self
    }

    /// Sets the directory in which tasks are stored.
    #[must_use]
    pub fn data(mut self, directory: &Path) -> Self {
        self.config.store.url = StoreUrl::text_in_directory(directory);
        self.config.server.data = Some(directory.into());
        self
    }

    /// Opens the store and listens. The server answers once [`Server::run`] is called.
    pub async fn start(self) -> Result<Server, StartError> {
        Server::start_with(self.config, self.agents).await
    }

    /// Serves until this process receives Ctrl-C or `SIGTERM`, and then stops in order: requests and streams get
    /// `server.drain_seconds` to finish, and unfinished turns continue after the next start. Prints `listening on URL`
    /// to the standard output stream once clients can connect.
    ///
    /// Programs that want to stop for another reason call [`Service::start`] and [`Server::run`].
    pub async fn serve(self) -> Result<(), StartError> {
        let no_signals = |error| StartError::Config(format!("cannot wait for signals: {error}"));
        let stop = crate::stop_signal().map_err(no_signals)?;
        sabir_server::survive_file_size_limit();
        let server = self.start().await?;
        // A closed output stream is no reason to stop.
        drop(writeln!(std::io::stdout(), "listening on {}", server.url()));
        server.run(stop).await;
        Ok(())
    }
}

/// A skill for a [`CardConfig`], with what A2A requires of one. The other members can be set in the same place:
///
/// ```
/// use sabir::{SkillConfig, skill};
///
/// let table = SkillConfig {
///     tags: vec!["restaurant".into()],
///     examples: vec!["A table for two on Friday".into()],
///     ..skill("table", "Book a table", "Finds a free table and books it")
/// };
/// assert!(table.public);
/// ```
pub fn skill(id: &str, name: &str, description: &str) -> SkillConfig {
    SkillConfig {
        id: id.into(),
        name: name.into(),
        description: description.into(),
        tags: Vec::new(),
        examples: Vec::new(),
        input_modes: Vec::new(),
        output_modes: Vec::new(),
        security_requirements: Requirements::None,
        public: true,
        requires_auth: false,
    }
}
