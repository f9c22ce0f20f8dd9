//! Two servers without sockets: ours, which crashes, and another, which does not.

use crate::bench::upstream;
use sabir_engine::agent::{Agent, AnyAgent, Context, Ending, Execution, Failure, HandoffRequest, Recovery};
use sabir_engine::{BoxFuture, Engine, Host, HostedAgent, Limits, Metrics};
use sabir_gateway::handoff::{
    HandoffAgent, HandoffAttempt, HandoffAudit, HandoffPolicy, HandoffReply, HandoffTarget, TargetProfile,
    UnawareCallers,
};
use sabir_gateway::{Error, Hub, RemoteAgent};
use sabir_guard::policy::lattice::Capabilities;
use sabir_proto::transfer::{HandoffMessage, TransferHop};
use sabir_proto::{
    AgentName, Artifact, ArtifactId, Caller, CancelTask, Fault, GetTask, HANDOFF, ListTasks, Message, MessageId, Part,
    Role, SendConfiguration, SendMessage, SendReply, ServiceParameters, Task, TaskId, TaskRef, TaskState, Tenant,
    Timestamp, ToolMode, TransferContext, View,
};
use sabir_store::{Scope, TaskLog, TaskStore};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Handle, Runtime};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What goes wrong with the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFault {
    Fine,
    /// It never arrives, and the sender knows.
    LoseRequest,
    /// It arrives, and its answer does not.
    LoseAnswer,
    /// It hangs on the way there.
    HangBefore,
    /// It hangs on the way back.
    HangAfter,
    /// Reading their card hangs, the first time.
    HangFace,
    /// They refuse it.
    Refuse,
    /// Their card has lost its skills by the time it is read again.
    ForgetSkills,
}

/// What our agent is sent, besides its text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SentContext {
    Words(&'static str),
    /// It came through these.
    Through(&'static [&'static str]),
    /// It came with no more than this.
    Granting(&'static [&'static str]),
}

static RANDOM: AtomicU64 = AtomicU64::new(1);

struct Clock(Handle);

impl Host for Clock {
    fn now(&self) -> Timestamp {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        Timestamp::from_millis(i64::try_from(millis).unwrap())
    }

    fn random(&self) -> u64 {
        RANDOM.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let _guard = self.0.enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.0.spawn(future);
    }
}

/// Hands its task over, and may be restarted.
struct TransferringAgent(HandoffRequest);

impl Agent for TransferringAgent {
    async fn turn(&self, _: &mut Context) -> Result<Ending, Failure> {
        Ok(Ending::Transfer(Box::new(self.0.clone())))
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Restart, ..Execution::default() }
    }
}

struct Refunds;

impl Agent for Refunds {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        cx.artifact("receipt", vec![Part::text("paid")]).await?;
        Ok(Ending::complete_with(format!("refunded: {}", cx.message().joined_text())))
    }
}

/// Asks before it is done, and reports its progress.
pub(crate) struct AskingAgent;

impl Agent for AskingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let id = ArtifactId::parse("receipt").unwrap();
        let piece = |text: &str| Artifact::new(id.clone(), vec![Part::text(text)]);
        if cx.before().is_none() {
            cx.status("looking").await?;
            cx.chunk(piece("one "), false, false).await?;
            return Ok(Ending::ask_input("which account?"));
        }
        cx.chunk(piece("two"), true, true).await?;
        Ok(Ending::complete_with(cx.message().joined_text()))
    }
}

fn resident(name: &str, agent: Arc<dyn AnyAgent>) -> Arc<HostedAgent> {
    Arc::new(HostedAgent { name: AgentName::parse(name).unwrap(), agent, push: false, tool_mode: ToolMode::Full })
}

fn scope(agent: &str) -> Arc<Scope> {
    let agent = AgentName::parse(agent).unwrap();
    Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent })
}

fn request(message: Message, at_once: bool) -> Box<SendMessage> {
    let configuration = SendConfiguration { return_immediately: at_once, ..SendConfiguration::default() };
    Box::new(SendMessage {
        tenant: Tenant::none(),
        message,
        configuration,
        metadata: None,
        alias: None,
        wants_task: true,
    })
}

