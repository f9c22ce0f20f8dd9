//! Tests of deliveries: every event reaches every receiver in order, and a failing receiver does not block others.

use crate::engine_fixture::EngineFixture;
use sabir_engine::{BoxFuture, DeliveryOutcome, DeliveryRequest, DeliveryResult, PushTransport};
use sabir_proto::{
    Authentication, Caller, DeletePush, Fault, GetPush, ListPush, PushConfig, ServiceParameters, Task, TaskState,
    Tenant,
};
use sabir_store::TaskStore;
use sabir_store::{Delivery, DeliveryQuery, Scope, StoreError};
use sabir_testkit::faulty_log::FaultyLog;
use sabir_testkit::sim::executor::Executor;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A delivery attempt and its time.
#[derive(Debug, Clone)]
struct TriedDelivery {
    at_ms: u64,
    parcel: DeliveryRequest,
}

/// Decides the outcome and the duration of a delivery.
type DeliveryBehaviour = Box<dyn Fn(&DeliveryRequest) -> (DeliveryOutcome, Duration) + Send + Sync>;

/// A transport with scripted outcomes.
#[derive(Clone)]
struct ScriptedTransport {
    executor: Executor,
    behaviour: Arc<DeliveryBehaviour>,
    tried: Arc<Mutex<Vec<TriedDelivery>>>,
}

impl ScriptedTransport {
    fn tried(&self) -> Vec<TriedDelivery> {
        self.tried.lock().unwrap().clone()
    }

    /// The attempts as configuration and event number, in order.
    fn events(&self) -> Vec<(String, u64)> {
        self.tried().iter().map(|t| (t.parcel.config.id.clone().unwrap(), t.parcel.event.seq.0)).collect()
    }
}

impl PushTransport for ScriptedTransport {
    fn deliver(&self, parcel: DeliveryRequest) -> BoxFuture<'static, DeliveryResult> {
        let (outcome, took) = (self.behaviour)(&parcel);
        self.tried.lock().unwrap().push(TriedDelivery { at_ms: self.executor.now(), parcel });
        let sleep = self.executor.sleep(took);
        Box::pin(async move {
            sleep.await;
            DeliveryResult { outcome, took }
        })
    }
}

fn start(
    desk: &EngineFixture,
    habit: impl Fn(&DeliveryRequest) -> (DeliveryOutcome, Duration) + Send + Sync + 'static,
) -> ScriptedTransport {
    let post = ScriptedTransport {
        executor: desk.executor.clone(),
        behaviour: Arc::new(Box::new(habit)),
        tried: Arc::default(),
    };
    desk.engine.start_deliveries(Arc::new(post.clone()));
    post
}

fn accepts(_: &DeliveryRequest) -> (DeliveryOutcome, Duration) {
    (DeliveryOutcome::Accepted { status: 200 }, Duration::from_millis(10))
}

fn unreachable() -> DeliveryOutcome {
    DeliveryOutcome::Unreachable { reason: "nobody is there".into() }
}

fn config(id: &str, host: &str) -> PushConfig {
    let authentication = Some(Authentication { scheme: "Bearer".into(), credentials: Some("secret".into()) });
    PushConfig { id: Some(id.into()), url: format!("https://{host}/hook"), token: Some("tok".into()), authentication }
}

/// Sends a message with a configuration and returns the task at rest.
fn send(desk: &mut EngineFixture, agent: &str, text: &str, config: PushConfig) -> Task {
    let mut request = desk.request(text, None);
    request.configuration.task_push_notification_config = Some(config);
    desk.deliver(agent, request)
}

fn register(desk: &EngineFixture, agent: &str, task: &Task, config: PushConfig) -> Result<PushConfig, Fault> {
    let (engine, scope, id) = (desk.engine.clone(), desk.scope(agent), task.id.into());
    desk.run(async move { engine.create_push(&scope, &id, config, "0.3").await }).map(|(_, config)| config)
}

fn pass(desk: &EngineFixture, time: Duration) {
    desk.run(desk.executor.sleep(time));
}

