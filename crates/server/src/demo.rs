//! The demo server: an agent to practise on, and an interceptor that injects faults on request.
//!
//! The first word of a message picks a `scenario`. An ordinary agent plays most of them (`agent`). Some are about HTTP
//! and not about tasks: a stream that breaks, a refusal with 401, an unknown state. For those the agent registers a
//! fault in `control`. The `interceptor`, which sits between the sockets and the server, injects it into the response
//! (`altered_body`). So the task log holds only what really happened, and `sabir serve` runs none of this code.
//!
//! The store is in memory: tasks end with the process.

mod agent;
mod altered_body;
mod authorisations;
mod control;
mod interceptor;
mod samples;
mod scenario;

use crate::config::Config;
use crate::config::agent::{AgentConfig, Kind};
use crate::config::network::IpNetwork;
use crate::server::Server;
use crate::start_error::StartError;
use agent::DemoAgent;
use control::DemoControl;
use interceptor::DemoInterceptor;
use sabir_engine::AnyAgent;
use sabir_guard::sign::SigningKey;
use sabir_wire::Losses;
use sabir_wire::card::{CardSchema, write};
use scenario::Scenario;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The agent's name in paths. An unlikely tenant name, because the server takes a tenant that names an agent for that
/// agent.
const NAME: &str = "sabir-demo";
/// Seconds that a stopped demo waits for open requests: one, because they are not worth a longer wait.
const DRAIN_SECONDS: u64 = 1;

/// How a demo server is set up.
#[derive(Debug)]
pub struct Options {
    /// Address and port; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Whether the agent streams.
    pub streaming: bool,
    /// The test token: for the extended card, and for every call where [`Access::Bearer`] is set.
    pub token: Token,
    /// Which callers the demo server serves.
    pub access: Access,
    /// Whether its card is signed, with a key that is generated at start.
    pub signed: bool,
}

/// Which callers the demo server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Every caller. Only the extended card needs the token.
    Open,
    /// Only callers with the token. The public card needs none.
    Bearer,
}

/// The test token that callers send as a bearer token.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Accepts a token that an `Authorization` header can carry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let legal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(text.into())) } else { Err("a token is made of visible ASCII characters".into()) }
    }

    /// The token itself, for the message that shows it to the operator.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn is(&self, offered: &str) -> bool {
        // Compares digests, so that the time taken does not reveal how much of the token was right.
        Sha256::digest(&self.0) == Sha256::digest(offered)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A demo server that is ready to serve.
pub struct Demo {
    server: Server,
    grants: mpsc::Receiver<authorisations::DelayedAuthorisation>,
}

impl fmt::Debug for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demo").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Demo {
    /// Starts the server: it listens when this returns.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let (edge, grants) = DemoControl::new();
        let edge = Arc::new(edge);
        let player: Arc<dyn AnyAgent> = Arc::new(DemoAgent { control: edge.clone() });
        let key = options.signed.then(|| SigningKey::generate(Some("sabir-demo-test-key"))).transpose();
        let key = key.map_err(|e| StartError::Config(e.to_string()))?.map(|(key, _)| key);
        let interceptor = DemoInterceptor { control: edge.clone(), token: options.token, access: options.access, key };
        let interceptor = Arc::new(interceptor);
        let own = HashMap::from([(NAME.to_owned(), player)]);
        let config = demo_config(options.listen, options.streaming, options.access);
        let server = Server::compose(config, own, Some(interceptor)).await?;
        edge.set_base(format!("http://{}", server.address()));
        Ok(Self { server, grants })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its card, as JSON on one line.
    pub fn card(&self) -> String {
        let served = self.server.app().default_agent();
        let card = served.map(|served| write(&served.card, CardSchema::V1, &mut Losses::new()));
        String::from_utf8(card.unwrap_or_default()).unwrap_or_default()
    }

    /// Serves until `stop` completes.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let desk = authorisations::serve(self.server.app().clone(), self.grants);
        tokio::select! {
            () = self.server.run(stop) => {}
            () = desk => {}
        }
    }
}

fn demo_config(listen: SocketAddr, streaming: bool, access: Access) -> Config {
    let mut agent = AgentConfig { default: true, ..AgentConfig::new(NAME, Kind::Echo) };
    let card = &mut agent.card;
    card.name = Some("Sabir demo".into());
    card.description = Some("An agent to practise on. The first word of a message says what it should do.".into());
    card.skills = Scenario::listed().map(|scenario| scenario.skill().into()).collect();
    card.output_modes = ["text/plain", "text/markdown", "application/json", "image/png"].map(Into::into).into();
    card.capabilities.streaming = streaming;
    card.capabilities.push_notifications = true;
    let mut config = Config { agent: vec![agent], ..Config::default() };
    config.server.listen = listen;
    config.server.drain_seconds = DRAIN_SECONDS;
    config.store.url = "memory:".into();
    // A local demo may call back to this machine. A demo that other machines can reach may not.
    if listen.ip().is_loopback() {
        config.egress.allow = IpNetwork::loopback();
    }
    // A server that other machines can reach is open only where callers need the token.
    config.auth.open = access == Access::Bearer;
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_and_never_shown() {
        let token = Token::parse("demo-token").unwrap();
        assert!(token.is("demo-token") && !token.is("demo-toke") && !token.is(""));
        assert_eq!(format!("{token:?}"), "Token");
        for wrong in ["", "two words", "line\n", "é"] {
            assert!(Token::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
