//! Tests of messages that arrive between two polls of a runner, and of inline turns.

use crate::agent::{Agent, Context, Ending, Failure};
use crate::engine::{Engine, HostedAgent, TaskOwnership};
use crate::host::{BoxFuture, Host};
use crate::{Limits, Metrics};
use sabir_proto::{
    AgentName, CallAttachment, Caller, Fault, Message, MessageId, Role, SendConfiguration, SendMessage, SendReply, Seq,
    ServiceParameters, Task, TaskState, Tenant, Timestamp,
};
use sabir_store::Scope;
use sabir_store::TaskStore;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};
use std::time::Duration;

/// A host in which time stands still and only the test polls.
#[derive(Default)]
struct FrozenHost {
    random: AtomicU64,
    spawned: Mutex<Vec<BoxFuture<'static, ()>>>,
}

impl Host for FrozenHost {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1000)
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.spawned.lock().unwrap().push(future);
    }
}

/// Asks a question on every turn, unless the message is "slow"; then it never ends.
struct AskingAgent;

impl Agent for AskingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        if cx.message().joined_text() == "slow" {
            std::future::pending::<()>().await;
        }
        Ok(Ending::ask_input("and?"))
    }
}

struct IncomingFixture {
    host: Arc<FrozenHost>,
    engine: Engine,
    resident: HostedAgent,
    scope: Arc<Scope>,
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut task::Context::from_waker(Waker::noop()))
}

impl IncomingFixture {
    fn new() -> Self {
        let host = Arc::new(FrozenHost::default());
        let opened = Engine::open(TaskStore::in_memory().log, host.clone(), Limits::default(), Metrics::default());
        let Poll::Ready(Ok(engine)) = poll(pin!(opened)) else { panic!("a log in memory opens at once") };
        let resident = HostedAgent {
            name: AgentName::parse("asks").unwrap(),
            agent: Arc::new(AskingAgent),
            push: false,
            tool_mode: sabir_proto::ToolMode::Full,
        };
        let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: resident.name.clone() };
        Self { host, engine, resident, scope: Arc::new(scope) }
    }

    async fn send(&self, text: &str, to: Option<&Task>) -> Result<Task, Fault> {
        let mut message = Message::text(MessageId::parse(text).unwrap(), Role::User, text);
        message.task_id = to.map(|task| task.id.into());
        let (tenant, configuration) = (Tenant::none(), SendConfiguration::default());
        let request =
            Box::new(SendMessage { tenant, message, configuration, metadata: None, alias: None, wants_task: false });
        match self.engine.send(&self.resident, self.scope.clone(), request, &ServiceParameters::default()).await? {
            SendReply::Task(task, _) => Ok(task.thaw().unwrap()),
            SendReply::Message(_) => panic!("this agent answers with tasks"),
        }
    }

    /// Polls every spawned future once.
    fn run_spawned(&self) {
        let spawned = std::mem::take(&mut *self.host.spawned.lock().unwrap());
        let waiting = spawned.into_iter().filter_map(|mut future| poll(future.as_mut()).is_pending().then_some(future));
        let waiting: Vec<_> = waiting.collect();
        self.host.spawned.lock().unwrap().extend(waiting);
    }

    fn ask_first_question(&self) -> Task {
        let mut opening = pin!(self.send("first", None));
        assert!(poll(opening.as_mut()).is_pending());
        self.run_spawned();
        let Poll::Ready(Ok(task)) = poll(opening) else { panic!("the agent asks at once") };
        assert_eq!(task.status.state, TaskState::InputRequired);
        task
    }
}