fn deliveries(desk: &EngineFixture, dead: bool) -> Vec<Delivery> {
    let engine = desk.engine.clone();
    let all = DeliveryQuery { dead, task: None, after: 0, limit: 1000 };
    desk.run(async move { engine.deliveries(all).await }).unwrap()
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn secrets_go_in_and_never_come_out() {
    let mut desk = EngineFixture::new();
    let task = send(&mut desk, "asks", "ask 1", config("inline", "a.example"));
    let made = register(&desk, "asks", &task, config("made", "a.example")).unwrap();
    let (engine, scope, id) = (desk.engine.clone(), desk.scope("asks"), task.id);
    let (got, listed) = desk.run(async move {
        let call = GetPush { tenant: Tenant::none(), task_id: id.into(), id: "inline".into() };
        let list = ListPush { tenant: Tenant::none(), task_id: id.into(), page_size: None, page_token: String::new() };
        (engine.get_push(&scope, &call).await.unwrap().1, engine.list_push(&scope, &list).await.unwrap().1)
    });
    assert_eq!(listed.configs.len(), 2);
    for shown in listed.configs.iter().chain([&got, &made]) {
        assert_eq!((shown.token.as_deref(), &*shown.url), (None, "https://a.example/hook"));
        let authentication = shown.authentication.as_ref().expect("how, if not with what");
        assert_eq!((&*authentication.scheme, authentication.credentials.as_deref()), ("Bearer", None));
    }
    let post = start(&desk, accepts);
    pass(&desk, MINUTE);
    let sent = &post.tried()[0].parcel.config;
    assert_eq!(sent.token.as_deref(), Some("tok"), "the receiver gets them");
    assert_eq!(sent.authentication.as_ref().and_then(|a| a.credentials.as_deref()), Some("secret"));
}

#[test]
fn a_receiver_is_told_every_event_in_order() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, accepts);
    let task = send(&mut desk, "fragile", "do 3", config("hook", "a.example"));
    pass(&desk, MINUTE);
    let events = post.events();
    assert!(events.len() > 3, "{events:?}");
    assert_eq!(events, (1..).map(|n| ("hook".to_owned(), n)).take(events.len()).collect::<Vec<_>>());
    let last = &post.tried().last().unwrap().parcel.clone();
    assert_eq!(last.event.state, Some(task.status.state));
    assert_eq!((last.task, last.attempt, last.scope.agent.as_str()), (task.id, 1, "fragile"));
    assert_eq!((deliveries(&desk, false), deliveries(&desk, true)), (Vec::new(), Vec::new()));
    desk.crash();
    let post = start(&desk, accepts);
    pass(&desk, MINUTE);
    assert_eq!(post.events(), [], "what was marked is not repeated");
}

#[test]
fn who_registers_after_the_end_is_told_the_end() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, accepts);
    let task = desk.send("echo", "hello", None);
    register(&desk, "echo", &task, config("late", "a.example")).unwrap();
    pass(&desk, MINUTE);
    assert_eq!(post.events(), [("late".to_owned(), 1)]);
    assert_eq!(&*post.tried()[0].parcel.dialect, "0.3");
}

