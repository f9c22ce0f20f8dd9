//! The engine fixture: fake time, a log in memory, scripted agents, and no faults of its own.

use sabir_engine::watch::WatchItem;
use sabir_engine::{Engine, HostedAgent, Limits, Metrics};
use sabir_proto::{
    AgentName, Caller, Message, MessageId, Role, SendConfiguration, SendMessage, SendReply, ServiceParameters, Task,
    Tenant,
};
use sabir_store::TaskStore;
use sabir_store::{Scope, TaskLog};
use sabir_testkit::agents::{TurnTracker, scripted_agents};
use sabir_testkit::counting_log::CountingLog;
use sabir_testkit::host::SimHost;
use sabir_testkit::seeded_rng::SeededRng;
use sabir_testkit::sim::executor::Executor;
use std::future::Future;
use std::sync::{Arc, Mutex};

/// An engine in one process after another, on one log.
pub(crate) struct EngineFixture {
    pub(crate) executor: Executor,
    pub(crate) log: Arc<CountingLog>,
    pub(crate) metrics: Metrics,
    pub(crate) engine: Engine,
    pub(crate) tracker: TurnTracker,
    agents: Arc<Mutex<Vec<Arc<HostedAgent>>>>,
    limits: Limits,
    rng: SeededRng,
    process: u32,
}

impl EngineFixture {
    pub(crate) fn new() -> Self {
        Self::on(TaskStore::in_memory().log)
    }

    pub(crate) fn on(log: Arc<dyn TaskLog>) -> Self {
        Self::within(log, Limits::default())
    }

    pub(crate) fn within(log: Arc<dyn TaskLog>, limits: Limits) -> Self {
        let executor = Executor::new(7);
        let log = Arc::new(CountingLog::new(log));
        let (roster, metrics) = (TurnTracker::default(), Metrics::default());
        let engine = open(&executor, &log, &metrics, &limits, 1);
        let residents = Arc::new(Mutex::new(scripted_agents(&roster)));
        let desk = Self {
            executor,
            log,
            metrics,
            engine,
            tracker: roster,
            agents: residents,
            limits,
            rng: SeededRng::new(7),
            process: 1,
        };
        desk.set_directory();
        desk
    }

    /// Adds agents to the scripted ones; all agents can call them.
    pub(crate) fn add_agents(&self, newcomers: impl IntoIterator<Item = Arc<HostedAgent>>) {
        self.agents.lock().unwrap().extend(newcomers);
    }

    fn set_directory(&self) {
        self.engine.set_directory(Arc::new(self.directory()));
    }

    fn directory(&self) -> impl Fn(&AgentName) -> Option<Arc<HostedAgent>> + Send + Sync + 'static {
        let residents = self.agents.clone();
        move |name| residents.lock().unwrap().iter().find(|r| r.name == *name).cloned()
    }

    /// Kills the process; another one opens its log, without recovery.
    pub(crate) fn crash_without_recovery(&mut self) {
        self.executor.abort_group(self.process);
        self.process += 1;
        self.engine = open(&self.executor, &self.log, &self.metrics, &self.limits, self.process);
        self.set_directory();
    }

    /// Kills the process; another one recovers its log. Returns how many turns resume and how many were failed.
    pub(crate) fn crash(&mut self) -> (usize, usize) {
        self.crash_without_recovery();
        let (engine, by_name) = (self.engine.clone(), self.directory());
        self.run(async move { engine.recover(by_name).await.expect("the log can be read") })
    }

    /// Stops the engine in order.
    pub(crate) fn stop(&self) {
        let engine = self.engine.clone();
        self.run(async move { engine.stop().await });
    }

    pub(crate) fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.executor.block_on(future)
    }

    pub(crate) fn agent(&self, name: &str) -> Arc<HostedAgent> {
        self.directory()(&AgentName::parse(name).unwrap()).expect("one of the scripted agents")
    }

    pub(crate) fn scope(&self, agent: &str) -> Arc<Scope> {
        let agent = self.agent(agent).name.clone();
        Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent })
    }

    pub(crate) fn request(&mut self, text: &str, to: Option<&Task>) -> Box<SendMessage> {
        let id = MessageId::parse(&self.rng.uuid()).expect("a UUID is a legal id");
        let mut message = Message::text(id, Role::User, text);
        message.task_id = to.map(|task| task.id.into());
        let configuration = SendConfiguration::default();
        Box::new(SendMessage {
            tenant: Tenant::none(),
            message,
            configuration,
            metadata: None,
            alias: None,
            wants_task: false,
        })
    }

    /// Sends a message and returns the task at rest.
    pub(crate) fn send(&mut self, agent: &str, text: &str, to: Option<&Task>) -> Task {
        let request = self.request(text, to);
        self.deliver(agent, request)
    }

    /// Sends a message and returns the task as soon as it is stored.
    pub(crate) fn send_without_waiting(&mut self, agent: &str, text: &str) -> Task {
        let mut request = self.request(text, None);
        request.configuration.return_immediately = true;
        self.deliver(agent, request)
    }

    pub(crate) fn deliver(&self, agent: &str, request: Box<SendMessage>) -> Task {
        let (engine, resident, scope) = (self.engine.clone(), self.agent(agent), self.scope(agent));
        let sent = self.run(async move { engine.send(&resident, scope, request, &ServiceParameters::default()).await });
        match sent.expect("a good message is taken") {
            SendReply::Task(image, _) => image.thaw().expect("an image is a task"),
            SendReply::Message(_) => panic!("none of the scripted agents answers without a task"),
        }
    }

    /// Streams a message and returns all events.
    pub(crate) fn stream(&mut self, agent: &str, text: &str) -> Vec<sabir_proto::FrozenEvent> {
        let (engine, resident, scope) = (self.engine.clone(), self.agent(agent), self.scope(agent));
        let request = self.request(text, None);
        self.run(async move {
            let watch = engine.stream(&resident, scope, request, &ServiceParameters::default()).await;
            let mut watch = watch.expect("a good message is taken");
            let mut events = Vec::new();
            while let Some(item) = watch.next().await {
                match item.expect("nothing goes wrong here") {
                    WatchItem::Event(event) => events.push(event),
                    WatchItem::Reply(_) => panic!("none of the scripted agents answers without a task"),
                }
            }
            events
        })
    }
}

fn open(executor: &Executor, log: &Arc<CountingLog>, metrics: &Metrics, limits: &Limits, process: u32) -> Engine {
    let host = Arc::new(SimHost::new(executor.clone(), process, SeededRng::new(process.into())));
    let log: Arc<dyn TaskLog> = log.clone();
    let (metrics, limits) = (metrics.clone(), limits.clone());
    executor.block_on(async move { Engine::open(log, host, limits, metrics).await.expect("an empty log opens") })
}
