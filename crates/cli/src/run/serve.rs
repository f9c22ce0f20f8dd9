//! `sabir serve`.

use super::banner::banner;
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::render::escape;
use anyhow::Context;
use clap::Args;
use sabir_server::config::agent::{AgentConfig, Kind};
use sabir_server::config::listen::parse_listen;
use sabir_server::config::openai::{OpenaiConfig, SecretReference};
use sabir_server::{Config, Server, StoreUrl, Summary};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Serve agents in every dialect of A2A, over JSON-RPC, HTTP+JSON and gRPC, on one port.
///
/// Without a configuration this starts three demo agents: echo, stream and ask. Tasks are kept in the data directory
/// and survive a crash.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir serve                                   demo agents on 127.0.0.1:4000\n  \
    sabir serve --exec 'python3 bot.py'           any script becomes an agent\n  \
    sabir serve --http http://127.0.0.1:8000/ask  so does an HTTP endpoint\n  \
    sabir serve --openai http://127.0.0.1:11434/v1 --model llama3.2\n  \
    OPENAI_API_KEY=… sabir serve --openai https://api.openai.com/v1 --model gpt-4o\n  \
    sabir serve --config sabir.toml --listen 127.0.0.1:0\n\n\
    Variables: SABIR_SECTION__KEY overrides a key of the file, such as SABIR_STORE__DURABILITY=normal;\n\
    SABIR_LOG sets the log filter (default: info), SABIR_LOG_FORMAT=json writes JSON lines.")]
pub(crate) struct Serve {
    /// Configuration file; ./sabir.toml if there is one.
    #[arg(long = "server-config", visible_alias = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port, such as 127.0.0.1:4000 or localhost:4000; port 0 picks a free one.
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The URL that cards say.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Be strict: no agent without authentication, no plain HTTP beyond this machine.
    #[arg(long)]
    production: bool,
    /// Serve one agent that runs this command for every message.
    #[arg(long, value_name = "CMD", group = "alone")]
    exec: Option<String>,
    /// Serve one agent that asks this HTTP endpoint.
    #[arg(long, value_name = "URL", group = "alone")]
    http: Option<String>,
    /// Serve one agent that asks a model behind this OpenAI-compatible URL; its key is read from OPENAI_API_KEY.
    #[arg(long, value_name = "URL", group = "alone", requires = "model")]
    openai: Option<String>,
    /// Which model, for --openai.
    #[arg(long, value_name = "MODEL", requires = "openai")]
    model: Option<String>,
    /// Serve one agent that says back what it hears.
    #[arg(long, group = "alone")]
    echo: bool,
}

/// What `sabir serve` offers without a configuration.
const DEMO: &str = include_str!("demo.toml");

impl Verb for Serve {
    fn run(self, _: Invocation) -> Outcome {
        let failed = |error: anyhow::Error| {
            Problem::new(ErrorCode::Vendor("SABIR_ERR_SERVE"), format!("{error:#}")).hint("sabir serve --help")
        };
        self.start().map_err(failed)?;
        Ok(Exit::Done)
    }
}

impl Serve {
    fn start(self) -> anyhow::Result<()> {
        sabir_server::init_logging("info");
        let config = self.config()?;
        let runtime = super::runtime().context("cannot start")?;
        runtime.block_on(serve(config))
    }

    /// File, then variables, then flags.
    fn config(self) -> anyhow::Result<Config> {
        let mut config = configured(self.config, self.data)?;
        let alone = if let Some(command) = self.exec {
            Some(("--exec", AgentConfig { command: Some(command), ..single("agent", Kind::Exec) }))
        } else if let Some(url) = self.http {
            Some(("--http", AgentConfig { url: Some(url), ..single("agent", Kind::Http) }))
        } else if let Some(url) = self.openai {
            Some(("--openai", model(url, self.model.unwrap_or_default())))
        } else {
            self.echo.then(|| ("--echo", single("echo", Kind::Echo)))
        };
        if let Some((flag, agent)) = alone {
            config.sources.replace("agent", flag);
            config.sources.replace("workspace", flag);
            config.agent = vec![agent];
        } else if config.agent.is_empty() && config.network.is_none() {
            config.agent = demo_agents()?;
        }
        if let Some(listen) = self.listen.filter(|listen| *listen != config.server.listen) {
            config.sources.replace("server.listen", "--listen");
            config.server.listen = listen;
        }
        if self.production && !config.server.production {
            config.sources.replace("server.production", "--production");
            config.server.production = true;
        }
        if let Some(url) = self.public_url.filter(|url| config.server.public_url.as_ref() != Some(url)) {
            config.sources.replace("server.public_url", "--public-url");
            config.server.public_url = Some(url);
        }
        Ok(config)
    }
}