#[test]
fn patience_grows_and_ends_and_can_be_renewed() {
    let mut desk = EngineFixture::new();
    // The host answers, so that its breaker stays closed.
    let post =
        start(&desk, |_| (DeliveryOutcome::Refused { status: 404, retry_after: None }, Duration::from_millis(10)));
    let task = send(&mut desk, "echo", "hello", config("hook", "a.example"));
    pass(&desk, 23 * HOUR);
    assert_eq!(deliveries(&desk, true), [], "half a day is not for ever");
    pass(&desk, 2 * HOUR);
    let tried = post.tried();
    let attempts = u32::try_from(tried.len()).unwrap();
    assert!((100..200).contains(&attempts), "{attempts}");
    assert_eq!(tried.iter().map(|t| t.parcel.attempt).collect::<Vec<_>>(), (1..=attempts).collect::<Vec<_>>());
    assert!(tried.iter().all(|t| t.parcel.id == tried[0].parcel.id && t.parcel.at == tried[0].parcel.at));
    let gaps: Vec<u64> = tried.windows(2).map(|w| w[1].at_ms - w[0].at_ms).collect();
    for (gap, whole) in gaps.iter().zip([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900]) {
        assert!((whole * 500..=whole * 1000 + 50).contains(gap), "{gaps:?}");
    }
    let dead = deliveries(&desk, true);
    assert_eq!((dead.len(), dead[0].task, dead[0].attempts, dead[0].recent_attempts.len()), (1, task.id, attempts, 16));
    assert_eq!(dead[0].dead_letter.as_ref().map(|(_, why)| &**why), Some("not delivered within 24 h"));
    assert!(dead[0].recent_attempts.iter().all(|tried| (tried.status, tried.took_ms) == (Some(404), 10)));
    assert_eq!(desk.metrics.push_buried.get(), 1);
    desk.crash();
    let post = start(&desk, accepts);
    pass(&desk, HOUR);
    assert_eq!(post.events(), [], "the dead stay dead");
    let (engine, number) = (desk.engine.clone(), dead[0].number);
    assert!(desk.run(async move { engine.retry_delivery(number).await }).unwrap());
    pass(&desk, MINUTE);
    assert_eq!(post.tried()[0].parcel.id, tried[0].parcel.id);
    assert_eq!(deliveries(&desk, true), []);
}

#[test]
fn a_wish_to_be_left_alone_is_granted() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, |parcel| match parcel.attempt {
        1 => (DeliveryOutcome::Refused { status: 429, retry_after: Some(Duration::from_secs(100)) }, Duration::ZERO),
        _ => accepts(parcel),
    });
    send(&mut desk, "echo", "hello", config("hook", "a.example"));
    pass(&desk, HOUR);
    let tried = post.tried();
    assert_eq!(tried.len(), 2);
    assert!((100_000..101_000).contains(&(tried[1].at_ms - tried[0].at_ms)));
}

#[test]
fn the_gone_and_the_forbidden_are_not_tried_again() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, |parcel| match parcel.config.id.as_deref() {
        Some("gone") => (DeliveryOutcome::Gone { status: 410 }, Duration::ZERO),
        _ => (DeliveryOutcome::Forbidden { reason: "a private address".into() }, Duration::ZERO),
    });
    let task = send(&mut desk, "asks", "ask 2", config("gone", "a.example"));
    send(&mut desk, "echo", "hello", config("inside", "localhost"));
    desk.send("asks", "an answer", Some(&task));
    pass(&desk, HOUR);
    let first_each = [("gone".to_owned(), 1), ("inside".to_owned(), 1)];
    let mut events = post.events();
    events.sort();
    assert_eq!(events, first_each, "once each, and what comes after the end is not even owed");
    let mut why: Vec<_> = deliveries(&desk, true).into_iter().map(|l| (l.config, l.dead_letter.unwrap().1)).collect();
    why.sort();
    why.dedup();
    let reasons = [("gone", "the receiver wants no more (status 410)"), ("inside", "a private address")];
    assert_eq!(why, reasons.map(|(config, reason)| (config.to_owned(), reason.to_owned())));
    assert_eq!(deliveries(&desk, false), []);
}

#[test]
fn a_dead_host_costs_little_and_holds_up_nobody() {
    let mut desk = EngineFixture::new();
    for n in 0..150 {
        send(&mut desk, "echo", "hello", config(&format!("dead-{n}"), "dead.example"));
    }
    for n in 0..150 {
        send(&mut desk, "echo", "hello", config(&format!("good-{n}"), "good.example"));
    }
    let began = desk.executor.now();
    let post = start(&desk, |parcel| {
        if parcel.config.url.contains("dead") { (unreachable(), Duration::from_secs(15)) } else { accepts(parcel) }
    });
    pass(&desk, Duration::from_secs(1));
    let good =
        |post: &ScriptedTransport| post.tried().into_iter().filter(|t| t.parcel.config.url.contains("good")).count();
    assert_eq!(good(&post), 150, "within a second, though the others hang for fifteen");
    pass(&desk, 2 * HOUR);
    let dead = post.tried().len() - good(&post);
    // One probe in at most five minutes, after the first few.
    assert!((10..80).contains(&dead), "{dead} attempts in {} ms", desk.executor.now() - began);
    assert_eq!(desk.metrics.push_hosts_paused.get(), 1);
    assert_eq!(deliveries(&desk, true), [], "patience is not spent where nobody was tried");
    pass(&desk, 26 * HOUR);
    assert_eq!(deliveries(&desk, true).len(), 150 - deliveries(&desk, false).len());
    assert_ne!(deliveries(&desk, true), [], "and yet it ends");
}

