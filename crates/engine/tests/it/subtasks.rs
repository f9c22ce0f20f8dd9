//! Tests of subtasks: found again, answered once, canceled with their parent, and bounded.

use crate::engine_fixture::EngineFixture;
use sabir_engine::{Agent, AnyAgent, Context, Ending, Execution, Failure, HostedAgent, LINEAGE, Limits, Recovery};
use sabir_proto::{
    AgentName, Caller, CancelTask, Fault, GetTask, Json, ListTasks, Object, Part, SendReply, ServiceParameters, Task,
    TaskId, TaskState, Tenant, ToolMode,
};
use sabir_store::TaskStore;
use sabir_store::{Scope, TaskTree};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Delegates to another agent and returns its result; questions go up to the caller, answers down.
///
/// The first message names the other agent and what to say to it: `echo: hello`.
#[derive(Clone)]
struct ParentAgent {
    recovery: Recovery,
    /// The children that it opened or found.
    children: Arc<Mutex<Vec<TaskId>>>,
}

impl Agent for ParentAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let first = cx.before().and_then(|task| task.history.first()).unwrap_or(cx.message()).joined_text();
        let (to, words) = first.split_once(": ").unwrap_or(("echo", &first));
        let mut child = cx.delegate(&AgentName::parse(to)?, "only", vec![Part::text(words)], None).await?;
        self.children.lock().unwrap().push(child.id());
        if cx.before().is_some() {
            child.answer(cx.message().parts.clone()).await?;
        }
        let task = child.wait_until_rest().await?.thaw().unwrap();
        let said = task.status.message.map(|message| message.parts).unwrap_or_default();
        Ok(match task.status.state {
            TaskState::Completed => Ending::Complete(said),
            TaskState::InputRequired => Ending::AskInput(said),
            TaskState::AuthRequired => Ending::AskAuth(said),
            state => Ending::fail(format!("{to} is {state}")),
        })
    }

    fn execution(&self) -> Execution {
        Execution { recovery: self.recovery, ..Execution::default() }
    }
}

fn resident(name: &str, agent: impl AnyAgent) -> Arc<HostedAgent> {
    let name = AgentName::parse(name).unwrap();
    Arc::new(HostedAgent { name, agent: Arc::new(agent), push: false, tool_mode: ToolMode::Full })
}

fn parent_agent(recovery: Recovery) -> ParentAgent {
    ParentAgent { recovery, children: Arc::default() }
}

fn fixture_with_parent() -> (EngineFixture, ParentAgent) {
    fixture_within(Limits::default())
}

fn fixture_within(limits: Limits) -> (EngineFixture, ParentAgent) {
    let (desk, boss) = (EngineFixture::within(TaskStore::in_memory().log, limits), parent_agent(Recovery::Resume));
    desk.add_agents([resident("boss", boss.clone())]);
    (desk, boss)
}

fn pass(desk: &EngineFixture, seconds: u64) {
    desk.run(desk.executor.sleep(Duration::from_secs(seconds)));
}

fn get(desk: &EngineFixture, agent: &str, id: TaskId) -> Task {
    let (engine, scope) = (desk.engine.clone(), desk.scope(agent));
    let call = GetTask { tenant: Tenant::none(), id: id.into(), history_length: None };
    desk.run(async move { engine.get(&scope, &call).await }).unwrap().0.thaw().unwrap()
}

fn cancel(desk: &EngineFixture, agent: &str, id: TaskId) {
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent(agent), desk.scope(agent));
    let call = CancelTask { tenant: Tenant::none(), id: id.into(), metadata: None };
    desk.run(async move { engine.cancel(&scope, &resident, &call).await }).unwrap();
}

fn count(desk: &EngineFixture, agent: &str) -> u64 {
    let (engine, scope) = (desk.engine.clone(), desk.scope(agent));
    desk.run(async move { engine.list(scope, &ListTasks::default()).await }).unwrap().total_size
}

fn status_text(task: &Task) -> String {
    task.status.message.as_ref().map(sabir_proto::Message::joined_text).unwrap_or_default()
}

