//! Tests of aliases: as good as ids, and valid for one owner.

use crate::engine_fixture::EngineFixture;
use sabir_engine::watch::WatchItem;
use sabir_proto::{
    Caller, CancelTask, Fault, GetTask, ListPush, ListTasks, SendMessage, SendReply, Seq, ServiceParameters, Subscribe,
    Task, TaskRef, TaskState, Tenant,
};
use sabir_store::Scope;
use sabir_store::TaskStore;
use sabir_testkit::faulty_log::FaultyLog;
use sabir_testkit::scripted_task::push_config;
use std::sync::Arc;
use std::time::Duration;

/// A UUID like ours, which a client may choose.
const OUR_KIND: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn under(desk: &mut EngineFixture, name: &str, text: &str) -> Box<SendMessage> {
    let mut request = desk.request(text, None);
    request.alias = Some(name.into());
    request
}

fn send(desk: &EngineFixture, agent: &str, request: Box<SendMessage>, terms: ServiceParameters) -> Result<Task, Fault> {
    send_as(desk, desk.scope(agent), agent, request, terms)
}

fn send_as(
    desk: &EngineFixture,
    scope: Arc<Scope>,
    agent: &str,
    request: Box<SendMessage>,
    terms: ServiceParameters,
) -> Result<Task, Fault> {
    let (engine, resident) = (desk.engine.clone(), desk.agent(agent));
    match desk.run(async move { engine.send(&resident, scope, request, &terms).await })? {
        SendReply::Task(image, _) => Ok(image.thaw().unwrap()),
        SendReply::Message(_) => panic!("none of the scripted agents answers without a task"),
    }
}

/// Sends under an alias and returns the task at rest.
fn say(desk: &mut EngineFixture, agent: &str, name: &str, text: &str) -> Task {
    let request = under(desk, name, text);
    send(desk, agent, request, ServiceParameters::default()).unwrap()
}

fn get(desk: &EngineFixture, agent: &str, name: TaskRef) -> Result<Task, Fault> {
    let (engine, scope) = (desk.engine.clone(), desk.scope(agent));
    let call = GetTask { tenant: Tenant::none(), id: name, history_length: None };
    desk.run(async move { engine.get(&scope, &call).await }).map(|(image, _)| image.thaw().unwrap())
}

fn named(name: &str) -> TaskRef {
    TaskRef::parse(name).unwrap()
}

fn names(desk: &EngineFixture, agent: &str, task: &Task) -> Vec<String> {
    let (engine, scope, id) = (desk.engine.clone(), desk.scope(agent), task.id);
    desk.run(async move { engine.aliases_of(&scope, id).await }).unwrap()
}

fn count(desk: &EngineFixture, agent: &str) -> u64 {
    let (engine, scope) = (desk.engine.clone(), desk.scope(agent));
    desk.run(async move { engine.list(scope, &ListTasks::default()).await }).unwrap().total_size
}

#[test]
fn a_name_continues_its_task_and_then_begins_another() {
    let mut desk = EngineFixture::new();
    for name in ["job", OUR_KIND] {
        let first = say(&mut desk, "asks", name, "ask 1");
        assert_eq!(first.status.state, TaskState::InputRequired);
        assert_eq!(names(&desk, "asks", &first), [name]);
        let answered = say(&mut desk, "asks", name, "an answer");
        assert_eq!((answered.id, answered.status.state), (first.id, TaskState::Completed));
        let second = say(&mut desk, "asks", name, "ask 1");
        assert_ne!(second.id, first.id);
        assert_eq!(second.context_id, first.context_id, "the conversation goes on");
        assert_eq!(get(&desk, "asks", named(name)).unwrap(), second);
        assert_eq!(get(&desk, "asks", first.id.into()).unwrap(), answered);
        assert_eq!((names(&desk, "asks", &first), names(&desk, "asks", &second)), (vec![], vec![name.into()]));
        desk.crash();
        assert_eq!(get(&desk, "asks", named(name)).unwrap(), second, "names are kept");
        assert_eq!(say(&mut desk, "asks", name, "an answer").id, second.id);
    }
}

#[test]
fn a_caller_that_names_a_conversation_is_taken_at_its_word() {
    let mut desk = EngineFixture::new();
    let first = say(&mut desk, "echo", "job", "hello");
    let mut request = under(&mut desk, "job", "hello again");
    request.message.context_id = Some(sabir_proto::ContextId::parse("theirs").unwrap());
    let second = send(&desk, "echo", request, ServiceParameters::default()).unwrap();
    assert_eq!((second.context_id.to_string(), second.id == first.id), ("theirs".into(), false));
    let asks = say(&mut desk, "asks", "job", "ask 1");
    let mut request = under(&mut desk, "job", "an answer");
    request.message.context_id = Some(sabir_proto::ContextId::parse("theirs").unwrap());
    let refused = send(&desk, "asks", request, ServiceParameters::default());
    assert!(matches!(refused, Err(Fault::InvalidParams(_))), "{} is elsewhere: {refused:?}", asks.id);
}