#[test]
fn who_is_slow_is_not_dead_and_holds_up_nobody() {
    let mut desk = EngineFixture::new();
    for n in 0..5000 {
        send(&mut desk, "echo", "hello", config(&format!("slow-{n}"), "slow.example"));
    }
    let began = desk.executor.now();
    let post = start(&desk, |parcel| {
        let time = if parcel.config.url.contains("slow") { 13_000 } else { 10 };
        (DeliveryOutcome::Accepted { status: 200 }, Duration::from_millis(time))
    });
    pass(&desk, MINUTE);
    send(&mut desk, "echo", "hello", config("quick", "quick.example"));
    pass(&desk, Duration::from_secs(1));
    assert!(post.events().contains(&("quick".to_owned(), 1)), "though thousands were due before it");
    let at_once = post.tried().iter().filter(|t| t.at_ms < began + 10_000).count();
    assert_eq!(at_once, 12, "of the host's sixteen, one owner leaves some");
}

#[test]
fn an_owner_whose_hosts_all_hang_leaves_room_for_others() {
    let mut desk = EngineFixture::new();
    for n in 0..2000 {
        send(&mut desk, "echo", "hello", config(&format!("slow-{n}"), &format!("slow-{n}.example")));
    }
    let post = start(&desk, |parcel| {
        let time = if parcel.config.url.contains("slow") { 13_000 } else { 10 };
        (DeliveryOutcome::Accepted { status: 200 }, Duration::from_millis(time))
    });
    pass(&desk, Duration::from_secs(1));
    assert_eq!(post.tried().len(), 48);
    let mut request = desk.request("hello", None);
    request.configuration.task_push_notification_config = Some(config("quick", "quick.example"));
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent("echo"), desk.scope("echo"));
    let scope = Arc::new(Scope { caller: Caller::named("somebody else"), ..(*scope).clone() });
    desk.run(async move { engine.send(&resident, scope, request, &ServiceParameters::default()).await.map(drop) })
        .unwrap();
    pass(&desk, Duration::from_secs(1));
    assert!(post.events().contains(&("quick".to_owned(), 1)));
}

#[test]
fn a_registration_that_cannot_be_read_stops_no_other() {
    let log = Arc::new(FaultyLog::new(TaskStore::in_memory().log));
    let mut desk = EngineFixture::on(log.clone());
    send(&mut desk, "echo", "hello", config("damaged", "a.example"));
    send(&mut desk, "echo", "hello", config("whole", "a.example"));
    log.damage_config("damaged");
    let post = start(&desk, accepts);
    pass(&desk, MINUTE);
    assert_eq!(post.events(), [("whole".to_owned(), 1)]);
    let dead = deliveries(&desk, true);
    assert_eq!((dead.len(), &*dead[0].config), (1, "damaged"));
    assert!(dead[0].dead_letter.as_ref().is_some_and(|(_, why)| why.contains("damaged")), "{dead:?}");
}

#[test]
fn a_letter_that_is_tried_again_goes_before_what_is_younger() {
    let mut desk = EngineFixture::new();
    let refused = AtomicBool::new(false);
    let post = start(&desk, move |parcel| {
        if parcel.event.seq.0 == 1 && !refused.swap(true, Ordering::Relaxed) {
            return (DeliveryOutcome::Forbidden { reason: "not now".into() }, Duration::ZERO);
        }
        (DeliveryOutcome::Accepted { status: 200 }, Duration::from_secs(10))
    });
    let task = desk.send("fragile", "do 5", None);
    register(&desk, "fragile", &task, config("hook", "a.example")).unwrap();
    pass(&desk, Duration::from_secs(5));
    let (engine, number) = (desk.engine.clone(), deliveries(&desk, true)[0].number);
    assert!(desk.run(async move { engine.retry_delivery(number).await }).unwrap());
    pass(&desk, 10 * MINUTE);
    let order: Vec<u64> = post.events().into_iter().map(|(_, seq)| seq).collect();
    assert_eq!(order[..4], [1, 2, 1, 3], "as soon as what is under way has arrived");
    assert_eq!((deliveries(&desk, false), deliveries(&desk, true)), (Vec::new(), Vec::new()));
}