#[test]
fn a_child_is_a_task_of_the_same_caller_in_the_log_of_its_agent() {
    let (mut desk, boss) = fixture_with_parent();
    let task = desk.send("boss", "echo: hello", None);
    assert_eq!(task.status.state, TaskState::Completed);
    let child = boss.children.lock().unwrap()[0];
    assert_eq!(get(&desk, "echo", child).status.state, TaskState::Completed);
    let (log, id) = (desk.log.clone(), task.id);
    let kin = desk.run(async move { log.parent_link(child).await }).unwrap().unwrap();
    assert_eq!((kin.parent, kin.root, &*kin.key, kin.hops), (id, id, "only", 1));
    assert_eq!(kin.path.iter().map(|step| step.to_string()).collect::<Vec<_>>(), [format!("boss#{id}")]);
    assert_eq!(desk.metrics.delegations.get(), 1);
}

#[test]
fn a_question_travels_up_and_the_answer_down() {
    let (mut desk, boss) = fixture_with_parent();
    let asked = desk.send("boss", "asks: 2", None);
    assert_eq!((asked.status.state, &*status_text(&asked)), (TaskState::InputRequired, "question 0"));
    let again = desk.send("boss", "so", Some(&asked));
    assert_eq!((again.status.state, &*status_text(&again)), (TaskState::InputRequired, "question 1"));
    let done = desk.send("boss", "so then", Some(&asked));
    assert_eq!((done.status.state, &*status_text(&done)), (TaskState::Completed, "thank you"));
    let children = boss.children.lock().unwrap().clone();
    assert_eq!(children, [children[0]; 3], "one child for all turns");
    let said: Vec<String> =
        get(&desk, "asks", children[0]).history.iter().map(sabir_proto::Message::joined_text).collect();
    assert_eq!(said.iter().filter(|text| text.starts_with("so")).collect::<Vec<_>>(), ["so", "so then"]);
}

/// Kills the process at many points of the parent's turn: there is one child, and it is answered once.
#[test]
fn a_turn_that_is_begun_again_finds_its_child_and_answers_it_once() {
    for moment in (0..200).step_by(5) {
        let (mut desk, boss) = fixture_with_parent();
        let asked = desk.send("boss", "asks: 1", None);
        let mut request = desk.request("an answer", Some(&asked));
        request.configuration.return_immediately = true;
        drop(desk.deliver("boss", request));
        desk.run(desk.executor.sleep(Duration::from_millis(moment)));
        desk.crash();
        pass(&desk, 5);
        assert_eq!(get(&desk, "boss", asked.id).status.state, TaskState::Completed, "killed after {moment} ms");
        assert_eq!(count(&desk, "asks"), 1);
        let child = get(&desk, "asks", boss.children.lock().unwrap()[0]);
        let answers = child.history.iter().filter(|message| message.joined_text() == "an answer").count();
        assert_eq!(answers, 1, "killed after {moment} ms");
    }
}

#[test]
fn a_cancel_travels_down_to_children_at_work_and_at_rest() {
    for words in ["tardy: wait", "asks: 1", "middle: tardy: wait"] {
        let (mut desk, _) = fixture_with_parent();
        desk.add_agents([resident("middle", parent_agent(Recovery::Resume))]);
        let task = desk.send_without_waiting("boss", words);
        pass(&desk, 1);
        assert_eq!(desk.engine.running() == 0, words.starts_with("asks"), "{words}");
        cancel(&desk, "boss", task.id);
        pass(&desk, 1);
        assert_eq!(desk.engine.running(), 0, "{words}");
        let log = desk.log.clone();
        let family = desk.run(async move { log.descendants(task.id, None, 9).await }).unwrap();
        assert!(!family.is_empty() && family.iter().all(|child| child.state == TaskState::Canceled), "{family:?}");
    }
}

#[test]
fn a_parent_that_is_lost_takes_its_children_with_it() {
    let (mut desk, _) = fixture_with_parent();
    let mortal = parent_agent(Recovery::Fail);
    desk.add_agents([resident("mortal", mortal.clone())]);
    let task = desk.send_without_waiting("mortal", "streams: 1000");
    pass(&desk, 1);
    let child = mortal.children.lock().unwrap()[0];
    assert_eq!(get(&desk, "streams", child).status.state, TaskState::Working);
    desk.crash();
    pass(&desk, 1);
    assert_eq!(get(&desk, "mortal", task.id).status.state, TaskState::Failed);
    assert_eq!(get(&desk, "streams", child).status.state, TaskState::Canceled);
}