/// The question is committed and answered before the runner of the last turn has left.
#[test]
fn an_answer_that_comes_quickly_waits_for_the_last_turn_to_leave() {
    let bench = IncomingFixture::new();
    let task = bench.ask_first_question();
    let Ok(leaving) = TaskOwnership::acquire(bench.engine.core.live.join(task.id)) else {
        panic!("nobody owns a question")
    };
    let mut answer = pin!(bench.send("second", Some(&task)));
    assert!(poll(answer.as_mut()).is_pending(), "refused though the task has asked");
    drop(leaving);
    assert!(poll(answer.as_mut()).is_pending());
    bench.run_spawned();
    let Poll::Ready(Ok(task)) = poll(answer) else { panic!("the answer is taken") };
    assert_eq!((task.status.state, task.history.len()), (TaskState::InputRequired, 3));
}

/// Of two answers to one question the second is refused once the first is accepted, however long that turn takes.
#[test]
fn an_answer_that_comes_second_is_told_so() {
    let bench = IncomingFixture::new();
    let task = bench.ask_first_question();
    let mut first = pin!(bench.send("slow", Some(&task)));
    let mut second = pin!(bench.send("third", Some(&task)));
    assert!(poll(first.as_mut()).is_pending());
    assert!(poll(second.as_mut()).is_pending(), "nobody has been heard yet");
    bench.run_spawned();
    assert!(poll(first).is_pending());
    assert!(matches!(poll(second), Poll::Ready(Err(Fault::UnsupportedOperation(_)))));
}

/// Waits once, then replies to "look" and completes with an artifact otherwise.
struct InlineAgent;

impl Agent for InlineAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let mut waited = false;
        std::future::poll_fn(|_| {
            let now = if waited { Poll::Ready(()) } else { Poll::Pending };
            waited = true;
            now
        })
        .await;
        if cx.message().joined_text() == "look" {
            return Ok(Ending::reply("nothing there"));
        }
        cx.artifact("done", Vec::new()).await?;
        Ok(Ending::complete())
    }

    fn runs_inline(&self) -> bool {
        true
    }
}

/// However long an inline turn waits, its task is stored whole or not at all.
#[test]
fn a_turn_that_is_carried_leaves_one_step_or_no_trace() {
    let mut bench = IncomingFixture::new();
    bench.resident.agent = Arc::new(InlineAgent);
    let send = |text: &str| {
        let message = Message::text(MessageId::parse(text).unwrap(), Role::User, text);
        let (tenant, configuration) = (Tenant::none(), SendConfiguration::default());
        let request =
            Box::new(SendMessage { tenant, message, configuration, metadata: None, alias: None, wants_task: false });
        let terms = ServiceParameters { idempotency_key: Some(text.into()), ..ServiceParameters::default() };
        let (engine, scope) = (bench.engine.clone(), bench.scope.clone());
        let resident =
            HostedAgent { agent: Arc::new(InlineAgent), name: bench.resident.name.clone(), ..bench.resident };
        async move { engine.send(&resident, scope, request, &terms).await }
    };
    let log = &bench.engine.core.log;
    let stored = || {
        let Poll::Ready(Ok(found)) = poll(pin!(log.unfinished(None, 10))) else { panic!("a log in memory answers") };
        found.len()
    };
    for _ in 0..2 {
        let mut look = pin!(send("look"));
        assert!(poll(look.as_mut()).is_pending());
        assert_eq!(stored(), 0, "nothing is kept while it waits");
        let Poll::Ready(Ok(SendReply::Message(_))) = poll(look) else { panic!("it replies, and does so again") };
    }
    {
        let mut given_up = pin!(send("book"));
        assert!(poll(given_up.as_mut()).is_pending());
    }
    let mut first = pin!(send("book"));
    assert!(poll(first.as_mut()).is_pending());
    let Poll::Ready(Ok(SendReply::Task(task, _))) = poll(first) else { panic!("what was given up is no hindrance") };
    let mut again = pin!(send("book"));
    let Poll::Ready(Ok(SendReply::Task(repeat, _))) = poll(again.as_mut()) else { panic!("it is known") };
    let id = task.thaw().unwrap().id;
    assert_eq!((task.state, id), (TaskState::Completed, repeat.thaw().unwrap().id));
    assert_eq!(stored(), 0);
    let Poll::Ready(Ok(Some(kept))) = poll(pin!(log.load(id))) else { panic!("it is kept") };
    assert_eq!(kept.head, sabir_proto::Seq(1), "it is one event");
}