#[test]
fn a_courier_that_breaks_off_does_not_try_again_at_once() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, |_| panic!("a bug of the courier"));
    send(&mut desk, "echo", "hello", config("hook", "a.example"));
    std::panic::catch_unwind(AssertUnwindSafe(|| pass(&desk, MINUTE))).expect_err("it goes through the executor");
    let waiting = deliveries(&desk, false);
    assert_eq!((waiting.len(), waiting[0].attempts), (1, 1), "it counts as an attempt");
    assert_eq!(waiting[0].recent_attempts[0].problem, "the delivery broke off");
    assert!(waiting[0].due > Some(waiting[0].at));
    assert_eq!((post.tried().len(), desk.engine.deliveries_in_flight()), (0, 0));
}

#[test]
fn what_we_cannot_read_is_not_held_against_the_receiver() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, |parcel| match parcel.attempt {
        1..9 => (DeliveryOutcome::NotAttempted { reason: "the task cannot be read".into() }, Duration::ZERO),
        _ => accepts(parcel),
    });
    send(&mut desk, "echo", "hello", config("hook", "a.example"));
    send(&mut desk, "echo", "hello", config("other", "a.example"));
    pass(&desk, MINUTE);
    assert_eq!(desk.metrics.push_hosts_paused.get(), 0);
    pass(&desk, HOUR);
    assert_eq!(post.tried().iter().filter(|t| t.parcel.attempt == 9).count(), 2);
    assert_eq!((deliveries(&desk, false), deliveries(&desk, true)), (Vec::new(), Vec::new()));
}

#[test]
fn secrets_have_a_length() {
    let mut desk = EngineFixture::new();
    let task = desk.send("asks", "ask 1", None);
    let long = PushConfig { token: Some("x".repeat((8 << 10) + 1)), ..config("hook", "a.example") };
    assert!(register(&desk, "asks", &task, long).is_err());
    let most = PushConfig { token: Some("x".repeat(8 << 10)), ..config("hook", "a.example") };
    assert!(register(&desk, "asks", &task, most).is_ok());
}

#[test]
fn a_host_that_comes_back_gets_everything() {
    let mut desk = EngineFixture::new();
    for n in 0..40 {
        send(&mut desk, "fragile", "do 2", config(&format!("hook-{n}"), "a.example"));
    }
    let (executor, until) = (desk.executor.clone(), desk.executor.now() + 600_000);
    let post =
        start(
            &desk,
            move |parcel| {
                if executor.now() < until { (unreachable(), Duration::from_secs(1)) } else { accepts(parcel) }
            },
        );
    pass(&desk, HOUR);
    assert_eq!((deliveries(&desk, false), deliveries(&desk, true)), (Vec::new(), Vec::new()));
    let last = post.tried().last().unwrap().at_ms;
    assert!(last < until + 400_000, "{} ms after it came back", last - until);
    assert_eq!(desk.metrics.push_hosts_paused.get(), 0);
}

#[test]
fn a_stop_begins_nothing_and_lets_what_is_under_way_arrive() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, |_| (DeliveryOutcome::Accepted { status: 200 }, Duration::from_secs(1)));
    send(&mut desk, "fragile", "do 3", config("hook", "a.example"));
    pass(&desk, Duration::from_millis(10));
    assert_eq!(desk.engine.deliveries_in_flight(), 1);
    let before = post.events().len();
    desk.stop();
    assert_eq!((desk.engine.deliveries_in_flight(), post.events().len()), (0, before));
    desk.crash();
    let again = start(&desk, accepts);
    pass(&desk, MINUTE);
    assert_eq!(again.events()[0].1, post.events().last().unwrap().1 + 1, "what arrived is not repeated");
}