/// The configuration of a file and of variables, with the data directory that was typed. Commands that administer a
/// server read it here too, or they would administer another one.
pub(crate) fn configured(file: Option<PathBuf>, data: Option<PathBuf>) -> anyhow::Result<Config> {
    let here = PathBuf::from("sabir.toml");
    let path = file.or_else(|| here.is_file().then_some(here));
    if let Some(path) = path.as_deref().filter(|path| holds_client_settings(path)) {
        anyhow::bail!(
            "{} holds settings of the client (A2ACLI_…), and no configuration of a server; commands that call an agent \
             take it: --config {0}",
            path.display()
        );
    }
    let mut config = Config::load(path.as_deref(), Config::variables())?;
    if let Some(data) = data {
        // Relative to where the command was typed, not to the file.
        let data = std::path::absolute(data)?;
        let url = StoreUrl::text_in_directory(&data);
        if config.store.url != url {
            config.sources.replace("store.url", "--data");
            config.store.url = url;
        }
        if config.server.data.as_ref() != Some(&data) {
            config.sources.replace("server.data", "--data");
            config.server.data = Some(data);
        }
    }
    Ok(config)
}

/// Whether a file has lines such as `A2ACLI_AGENT_CARD=…`, which no configuration of a server has.
fn holds_client_settings(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| line.trim_start().trim_start_matches("export ").starts_with("A2ACLI_"))
}

fn demo_agents() -> anyhow::Result<Vec<AgentConfig>> {
    Ok(Config::read(DEMO).context("the built-in demo agents")?.agent)
}

fn single(name: &str, kind: Kind) -> AgentConfig {
    AgentConfig { default: true, ..AgentConfig::new(name, kind) }
}

/// An agent that asks a model. The key is not an argument, because every user of this machine could read it there.
fn model(url: String, model: String) -> AgentConfig {
    let key = std::env::var_os("OPENAI_API_KEY").is_some_and(|key| !key.is_empty());
    let bearer = key.then(|| SecretReference::parse("env:OPENAI_API_KEY"));
    let openai = Some(OpenaiConfig { model, ..OpenaiConfig::default() });
    AgentConfig { url: Some(url), bearer, openai, ..single("agent", Kind::Openai) }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    sabir_server::raise_file_limit();
    sabir_server::survive_file_size_limit();
    let server = Server::start(config.clone()).await?;
    // Before the address is printed: a stop may follow at once.
    let stop = sabir_server::stop_signal().context("cannot listen for signals")?;
    // On stdout and at once: scripts wait for this line to learn the port.
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on {}", server.url())?;
    stdout.flush()?;
    announce(&server.summary(&config));
    server.run(stop).await;
    Ok(())
}

/// Says what is served: a banner for people, and a line of the log where the log is for programs.
fn announce(summary: &Summary) {
    if sabir_server::is_json_log() {
        let agents: Vec<&str> = summary.agents.iter().map(|agent| agent.name.as_str()).collect();
        tracing::info!(url = summary.url, agents = agents.join(","), "serving");
        summary.notes.iter().for_each(|note| tracing::info!("{note}"));
        summary.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        return;
    }
    // Cards of remote agents are in it, so what steers a terminal is escaped. A terminal that is gone is no reason to stop.
    let text: String = banner(summary).lines().map(|line| escape(line) + "\n").collect();
    drop(std::io::stderr().write_all(text.as_bytes()));
}