/// Commits a checkpoint in the middle of its turn.
struct CommittingAgent;

impl Agent for CommittingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        cx.set_checkpoint("half");
        cx.commit().await?;
        cx.artifact("done", Vec::new()).await?;
        Ok(Ending::complete())
    }

    fn runs_inline(&self) -> bool {
        true
    }
}

#[test]
fn a_turn_that_is_carried_becomes_a_task_when_it_asks_for_a_commit() {
    let bench = IncomingFixture::new();
    let message = Message::text(MessageId::parse("m").unwrap(), Role::User, "pay");
    let (tenant, configuration) = (Tenant::none(), SendConfiguration::default());
    let request =
        Box::new(SendMessage { tenant, message, configuration, metadata: None, alias: None, wants_task: false });
    let resident =
        HostedAgent { agent: Arc::new(CommittingAgent), name: bench.resident.name.clone(), ..bench.resident };
    let terms = ServiceParameters::default();
    let mut send = pin!(bench.engine.send(&resident, bench.scope.clone(), request, &terms));
    assert!(poll(send.as_mut()).is_pending());
    let log = &bench.engine.core.log;
    let Poll::Ready(Ok(found)) = poll(pin!(log.unfinished(None, 10))) else { panic!("a log in memory answers") };
    assert!(found.is_empty(), "its runner has not been polled yet");
    // The first poll commits, and the second ends the turn.
    let mut runners = std::mem::take(&mut *bench.host.spawned.lock().unwrap());
    while let Some(mut runner) = runners.pop() {
        assert!(poll(runner.as_mut()).is_ready(), "a log in memory answers at once");
    }
    let Poll::Ready(Ok(SendReply::Task(task, _))) = poll(send) else { panic!("it has ended") };
    let task = task.thaw().unwrap();
    assert_eq!((task.status.state, task.artifacts.len()), (TaskState::Completed, 1));
    let Poll::Ready(Ok(events)) = poll(pin!(log.events(task.id, Seq(0), 10))) else {
        panic!("a log in memory answers")
    };
    assert_eq!(events.len(), 3, "the task, its artifact and its end, in two steps");
}

/// Completes with the number that the server has attached to the call.
struct AttachedNumberAgent;

impl Agent for AttachedNumberAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        Ok(Ending::complete_with(cx.attachment::<u8>().map_or_else(|| "none".to_owned(), u8::to_string)))
    }

    fn runs_inline(&self) -> bool {
        true
    }
}

#[test]
fn an_attachment_reaches_the_turn_that_its_call_begins_and_no_turn_of_a_repeat() {
    let bench = IncomingFixture::new();
    let name = bench.resident.name.clone();
    let resident = HostedAgent { agent: Arc::new(AttachedNumberAgent), name, ..bench.resident };
    let send = |attachment: &CallAttachment| {
        let message = Message::text(MessageId::parse("m").unwrap(), Role::User, "x");
        let (tenant, configuration) = (Tenant::none(), SendConfiguration::default());
        let request =
            Box::new(SendMessage { tenant, message, configuration, metadata: None, alias: None, wants_task: false });
        let (idempotency_key, attachment) = (Some("k".to_owned()), attachment.clone());
        let terms = ServiceParameters { idempotency_key, attachment, ..ServiceParameters::default() };
        let sent = pin!(bench.engine.send(&resident, bench.scope.clone(), request, &terms));
        let Poll::Ready(Ok(SendReply::Task(task, _))) = poll(sent) else { panic!("the agent answers at once") };
        task.thaw().unwrap().status.message.unwrap().joined_text()
    };
    let (first, repeat) = (CallAttachment::new(7_u8), CallAttachment::new(8_u8));
    assert_eq!((send(&first).as_str(), first.is_delivered()), ("7", true));
    assert_eq!((send(&repeat).as_str(), repeat.is_delivered()), ("7", false));
}
