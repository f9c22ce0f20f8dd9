//! A network in memory. Nothing in it waits, so that one poll completes every future.

use sabir_engine::{BoxFuture, Engine, Host, HostedAgent, Limits, Metrics, TaskLog};
use sabir_gateway::{Intent, NanoTimestamp};
use sabir_network::import::{self, VenueRow};
use sabir_network::{
    BookingAdmin, EnvelopeCall, KeyHolder, KeyHolderDirectory, NetworkAgent, NetworkTerms, PendingRecord, Recipient,
};
use sabir_proto::{
    AgentName, CallAttachment, Caller, Fault, Json, Message, MessageId, Object, Part, Role, SendConfiguration,
    SendMessage, SendReply, ServiceParameters, Task, Tenant, Timestamp, ToolMode,
};
use sabir_store::{Interaction, Ledger, Scope, Subscription, TaskStore};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The output of a future that is ready at once.
#[track_caller]
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(found) => found,
        Poll::Pending => panic!("nothing waits in this world"),
    }
}

/// A clock that stands still, and random numbers that count up.
#[derive(Default)]
struct FixedHost(AtomicU64);

impl Host for FixedHost {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {
        panic!("nothing goes on by itself in this world");
    }
}

/// A lookup in which every caller holds the key `k1`.
struct FixedKeyHolders;

impl KeyHolderDirectory for FixedKeyHolders {
    fn by_caller(&self, _: &Caller) -> KeyHolder {
        self.by_key("k1")
    }

    fn by_key(&self, key: &str) -> KeyHolder {
        let tier = Some("pro".to_owned());
        let prefix = Some("agnt_live_0123".to_owned());
        KeyHolder { key: Some(key.into()), prefix, tier, agents: Vec::new(), customer: Some("cus_1".into()) }
    }
}

pub(crate) struct World {
    pub(crate) log: Arc<dyn TaskLog>,
    pub(crate) ledger: Arc<dyn Ledger>,
    engine: Engine,
    resident: HostedAgent,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) enum TestResponse {
    /// A message without a task.
    Message(Value),
    Task(Box<Task>),
}

impl World {
    /// A network with venues of these rows.
    pub(crate) fn with(rows: &Value) -> Self {
        let TaskStore { log, ledger, .. } = TaskStore::in_memory();
        let host = Arc::new(FixedHost::default());
        let engine = now(Engine::open(log.clone(), host, Limits::default(), Metrics::default())).unwrap();
        let agent = NetworkAgent::new(NetworkTerms::default(), ledger.clone(), Arc::new(FixedKeyHolders));
        let name = AgentName::parse("network").unwrap();
        let resident = HostedAgent { name, agent: Arc::new(agent), push: true, tool_mode: ToolMode::Full };
        let world = Self { log, ledger, engine, resident };
        world.import(rows);
        world
    }

    pub(crate) fn import(&self, rows: &Value) {
        let rows: Vec<VenueRow> = import::read(&rows.to_string()).unwrap();
        now(import::import(&*self.ledger, &NetworkTerms::default(), rows)).unwrap();
    }

