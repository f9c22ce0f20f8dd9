//! Tests of agents with work on other servers: what they commit before they wait, and how they learn of a cancel.

use crate::engine_fixture::EngineFixture;
use sabir_engine::{Agent, CanceledTask, Context, Ending, Execution, Failure, HostedAgent, Recovery};
use sabir_proto::{AgentName, Caller, CancelTask, FrozenTask, SendReply, ServiceParameters, Task, TaskState, Tenant};
use sabir_store::Scope;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Commits a checkpoint, acts, and waits for a minute; or asks.
#[derive(Clone, Default)]
struct ExternalWorkAgent {
    /// The checkpoint before each action.
    done: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    canceled: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
}

impl Agent for ExternalWorkAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let known = cx.checkpoint().map(<[u8]>::to_vec);
        self.done.lock().unwrap().push(known.clone());
        if known.is_none() {
            cx.set_checkpoint(&b"theirs"[..]);
            cx.commit().await?;
        }
        if cx.message().joined_text().contains("ask") {
            return Ok(Ending::ask_input("What?"));
        }
        cx.sleep(Duration::from_secs(60)).await;
        Ok(Ending::Cancel(Vec::new()))
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }

    async fn on_canceled(&self, canceled: CanceledTask) {
        self.canceled.lock().unwrap().push(canceled.checkpoint.map(|bytes| bytes.to_vec()));
    }
}

struct ExternalWorkFixture {
    fixture: EngineFixture,
    agent: ExternalWorkAgent,
    resident: Arc<HostedAgent>,
    scope: Arc<Scope>,
}

impl ExternalWorkFixture {
    fn new() -> Self {
        let (agent, name) = (ExternalWorkAgent::default(), AgentName::parse("far").unwrap());
        let scope = Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: name.clone() });
        let tools = sabir_proto::ToolMode::Full;
        let resident = Arc::new(HostedAgent { name, agent: Arc::new(agent.clone()), push: false, tool_mode: tools });
        Self { fixture: EngineFixture::new(), agent, resident, scope }
    }

    fn begin(&mut self, text: &str) -> Task {
        let mut request = self.fixture.request(text, None);
        request.configuration.return_immediately = true;
        let (engine, resident, scope) = (self.fixture.engine.clone(), self.resident.clone(), self.scope.clone());
        let sent = self
            .fixture
            .run(async move { engine.send(&resident, scope, request, &ServiceParameters::default()).await });
        self.wait(1);
        match sent.unwrap() {
            SendReply::Task(task, _) => task.thaw().unwrap(),
            SendReply::Message(message) => panic!("{message:?}"),
        }
    }

    fn wait(&self, seconds: u64) {
        self.fixture.run(self.fixture.executor.sleep(Duration::from_secs(seconds)));
    }

    fn cancel(&self, task: &Task) -> FrozenTask {
        let (engine, resident, scope) = (self.fixture.engine.clone(), self.resident.clone(), self.scope.clone());
        let call = CancelTask { tenant: Tenant::none(), id: task.id.into(), metadata: None };
        let canceled = self.fixture.run(async move { engine.cancel(&scope, &resident, &call).await }).unwrap();
        self.wait(1);
        canceled
    }

    fn wake(&self, task: &Task) {
        let (engine, resident, id) = (self.fixture.engine.clone(), self.resident.clone(), task.id);
        self.fixture.run(async move { engine.recover_task(id, |_| Some(resident.clone())).await }).unwrap();
        self.wait(1);
    }

    fn state(&self, task: &Task) -> TaskState {
        let (engine, scope) = (self.fixture.engine.clone(), self.scope.clone());
        let call = sabir_proto::GetTask { tenant: Tenant::none(), id: task.id.into(), history_length: None };
        self.fixture.run(async move { engine.get(&scope, &call).await }).unwrap().0.state
    }

    fn done(&self) -> Vec<Option<Vec<u8>>> {
        self.agent.done.lock().unwrap().clone()
    }
}

#[test]
fn what_an_agent_waited_to_have_committed_is_there_after_a_crash() {
    let mut world = ExternalWorkFixture::new();
    let task = world.begin("go");
    world.fixture.crash_without_recovery();
    world.wake(&task);
    assert_eq!(world.done(), [None, Some(b"theirs".to_vec())]);
    world.wait(120);
    assert_eq!(world.state(&task), TaskState::Canceled, "called off elsewhere");
    assert!(world.agent.canceled.lock().unwrap().is_empty(), "nobody here canceled it");
}

#[test]
fn a_task_is_taken_up_by_one_alone_and_only_if_nobody_works_on_it() {
    let mut world = ExternalWorkFixture::new();
    let (task, asks) = (world.begin("go"), world.begin("ask"));
    world.wake(&task);
    world.wake(&asks);
    assert_eq!(world.done().len(), 2, "both are looked after: one is at work, one at rest");
    world.fixture.crash_without_recovery();
    for _ in 0..3 {
        world.wake(&task);
        world.wake(&asks);
    }
    assert_eq!(world.done().len(), 3);
    assert_eq!(world.state(&asks), TaskState::InputRequired);
}

#[test]
fn an_agent_is_told_of_a_cancel_at_work_and_at_rest_with_what_it_left() {
    for text in ["go", "ask"] {
        let mut world = ExternalWorkFixture::new();
        let task = world.begin(text);
        assert_eq!(world.cancel(&task).state, TaskState::Canceled);
        assert_eq!(*world.agent.canceled.lock().unwrap(), [Some(b"theirs".to_vec())], "{text}");
    }
}
