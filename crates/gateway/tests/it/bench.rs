//! An engine with one agent elsewhere behind it, in the test's own process.

use sabir_engine::{BoxFuture, Engine, Host, HostedAgent, Limits, Metrics};
use sabir_gateway::{
    BreakerRules, Credentials, Egress, FollowPolicy, Hub, RemoteAgent, Upstream, UpstreamReplica, WaitLimits,
};
use sabir_proto::{
    AgentName, Caller, CancelTask, Fault, GetTask, Message, MessageId, Object, Role, SendConfiguration, SendMessage,
    SendReply, ServiceParameters, Task, TaskId, TaskState, Tenant, Timestamp, ToolMode,
};
use sabir_store::TaskStore;
use sabir_store::{Scope, TaskLog};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

struct SystemHost(AtomicU64);

impl Host for SystemHost {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        drop(tokio::spawn(future));
    }
}

/// Settings of an agent elsewhere that a test can wait for.
pub(crate) fn upstream(url: &str) -> Upstream {
    let pause = Duration::from_millis(10);
    Upstream {
        profile: None,
        name: "far".into(),
        replicas: vec![UpstreamReplica::only(url)],
        calls_max: None,
        fallback: None,
        credentials: Credentials::default(),
        origins: Vec::new(),
        tls: sabir_gateway::Tls::default(),
        egress: Egress::public().and_loopback(),
        wait_limits: WaitLimits {
            attempts_max: 6,
            silence_max: Some(Duration::from_secs(20)),
            pause_min: pause,
            connect_time_max: Some(Duration::from_secs(15)),
        },
        idempotent: false,
        card_policy: None,
        user_tokens: None,
        breaker_rules: BreakerRules { failures: 100, ..BreakerRules::UPSTREAM },
        cancel_grace: Duration::from_secs(20),
        follow_policy: FollowPolicy {
            egress: Egress::public().and_loopback(),
            own_addresses: Arc::new([]),
            remote_agents: None,
        },
    }
}

pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) remote: Arc<RemoteAgent>,
    resident: Arc<HostedAgent>,
    scope: Arc<Scope>,
}

impl Bench {
    pub(crate) async fn new(upstream: Upstream) -> Self {
        Self::on(TaskStore::in_memory().log, upstream).await
    }

    /// Another process on the same log.
    pub(crate) async fn on(log: Arc<dyn TaskLog>, upstream: Upstream) -> Self {
        Self::limited(log, upstream, Limits::default()).await
    }

