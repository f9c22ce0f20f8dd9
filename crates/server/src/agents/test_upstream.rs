//! For tests of agents that call an HTTP endpoint: an endpoint with scripted answers, and an engine around one agent.

use super::NoHandoffAudit;
use crate::agent_factory::{AgentFactory, SharedParts};
use crate::auth_setup::AuthSetup;
use crate::config::agent::AgentConfig;
use crate::config::push::EgressConfig;
use crate::config::{Config, LimitsConfig};
use crate::directory::AgentDirectory;
use crate::engine_access::EngineAccess;
use crate::public_address::public_address;
use crate::tokio_host::{ServerTasks, TokioHost};
use sabir_engine::watch::WatchItem;
use sabir_engine::{AnyAgent, Engine, HostedAgent, Limits, Metrics};
use sabir_gateway::{Capacity, Hub};
use sabir_guard::Guard;
use sabir_guard::authenticator::SecretResolver;
use sabir_proto::{
    AgentName, Artifact, Caller, CancelTask, Event, GetTask, Message, MessageId, Part, Role, Secret, SendConfiguration,
    SendMessage, SendReply, ServiceParameters, Task, TaskId, TaskRef, TaskState, Tenant, ToolMode,
};
use sabir_store::TaskStore;
use sabir_store::{Scope, SecretRef};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The answer of the endpoint to one request.
pub(super) enum ScriptedAnswer {
    /// A whole answer: status, media type, body.
    Whole(u16, &'static str, String),
    /// Events, then the end of the stream.
    Stream(Vec<String>),
    /// Events, then half of another one.
    BrokenStream(Vec<String>),
    /// Events, then nothing until the client disconnects.
    HangingStream(Vec<String>),
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct RecordedRequest {
    pub(super) head: String,
    pub(super) body: serde_json::Value,
}

/// An endpoint on this machine.
pub(super) struct TestUpstream {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    /// Notified when a client leaves a request that hangs.
    pub(super) left: Arc<Notify>,
    /// Ends when this is dropped.
    _serving: JoinSet<()>,
}

impl TestUpstream {
    /// Answers requests in this order; requests after the last answer get 500.
    pub(super) async fn scripted(lines: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let lines: Mutex<VecDeque<ScriptedAnswer>> = Mutex::new(lines.into_iter().collect());
        let rest = || ScriptedAnswer::Whole(500, "text/plain", "nothing is left to say".into());
        Self::answering(move |_| lines.lock().unwrap().pop_front().unwrap_or_else(rest)).await
    }

    /// Answers each request with the result of `answer`.
    pub(super) async fn answering(answer: impl Fn(&RecordedRequest) -> ScriptedAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/ask", listener.local_addr().unwrap());
        let (seen, left) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let (noted, gone, answer) = (seen.clone(), left.clone(), Arc::new(answer));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut held = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.spawn(serve_connection(stream, answer.clone(), noted.clone(), gone.clone()));
            }
        });
        Self { url, requests: seen, left, _serving: serving }
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve_connection(
    mut stream: TcpStream,
    answer: Arc<impl Fn(&RecordedRequest) -> ScriptedAnswer>,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    left: Arc<Notify>,
) {
    let Some(request) = read_request(&mut stream).await else { return };
    let line = answer(&request);
    seen.lock().unwrap().push(request);
    let events = |frames: &[String]| {
        let frames: String = frames.iter().map(|data| format!("data: {data}\n\n")).collect();
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{frames}")
    };
    let bytes = match &line {
        ScriptedAnswer::Whole(status, media_type, body) => format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ),
        ScriptedAnswer::Stream(frames) | ScriptedAnswer::HangingStream(frames) => events(frames),
        ScriptedAnswer::BrokenStream(frames) => events(frames) + "data: half of",
    };
    let _ = stream.write_all(bytes.as_bytes()).await;
    if let ScriptedAnswer::HangingStream(_) = line {
        while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {}
        left.notify_one();
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    loop {
        let at = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        if let Some(at) = at {
            let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
            if bytes.len() >= at + 4 + length.unwrap_or(0) {
                let body = serde_json::from_slice(&bytes[at + 4..]).unwrap_or_default();
                return Some(RecordedRequest { head, body });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// The secrets of the tests: `env:NAME` resolves to `secret-NAME`.
pub(super) struct TestSecrets;

impl SecretResolver for TestSecrets {
    fn resolve(&self, reference: &SecretRef) -> Result<Secret, String> {
        match reference {
            SecretRef::Env(name) => Ok(Secret::new(format!("secret-{name}"))),
            SecretRef::File(_) => Err("no files here".into()),
        }
    }
}

/// Reads the body of an `[[agent]]` section.
pub(super) fn agent_config(kind: &str, url: &str, more: &str) -> AgentConfig {
    toml::from_str(&format!("name = \"x\"\nkind = \"{kind}\"\nurl = \"{url}\"\n{more}")).unwrap()
}

/// Makes the agent of a section, without other agents.
pub(super) fn make_agent(config: &AgentConfig) -> Result<Arc<dyn AnyAgent>, String> {
    let cancel_grace = Duration::from_secs(1);
    let ground = super::AgentEnvironment {
        chunks: super::ChunkLimits::new(&LimitsConfig::default(), &config.limits),
        cancel_grace,
        ledger: None,
        processes: &super::ProcessLimit::new(LimitsConfig::default().processes_max),
        secrets: &TestSecrets,
        egress: &EgressConfig::default(),
        answers: &Capacity::default(),
        directory: &Weak::new(),
        delegations: &Arc::default(),
    };
    super::make(config, &ground, None)
}

/// An engine with one agent behind it.
pub(super) struct AgentTest {
    pub(super) engine: Engine,
    pub(super) hosted: HostedAgent,
    pub(super) scope: Arc<Scope>,
}

impl AgentTest {
    pub(super) async fn of(config: &AgentConfig) -> Self {
        Self::with(make_agent(config).unwrap(), ToolMode::Full).await
    }

    pub(super) async fn with(agent: Arc<dyn AnyAgent>, tools: ToolMode) -> Self {
        Self::limited(agent, tools, Limits::default()).await
    }

    pub(super) async fn limited(agent: Arc<dyn AnyAgent>, tools: ToolMode, limits: Limits) -> Self {
        let log = TaskStore::in_memory().log;
        let engine = Engine::open(log, Arc::new(TokioHost), limits, Metrics::default()).await.unwrap();
        let name = AgentName::parse("x").unwrap();
        let scope = Arc::new(Scope { tenant: Tenant::none(), caller: Caller::named("ann"), agent: name.clone() });
        Self { engine, hosted: HostedAgent { name, agent, push: false, tool_mode: tools }, scope }
    }

    pub(super) async fn say(&self, text: &str) -> Task {
        self.send(user_message(text), false).await
    }

    pub(super) async fn answer(&self, task: &Task, text: &str) -> Task {
        self.send(Message { task_id: Some(TaskRef::Id(task.id)), ..user_message(text) }, false).await
    }

    pub(super) async fn send(&self, message: Message, return_immediately: bool) -> Task {
        send(&self.engine, &self.hosted, self.scope.clone(), message, return_immediately).await
    }

    pub(super) async fn cancel(&self, id: TaskId) {
        let call = CancelTask { tenant: Tenant::none(), id: id.into(), metadata: None };
        assert_eq!(self.engine.cancel(&self.scope, &self.hosted, &call).await.unwrap().state, TaskState::Canceled);
    }
}

async fn send(
    engine: &Engine,
    to: &HostedAgent,
    scope: Arc<Scope>,
    message: Message,
    return_immediately: bool,
) -> Task {
    let configuration = SendConfiguration { return_immediately, ..SendConfiguration::default() };
    let (tenant, metadata, alias, terms) = (Tenant::none(), None, None, ServiceParameters::default());
    let request = SendMessage { tenant, message, configuration, metadata, alias, wants_task: false };
    let sent = engine.send(to, scope, Box::new(request), &terms);
    match tokio::time::timeout(Duration::from_secs(60), sent).await.unwrap().unwrap() {
        SendReply::Task(task, _) => task.thaw().unwrap(),
        SendReply::Message(message) => panic!("{message:?}"),
    }
}

pub(super) fn user_message(text: &str) -> Message {
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    Message::text(MessageId::parse(&format!("m-{stamp}")).unwrap(), Role::User, text)
}

pub(super) fn status_text(task: &Task) -> String {
    task.status.message.as_ref().map(Message::joined_text).unwrap_or_default()
}

pub(super) fn artifact(task: &Task, id: &str) -> String {
    let found = task.artifacts.iter().find(|a| a.artifact_id.as_str() == id).unwrap_or_else(|| panic!("{task:?}"));
    text(found)
}

fn text(artifact: &Artifact) -> String {
    artifact.parts.iter().filter_map(Part::as_text).collect()
}

/// Several agents that can call each other, made from the sections of a file.
pub(super) struct AgentGroup {
    engine: Arc<EngineAccess>,
    directory: Arc<AgentDirectory>,
    tools: ToolMode,
}

impl AgentGroup {
    pub(super) async fn of(sections: &str) -> Self {
        Self::with(sections, ToolMode::Full).await
    }

    pub(super) async fn with(sections: &str, tools: ToolMode) -> Self {
        let config = Arc::new(Config::read(sections).unwrap());
        let store = TaskStore::in_memory().log;
        let engine = Engine::open(store, Arc::new(TokioHost), Limits::default(), Metrics::default()).await.unwrap();
        let engine = Arc::new(EngineAccess::new(engine));
        let secrets = Arc::new(TestSecrets);
        let guard = Guard::new(sabir_store::guard_in_memory(), secrets.clone(), sabir_guard::Metrics::default());
        let directory = Arc::new(AgentDirectory::new(guard));
        engine.set_directory(directory.clone());
        let factory = AgentFactory::new(SharedParts {
            auth_setup: AuthSetup::new(config.clone(), secrets).unwrap(),
            public: public_address(&config, config.server.listen),
            signer: None,
            journal: None,
            hub: Hub::new(sabir_gateway::Metrics::default()),
            own_agents: HashMap::new(),
            interceptor: None,
            registry: sabir_store::guard_in_memory(),
            own_addresses: Arc::new([]),
            handoff_audit: Arc::new(NoHandoffAudit),
            directory: Arc::downgrade(&directory),
            engine: Arc::downgrade(&engine),
            tasks: ServerTasks::default(),
        });
        let made = config.agent.iter().map(|entry| (entry.name.clone(), factory.make(entry, None).unwrap()));
        directory.replace(made.collect(), BTreeSet::new());
        Self { engine, directory, tools }
    }

    fn hosted(&self, name: &str) -> HostedAgent {
        let HostedAgent { name, agent, push, .. } = &*self.directory.get(name).unwrap().hosted;
        HostedAgent { name: name.clone(), agent: agent.clone(), push: *push, tool_mode: self.tools }
    }

    pub(super) async fn say(&self, to: &str, text: &str) -> Task {
        self.send(to, user_message(text)).await
    }

    /// The state of a task of one of the agents.
    pub(super) async fn state(&self, of: &str, id: &str) -> TaskState {
        let agent = AgentName::parse(of).unwrap();
        let scope = Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent });
        let call = GetTask { tenant: Tenant::none(), id: TaskId::parse(id).unwrap().into(), history_length: None };
        self.engine.for_operators().get(&scope, &call).await.unwrap().0.state
    }

    /// All events of a call.
    pub(super) async fn stream(&self, to: &str, message: Message) -> Vec<Event> {
        let hosted = self.hosted(to);
        let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: hosted.name.clone() };
        let (configuration, terms) = (SendConfiguration::default(), ServiceParameters::default());
        let (tenant, metadata, alias) = (Tenant::none(), None, None);
        let request = SendMessage { tenant, message, configuration, metadata, alias, wants_task: true };
        let mut watch =
            self.engine.for_operators().stream(&hosted, Arc::new(scope), Box::new(request), &terms).await.unwrap();
        let mut events = Vec::new();
        while let Some(item) = watch.next().await {
            if let WatchItem::Event(event) = item.unwrap() {
                events.push(event.thaw().unwrap());
            }
        }
        events
    }

    pub(super) async fn answer(&self, to: &str, task: &Task, text: &str) -> Task {
        self.send(to, Message { task_id: Some(TaskRef::Id(task.id)), ..user_message(text) }).await
    }

    pub(super) async fn send(&self, to: &str, message: Message) -> Task {
        let hosted = self.hosted(to);
        let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: hosted.name.clone() };
        send(&self.engine.for_operators(), &hosted, Arc::new(scope), message, false).await
    }
}
