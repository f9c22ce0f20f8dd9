//! Payments with bookings: whatever fails, there is no payment without a booking and no booking without a payment.

use sabir_engine::{BoxFuture, Engine, HostedAgent, Limits, Metrics};
use sabir_gateway::ProblemCode;
use sabir_network::payment::{Authorization, Charge, PaymentCaps, PaymentProcessor, PaymentService, ProcessorError};
use sabir_network::payment::{HOLD_TIME, release_holds};
use sabir_network::{NetworkAgent, NetworkTerms, NoKeyHolders, problem};
use sabir_proto::{
    AgentName, Caller, CancelTask, Fault, Json, Message, MessageId, Object, Part, Role, SendConfiguration, SendMessage,
    SendReply, ServiceParameters, Task, TaskId, TaskState, Tenant, ToolMode,
};
use sabir_store::{BookingStatus, Fee, PaymentStatus, Scope, Slot, TaskStore, Venue, VenueListing};
use sabir_testkit::host::SimHost;
use sabir_testkit::seeded_rng::SeededRng;
use sabir_testkit::sim::executor::{Executor, StepResult};
use sabir_testkit::wait::wait;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The bank's state of a payment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Account {
    promised: bool,
    captured: u32,
    voided: bool,
}

/// How the bank behaves.
#[derive(Debug, Clone, Copy, Default)]
struct BankBehaviour {
    declines: bool,
    declines_capture: bool,
    /// The number of responses that are lost after the request was done.
    loses: u32,
    /// The bank never answers.
    never_answers: bool,
}

/// A bank that does each operation once under one id.
#[derive(Clone)]
struct Bank {
    executor: Executor,
    mood: BankBehaviour,
    accounts: Arc<Mutex<BTreeMap<TaskId, Account>>>,
    lost: Arc<Mutex<u32>>,
}

impl Bank {
    async fn serve<T>(
        &self,
        charge: &Charge,
        act: impl FnOnce(&mut Account) -> Result<T, ProcessorError>,
    ) -> Result<T, ProcessorError> {
        self.executor.sleep(Duration::from_millis(10)).await;
        if self.mood.never_answers {
            return Err(ProcessorError::Unknown("nobody answers".into()));
        }
        let done = act(self.accounts.lock().unwrap().entry(charge.id).or_default());
        self.executor.sleep(Duration::from_millis(10)).await;
        let mut lost = self.lost.lock().unwrap();
        if *lost < self.mood.loses {
            *lost += 1;
            return Err(ProcessorError::Unknown("the answer got lost".into()));
        }
        done
    }
}

impl PaymentProcessor for Bank {
    fn name(&self) -> &'static str {
        "test"
    }

    fn single_use_key(&self, charge: &Charge) -> Option<String> {
        charge.token.text("outcome").filter(|word| *word != "any").map(str::to_owned)
    }

    fn authorize<'a>(&'a self, charge: &'a Charge) -> BoxFuture<'a, Result<Authorization, ProcessorError>> {
        Box::pin(self.serve(charge, |account| {
            if self.mood.declines {
                return Err(ProcessorError::declined("not enough money"));
            }
            account.promised = true;
            Ok(Authorization { reference: format!("ref-{}", charge.id) })
        }))
    }

    fn capture<'a>(&'a self, charge: &'a Charge, reference: &'a str) -> BoxFuture<'a, Result<Value, ProcessorError>> {
        Box::pin(self.serve(charge, move |account| {
            assert!(account.promised && !account.voided, "only what was promised can be taken");
            if self.mood.declines_capture {
                return Err(ProcessorError::declined("the card was closed"));
            }
            account.captured = 1;
            Ok(json!({"reference": reference}))
        }))
    }

    fn void<'a>(&'a self, charge: &'a Charge, _: Option<&'a str>) -> BoxFuture<'a, Result<(), ProcessorError>> {
        Box::pin(self.serve(charge, |account| {
            assert_eq!(account.captured, 0, "what was taken is not forgotten about");
            account.voided = true;
            Ok(())
        }))
    }
}

struct PaymentWorld {
    executor: Executor,
    store: TaskStore,
    bank: Bank,
    engine: Engine,
    resident: Arc<HostedAgent>,
    process: u32,
}