/// The parent's cancel is committed and the child's is not, as after a crash between the two.
#[test]
fn a_child_that_a_crash_left_behind_is_called_off_at_the_next_start() {
    for words in ["streams: 1000", "asks: 1"] {
        let (mut desk, boss) = fixture_with_parent();
        let task = desk.send_without_waiting("boss", words);
        pass(&desk, 1);
        desk.crash_without_recovery();
        // No task was resumed: only the parent is canceled, and the process dies at once.
        let (engine, scope, resident) = (desk.engine.clone(), desk.scope("boss"), desk.agent("boss"));
        let call = CancelTask { tenant: Tenant::none(), id: task.id.into(), metadata: None };
        desk.run(async move { engine.cancel(&scope, &resident, &call).await }).unwrap();
        desk.crash();
        pass(&desk, 5);
        let agent = words.split_once(':').unwrap().0;
        let child = get(&desk, agent, boss.children.lock().unwrap()[0]);
        assert_eq!(child.status.state, TaskState::Canceled, "{words}");
        assert_eq!(desk.engine.running(), 0);
    }
}

#[test]
fn the_kill_switch_ends_the_whole_family_from_any_of_its_tasks() {
    let (mut desk, boss) = fixture_with_parent();
    let middle = self::parent_agent(Recovery::Resume);
    desk.add_agents([resident("middle", middle.clone())]);
    let task = desk.send_without_waiting("boss", "middle: tardy: wait");
    pass(&desk, 1);
    let leaf = middle.children.lock().unwrap()[0];
    let engine = desk.engine.clone();
    let mut canceled: Vec<TaskId> =
        desk.run(async move { engine.cancel_tree(leaf).await }).unwrap().iter().map(|relative| relative.id).collect();
    canceled.sort_unstable();
    assert_eq!(canceled, [task.id, boss.children.lock().unwrap()[0], leaf]);
    pass(&desk, 1);
    assert_eq!(desk.engine.running(), 0);
    let engine = desk.engine.clone();
    let again = desk.run(async move { engine.cancel_tree(leaf).await }).unwrap();
    assert!(again.is_empty(), "nothing is left to cancel: {again:?}");
}

#[test]
fn an_agent_that_is_waiting_for_the_answer_is_not_called_again() {
    let (mut desk, _) = fixture_with_parent();
    desk.add_agents([resident("middle", parent_agent(Recovery::Resume))]);
    for (words, whom) in [("boss: echo: x", "boss"), ("middle: boss: echo: x", "boss"), ("middle: middle: x", "middle")]
    {
        let task = desk.send("boss", words, None);
        assert_eq!(task.status.state, TaskState::Failed, "{words}");
        let refused = desk.metrics.runaways_refused.get_or_create(&[("limit", "loop")]).get();
        assert!(refused > 0, "{words}: {}", self::status_text(&task));
        if !words.starts_with("middle: ") {
            assert!(
                self::status_text(&task).contains(&format!("agent {whom} is waiting")),
                "{}",
                self::status_text(&task)
            );
        }
    }
}

#[test]
fn a_chain_of_agents_has_an_end() {
    let (mut desk, _) = fixture_within(Limits { hops_max: 2, ..Limits::default() });
    desk.add_agents(["a", "b"].map(|name| resident(name, parent_agent(Recovery::Resume))));
    assert_eq!(desk.send("boss", "a: echo: x", None).status.state, TaskState::Completed);
    let task = desk.send("boss", "a: b: echo: x", None);
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(desk.metrics.runaways_refused.get_or_create(&[("limit", "hops_max")]).get(), 1);
}

/// Opens as many children at once as the message says.
struct ManyChildrenAgent;

impl Agent for ManyChildrenAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let echo = AgentName::parse("echo")?;
        let many: usize = cx.message().joined_text().parse()?;
        let cx: &Context = cx;
        let keys: Vec<String> = (0..many).map(|n| n.to_string()).collect();
        let mut asking: Vec<_> =
            keys.iter().map(|key| Box::pin(cx.delegate(&echo, key, vec![Part::text("x")], None))).collect();
        let mut outcomes: Vec<Option<Result<(), Fault>>> = vec![None; many];
        std::future::poll_fn(|cx| {
            for (asking, outcome) in asking.iter_mut().zip(&mut outcomes) {
                if outcome.is_none()
                    && let std::task::Poll::Ready(done) = asking.as_mut().poll(cx)
                {
                    *outcome = Some(done.map(drop));
                }
            }
            if outcomes.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        let refused: Vec<Fault> = outcomes.into_iter().flatten().filter_map(Result::err).collect();
        Ok(Ending::complete_with(format!(
            "{} refused: {}",
            refused.len(),
            refused.first().map_or_else(String::new, ToString::to_string)
        )))
    }
}

