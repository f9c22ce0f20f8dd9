//! Tests for agents: turns run on an engine in memory, without sockets, files or a server.
//!
//! ```
//! use sabir::testing::TestEngine;
//! use sabir::{Agent, Context, Ending, Failure, Part};
//!
//! struct Greeter;
//!
//! impl Agent for Greeter {
//!     async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
//!         if cx.before().is_none() {
//!             return Ok(Ending::ask_input("What is your name?"));
//!         }
//!         cx.status("writing").await?;
//!         let greeting = format!("Hello {}", cx.message().joined_text());
//!         cx.artifact("greeting", vec![Part::text(greeting)]).await?;
//!         Ok(Ending::complete())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let engine = TestEngine::start(|| Greeter).await;
//! let asked = engine.send("hi").await;
//! assert_eq!(asked.ending(), Ending::ask_input("What is your name?"));
//!
//! let greeted = asked.answer("Ann").await;
//! assert_eq!(greeted.statuses(), ["writing"]);
//! assert_eq!(greeted.artifact("greeting"), "Hello Ann");
//! assert_eq!(greeted.ending(), Ending::complete());
//! # }
//! ```
//!
//! | To test | Use |
//! |---|---|
//! | an answer | [`TestEngine::send`], then [`FinishedTurn::ending`], [`artifact`](FinishedTurn::artifact), [`statuses`](FinishedTurn::statuses) |
//! | the answer to a question | [`FinishedTurn::answer`] |
//! | the next message of a conversation | [`FinishedTurn::send_next`] |
//! | something in the middle of a turn | [`TestEngine::begin`], then [`RunningTurn::until_status`] |
//! | a cancel | [`RunningTurn::cancel`] |
//! | a crash | [`TestEngine::crash`], then [`RunningTurn::finish`] |
//! | a long wait | [`TestEngine::skip_sleep`] |
//! | agents that call agents | [`TestEngine::with`] |
//!
//! The engine is the one that serves in production, so commits, checkpoints, limits and the recovery after a crash are
//! the real ones. The store is in memory. Not part of this: protocols, credentials, webhooks and agent cards.
//!
//! A helper that cannot do what the test asked for panics and says what happened instead.

mod host;
mod turn;

pub use turn::{FinishedTurn, IntoParts, RunningTurn};

use crate::{Agent, AgentName, AnyAgent, Caller, Tenant, ToolMode};
use host::{Environment, TestHost, lock};
use sabir_engine::{Engine, HostedAgent, Limits, Metrics};
use sabir_server::{Scope, TaskLog, TaskStore};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// How long a test waits for an agent, so that an agent that hangs fails its test with a reason.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The name of the agent under test.
const NAME: &str = "agent";

type AgentFactory = Arc<dyn Fn() -> Arc<dyn AnyAgent> + Send + Sync>;
type HostedAgents = Arc<Mutex<HashMap<AgentName, Arc<HostedAgent>>>>;

/// An engine in memory that runs the agent under test. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct TestEngine {
    shared: Arc<SharedState>,
}

/// The state that survives a crash, and the process that runs now.
struct SharedState {
    log: Arc<dyn TaskLog>,
    environment: Arc<Environment>,
    scope: Arc<Scope>,
    agents: Mutex<Vec<(AgentName, AgentFactory)>>,
    process: Mutex<EngineProcess>,
    /// The number of killed processes; a [`RunningTurn`] watches it to follow its task in the next process.
    crashes: watch::Sender<u64>,
}

#[derive(Clone)]
struct EngineProcess {
    engine: Engine,
    host: Arc<TestHost>,
    hosted_agents: HostedAgents,
}