impl PaymentWorld {
    fn new(mood: BankBehaviour) -> Self {
        let (executor, store) = (Executor::new(7), TaskStore::in_memory());
        let venue = Venue {
            id: "id-a".into(),
            slug: "a".into(),
            name: "A".into(),
            agent_id: "venue:a".into(),
            category: "restaurant".into(),
            description: None,
            area: None,
            city: None,
            tags: Vec::new(),
            price_range: None,
            priority_rank: None,
            endpoint: None,
            settings: None,
            fee: Fee::default(),
            active: true,
        };
        let slots = vec![Slot { id: "s".into(), time: "noon".into(), capacity: 1, taken: 0 }];
        wait(store.ledger.import_venues(vec![VenueListing { venue, slots }])).unwrap();
        let bank = Bank { executor: executor.clone(), mood, accounts: Arc::default(), lost: Arc::default() };
        let caps = PaymentCaps { payment_max: Some(5000), day_max: Some(6000) };
        let cashier = PaymentService::new(vec![Arc::new(bank.clone())], caps);
        let agent = NetworkAgent::new(NetworkTerms::default(), store.ledger.clone(), Arc::new(NoKeyHolders))
            .with_payments(cashier);
        let resident = Arc::new(HostedAgent {
            name: AgentName::parse("network").unwrap(),
            agent: Arc::new(agent),
            push: true,
            tool_mode: ToolMode::Full,
        });
        let engine = open(&executor, &store, 1);
        Self { executor, store, bank, engine, resident, process: 1 }
    }

    fn request(&self, payload: &Value) -> Box<SendMessage> {
        let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "");
        message.parts = vec![Part::data(Json::of(payload).unwrap())];
        let skill = json!({"urn:sabir:ext:skill:v1": "payment.authorize"});
        message.metadata = Object::from_map(skill.as_object().unwrap()).ok();
        let (tenant, configuration) = (Tenant::none(), SendConfiguration::default());
        Box::new(SendMessage { tenant, message, configuration, metadata: None, alias: None, wants_task: false })
    }

    fn sending(&self, key: &str, payload: &Value) -> impl Future<Output = Result<SendReply, Fault>> + Send + 'static {
        let (engine, resident, request) = (self.engine.clone(), self.resident.clone(), self.request(payload));
        let scope =
            Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: resident.name.clone() });
        let terms = ServiceParameters { idempotency_key: Some(key.into()), ..ServiceParameters::default() };
        async move { engine.send(&resident, scope, request, &terms).await }
    }

    fn send(&self, key: &str, payload: &Value) -> Result<Task, Fault> {
        match self.executor.block_on(self.sending(key, payload))? {
            SendReply::Task(image, _) => Ok(image.thaw().unwrap()),
            SendReply::Message(message) => panic!("a payment is a task: {message:?}"),
        }
    }

    /// Kills the process, and starts another one on its log.
    fn crash(&mut self) {
        self.executor.abort_group(self.process);
        self.process += 1;
        self.engine = open(&self.executor, &self.store, self.process);
        let (engine, resident) = (self.engine.clone(), self.resident.clone());
        let by_name = move |name: &AgentName| (*name == resident.name).then(|| resident.clone());
        self.executor.block_on(async move { engine.recover(by_name).await.unwrap() });
    }

    fn account(&self, id: TaskId) -> Account {
        self.bank.accounts.lock().unwrap().get(&id).cloned().unwrap_or_default()
    }

    fn slots_taken(&self) -> u32 {
        wait(self.store.ledger.slots("id-a")).unwrap()[0].taken
    }

    /// Checks that the bank, the ledger and the task agree.
    fn check(&self, task: &Task, note: &str) {
        let payment = wait(self.store.ledger.payment(task.id)).unwrap().unwrap();
        let booking = wait(self.store.ledger.booking(task.id)).unwrap().unwrap();
        let (account, tally) = (self.account(task.id), wait(self.store.ledger.billing_totals()).unwrap());
        assert_eq!(tally.drift(), 0, "{note}");
        match payment.status {
            PaymentStatus::Captured => {
                assert_eq!((account.captured, account.voided), (1, false), "{note}");
                assert_eq!((booking.status, self.slots_taken()), (BookingStatus::Pending, 1), "{note}");
                assert_eq!(
                    (task.status.state, self.store.ledger.metered_bookings()),
                    (TaskState::Completed, 1),
                    "{note}"
                );
            }
            PaymentStatus::Failed => {
                assert_eq!(account.captured, 0, "{note}");
                assert!(account.voided || !account.promised || self.bank.mood.never_answers, "{note}: {account:?}");
                assert_eq!((booking.status, self.slots_taken()), (BookingStatus::Cancelled, 0), "{note}");
                assert_eq!(task.status.state, TaskState::Rejected, "{note}");
            }
            other => panic!("{note}: a payment does not end as {other:?}"),
        }
    }
}