#[test]
fn those_who_all_ask_at_once_are_counted_one_by_one() {
    let (mut desk, _) = fixture_within(Limits { calls_per_root_max: 10, ..Limits::default() });
    desk.add_agents([resident("crowd", ManyChildrenAgent)]);
    assert!(status_text(&desk.send("crowd", "10", None)).starts_with("0 refused"));
    assert_eq!(count(&desk, "echo"), 10);
    let said = status_text(&desk.send("crowd", "25", None));
    assert!(said.starts_with("15 refused") && said.contains("raise [limits] calls_per_root_max"), "{said}");
    assert_eq!(count(&desk, "echo"), 20);
}

#[test]
fn what_is_for_an_old_message_opens_nothing_any_more() {
    let (mut desk, _) = fixture_within(Limits { tree_time_max: Duration::from_secs(60), ..Limits::default() });
    desk.add_agents([resident("late", LateDelegationAgent)]);
    let task = desk.send("late", "59", None);
    assert_eq!(task.status.state, TaskState::Completed);
    let task = desk.send("late", "61", None);
    assert!(status_text(&task).contains("raise [limits] tree_seconds_max"), "{}", status_text(&task));
}

/// Waits this many seconds, then delegates.
struct LateDelegationAgent;

impl Agent for LateDelegationAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        cx.sleep(Duration::from_secs(cx.message().joined_text().parse()?)).await;
        let child = cx.delegate(&AgentName::parse("echo")?, "x", vec![Part::text("x")], None).await?;
        child.wait_until_rest().await?;
        Ok(Ending::complete())
    }
}

/// Spends the amount in its message, and delegates the rest.
struct SpendingAgent;

impl Agent for SpendingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let text = cx.message().joined_text();
        let (own, rest) = text.split_once(' ').unwrap_or((&text, ""));
        cx.spend(own.parse()?).await?;
        if !rest.is_empty() {
            let to = AgentName::parse(if cx.agent().as_str() == "spender" { "heir" } else { "spender" })?;
            let child = cx.delegate(&to, "heir", vec![Part::text(rest)], None).await?;
            let task = child.wait_until_rest().await?.thaw().unwrap();
            if task.status.state != TaskState::Completed {
                return Ok(Ending::Fail(task.status.message.map(|message| message.parts).unwrap_or_default()));
            }
        }
        Ok(Ending::complete())
    }
}

#[test]
fn what_a_family_spends_is_counted_for_its_root() {
    let (mut desk, _) = fixture_within(Limits { spend_per_root_max: 100, ..Limits::default() });
    desk.add_agents(["spender", "heir"].map(|name| resident(name, SpendingAgent)));
    assert_eq!(desk.send("spender", "60 40", None).status.state, TaskState::Completed);
    let task = desk.send("spender", "60 41", None);
    let said = status_text(&task);
    assert!(said.contains("101 millionths") && said.contains("raise [limits] spend_per_root_max"), "{said}");
    let log = desk.log.clone();
    let toll = desk.run(async move { log.subtask_spend(task.id).await }).unwrap();
    assert_eq!((toll.calls, toll.spent), (1, 101));
}

fn claim(json: &str) -> Object {
    Object::new(Json::parse(&format!("{{\"{LINEAGE}\": {json}}}")).unwrap()).unwrap()
}

fn send_claiming(desk: &mut EngineFixture, agent: &str, words: &str, json: &str) -> Result<Task, Fault> {
    let mut request = desk.request(words, None);
    request.message.metadata = Some(claim(json));
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent(agent), desk.scope(agent));
    match desk.run(async move { engine.send(&resident, scope, request, &ServiceParameters::default()).await })? {
        SendReply::Task(image, _) => Ok(image.thaw().unwrap()),
        SendReply::Message(message) => panic!("{message:?}"),
    }
}