impl TestEngine {
    /// Starts an engine with the agent that `make` returns. `make` is called again after each [crash](Self::crash),
    /// because an agent loses what it keeps in memory when its process ends.
    ///
    /// The agent under test is called `agent`.
    pub async fn start<A: Agent>(make: impl Fn() -> A + Send + Sync + 'static) -> Self {
        let agent = agent_name(NAME);
        let (log, world) = (TaskStore::in_memory().log, Environment::new());
        let scope = Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: agent.clone() });
        let process = EngineProcess::start(&log, &world).await;
        let (agents, crashes) = (Mutex::default(), watch::Sender::new(0));
        let shared = SharedState { log, environment: world, scope, agents, process: Mutex::new(process), crashes };
        Self { shared: Arc::new(shared) }.with(NAME, make)
    }

    /// Adds an agent that others can call by this name, see [`delegate`](crate::delegate).
    ///
    /// # Panics
    /// When the name is not a legal name of an agent.
    #[must_use]
    pub fn with<A: Agent>(self, name: &str, make: impl Fn() -> A + Send + Sync + 'static) -> Self {
        let (name, make): (_, AgentFactory) = (agent_name(name), Arc::new(move || Arc::new(make())));
        self.process().add(&name, &make);
        lock(&self.shared.agents).push((name, make));
        self
    }

    /// Sends a message in a new conversation, and waits until its turn ends.
    pub async fn send(&self, message: impl IntoParts) -> FinishedTurn {
        self.begin(message).await.finish().await
    }

    /// Sends a message in a new conversation, and returns while the agent works on it.
    pub async fn begin(&self, message: impl IntoParts) -> RunningTurn {
        RunningTurn::begin(self.clone(), message.into_parts(), None, None).await
    }

    /// Ends the process as `kill -9` would, and starts another one on the same log. When this returns, each turn that
    /// was at work was taken up or failed, as the [`Recovery`](crate::Recovery) of its agent says.
    ///
    /// Agents stop where they wait. What they reported before is committed; what they did after the last wait is not.
    /// So wait for the point where the crash is to happen first, for example with [`RunningTurn::until_status`].
    pub async fn crash(&self) {
        let killed = self.process();
        killed.host.kill().await;
        let process = EngineProcess::start(&self.shared.log, &self.shared.environment).await;
        for (name, make) in &*lock(&self.shared.agents) {
            process.add(name, make);
        }
        let residents = process.hosted_agents.clone();
        let recovered = process.engine.recover(|name| lock(&residents).get(name).cloned()).await;
        recovered.expect("a store in memory can be read");
        *lock(&self.shared.process) = process;
        self.shared.crashes.send_modify(|crashes| *crashes += 1);
    }

    /// Waits until an agent sleeps with [`Context::sleep`](crate::Context::sleep), and ends that sleep at once. Returns
    /// how far this has moved the clock that [`Context::now`](crate::Context::now) reads. Of several sleeps it ends the
    /// one that is due first.
    ///
    /// # Panics
    /// When no agent sleeps for a minute.
    pub async fn skip_sleep(&self) -> Duration {
        let skipped = tokio::time::timeout(WAIT_MAX, self.shared.environment.skip_sleep()).await;
        skipped.unwrap_or_else(|_| panic!("no agent has slept for {} s", WAIT_MAX.as_secs()))
    }

    fn process(&self) -> EngineProcess {
        lock(&self.shared.process).clone()
    }
}

impl EngineProcess {
    async fn start(log: &Arc<dyn TaskLog>, world: &Arc<Environment>) -> Self {
        let host = Arc::new(TestHost::new(world.clone()));
        let opened = Engine::open(log.clone(), host.clone(), Limits::default(), Metrics::default()).await;
        let engine = opened.expect("a store in memory can be opened");
        let residents = HostedAgents::default();
        let known = residents.clone();
        engine.set_directory(Arc::new(move |name: &AgentName| lock(&known).get(name).cloned()));
        Self { engine, host, hosted_agents: residents }
    }

    fn add(&self, name: &AgentName, make: &AgentFactory) {
        let resident = HostedAgent { name: name.clone(), agent: make(), push: false, tool_mode: ToolMode::Full };
        lock(&self.hosted_agents).insert(name.clone(), Arc::new(resident));
    }

    /// Returns the agent under test.
    fn agent(&self) -> Arc<HostedAgent> {
        lock(&self.hosted_agents).get(&agent_name(NAME)).cloned().expect("the agent under test is added at the start")
    }
}

fn agent_name(name: &str) -> AgentName {
    AgentName::parse(name).unwrap_or_else(|error| panic!("{name:?} is not a legal name of an agent: {error}"))
}