    pub(crate) fn subscribe(&self, id: &str, events: &[&str]) {
        let subscription = Subscription {
            id: id.into(),
            key: "k1".into(),
            url: format!("https://hooks.example/{id}"),
            events: events.iter().map(|event| (*event).to_owned()).collect(),
            secret: sabir_proto::Secret::new("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
            previous: None,
            created_at: Timestamp::from_millis(1),
            ended: None,
        };
        now(self.ledger.subscribe(subscription)).unwrap();
    }

    pub(crate) fn booking_admin(&self) -> BookingAdmin {
        BookingAdmin {
            engine: self.engine.clone(),
            log: self.log.clone(),
            ledger: self.ledger.clone(),
            key_holders: Arc::new(FixedKeyHolders),
            agent: self.resident.name.clone(),
        }
    }

    /// Sends a request as an envelope does.
    pub(crate) fn envelope(&self, key: &str, to: &str, intent: Intent, payload: &Value) -> Result<TestResponse, Fault> {
        let mut message = data(intent, payload);
        message.metadata = Recipient { to: to.into() }.with_skill(intent.name());
        let timestamp = NanoTimestamp::parse("2027-01-15T08:00:00Z");
        let record = Interaction { intent: "booking.confirm".into(), status: "ok".into(), ..Interaction::default() };
        let record = PendingRecord::new(Instant::now(), record);
        let attachment =
            CallAttachment::new(EnvelopeCall { from: "me".into(), timestamp, record, ..EnvelopeCall::default() });
        let terms =
            ServiceParameters { idempotency_key: Some(key.to_owned()), attachment, ..ServiceParameters::default() };
        self.send_with(message, &Tenant::none(), &terms)
    }

    /// Sends a request as any client does.
    pub(crate) fn ask(&self, intent: Intent, payload: &Value) -> TestResponse {
        self.send(data(intent, payload), &Tenant::none())
    }

    /// Sends a request in plain text.
    pub(crate) fn send_text(&self, text: &str) -> TestResponse {
        self.send(Message::text(id(), Role::User, text), &Tenant::none())
    }

    /// Sends a request to a venue itself.
    pub(crate) fn ask_at(&self, venue: &str, intent: Intent, payload: &Value) -> TestResponse {
        self.send(data(intent, payload), &Tenant::parse(venue).unwrap())
    }

    fn send(&self, message: Message, tenant: &Tenant) -> TestResponse {
        self.send_with(message, tenant, &ServiceParameters::default()).unwrap()
    }

    fn send_with(&self, message: Message, tenant: &Tenant, terms: &ServiceParameters) -> Result<TestResponse, Fault> {
        let scope =
            Scope { tenant: tenant.clone(), caller: Caller::named("key:k1"), agent: self.resident.name.clone() };
        let request = Box::new(SendMessage {
            tenant: tenant.clone(),
            message,
            configuration: SendConfiguration::default(),
            metadata: None,
            alias: None,
            wants_task: false,
        });
        Ok(match now(self.engine.send(&self.resident, Arc::new(scope), request, terms))? {
            SendReply::Message(message) => TestResponse::Message(response_data(&message.parts)),
            SendReply::Task(task, _) => TestResponse::Task(Box::new(task.thaw().unwrap())),
        })
    }
}

impl TestResponse {
    #[track_caller]
    pub(crate) fn message(self) -> Value {
        match self {
            Self::Message(said) => said,
            Self::Task(task) => panic!("a task: {task:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn task(self) -> Task {
        match self {
            Self::Task(task) => *task,
            Self::Message(said) => panic!("no task: {said}"),
        }
    }

    /// The code of the refusal in the response.
    #[track_caller]
    pub(crate) fn refusal(self) -> String {
        let said = match self {
            Self::Message(said) => said,
            Self::Task(task) => response_data(&task.status.message.unwrap().parts),
        };
        said["error"]["code"].as_str().unwrap_or_else(|| panic!("no refusal: {said}")).to_owned()
    }
}

/// The data of a response; its text where it has none.
pub(crate) fn response_data(parts: &[Part]) -> Value {
    sabir_proto::first_data(parts).map_or_else(|| json!(parts[0].as_text()), |data| data.read().unwrap())
}

fn data(intent: Intent, payload: &Value) -> Message {
    let mut message = Message::text(id(), Role::User, "");
    message.parts = vec![Part::data(Json::of(payload).unwrap())];
    let skill = json!({"urn:sabir:ext:skill:v1": intent.name()});
    message.metadata = Some(Object::new(Json::of(&skill).unwrap()).unwrap());
    message
}

fn id() -> MessageId {
    MessageId::parse("m").unwrap()
}

/// A row of a file of venues.
pub(crate) fn row(slug: &str, more: &Value) -> Value {
    let mut row = json!({"slug": slug, "name": slug.to_uppercase(), "category": "restaurant", "area": "Canggu", "city": "Bali",
        "description": "Grilled fish", "agent_id": format!("venue_{slug}")});
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}