#[test]
fn a_crash_repeats_only_what_was_in_flight() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, |_| (DeliveryOutcome::Accepted { status: 200 }, Duration::from_secs(1)));
    send(&mut desk, "echo", "hello", config("hook", "a.example"));
    pass(&desk, Duration::from_millis(500));
    desk.crash();
    let again = start(&desk, accepts);
    pass(&desk, MINUTE);
    let ids = |post: &ScriptedTransport| post.tried().into_iter().map(|t| t.parcel.id).collect::<Vec<_>>();
    assert_eq!(ids(&post), ids(&again));
}

#[test]
fn a_disk_that_is_full_does_not_make_us_deliver_twice() {
    let log = Arc::new(FaultyLog::new(TaskStore::in_memory().log));
    let mut desk = EngineFixture::on(log.clone());
    send(&mut desk, "echo", "hello", config("hook", "a.example"));
    log.set_write_error(Some(StoreError::Full));
    let post = start(&desk, accepts);
    pass(&desk, HOUR);
    assert_eq!((post.events().len(), desk.engine.deliveries_in_flight()), (1, 1), "it holds on to the mark");
    log.set_write_error(None);
    pass(&desk, MINUTE);
    assert_eq!((post.events().len(), desk.engine.deliveries_in_flight()), (1, 0));
    assert_eq!(deliveries(&desk, false), []);
}

#[test]
fn a_configuration_that_is_deleted_in_flight_is_not_tried_again() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, |_| (unreachable(), Duration::from_secs(2)));
    let task = send(&mut desk, "echo", "hello", config("hook", "a.example"));
    pass(&desk, Duration::from_secs(1));
    let (engine, scope) = (desk.engine.clone(), desk.scope("echo"));
    let call = DeletePush { tenant: Tenant::none(), task_id: task.id.into(), id: "hook".into() };
    desk.run(async move { engine.delete_push(&scope, &call).await }).unwrap();
    pass(&desk, HOUR);
    assert_eq!(post.events().len(), 1);
    assert_eq!((deliveries(&desk, false), deliveries(&desk, true)), (Vec::new(), Vec::new()));
}

#[test]
fn a_task_has_so_many_configurations_and_no_more() {
    let mut desk = EngineFixture::new();
    let task = desk.send("asks", "ask 1", None);
    let outcomes: Vec<bool> =
        (0..10_000).map(|n| register(&desk, "asks", &task, config(&format!("c{n}"), "a.example")).is_ok()).collect();
    assert_eq!(outcomes.iter().filter(|ok| **ok).count(), 100);
    let post = start(&desk, accepts);
    desk.send("asks", "an answer", Some(&task));
    pass(&desk, MINUTE);
    let mut told: Vec<_> = post.events().into_iter().map(|(config, _)| config).collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 100);
}

#[test]
fn an_inline_registration_is_told_in_its_dialect() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, accepts);
    let mut request = desk.request("hello", None);
    request.configuration.task_push_notification_config = Some(config("hook", "a.example"));
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent("echo"), desk.scope("echo"));
    let terms = ServiceParameters { dialect: "0.2", ..ServiceParameters::default() };
    desk.run(async move { engine.send(&resident, scope, request, &terms).await.map(drop) }).unwrap();
    pass(&desk, MINUTE);
    assert_eq!(&*post.tried()[0].parcel.dialect, "0.2");
}

#[test]
fn the_end_of_a_task_is_told_though_its_agent_is_gone() {
    let mut desk = EngineFixture::new();
    let post = start(&desk, accepts);
    let mut request = desk.request("do 9", None);
    request.configuration.task_push_notification_config = Some(config("hook", "a.example"));
    request.configuration.return_immediately = true;
    let task = desk.deliver("fragile", request);
    desk.crash_without_recovery();
    drop(post);
    let post = start(&desk, accepts);
    let engine = desk.engine.clone();
    assert_eq!(desk.run(async move { engine.recover(|_| None).await }), Ok((0, 1)));
    pass(&desk, MINUTE);
    let last = post.tried().last().map(|t| (t.parcel.task, t.parcel.event.state));
    assert_eq!(last, Some((task.id, Some(TaskState::Failed))), "who registered is owed it, whatever is configured");
}