#[test]
fn hops_elsewhere_count_and_a_call_that_comes_back_is_refused() {
    let (mut desk, boss) = fixture_with_parent();
    // The lineage that an agent here sends to another server …
    let told = Arc::new(Mutex::new(String::new()));
    desk.add_agents([resident("herald", LineageAgent(told.clone()))]);
    let claimed = r#"{"root": "theirs", "hops": 3, "path": ["far#1"]}"#;
    let open = send_claiming(&mut desk, "herald", "ask", claimed).unwrap();
    let told = told.lock().unwrap().clone();
    assert!(told.starts_with(r#"{"hops":4,"path":["far#1","herald#"#), "{told}");
    assert!(told.ends_with(r#""],"root":"theirs"}"#), "{told}");
    // … leads to a refusal at the same agent here, but not at another one, nor at one with the same name elsewhere.
    let back = send_claiming(&mut desk, "herald", "x", &told);
    assert!(
        matches!(&back, Err(Fault::UnsupportedOperation(why)) if why.contains("agent herald is waiting")),
        "{back:?}"
    );
    // Once its task is settled, this is no loop.
    assert_eq!(desk.send("herald", "done", Some(&open)).status.state, TaskState::Completed);
    assert!(send_claiming(&mut desk, "herald", "x", &told).is_ok());
    assert!(send_claiming(&mut desk, "boss", "echo: x", &told).is_ok());
    let child = boss.children.lock().unwrap()[0];
    let log = desk.log.clone();
    let kin = desk.run(async move { log.parent_link(child).await }).unwrap().unwrap();
    assert_eq!((kin.hops, kin.origin.as_deref(), kin.path.len()), (5, Some("theirs"), 3));
    let elsewhere = r#"{"root": "x", "hops": 1, "path": ["boss#01890a5d-ac96-774b-bcce-b302099a8057"]}"#;
    assert!(send_claiming(&mut desk, "boss", "echo: x", elsewhere).is_ok());
    let far = send_claiming(&mut desk, "boss", "echo: x", r#"{"hops": 9}"#);
    assert!(matches!(&far, Err(Fault::UnsupportedOperation(why)) if why.contains("hops_max")), "{far:?}");
    for nonsense in ["7", "[]", r#"{"hops": -1, "path": 7, "root": []}"#, r#"{"path": [1, null, ""]}"#] {
        assert!(send_claiming(&mut desk, "boss", "echo: x", nonsense).is_ok(), "{nonsense}");
    }
}

/// Records its outbound lineage, and asks if the message says "ask".
struct LineageAgent(Arc<Mutex<String>>);

impl Agent for LineageAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        *self.0.lock().unwrap() = cx.outbound_lineage().unwrap().get(LINEAGE).unwrap().to_string();
        Ok(if cx.message().joined_text() == "ask" { Ending::AskInput(Vec::new()) } else { Ending::complete() })
    }
}

/// Returns its tool mode, or that of another agent.
struct ToolModeAgent;

impl Agent for ToolModeAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        if cx.message().joined_text() == "you" {
            return Ok(Ending::complete_with(cx.tool_mode().name()));
        }
        let child = cx.delegate(&AgentName::parse("free")?, "x", vec![Part::text("you")], None).await?;
        Ok(Ending::Complete(child.wait_until_rest().await?.thaw().unwrap().status.message.unwrap().parts))
    }
}

#[test]
fn a_child_has_no_better_tools_than_its_parent() {
    let (mut desk, _) = fixture_with_parent();
    let bound = AgentName::parse("bound").unwrap();
    let bound = HostedAgent { name: bound, agent: Arc::new(ToolModeAgent), push: false, tool_mode: ToolMode::ReadOnly };
    desk.add_agents([resident("free", ToolModeAgent), Arc::new(bound)]);
    assert_eq!(status_text(&desk.send("free", "you", None)), "full");
    assert_eq!(status_text(&desk.send("bound", "me", None)), "readonly");
}

#[test]
fn children_belong_to_the_caller_and_nobody_else_sees_them() {
    let (mut desk, boss) = fixture_with_parent();
    drop(desk.send("boss", "echo: hello", None));
    let child = boss.children.lock().unwrap()[0];
    let caller = Caller::named("key:other");
    let scope = Scope { tenant: Tenant::none(), caller, agent: AgentName::parse("echo").unwrap() };
    let engine = desk.engine.clone();
    let call = GetTask { tenant: Tenant::none(), id: child.into(), history_length: None };
    let seen = desk.run(async move { engine.get(&scope, &call).await });
    assert!(matches!(seen, Err(Fault::TaskNotFound(_))), "{seen:?}");
}

#[test]
fn an_orderly_stop_puts_parent_and_child_aside_together() {
    let (mut desk, _) = fixture_with_parent();
    let task = desk.send_without_waiting("boss", "streams: 100");
    pass(&desk, 1);
    desk.stop();
    assert_eq!(get(&desk, "boss", task.id).status.state, TaskState::Submitted);
    desk.crash();
    pass(&desk, 60);
    assert_eq!(get(&desk, "boss", task.id).status.state, TaskState::Completed);
}