/// The path to the other server, and what goes wrong on it.
struct PeerServer {
    handle: Handle,
    engine: Engine,
    resident: Arc<HostedAgent>,
    tricks: Mutex<VecDeque<CallFault>>,
    reached: Mutex<Vec<CallFault>>,
    faces: AtomicU64,
    forget: AtomicBool,
    holds: AtomicBool,
    accepts: AtomicBool,
    /// One more than the number of looks at its card that find an endpoint which callers follow.
    followed: AtomicU64,
    /// Everything that was sent there, whether or not it was recognised.
    sent: Mutex<Vec<Message>>,
}

impl PeerServer {
    fn next(&self) -> CallFault {
        self.tricks.lock().unwrap().pop_front().unwrap_or(CallFault::Fine)
    }

    async fn hang(&self, trick: CallFault) -> ! {
        self.reached.lock().unwrap().push(trick);
        std::future::pending().await
    }

    /// Runs on the other server's own threads, which outlive ours.
    async fn there<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.handle.spawn(work).await.unwrap()
    }

    async fn deliver(&self, message: Message) -> Result<HandoffReply, Error> {
        self.sent.lock().unwrap().push(message.clone());
        let (engine, resident) = (self.engine.clone(), self.resident.clone());
        let send = async move {
            engine.send(&resident, scope("billing"), request(message, true), &ServiceParameters::default()).await
        };
        match self.there(send).await? {
            SendReply::Task(task, _) => Ok(HandoffReply::Task(Box::new(task.to_wire(View::WHOLE).unwrap()))),
            SendReply::Message(_) => Ok(HandoffReply::Message),
        }
    }
}

fn away() -> Error {
    Fault::Unavailable("nobody is there".into()).into()
}

fn lost() -> Error {
    let (host, reason) = ("b.example".into(), "the connection broke".into());
    let (whose, cause) = (sabir_client::FailureSide::Unknown, sabir_client::UnreachableCause::Other);
    Error::Unreachable { host, reason, safe: false, side: whose, cause, retry_after: None }
}

/// The other server, as a target of the policy.
struct BillingTarget(Arc<PeerServer>);

impl HandoffTarget for BillingTarget {
    fn profile(&self) -> BoxFuture<'_, Result<TargetProfile, Error>> {
        Box::pin(async move {
            let road = &self.0;
            let first = road.faces.fetch_add(1, Ordering::Relaxed) == 0;
            let hangs = road.tricks.lock().unwrap().front() == Some(&CallFault::HangFace);
            if hangs {
                road.next();
                road.hang(CallFault::HangFace).await;
            }
            let skills: &[&str] =
                if !first && road.forget.load(Ordering::Relaxed) { &[] } else { &["billing.refund", "billing.delete"] };
            Ok(TargetProfile {
                endpoint: "https://b.example".into(),
                binding: "JSONRPC".into(),
                caps: Capabilities::named(skills.iter().copied()),
                accepts_transfers: road.accepts.load(Ordering::Relaxed),
                holds_tasks: road.holds.load(Ordering::Relaxed),
                recognises_repeats: false,
                is_local: false,
                digest: "d".into(),
                signed: false,
                is_followed: road.followed.load(Ordering::Relaxed) > road.faces.load(Ordering::Relaxed),
            })
        })
    }

    fn send(&self, _: TaskId, message: Message) -> BoxFuture<'_, Result<HandoffReply, Error>> {
        Box::pin(async move {
            let road = &self.0;
            match road.next() {
                CallFault::LoseRequest => Err(away()),
                CallFault::LoseAnswer => road.deliver(message).await.and(Err(lost())),
                trick @ CallFault::HangBefore => road.hang(trick).await,
                trick @ CallFault::HangAfter => {
                    road.deliver(message).await?;
                    road.hang(trick).await
                }
                CallFault::Refuse => Err(Fault::UnsupportedOperation("not today".into()).into()),
                CallFault::ForgetSkills => {
                    road.forget.store(true, Ordering::Relaxed);
                    road.deliver(message).await
                }
                CallFault::Fine | CallFault::HangFace => road.deliver(message).await,
            }
        })
    }

    fn cancel(&self, _: TaskId, id: TaskRef) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (engine, resident) = (self.0.engine.clone(), self.0.resident.clone());
            let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
            let cancel = async move { engine.cancel(&scope("billing"), &resident, &request).await };
            self.0.there(cancel).await.map(drop).map_err(Error::from)
        })
    }
}

/// A target that is reached over the wire, as those of a configuration are.
struct ForeignTarget(RemoteAgent);

impl ForeignTarget {
    fn at(url: &str) -> Self {
        let hub = Hub::new(sabir_gateway::Metrics::default());
        Self(RemoteAgent::new(upstream(url), &hub).unwrap())
    }
}