#[test]
fn an_id_of_ours_serves_as_a_name() {
    let mut desk = EngineFixture::new();
    let first = desk.send("asks", "ask 1", None);
    let name = first.id.to_string();
    assert_eq!(say(&mut desk, "asks", &name, "an answer").id, first.id);
    assert_eq!(names(&desk, "asks", &first), Vec::<String>::new(), "an id needs no name");
    let second = say(&mut desk, "asks", &name, "ask 1");
    assert_ne!(second.id, first.id);
    assert_eq!(second.context_id, first.context_id);
    assert_eq!(names(&desk, "asks", &second), [&*name]);
    assert_eq!(say(&mut desk, "asks", &name, "an answer").id, second.id, "the name has moved on");
    assert_eq!(get(&desk, "asks", first.id.into()).unwrap().id, first.id, "the id has not");
}

#[test]
fn a_name_is_nobody_elses() {
    let mut desk = EngineFixture::new();
    let mine = say(&mut desk, "asks", "job", "ask 1");
    let other_agent = say(&mut desk, "streams", "job", "do 1");
    assert_ne!((other_agent.id, &other_agent.context_id), (mine.id, &mine.context_id));
    let stranger = Arc::new(Scope { caller: Caller::named("stranger"), ..(*desk.scope("asks")).clone() });
    for name in ["job".to_owned(), mine.id.to_string()] {
        let request = under(&mut desk, &name, "ask 1");
        let theirs = send_as(&desk, stranger.clone(), "asks", request, ServiceParameters::default()).unwrap();
        assert_ne!((theirs.id, &theirs.context_id), (mine.id, &mine.context_id));
    }
    let (engine, scope) = (desk.engine.clone(), stranger);
    let found = desk.run(async move { engine.aliases_of(&scope, mine.id).await });
    assert!(matches!(found, Err(Fault::TaskNotFound(_))));
    assert!(matches!(get(&desk, "steady", named("job")), Err(Fault::TaskNotFound(TaskRef::Alias(_)))));
    assert!(matches!(get(&desk, "steady", named(OUR_KIND)), Err(Fault::TaskNotFound(TaskRef::Id(_)))));
}

#[test]
fn a_name_is_as_good_as_an_id() {
    let mut desk = EngineFixture::new();
    for name in ["job", OUR_KIND] {
        let task = say(&mut desk, "asks", name, "ask 2");
        let (engine, scope) = (desk.engine.clone(), desk.scope("asks"));
        let call = Subscribe { tenant: Tenant::none(), id: named(name) };
        let first = desk.run(async move {
            let mut watch = engine.subscribe(&scope, &call, &ServiceParameters::default()).await?;
            watch.next().await.transpose()
        });
        assert!(matches!(first, Ok(Some(WatchItem::Event(_)))), "{first:?}");
        let (engine, scope, push) = (desk.engine.clone(), desk.scope("asks"), push_config("hook"));
        let (to, call) = (
            named(name),
            ListPush { tenant: Tenant::none(), task_id: named(name), page_size: None, page_token: String::new() },
        );
        let pushes = desk.run(async move {
            engine.create_push(&scope, &to, push, "1.0").await?;
            engine.list_push(&scope, &call).await
        });
        assert_eq!(pushes.map(|(id, page)| (id, page.configs.len())).unwrap(), (task.id, 1));
        // A message may have the alias in place of the task id.
        let mut request = desk.request("an answer", None);
        request.message.task_id = Some(named(name));
        let answered = send(&desk, "asks", request.clone(), ServiceParameters::default()).unwrap();
        assert_eq!((answered.id, answered.history.len()), (task.id, 3));
        assert_eq!(
            send(&desk, "asks", request, ServiceParameters::default()).unwrap(),
            answered,
            "a repeat is no second turn"
        );
        let (engine, resident, scope) = (desk.engine.clone(), desk.agent("asks"), desk.scope("asks"));
        let call = CancelTask { tenant: Tenant::none(), id: named(name), metadata: None };
        let canceled = desk.run(async move { engine.cancel(&scope, &resident, &call).await }).unwrap();
        assert_eq!((canceled.state, canceled.thaw().unwrap().id), (TaskState::Canceled, task.id));
        let mut late = desk.request("one more thing", None);
        late.message.task_id = Some(named(name));
        let refused = send(&desk, "asks", late, ServiceParameters::default());
        assert!(matches!(refused, Err(Fault::TaskSettled { .. })), "only a send under a name opens: {refused:?}");
    }
}

