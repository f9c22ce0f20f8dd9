//! Two servers without sockets: ours, which crashes, and another, which does not.

use crate::bench::upstream;
use sabir_engine::agent::{Agent, AnyAgent, Context, Ending, Failure, Handover, Nature, Recovery};
use sabir_engine::{BoxFuture, Engine, Host, Limits, Metrics, Resident};
use sabir_gateway::handoff::{Attempt, Desk, Face, Handing, Ledger, Peer, Taken, Unaware};
use sabir_gateway::{Error, Hub, RemoteAgent};
use sabir_guard::policy::lattice::Capabilities;
use sabir_proto::transfer::{Hop, Incoming};
use sabir_proto::{
    AgentName, Artifact, ArtifactId, Caller, CancelTask, Fault, GetTask, HANDOFF, ListTasks, Message, MessageId, Part,
    Role, SendConfiguration, SendMessage, Sent, Task, TaskId, TaskRef, TaskState, Tenant, Terms, Timestamp, ToolMode,
    TransferContext, View,
};
use sabir_store::memory::MemoryLog;
use sabir_store::{Scope, TaskLog as _};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Handle, Runtime};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What goes wrong with the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trick {
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
pub(crate) enum Said {
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
struct Giver(Handover);

impl Agent for Giver {
    async fn turn(&self, _: &mut Context) -> Result<Ending, Failure> {
        Ok(Ending::Transfer(Box::new(self.0.clone())))
    }

    fn nature(&self) -> Nature {
        Nature { recovery: Recovery::Restart, ..Nature::default() }
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
pub(crate) struct Careful;

impl Agent for Careful {
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

fn resident(name: &str, agent: Arc<dyn AnyAgent>) -> Arc<Resident> {
    Arc::new(Resident { name: AgentName::parse(name).unwrap(), agent, push: false, tools: ToolMode::Full })
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
struct Road {
    handle: Handle,
    engine: Engine,
    resident: Arc<Resident>,
    tricks: Mutex<VecDeque<Trick>>,
    reached: Mutex<Vec<Trick>>,
    faces: AtomicU64,
    forget: AtomicBool,
    holds: AtomicBool,
    accepts: AtomicBool,
    /// One more than the number of looks at its card that find an endpoint which callers follow.
    followed: AtomicU64,
    /// Everything that was sent there, whether or not it was recognised.
    sent: Mutex<Vec<Message>>,
}

impl Road {
    fn next(&self) -> Trick {
        self.tricks.lock().unwrap().pop_front().unwrap_or(Trick::Fine)
    }

    async fn hang(&self, trick: Trick) -> ! {
        self.reached.lock().unwrap().push(trick);
        std::future::pending().await
    }

    /// Runs on the other server's own threads, which outlive ours.
    async fn there<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.handle.spawn(work).await.unwrap()
    }

    async fn deliver(&self, message: Message) -> Result<Taken, Error> {
        self.sent.lock().unwrap().push(message.clone());
        let (engine, resident) = (self.engine.clone(), self.resident.clone());
        let send =
            async move { engine.send(&resident, scope("billing"), request(message, true), &Terms::default()).await };
        match self.there(send).await? {
            Sent::Task(task, _) => Ok(Taken::Task(Box::new(task.show(View::WHOLE).unwrap()))),
            Sent::Message(_) => Ok(Taken::Words),
        }
    }
}

fn away() -> Error {
    Fault::Unavailable("nobody is there".into()).into()
}

fn lost() -> Error {
    let (host, reason) = ("b.example".into(), "the connection broke".into());
    let (whose, cause) = (sabir_client::Whose::Unknown, sabir_client::UnreachableCause::Other);
    Error::Unreachable { host, reason, safe: false, whose, cause, retry_after: None }
}

/// The other server, as a target of the policy.
struct Billing(Arc<Road>);

impl Peer for Billing {
    fn face(&self) -> BoxFuture<'_, Result<Face, Error>> {
        Box::pin(async move {
            let road = &self.0;
            let first = road.faces.fetch_add(1, Ordering::Relaxed) == 0;
            let hangs = road.tricks.lock().unwrap().front() == Some(&Trick::HangFace);
            if hangs {
                road.next();
                road.hang(Trick::HangFace).await;
            }
            let skills: &[&str] =
                if !first && road.forget.load(Ordering::Relaxed) { &[] } else { &["billing.refund", "billing.delete"] };
            Ok(Face {
                endpoint: "https://b.example".into(),
                binding: "JSONRPC".into(),
                caps: Capabilities::named(skills.iter().copied()),
                accepts: road.accepts.load(Ordering::Relaxed),
                holds: road.holds.load(Ordering::Relaxed),
                recognises: false,
                here: false,
                digest: "d".into(),
                signed: false,
                followed: road.followed.load(Ordering::Relaxed) > road.faces.load(Ordering::Relaxed),
            })
        })
    }

    fn send(&self, _: TaskId, message: Message) -> BoxFuture<'_, Result<Taken, Error>> {
        Box::pin(async move {
            let road = &self.0;
            match road.next() {
                Trick::LoseRequest => Err(away()),
                Trick::LoseAnswer => road.deliver(message).await.and(Err(lost())),
                trick @ Trick::HangBefore => road.hang(trick).await,
                trick @ Trick::HangAfter => {
                    road.deliver(message).await?;
                    road.hang(trick).await
                }
                Trick::Refuse => Err(Fault::UnsupportedOperation("not today".into()).into()),
                Trick::ForgetSkills => {
                    road.forget.store(true, Ordering::Relaxed);
                    road.deliver(message).await
                }
                Trick::Fine | Trick::HangFace => road.deliver(message).await,
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
struct Stranger(RemoteAgent);

impl Stranger {
    fn at(url: &str) -> Self {
        let hub = Hub::new(sabir_gateway::Metrics::default());
        Self(RemoteAgent::new(upstream(url), &hub).unwrap())
    }
}

impl Peer for Stranger {
    fn face(&self) -> BoxFuture<'_, Result<Face, Error>> {
        Box::pin(self.0.face())
    }

    fn send(&self, _: TaskId, message: Message) -> BoxFuture<'_, Result<Taken, Error>> {
        Box::pin(self.0.hand("", message))
    }

    fn cancel(&self, _: TaskId, id: TaskRef) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.0.take_back("", id))
    }
}

struct Books {
    outcomes: Mutex<Vec<&'static str>>,
    log: Arc<MemoryLog>,
}

impl Ledger for Books {
    fn record(&self, attempt: &Attempt<'_>) {
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
pub(crate) fn refund() -> Handover {
    Handover { to: "billing".into(), required: vec!["billing.refund".into()], ..Handover::default() }
}

pub(crate) struct World {
    log: Arc<MemoryLog>,
    road: Arc<Road>,
    books: Arc<Books>,
    order: Handover,
    unaware: Unaware,
    /// The other agent as a resident of ours, for callers that do not follow.
    pub(crate) relayed: Arc<dyn AnyAgent>,
    /// The URL of an agent without our extension, in place of the other server.
    stranger: Option<String>,
    _theirs: Runtime,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(refund(), Unaware::Relay, Limits::default().hold_time_max)
    }

    pub(crate) fn giving(order: Handover) -> Self {
        Self::with(order, Unaware::Relay, Limits::default().hold_time_max)
    }

    pub(crate) fn unaware(unaware: Unaware) -> Self {
        Self::with(refund(), unaware, Limits::default().hold_time_max)
    }

    pub(crate) fn holding_for(hold: Duration) -> Self {
        Self::with(refund(), Unaware::Relay, hold)
    }

    fn with(order: Handover, unaware: Unaware, hold: Duration) -> Self {
        let theirs = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = theirs.handle().clone();
        let limits = Limits { hold_time_max: hold, ..Limits::default() };
        let host = Arc::new(Clock(handle.clone()));
        let log = Arc::new(MemoryLog::new());
        let engine = theirs.block_on(Engine::open(log, host, limits, Metrics::default())).unwrap();
        let road = Arc::new(Road {
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
        let log = Arc::new(MemoryLog::new());
        let books = Arc::new(Books { outcomes: Mutex::default(), log: log.clone() });
        Self { log, road, books, order, unaware, relayed: Arc::new(Refunds), stranger: None, _theirs: theirs }
    }

    /// A world whose other agent is behind this URL, and its threads.
    pub(crate) fn with_stranger<T>(stranger: impl AsyncFnOnce() -> (String, T)) -> (Self, T) {
        let mut world = Self::new();
        let (url, stub) = world.road.handle.block_on(stranger());
        world.stranger = Some(url);
        (world, stub)
    }

    pub(crate) fn tricks(&self, tricks: impl IntoIterator<Item = Trick>) {
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

    pub(crate) fn desk(&self) -> Desk {
        let peer: Arc<dyn Peer> = match &self.stranger {
            Some(url) => Arc::new(Stranger::at(url)),
            None => Arc::new(Billing(self.road.clone())),
        };
        let targets = BTreeMap::from([("billing".to_owned(), peer)]);
        Desk {
            agent: AgentName::parse("triage").unwrap(),
            endpoint: "https://a.example".into(),
            scope: Capabilities::named(["triage", "billing.refund"]),
            targets,
            depth_max: 4,
            unaware: self.unaware,
            patience: Duration::from_secs(10),
            ledger: self.books.clone(),
        }
    }

    async fn open(&self) -> Ours {
        let host = Arc::new(Clock(Handle::current()));
        let engine = Engine::open(self.log.clone(), host, Limits::default(), Metrics::default()).await.unwrap();
        let triage = resident("triage", Arc::new(Handing::new(Arc::new(Giver(self.order.clone())), self.desk())));
        let billing = resident("billing", self.relayed.clone());
        let all = [triage.clone(), billing];
        engine.know(Arc::new(move |name: &AgentName| all.iter().find(|one| one.name == *name).cloned()));
        Ours { engine, triage }
    }

    /// Runs our server until the work is done, then ends it like a crash.
    pub(crate) fn run<T>(&self, work: impl AsyncFnOnce(Ours) -> T) -> T {
        self.keep(work).1
    }

    /// The same; the server goes on until its runtime is dropped, so that it may still send the activation.
    pub(crate) fn keep<T>(&self, work: impl AsyncFnOnce(Ours) -> T) -> (Runtime, T) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let done = runtime.block_on(async {
            let ours = self.open().await;
            tokio::time::timeout(PATIENCE, work(ours)).await.expect("in time")
        });
        (runtime, done)
    }

    /// Runs our server until this fault has happened, and then ends it at once.
    pub(crate) fn crash_when<T>(&self, trick: Trick, work: impl AsyncFnOnce(Ours) -> T) -> T {
        let (runtime, done) = self.keep(async |ours| {
            let done = work(ours).await;
            self.reached(trick).await;
            done
        });
        runtime.shutdown_background();
        done
    }

    pub(crate) async fn reached(&self, trick: Trick) {
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
    pub(crate) fn b_rests(&self, id: &TaskRef) -> Task {
        let id = id.to_string();
        self.b_settled(|task| task.id.to_string() == id)
    }

    /// The only task there, once it has settled.
    #[track_caller]
    pub(crate) fn b_only(&self) -> Task {
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
pub(crate) struct Ours {
    engine: Engine,
    triage: Arc<Resident>,
}

/// A task that our server has.
pub(crate) struct Mine {
    ours: Ours,
    pub(crate) id: TaskId,
}

impl Ours {
    pub(crate) async fn send(self, words: &'static str, follows: bool) -> Mine {
        self.send_as(Said::Words(words), follows).await
    }

    pub(crate) async fn send_as(self, said: Said, follows: bool) -> Mine {
        let words = if let Said::Words(words) = said { words } else { "go" };
        let id = format!("m-{}", RANDOM.fetch_add(1, Ordering::Relaxed));
        let mut message = Message::text(MessageId::parse(&id).unwrap(), Role::User, words);
        let context = match said {
            Said::Words(_) => None,
            Said::Through(agents) => {
                let hop = |agent: &&str| Hop {
                    agent: (*agent).into(),
                    task_id: "t".into(),
                    at: Timestamp::from_millis(0),
                    skills: Vec::new(),
                };
                Some(TransferContext { chain: agents.iter().map(hop).collect(), ..TransferContext::default() })
            }
            Said::Granting(names) => {
                let scope = Some(names.iter().map(|name| (*name).to_owned()).collect());
                Some(TransferContext { scope, ..TransferContext::default() })
            }
        };
        if let Some(context) = context {
            Incoming::Create { context: Box::new(context), hold: false }.stamp(&mut message);
        }
        let extensions = if follows { vec![HANDOFF.to_owned()] } else { Vec::new() };
        let terms = Terms { extensions, ..Terms::default() };
        let sent = self.engine.send(&self.triage, scope("triage"), request(message, true), &terms).await.unwrap();
        let Sent::Task(task, _) = sent else { panic!("{sent:?}") };
        let id = task.thaw().unwrap().id;
        Mine { ours: self, id }
    }

    /// A task that an earlier server left behind.
    pub(crate) async fn recovered(self, id: TaskId) -> Mine {
        let triage = self.triage.clone();
        self.engine.recover(move |name| (*name == triage.name).then(|| triage.clone())).await.unwrap();
        Mine { ours: self, id }
    }
}

impl Mine {
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
        let (request, terms) = (request(message, true), Terms::default());
        self.ours.engine.send(&self.ours.triage, scope("triage"), request, &terms).await.map(drop)
    }
}
