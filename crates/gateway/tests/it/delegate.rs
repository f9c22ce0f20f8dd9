//! Our task stays, and what another agent does is seen in it.

use sabir_engine::{
    Agent, AnyAgent, BoxFuture, Context, Ending, Engine, Execution, Failure, Host, HostedAgent, Limits, Metrics,
    Recovery,
};
use sabir_gateway::{MirrorSettings, delegate};
use sabir_proto::{
    AgentName, Artifact, ArtifactId, Caller, CancelTask, GetTask, Message, MessageId, Part, Role, SendConfiguration,
    SendMessage, SendReply, ServiceParameters, Task, TaskState, Tenant, Timestamp, ToolMode,
};
use sabir_store::{Scope, TaskLog, TaskStore};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::task::JoinSet;

/// A process that can be killed: everything it spawned goes with it.
#[derive(Default)]
struct Process {
    jobs: Mutex<JoinSet<()>>,
    random: AtomicU64,
}

impl Host for Process {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.jobs.lock().unwrap().spawn(future);
    }
}

/// Delegates everything to the worker, and mirrors all that it reports.
struct Front;

impl Agent for Front {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let first = cx.before().and_then(|task| task.history.first()).unwrap_or(cx.message());
        let (worker, parts) = (AgentName::parse("worker")?, first.parts.clone());
        Ok(delegate(cx, &worker, "work", parts, None, &MirrorSettings::EVERYTHING).await?.into_ending())
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }
}

/// Makes an artifact in three chunks, asks in the middle, and ends as it is told.
struct Worker;

async fn chunk(cx: &Context, text: &str, append: bool) -> Result<(), Failure> {
    let artifact = Artifact::new(ArtifactId::parse("made")?, vec![Part::text(text)]);
    cx.chunk(artifact, append, false).await?;
    Ok(cx.commit().await?)
}

impl Agent for Worker {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let text = cx.message().joined_text();
        if cx.before().is_some() {
            chunk(cx, &format!("[{text}]"), true).await?;
            return Ok(Ending::complete_with("thank you"));
        }
        let noted = cx.checkpoint().is_some();
        if !noted {
            cx.status("beginning").await?;
            cx.set_checkpoint(&b"begun"[..]);
            chunk(cx, "[1]", false).await?;
        }
        if text == "slow" {
            // The first turn works until it is cut off; the one that goes on from its checkpoint ends soon.
            tokio::time::sleep(Duration::from_millis(if noted { 50 } else { 60_000 })).await;
        }
        chunk(cx, "[2]", true).await?;
        Ok(match &*text {
            "ask" => Ending::ask_input("which?"),
            "auth" => Ending::AskAuth(Vec::new()),
            "fail" => Ending::fail("broken"),
            "reject" => Ending::reject("not that"),
            _ => Ending::complete_with("done"),
        })
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }
}

struct DelegationWorld {
    log: Arc<dyn TaskLog>,
    process: Arc<Process>,
    engine: Engine,
}

fn find(name: &AgentName) -> Option<Arc<HostedAgent>> {
    let agent: Arc<dyn AnyAgent> = match name.as_str() {
        "front" => Arc::new(Front),
        "worker" => Arc::new(Worker),
        _ => return None,
    };
    Some(Arc::new(HostedAgent { name: name.clone(), agent, push: false, tool_mode: ToolMode::Full }))
}

fn scope(agent: &str) -> Arc<Scope> {
    let agent = AgentName::parse(agent).unwrap();
    Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent })
}

impl DelegationWorld {
    async fn new() -> Self {
        Self::on(TaskStore::in_memory().log).await
    }

    async fn on(log: Arc<dyn TaskLog>) -> Self {
        let process = Arc::new(Process::default());
        let engine = Engine::open(log.clone(), process.clone(), Limits::default(), Metrics::default()).await.unwrap();
        engine.set_directory(Arc::new(find));
        Self { log, process, engine }
    }