    pub(crate) async fn limited(log: Arc<dyn TaskLog>, upstream: Upstream, limits: Limits) -> Self {
        let hub = Hub::new(sabir_gateway::Metrics::default());
        let name = AgentName::parse("far").unwrap();
        let remote = Arc::new(RemoteAgent::new(upstream, &hub).unwrap());
        let host = Arc::new(SystemHost(AtomicU64::new(std::process::id().into())));
        let engine = Engine::open(log, host, limits, Metrics::default()).await.unwrap();
        let scope = Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: name.clone() });
        let resident = Arc::new(HostedAgent { name, agent: remote.clone(), push: false, tool_mode: ToolMode::Full });
        Self { engine, remote, resident, scope }
    }

    fn request(&self, text: &str, to: Option<&Task>) -> Box<SendMessage> {
        let id = MessageId::parse(self.engine.new_message_id().as_str()).unwrap();
        let mut message = Message::text(id, Role::User, text);
        message.task_id = to.map(|task| task.id.into());
        let configuration = SendConfiguration::default();
        let (tenant, wants_task) = (Tenant::none(), true);
        Box::new(SendMessage { tenant, message, configuration, metadata: None, alias: None, wants_task })
    }

    async fn deliver(&self, request: Box<SendMessage>) -> Result<Task, Fault> {
        match self.engine.send(&self.resident, self.scope.clone(), request, &ServiceParameters::default()).await? {
            SendReply::Task(task, _) => Ok(task.thaw().unwrap()),
            SendReply::Message(message) => panic!("a reply without a task: {message:?}"),
        }
    }

    /// Sends, and returns the task as it rests.
    pub(crate) async fn send(&self, text: &str) -> Task {
        self.deliver(self.request(text, None)).await.unwrap()
    }

    /// The same with metadata.
    pub(crate) async fn send_with(&self, text: &str, metadata: Object) -> Task {
        let mut request = self.request(text, None);
        request.message.metadata = Some(metadata);
        self.deliver(request).await.unwrap()
    }

    /// Answers a question, and returns the task as it rests.
    pub(crate) async fn answer(&self, task: &Task, text: &str) -> Task {
        self.deliver(self.request(text, Some(task))).await.unwrap()
    }

    /// Sends, and returns the task as it begins.
    pub(crate) async fn begin(&self, text: &str) -> Task {
        self.try_begin(text).await.unwrap()
    }

    pub(crate) async fn try_begin(&self, text: &str) -> Result<Task, Fault> {
        let mut request = self.request(text, None);
        request.configuration.return_immediately = true;
        self.deliver(request).await
    }

    /// Sends as a caller whose dialect has direct replies, under this id.
    pub(crate) async fn ask_as(&self, caller: &str, id: &str, text: &str) -> SendReply {
        let request = self.named(id, text);
        self.engine.send(&self.resident, self.scope_of(caller), request, &ServiceParameters::default()).await.unwrap()
    }

    /// The same with a stream; every item as JSON.
    pub(crate) async fn stream_as(&self, caller: &str, id: &str, text: &str) -> Vec<Value> {
        let (request, scope) = (self.named(id, text), self.scope_of(caller));
        let mut watch =
            self.engine.stream(&self.resident, scope, request, &ServiceParameters::default()).await.unwrap();
        let mut items = Vec::new();
        while let Some(item) = watch.next().await {
            items.push(match item.unwrap() {
                sabir_engine::watch::WatchItem::Event(event) => serde_json::from_slice(&event.json).unwrap(),
                sabir_engine::watch::WatchItem::Reply(message) => serde_json::json!({"message": *message}),
            });
        }
        items
    }

    fn named(&self, id: &str, text: &str) -> Box<SendMessage> {
        let mut request = self.request(text, None);
        request.message.message_id = MessageId::parse(id).unwrap();
        request.wants_task = false;
        request
    }

    fn scope_of(&self, caller: &str) -> Arc<Scope> {
        Arc::new(Scope { caller: Caller::named(caller), ..(*self.scope).clone() })
    }

    /// Every task of a caller.
    pub(crate) async fn tasks_of(&self, caller: &str) -> Vec<Task> {
        let page = self.engine.list(self.scope_of(caller), &sabir_proto::ListTasks::default()).await.unwrap();
        page.tasks.iter().map(|task| task.thaw().unwrap()).collect()
    }

    /// Sends, and returns every event as JSON.
    pub(crate) async fn stream(&self, text: &str) -> Vec<Value> {
        let request = self.request(text, None);
        let mut watch = self
            .engine
            .stream(&self.resident, self.scope.clone(), request, &ServiceParameters::default())
            .await
            .unwrap();
        let mut events = Vec::new();
        while let Some(item) = watch.next().await {
            if let sabir_engine::watch::WatchItem::Event(event) = item.unwrap() {
                events.push(serde_json::from_slice(&event.json).unwrap());
            }
        }
        events
    }

    pub(crate) async fn task(&self, id: TaskId) -> Task {
        let call = GetTask { tenant: Tenant::none(), id: id.into(), history_length: None };
        self.engine.get(&self.scope, &call).await.unwrap().0.thaw().unwrap()
    }

    /// The task, once it is in a state.
    pub(crate) async fn reaches(&self, id: TaskId, state: TaskState) -> Task {
        eventually(&format!("the task is {state}"), async || {
            let task = self.task(id).await;
            (task.status.state == state).then_some(task)
        })
        .await
    }

    /// Resumes the tasks that another process left.
    pub(crate) async fn recover(&self) {
        let resident = self.resident.clone();
        self.engine.recover(|name| (*name == resident.name).then(|| resident.clone())).await.unwrap();
    }

    pub(crate) async fn cancel_as(&self, caller: &str, id: TaskId) -> Result<Task, Fault> {
        let call = CancelTask { tenant: Tenant::none(), id: id.into(), metadata: None };
        let canceled = self.engine.cancel(&self.scope_of(caller), &self.resident, &call).await;
        canceled.map(|task| task.thaw().unwrap())
    }

    pub(crate) async fn cancel(&self, id: TaskId) -> Result<Task, Fault> {
        let call = CancelTask { tenant: Tenant::none(), id: id.into(), metadata: None };
        self.engine.cancel(&self.scope, &self.resident, &call).await.map(|task| task.thaw().unwrap())
    }
}

/// Waits up to a minute until something is true; machines can be slow.
pub(crate) async fn eventually<T>(what: &str, mut there: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = there().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: this did not happen");
}

/// The closing words of a task.
pub(crate) fn words(task: &Task) -> String {
    task.status.message.as_ref().map(Message::joined_text).unwrap_or_default()
}