impl HandoffTarget for ForeignTarget {
    fn profile(&self) -> BoxFuture<'_, Result<TargetProfile, Error>> {
        Box::pin(self.0.handoff_profile())
    }

    fn send(&self, _: TaskId, message: Message) -> BoxFuture<'_, Result<HandoffReply, Error>> {
        Box::pin(self.0.send_handoff("", message))
    }

    fn cancel(&self, _: TaskId, id: TaskRef) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.0.cancel_handoff("", id))
    }
}

struct RecordedOutcomes {
    outcomes: Mutex<Vec<&'static str>>,
    log: Arc<dyn TaskLog>,
}

impl HandoffAudit for RecordedOutcomes {
    fn record(&self, attempt: &HandoffAttempt<'_>) {
        // This log answers at once.
        let stored = std::pin::pin!(self.log.load(attempt.task));
        let stored = match stored.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(stored) => stored.unwrap(),
            std::task::Poll::Pending => panic!("the log is slow"),
        };
        let is_over = stored.is_some_and(|stored| stored.state == TaskState::Transferred);
        let outcome = if attempt.outcome == "committed" && !is_over { "too early" } else { attempt.outcome };
        self.outcomes.lock().unwrap().push(outcome);
    }
}

/// The handover that the agent of the tests wants.
pub(crate) fn refund() -> HandoffRequest {
    HandoffRequest { to: "billing".into(), required: vec!["billing.refund".into()], ..HandoffRequest::default() }
}

pub(crate) struct HandoffWorld {
    log: Arc<dyn TaskLog>,
    road: Arc<PeerServer>,
    books: Arc<RecordedOutcomes>,
    order: HandoffRequest,
    unaware: UnawareCallers,
    /// The other agent as a resident of ours, for callers that do not follow.
    pub(crate) relayed: Arc<dyn AnyAgent>,
    /// The URL of an agent without our extension, in place of the other server.
    stranger: Option<String>,
    _theirs: Runtime,
}

impl HandoffWorld {
    pub(crate) fn new() -> Self {
        Self::with(refund(), UnawareCallers::Relay, Limits::default().hold_time_max)
    }

    pub(crate) fn giving(order: HandoffRequest) -> Self {
        Self::with(order, UnawareCallers::Relay, Limits::default().hold_time_max)
    }

    pub(crate) fn unaware(unaware: UnawareCallers) -> Self {
        Self::with(refund(), unaware, Limits::default().hold_time_max)
    }

    pub(crate) fn holding_for(hold: Duration) -> Self {
        Self::with(refund(), UnawareCallers::Relay, hold)
    }

    fn with(order: HandoffRequest, unaware: UnawareCallers, hold: Duration) -> Self {
        let theirs = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = theirs.handle().clone();
        let limits = Limits { hold_time_max: hold, ..Limits::default() };
        let host = Arc::new(Clock(handle.clone()));
        let log = TaskStore::in_memory().log;
        let engine = theirs.block_on(Engine::open(log, host, limits, Metrics::default())).unwrap();
        let road = Arc::new(PeerServer {
            handle,
            engine,
            resident: resident("billing", Arc::new(Refunds)),
            tricks: Mutex::default(),
            reached: Mutex::default(),
            faces: AtomicU64::new(0),
            forget: AtomicBool::new(false),
            holds: AtomicBool::new(true),
            accepts: AtomicBool::new(true),
            followed: AtomicU64::new(u64::MAX),
            sent: Mutex::default(),
        });
        let log = TaskStore::in_memory().log;
        let books = Arc::new(RecordedOutcomes { outcomes: Mutex::default(), log: log.clone() });
        Self { log, road, books, order, unaware, relayed: Arc::new(Refunds), stranger: None, _theirs: theirs }
    }

    /// A world whose other agent is behind this URL, and its threads.
    pub(crate) fn with_stranger<T>(stranger: impl AsyncFnOnce() -> (String, T)) -> (Self, T) {
        let mut world = Self::new();
        let (url, stub) = world.road.handle.block_on(stranger());
        world.stranger = Some(url);
        (world, stub)
    }

    pub(crate) fn tricks(&self, tricks: impl IntoIterator<Item = CallFault>) {
        self.road.tricks.lock().unwrap().extend(tricks);
    }

    pub(crate) fn without_holds(&self) {
        self.road.holds.store(false, Ordering::Relaxed);
    }