#[test]
fn a_repeated_send_under_a_name_is_the_same_send() {
    let explicit = ServiceParameters { idempotency_key: Some("k".into()), ..ServiceParameters::default() };
    for terms in [ServiceParameters::default(), explicit] {
        let mut desk = EngineFixture::new();
        let first = under(&mut desk, "job", "ask 1");
        let opened = send(&desk, "asks", first.clone(), terms.clone()).unwrap();
        let answer = under(&mut desk, "job", "an answer");
        let keyed = ServiceParameters {
            idempotency_key: terms.idempotency_key.clone().map(|k| k + "2"),
            ..ServiceParameters::default()
        };
        for round in 0..3 {
            let again = send(&desk, "asks", first.clone(), terms.clone()).unwrap();
            assert_eq!((again.id, again.history.len()), (opened.id, if round == 0 { 1 } else { 3 }));
            let answered = send(&desk, "asks", answer.clone(), keyed.clone()).unwrap();
            assert_eq!((answered.id, answered.status.state), (opened.id, TaskState::Completed));
            desk.crash();
        }
        assert_eq!(count(&desk, "asks"), 1);
        let mut other = under(&mut desk, "job", "ask 1");
        other.message.message_id = first.message.message_id.clone();
        other.alias = Some("errand".into());
        let other = send(&desk, "asks", other, terms.clone()).unwrap();
        assert_ne!(other.id, opened.id, "under another name it is another send");
    }
}

/// Both look up the alias before either has opened a task.
#[test]
fn of_two_sends_under_a_new_name_one_opens_it() {
    for (agent, keyed) in [("tardy", true), ("tardy", false), ("echo", true)] {
        let log = Arc::new(FaultyLog::new(TaskStore::in_memory().log));
        let mut desk = EngineFixture::on(log.clone());
        log.hold_reads(true);
        let (sender, answers) = std::sync::mpsc::channel();
        for n in 0..5 {
            let mut request = under(&mut desk, "job", "do 1");
            if !keyed {
                request.message.message_id = sabir_proto::MessageId::parse(&format!("by-hand-{n}")).unwrap();
            }
            let (engine, resident, scope) = (desk.engine.clone(), desk.agent(agent), desk.scope(agent));
            let sender = sender.clone();
            let send = async move {
                let answer = engine.send(&resident, scope, request, &ServiceParameters::default()).await;
                sender.send(answer).unwrap();
            };
            desk.executor.spawn(9, Box::pin(send));
        }
        desk.run(desk.executor.sleep(Duration::from_millis(1)));
        log.hold_reads(false);
        desk.run(desk.executor.sleep(Duration::from_secs(30)));
        let (mut opened, mut refused) = (Vec::new(), 0);
        for answer in answers.try_iter() {
            match answer {
                Ok(SendReply::Task(task, _)) => opened.push(task.thaw().unwrap()),
                Err(Fault::UnsupportedOperation(_)) => refused += 1,
                other => panic!("{agent}: {other:?}"),
            }
        }
        let contexts: std::collections::HashSet<_> = opened.iter().map(|task| task.context_id.clone()).collect();
        assert_eq!((opened.len() + refused, contexts.len()), (5, 1), "{agent}: one conversation");
        // A task that settles at once frees the alias for the next; one at work does not.
        let expected = if agent == "echo" { 5 } else { 1 };
        assert_eq!((opened.len(), count(&desk, agent)), (expected, u64::try_from(expected).unwrap()), "{agent}");
    }
}

#[test]
fn a_stream_under_a_name_begins_where_its_turn_does() {
    let mut desk = EngineFixture::new();
    let mut stream = |text: &str, repeat: Option<Box<SendMessage>>| {
        let request = repeat.unwrap_or_else(|| under(&mut desk, "job", text));
        let (engine, resident, scope) = (desk.engine.clone(), desk.agent("asks"), desk.scope("asks"));
        let sent = request.clone();
        let events = desk.run(async move {
            let mut watch = engine.stream(&resident, scope, request, &ServiceParameters::default()).await.unwrap();
            let mut numbers = Vec::new();
            while let Some(Ok(WatchItem::Event(event))) = watch.next().await {
                numbers.push(event.seq);
            }
            numbers
        });
        (events, sent)
    };
    let (events, opening) = stream("ask 1", None);
    assert_eq!(events, [Seq(1), Seq(2)]);
    assert_eq!(stream("", Some(opening)).0, [Seq(2)], "a repeat shows the task as it stands");
    assert_eq!(stream("an answer", None).0, [Seq(3), Seq(4)], "a snapshot, and what follows it");
    assert_eq!(stream("ask 1", None).0, [Seq(1), Seq(2)], "another task");
}

#[test]
fn a_name_has_the_form_of_an_id() {
    let mut desk = EngineFixture::new();
    for name in ["", "a\nb", &"x".repeat(257)] {
        let request = under(&mut desk, name, "hello");
        let refused = send(&desk, "echo", request, ServiceParameters::default());
        assert!(matches!(refused, Err(Fault::InvalidParams(_))), "{name:?}: {refused:?}");
    }
    assert_eq!(count(&desk, "echo"), 0);
}