fn open(executor: &Executor, store: &TaskStore, process: u32) -> Engine {
    let host = Arc::new(SimHost::new(executor.clone(), process, SeededRng::new(process.into())));
    let log = store.log.clone();
    executor.block_on(async move { Engine::open(log, host, Limits::default(), Metrics::default()).await.unwrap() })
}

fn payload(amount: u64) -> Value {
    json!({
        "amount": {"amount": amount, "currency": "USD"},
        "token": {"type": "test", "outcome": "any"},
        "booking": {"venue_id": "a", "slot_id": "s"},
    })
}

fn data(task: &Task) -> Value {
    let words = task.status.message.iter().flat_map(|message| &message.parts);
    let made = task.artifacts.iter().rev().flat_map(|artifact| &artifact.parts);
    let made = made.filter(|_| task.status.state == TaskState::Completed);
    let json = made.chain(words).find_map(|part| data_of(part)).expect("an answer is data");
    serde_json::from_str(json.as_str()).unwrap()
}

fn code(task: &Task) -> String {
    data(task)["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_booking_is_made_and_paid_in_one_call() {
    let world = PaymentWorld::new(BankBehaviour::default());
    let task = world.send("k", &payload(2500)).unwrap();
    let said = data(&task);
    assert_eq!((&said["status"], &said["booking_status"]), (&json!("captured"), &json!("pending")), "{said}");
    assert_eq!(said["payment_id"], said["booking_id"]);
    assert_eq!(said["receipt"]["reference"], json!(format!("ref-{}", task.id)));
    world.check(&task, "paid");
    let again = world.send("k", &payload(2500)).unwrap();
    assert_eq!((again.id, world.account(task.id).captured), (task.id, 1), "a repeat is the same payment");
    let only = json!({"amount": {"amount": 1, "currency": "USD"}, "token": {"type": "test", "outcome": "any"},
                      "capture": "authorize_only"});
    let held = world.send("only", &only).unwrap();
    let said = data(&held);
    assert_eq!((&said["status"], said.get("booking_id")), (&json!("authorized"), None), "{said}");
    assert_eq!(world.account(held.id), Account { promised: true, captured: 0, voided: false });
}

#[test]
fn whatever_is_declined_gives_everything_back() {
    for (mood, note) in [
        (BankBehaviour { declines: true, ..BankBehaviour::default() }, "declined"),
        (BankBehaviour { declines_capture: true, ..BankBehaviour::default() }, "promised, and then declined"),
        (BankBehaviour { loses: 3, declines_capture: true, ..BankBehaviour::default() }, "with answers lost"),
        (BankBehaviour { never_answers: true, ..BankBehaviour::default() }, "nobody answers"),
    ] {
        let world = PaymentWorld::new(mood);
        let task = world.send("k", &payload(2500)).unwrap();
        assert_eq!(code(&task), "payment_declined", "{note}");
        world.check(&task, note);
        // With a bank that never answers, the payment takes longer than the retry key is valid.
        if !mood.never_answers {
            assert_eq!(world.send("k", &payload(2500)).unwrap().id, task.id, "{note}: a retry hears the same");
        }
    }
}

#[test]
fn what_is_lost_on_the_way_is_asked_again() {
    let world = PaymentWorld::new(BankBehaviour { loses: 4, ..BankBehaviour::default() });
    let task = world.send("k", &payload(2500)).unwrap();
    world.check(&task, "in the end");
    assert_eq!(world.account(task.id).captured, 1);
}

#[test]
fn limits_and_rooms_are_kept_before_anybody_is_asked() {
    let world = PaymentWorld::new(BankBehaviour::default());
    assert_eq!(code(&world.send("a", &payload(5001)).unwrap()), "payment_limit_exceeded");
    let paid = world.send("b", &payload(4000)).unwrap();
    let refused = |key: &str, payload: &Value| match world.send(key, payload) {
        Err(fault) => problem::of_fault(&fault).code,
        Ok(task) => panic!("{task:?}"),
    };
    let mut nothing = payload(4000);
    nothing.as_object_mut().unwrap().remove("booking");
    assert_eq!(refused("c", &nothing), ProblemCode::PaymentLimitExceeded, "the day's limit");
    let full = world.send("d", &payload(10)).unwrap();
    assert_eq!(code(&full), "slot_unavailable", "the slot is taken");
    let mut once = nothing.clone();
    once["amount"]["amount"] = json!(1);
    once["token"]["outcome"] = json!("0xabc");
    assert_eq!(world.send("e", &once).unwrap().status.state, TaskState::Completed);
    assert_eq!(refused("f", &once), ProblemCode::PaymentDeclined, "what was used once is used up");
    let mut other = nothing.clone();
    other["token"] = json!({"type": "x402", "payload": {}});
    assert_eq!(code(&world.send("g", &other).unwrap()), "payment_declined");
    let mut wrong = payload(1);
    wrong["tip"] = json!(1);
    assert_eq!(code(&world.send("h", &wrong).unwrap()), "invalid_payload");
    assert_eq!(world.bank.accounts.lock().unwrap().len(), 2, "nobody else was asked for money");
    world.check(&paid, "the first");
}

/// A crash at every single step, then a restart and the same call again.
#[test]
fn no_crash_books_without_paying_or_pays_without_booking() {
    let moods = [
        BankBehaviour::default(),
        BankBehaviour { loses: 2, ..BankBehaviour::default() },
        BankBehaviour { declines: true, ..BankBehaviour::default() },
        BankBehaviour { declines_capture: true, loses: 1, ..BankBehaviour::default() },
    ];
    for mood in moods {
        for steps in 0..40 {
            let note = format!("{mood:?}, crash after {steps} steps");
            let mut world = PaymentWorld::new(mood);
            let sending = world.sending("k", &payload(2500));
            world.executor.spawn(world.process, Box::pin(async move { drop(sending.await) }));
            for _ in 0..steps {
                if world.executor.step() == StepResult::Idle {
                    break;
                }
            }
            world.crash();
            let task = world.send("k", &payload(2500)).unwrap_or_else(|fault| panic!("{note}: {fault}"));
            world.check(&task, &note);
            assert_eq!(world.bank.accounts.lock().unwrap().len(), 1, "{note}: one payment");
        }
    }
}

fn data_of(part: &Part) -> Option<&Json> {
    match &part.content {
        sabir_proto::Content::Data(json) => Some(json),
        _ => None,
    }
}

/// A payment that was canceled while its slot was held frees the slot once the hold has expired.
#[test]
fn a_hold_that_nobody_sees_to_is_given_back() {
    let world = PaymentWorld::new(BankBehaviour { never_answers: true, ..BankBehaviour::default() });
    let sending = world.sending("k", &payload(2500));
    world.executor.spawn(world.process, Box::pin(async move { drop(sending.await) }));
    while wait(world.store.ledger.payments(true, 1)).unwrap().is_empty() {
        assert_ne!(world.executor.step(), StepResult::Idle, "the slot is held sooner or later");
    }
    let id = wait(world.store.ledger.payments(true, 1)).unwrap()[0].id;
    let release = |later: i64| {
        let now = world.executor.now() + sabir_testkit::clock::EPOCH_MS;
        let now = sabir_proto::Timestamp::from_millis(i64::try_from(now).unwrap() + later);
        wait(release_holds(&*world.store.log, &*world.store.ledger, now)).unwrap()
    };
    let hold = i64::try_from(HOLD_TIME.as_millis()).unwrap();
    assert_eq!(release(hold), 0, "its task is at work");
    let (engine, agent) = (world.engine.clone(), world.resident.name.clone());
    let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent };
    let cancel = CancelTask { tenant: Tenant::none(), id: id.into(), metadata: None };
    let resident = world.resident.clone();
    let canceled = world.executor.block_on(async move { engine.cancel(&scope, &resident, &cancel).await });
    assert!(canceled.is_ok(), "{canceled:?}");
    assert_eq!((release(0), world.slots_taken()), (0, 1), "the hold has not run out");
    assert_eq!((release(hold), world.slots_taken()), (1, 0));
    assert_eq!(release(hold), 0);
    assert_eq!(wait(world.store.ledger.booking(id)).unwrap().unwrap().status, BookingStatus::Cancelled);
    assert_eq!(wait(world.store.ledger.payment(id)).unwrap().unwrap().status, PaymentStatus::Voiding);
}