    /// The process dies, and another one resumes its log.
    async fn crash(self) -> Self {
        let mut jobs = std::mem::take(&mut *self.process.jobs.lock().unwrap());
        jobs.shutdown().await;
        let next = Self::on(self.log).await;
        next.process.random.store(1000, Ordering::Relaxed);
        next.engine.recover(find).await.unwrap();
        next
    }

    async fn send(&self, text: &str, to: Option<&Task>, at_once: bool) -> Task {
        let mut message = Message::text(MessageId::parse(text).unwrap(), Role::User, text);
        message.task_id = to.map(|task| task.id.into());
        let configuration = SendConfiguration { return_immediately: at_once, ..SendConfiguration::default() };
        let tenant = Tenant::none();
        let request =
            Box::new(SendMessage { tenant, message, configuration, metadata: None, alias: None, wants_task: false });
        let front = find(&AgentName::parse("front").unwrap()).unwrap();
        match self.engine.send(&front, scope("front"), request, &ServiceParameters::default()).await.unwrap() {
            SendReply::Task(image, _) => image.thaw().unwrap(),
            SendReply::Message(message) => panic!("{message:?}"),
        }
    }

    async fn get(&self, task: &Task) -> Task {
        let call = GetTask { tenant: Tenant::none(), id: task.id.into(), history_length: None };
        self.engine.get(&scope("front"), &call).await.unwrap().0.thaw().unwrap()
    }

    /// The task, once it is as wanted.
    async fn once(&self, task: &Task, wanted: impl Fn(&Task) -> bool) -> Task {
        for _ in 0..1000 {
            let now = self.get(task).await;
            if wanted(&now) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it stays as it is: {:?}", self.get(task).await);
    }
}

fn made(task: &Task) -> String {
    task.artifacts.iter().flat_map(|artifact| &artifact.parts).filter_map(Part::as_text).collect()
}

fn words(task: &Task) -> String {
    task.status.message.as_ref().map(Message::joined_text).unwrap_or_default()
}

#[tokio::test]
async fn what_a_child_makes_and_how_it_ends_is_seen_in_ours() {
    let world = DelegationWorld::new().await;
    for (text, state, said) in [
        ("do", TaskState::Completed, "done"),
        ("fail", TaskState::Failed, "broken"),
        ("reject", TaskState::Rejected, "not that"),
        ("auth", TaskState::AuthRequired, "worker needs an answer to go on"),
    ] {
        let task = world.send(text, None, false).await;
        assert_eq!((task.status.state, &*words(&task), &*made(&task)), (state, said, "[1][2]"), "{text}");
    }
}

#[tokio::test]
async fn a_question_is_passed_up_and_its_answer_down() {
    let world = DelegationWorld::new().await;
    let asked = world.send("ask", None, false).await;
    assert_eq!((asked.status.state, &*words(&asked)), (TaskState::InputRequired, "which?"));
    let done = world.send("this", Some(&asked), false).await;
    assert_eq!((done.status.state, &*words(&done)), (TaskState::Completed, "thank you"));
    assert_eq!(made(&done), "[1][2][this]", "every chunk is there once");
}

#[tokio::test]
async fn after_a_crash_nothing_is_missing_and_nothing_is_there_twice() {
    let world = DelegationWorld::new().await;
    let task = world.send("slow", None, true).await;
    world.once(&task, |task| made(task) == "[1]").await;
    let world = world.crash().await;
    let done = world.once(&task, |task| task.status.state.is_settled()).await;
    assert_eq!((done.status.state, &*made(&done)), (TaskState::Completed, "[1][2]"));
}

#[tokio::test]
async fn a_cancel_goes_down() {
    let world = DelegationWorld::new().await;
    let task = world.send("slow", None, true).await;
    world.once(&task, |task| made(task) == "[1]").await;
    let front = find(&AgentName::parse("front").unwrap()).unwrap();
    let call = CancelTask { tenant: Tenant::none(), id: task.id.into(), metadata: None };
    world.engine.cancel(&scope("front"), &front, &call).await.unwrap();
    for _ in 0..1000 {
        if world.engine.running() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the child works on");
}
