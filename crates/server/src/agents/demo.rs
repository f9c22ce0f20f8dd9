//! The demo server: an agent to practise on, and a front that misbehaves when it is asked to.
//!
//! The first word of a message picks a `scenario`. Most are an ordinary agent's doing (`agent`). Some are not
//! about tasks but about HTTP: a stream that breaks, a refusal with 401, a state that nobody knows. For those the agent
//! leaves a wish at the `edge`, and the `front`, which stands between the sockets and the server, grants it when the
//! answer passes by (`passage`). So the log never holds what never was, and `sabir serve` has none of this on its way.
//!
//! Nothing is kept: tasks live in memory and end with the process.

mod agent;
mod desk;
mod edge;
mod front;
mod passage;
mod samples;
mod scenario;

use crate::app::{Server, StartError};
use crate::config::Config;
use crate::config::agent::{AgentConfig, Kind};
use crate::config::network::Network;
use agent::Player;
use edge::Edge;
use front::DemoFront;
use sabir_engine::AnyAgent;
use sabir_guard::sign::SigningKey;
use sabir_wire::Losses;
use sabir_wire::card::{Form, write};
use scenario::Scenario;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The agent's name in paths. No name that somebody would try as a tenant: a tenant that names an agent is none.
const NAME: &str = "sabir-demo";
/// A demo that is stopped has nothing worth waiting for.
const DRAIN_SECONDS: u64 = 1;

/// How a demo server is set up.
#[derive(Debug)]
pub struct Options {
    /// Address and port; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Whether the agent streams.
    pub streaming: bool,
    /// What opens the extended card, and everything else where it is demanded.
    pub token: Token,
    /// Who is served.
    pub access: Access,
    /// Whether its card is signed, with a key made for the occasion.
    pub signed: bool,
}

/// Who is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody. The extended card still wants the token.
    Open,
    /// Whoever has the token. The public card is for everybody.
    Bearer,
}

/// A test token.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A token that can stand in an `Authorization` header.
    pub fn parse(text: &str) -> Result<Self, String> {
        let legal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(text.into())) } else { Err("a token is made of visible ASCII characters".into()) }
    }

    /// The token itself, for telling it to whoever is to use it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn is(&self, offered: &str) -> bool {
        // Digests, so that the time it takes says nothing about how much of it was right.
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
    grants: mpsc::Receiver<desk::Grant>,
}

impl fmt::Debug for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demo").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Demo {
    /// Listens.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let (edge, grants) = Edge::new();
        let edge = Arc::new(edge);
        let player: Arc<dyn AnyAgent> = Arc::new(Player { edge: edge.clone() });
        let key = options.signed.then(|| SigningKey::generate(Some("sabir-demo-test-key"))).transpose();
        let key = key.map_err(|e| StartError::Config(e.to_string()))?.map(|(key, _)| key);
        let front = DemoFront { edge: edge.clone(), token: options.token, access: options.access, key };
        let front = Arc::new(front);
        let own = HashMap::from([(NAME.to_owned(), player)]);
        let config = config(options.listen, options.streaming, options.access);
        let server = Server::compose(config, own, Some(front)).await?;
        edge.reached_at(format!("http://{}", server.address()));
        Ok(Self { server, grants })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its card, as JSON on one line.
    pub fn card(&self) -> String {
        let served = self.server.app().default_agent();
        let card = served.map(|served| write(&served.card, Form::V1, &mut Losses::new()));
        String::from_utf8(card.unwrap_or_default()).unwrap_or_default()
    }

    /// Serves until `stop` completes.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let desk = desk::serve(self.server.app().clone(), self.grants);
        tokio::select! {
            () = self.server.run(stop) => {}
            () = desk => {}
        }
    }
}

fn config(listen: SocketAddr, streaming: bool, access: Access) -> Config {
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
    // Whoever practises does so on one machine; strangers are not let at it from here.
    if listen.ip().is_loopback() {
        config.egress.allow = Network::loopback();
    }
    // Beyond this machine only for those who have the token.
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