    pub(crate) fn without_handoffs(&self) {
        self.road.accepts.store(false, Ordering::Relaxed);
    }

    /// After so many looks at its card, callers no longer follow to its endpoint.
    pub(crate) fn insecure_after(&self, looks: u64) {
        self.road.followed.store(looks + 1, Ordering::Relaxed);
    }

    /// How many events of a task of ours have this text in them.
    pub(crate) fn events(&self, id: TaskId, text: &str) -> usize {
        let all = self.road.handle.block_on(self.log.events(id, sabir_proto::Seq(0), 100)).unwrap();
        // A snapshot is how a task begins, and says nothing anew.
        let has =
            |event: &&sabir_proto::FrozenEvent| String::from_utf8_lossy(&event.json).contains(&format!("{text}\""));
        all.iter().filter(has).count()
    }

    /// The words of everything that arrived there.
    pub(crate) fn b_heard(&self) -> Vec<String> {
        self.road.sent.lock().unwrap().iter().map(Message::joined_text).collect()
    }

    pub(crate) fn outcomes(&self) -> Vec<&'static str> {
        self.books.outcomes.lock().unwrap().clone()
    }

    pub(crate) fn desk(&self) -> HandoffPolicy {
        let peer: Arc<dyn HandoffTarget> = match &self.stranger {
            Some(url) => Arc::new(ForeignTarget::at(url)),
            None => Arc::new(BillingTarget(self.road.clone())),
        };
        let targets = BTreeMap::from([("billing".to_owned(), peer)]);
        HandoffPolicy {
            agent: AgentName::parse("triage").unwrap(),
            endpoint: "https://a.example".into(),
            scope: Capabilities::named(["triage", "billing.refund"]),
            targets,
            depth_max: 4,
            unaware_callers: self.unaware,
            create_time_max: Duration::from_secs(10),
            audit: self.books.clone(),
        }
    }

    async fn open(&self) -> RunningServer {
        let host = Arc::new(Clock(Handle::current()));
        let engine = Engine::open(self.log.clone(), host, Limits::default(), Metrics::default()).await.unwrap();
        let triage = resident(
            "triage",
            Arc::new(HandoffAgent::new(Arc::new(TransferringAgent(self.order.clone())), self.desk())),
        );
        let billing = resident("billing", self.relayed.clone());
        let all = [triage.clone(), billing];
        engine.set_directory(Arc::new(move |name: &AgentName| all.iter().find(|one| one.name == *name).cloned()));
        RunningServer { engine, triage }
    }

    /// Runs our server until the work is done, then ends it like a crash.
    pub(crate) fn run<T>(&self, work: impl AsyncFnOnce(RunningServer) -> T) -> T {
        self.keep(work).1
    }

    /// The same; the server goes on until its runtime is dropped, so that it may still send the activation.
    pub(crate) fn keep<T>(&self, work: impl AsyncFnOnce(RunningServer) -> T) -> (Runtime, T) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let done = runtime.block_on(async {
            let ours = self.open().await;
            tokio::time::timeout(PATIENCE, work(ours)).await.expect("in time")
        });
        (runtime, done)
    }

    /// Runs our server until this fault has happened, and then ends it at once.
    pub(crate) fn crash_when<T>(&self, trick: CallFault, work: impl AsyncFnOnce(RunningServer) -> T) -> T {
        let (runtime, done) = self.keep(async |ours| {
            let done = work(ours).await;
            self.reached(trick).await;
            done
        });
        runtime.shutdown_background();
        done
    }

    pub(crate) async fn reached(&self, trick: CallFault) {
        while !self.road.reached.lock().unwrap().contains(&trick) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn b_all(&self) -> Vec<Task> {
        let (engine, call) =
            (self.road.engine.clone(), ListTasks { include_artifacts: Some(true), ..ListTasks::default() });
        let listed = self.road.handle.block_on(async move { engine.list(scope("billing"), &call).await }).unwrap();
        listed.tasks.iter().map(|task| task.thaw().unwrap()).collect()
    }

    pub(crate) fn b_tasks(&self) -> usize {
        self.b_all().len()
    }

    pub(crate) fn b_state(&self, id: &TaskRef) -> TaskState {
        let id = id.to_string();
        self.b_all().into_iter().find(|task| task.id.to_string() == id).unwrap().status.state
    }

    /// Looks at the task there, as its new owner would.
    pub(crate) fn b_get(&self, id: &TaskRef) {
        let (engine, id) = (self.road.engine.clone(), id.clone());
        let call = GetTask { tenant: Tenant::none(), id, history_length: None };
        self.road.handle.block_on(async move { engine.get(&scope("billing"), &call).await }).unwrap();
    }

    /// The task there, once it has settled.
    #[track_caller]
    pub(crate) fn b_settled_task(&self, id: &TaskRef) -> Task {
        let id = id.to_string();
        self.b_settled(|task| task.id.to_string() == id)
    }

    /// The only task there, once it has settled.
    #[track_caller]
    pub(crate) fn b_only_task(&self) -> Task {
        let task = self.b_settled(|_| true);
        assert_eq!(self.b_tasks(), 1);
        task
    }

    #[track_caller]
    fn b_settled(&self, wanted: impl Fn(&Task) -> bool) -> Task {
        let begun = Instant::now();
        loop {
            let found = self.b_all().into_iter().find(|task| wanted(task) && task.status.state.is_settled());
            match found {
                Some(task) => return task,
                None if begun.elapsed() > PATIENCE => panic!("not settled there: {:?}", self.b_all()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// Our server while it runs.
pub(crate) struct RunningServer {
    engine: Engine,
    triage: Arc<HostedAgent>,
}

/// A task that our server has.
pub(crate) struct SentTask {
    ours: RunningServer,
    pub(crate) id: TaskId,
}

impl RunningServer {
    pub(crate) async fn send(self, words: &'static str, follows: bool) -> SentTask {
        self.send_as(SentContext::Words(words), follows).await
    }

    pub(crate) async fn send_as(self, said: SentContext, follows: bool) -> SentTask {
        let words = if let SentContext::Words(words) = said { words } else { "go" };
        let id = format!("m-{}", RANDOM.fetch_add(1, Ordering::Relaxed));
        let mut message = Message::text(MessageId::parse(&id).unwrap(), Role::User, words);
        let context = match said {
            SentContext::Words(_) => None,
            SentContext::Through(agents) => {
                let hop = |agent: &&str| TransferHop {
                    agent: (*agent).into(),
                    task_id: "t".into(),
                    at: Timestamp::from_millis(0),
                    skills: Vec::new(),
                };
                Some(TransferContext { chain: agents.iter().map(hop).collect(), ..TransferContext::default() })
            }
            SentContext::Granting(names) => {
                let scope = Some(names.iter().map(|name| (*name).to_owned()).collect());
                Some(TransferContext { scope, ..TransferContext::default() })
            }
        };
        if let Some(context) = context {
            HandoffMessage::Create { context: Box::new(context), hold: false }.add_to_message(&mut message);
        }
        let extensions = if follows { vec![HANDOFF.to_owned()] } else { Vec::new() };
        let terms = ServiceParameters { extensions, ..ServiceParameters::default() };
        let sent = self.engine.send(&self.triage, scope("triage"), request(message, true), &terms).await.unwrap();
        let SendReply::Task(task, _) = sent else { panic!("{sent:?}") };
        let id = task.thaw().unwrap().id;
        SentTask { ours: self, id }
    }

    /// A task that an earlier server left behind.
    pub(crate) async fn recovered(self, id: TaskId) -> SentTask {
        let triage = self.triage.clone();
        self.engine.recover(move |name| (*name == triage.name).then(|| triage.clone())).await.unwrap();
        SentTask { ours: self, id }
    }
}

impl SentTask {
    async fn get(&self) -> Task {
        let call = GetTask { tenant: Tenant::none(), id: self.id.into(), history_length: None };
        self.ours.engine.get(&scope("triage"), &call).await.unwrap().0.thaw().unwrap()
    }

    /// The task, once it has settled or asks.
    pub(crate) async fn rest(&self) -> Task {
        loop {
            let task = self.get().await;
            if task.status.state.is_settled() || task.status.state.is_interrupted() {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn cancel(&self) -> Result<(), Fault> {
        let call = CancelTask { tenant: Tenant::none(), id: self.id.into(), metadata: None };
        self.ours.engine.cancel(&scope("triage"), &self.ours.triage, &call).await.map(drop)
    }

    pub(crate) async fn say(&self, words: &str) -> Result<(), Fault> {
        let mut message = Message::text(MessageId::parse("again").unwrap(), Role::User, words);
        message.task_id = Some(self.id.into());
        let (request, terms) = (request(message, true), ServiceParameters::default());
        self.ours.engine.send(&self.ours.triage, scope("triage"), request, &terms).await.map(drop)
    }
}
