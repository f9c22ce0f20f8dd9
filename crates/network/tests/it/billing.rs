//! Billing: all metered usage is billed once, even when responses of the biller are lost.

use sabir_engine::{BoxFuture, Host};
use sabir_gateway::{ServiceRequest, ServiceResponse};
use sabir_network::ServiceTransport;
use sabir_network::billing::{self, Biller, BillingResult, BillingRun, Reconciliation, StripeMeter};
use sabir_network::payment::Stripe;
use sabir_proto::{Secret, TaskState, Timestamp};
use sabir_store::{
    Batch, BookingDetails, BookingStatus, DAY_MS, Fee, LedgerEffect, NewBooking, NewUsage, Step, TaskStore, Venue,
    VenueListing,
};
use sabir_testkit::scripted_task::{TaskFactory, epoch, owner};
use sabir_testkit::wait::wait;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use url::Url;

/// A clock that advances only in `sleep`.
struct Clock(AtomicI64);

impl Host for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn random(&self) -> u64 {
        7
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.fetch_add(i64::try_from(duration.as_millis()).unwrap(), Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {
        unreachable!("nobody spawns here");
    }
}

/// A stub of Stripe's meters, whose responses can be made to fail.
#[derive(Clone, Default)]
struct MeterStub(Arc<Mutex<MeterStubState>>);

#[derive(Default)]
struct MeterStubState {
    /// By identifier: the customer, the value and the time.
    events: BTreeMap<String, (String, u64, i64)>,
    /// The next responses: the status or none, and whether the request is done all the same.
    scripted_failures: Vec<(Option<u16>, bool)>,
    asked: u32,
}

impl ServiceTransport for MeterStub {
    fn send(&self, errand: ServiceRequest) -> BoxFuture<'_, Result<ServiceResponse, String>> {
        let mut books = self.0.lock().unwrap();
        books.asked += 1;
        let (spoiled, done) = books.scripted_failures.pop().map_or((Some(200), true), |spoiled| spoiled);
        let body = match errand.post {
            Some((_, form)) => {
                let members: BTreeMap<String, String> =
                    url::form_urlencoded::parse(form.as_bytes()).into_owned().collect();
                assert_eq!((errand.url.path(), &*members["event_name"]), ("/v1/billing/meter_events", "bookings"));
                if done {
                    let event = (
                        members["payload[stripe_customer_id]"].clone(),
                        members["payload[value]"].parse().unwrap(),
                        members["timestamp"].parse().unwrap(),
                    );
                    books.events.entry(members["identifier"].clone()).or_insert(event);
                }
                "{}".to_owned()
            }
            None => {
                let query: BTreeMap<String, String> = errand.url.query_pairs().into_owned().collect();
                let (from, to): (i64, i64) = (query["start_time"].parse().unwrap(), query["end_time"].parse().unwrap());
                let its = books.events.values().filter(|e| e.0 == query["customer"] && (from..to).contains(&e.2));
                format!(r#"{{"data":[{{"aggregated_value":{}}}]}}"#, its.map(|event| event.1).sum::<u64>())
            }
        };
        let said = spoiled.map(|status| ServiceResponse { status, retry_after: None, body: body.into() });
        Box::pin(std::future::ready(said.ok_or_else(|| "no answer".to_owned())))
    }
}

struct BillingWorld {
    store: TaskStore,
    author: TaskFactory,
    clock: Clock,
    meter_stub: MeterStub,
}

impl BillingWorld {
    fn new() -> Self {
        let store = TaskStore::in_memory();
        let venue = Venue {
            id: "v".into(),
            slug: "v".into(),
            name: "V".into(),
            agent_id: "venue:v".into(),
            category: "c".into(),
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
        wait(store.ledger.import_venues(vec![VenueListing { venue, slots: Vec::new() }])).unwrap();
        let clock = Clock(AtomicI64::new(epoch().millis()));
        Self { store, author: TaskFactory::new(7), clock, meter_stub: MeterStub::default() }
    }

    fn book(&mut self, customer: Option<&str>) {
        let usage = NewUsage { intent: "booking.confirm".into(), cents: 25, customer: customer.map(str::to_owned) };
        let booked = BookingDetails {
            venue: "v".into(),
            slot: None,
            time: None,
            party_size: None,
            note: None,
            key: "k".into(),
            from: "a".into(),
            correlation: None,
        };
        let (status, at) = (BookingStatus::Pending, self.clock.now());
        let new = NewBooking { details: booked, status, at, held_until: None, usage: Some(usage), interaction: None };
        let effects = vec![LedgerEffect::Book(new).into()];
        let step = Step { effects, ..self.author.new_task(&owner("ann")).open_settled(TaskState::Completed) };
        wait(self.store.log.append(step)).unwrap();
        self.pass(1);
    }

    fn pass(&self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
    }

    fn run(&self, id: Option<&str>) -> BillingRun {
        let url = Url::parse("https://stripe.example/").unwrap();
        let stripe = Stripe::new(url, Secret::new("sk"), Arc::new(self.meter_stub.clone()));
        let meter = StripeMeter { stripe, event_name: "bookings".into(), id: id.map(str::to_owned) };
        wait(billing::run(&*self.store.ledger, &meter, &self.clock, None)).unwrap()
    }

    fn billed(&self) -> u64 {
        self.meter_stub.0.lock().unwrap().events.values().map(|event| event.1).sum()
    }

    fn script_failures(&self, mut answers: Vec<(Option<u16>, bool)>) {
        answers.reverse();
        self.meter_stub.0.lock().unwrap().scripted_failures = answers;
    }
}

#[test]
fn everything_is_billed_once_by_payer_and_day() {
    let mut world = BillingWorld::new();
    for customer in [Some("x"), Some("y"), Some("x"), None] {
        world.book(customer);
    }
    world.pass(DAY_MS);
    world.book(Some("x"));
    let preview = wait(billing::preview(&*world.store.ledger, world.clock.now())).unwrap();
    assert_eq!((preview.len(), world.meter_stub.0.lock().unwrap().asked), (3, 0), "looking sends nothing");
    let run = world.run(None);
    assert_eq!((run.synced.len(), run.open.len(), run.manual.len(), world.billed()), (3, 0, 0, 4));
    assert_eq!(world.run(None), BillingRun::default(), "nothing is left to do");
    assert_eq!(world.meter_stub.0.lock().unwrap().asked, 3);
    world.book(Some("x"));
    assert_eq!((world.run(None).synced.len(), world.billed()), (1, 5), "later ones are a batch of their own");
    let tally = wait(world.store.ledger.billing_totals()).unwrap();
    assert_eq!((tally.drift(), tally.unsynced, tally.without_customer), (0, 1, 1));
    assert!(billing::is_consistent(&tally));
}

#[test]
fn an_answer_that_is_lost_is_asked_for_under_the_same_name() {
    let mut world = BillingWorld::new();
    world.book(Some("x"));
    world.book(Some("x"));
    // Done but the response is lost; rate limit; server error.
    world.script_failures(vec![(None, true), (Some(429), false), (Some(500), false)]);
    let run = world.run(None);
    assert_eq!((run.open.len(), run.synced.len()), (1, 0), "three times is enough for one run");
    assert_eq!((world.run(None).synced.len(), world.billed()), (1, 2));
    world.book(Some("x"));
    world.script_failures(vec![(Some(400), false)]);
    let run = world.run(None);
    assert_eq!((run.manual.len(), world.billed()), (1, 2), "what is refused for good is left to people");
    assert_eq!(world.run(None).manual.len(), 1);
    assert!(!billing::is_consistent(&wait(world.store.ledger.billing_totals()).unwrap()));
}

#[test]
fn a_name_that_is_forgotten_is_looked_up_in_the_sums() {
    for taken in [true, false] {
        let mut world = BillingWorld::new();
        world.book(Some("x"));
        assert_eq!(world.run(Some("mtr")).synced.len(), 1);
        world.book(Some("x"));
        world.script_failures(vec![(None, taken), (None, false), (None, false)]);
        assert_eq!(world.run(Some("mtr")).open.len(), 1);
        world.pass(DAY_MS);
        assert_eq!(world.run(Some("mtr")).synced.len(), 1, "taken: {taken}");
        assert_eq!(world.billed(), 2, "taken: {taken}");
    }
    // Without a meter id the sums cannot be read, so the batch is left to an operator.
    let mut world = BillingWorld::new();
    world.book(Some("x"));
    world.script_failures(vec![(None, true), (None, false), (None, false)]);
    assert_eq!(world.run(None).open.len(), 1);
    world.pass(DAY_MS);
    assert_eq!((world.run(None).manual.len(), world.billed()), (1, 1));
    // A batch that is too old for the biller is left to an operator as well.
    let mut world = BillingWorld::new();
    world.book(Some("x"));
    world.pass(36 * DAY_MS);
    assert_eq!((world.run(None).manual.len(), world.billed()), (1, 0));
}

/// Stops answering after so many requests, like a killed process.
struct CrashingBiller(Mutex<u32>, MeterStub);

impl Biller for CrashingBiller {
    fn bill<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, BillingResult> {
        let mut left = self.0.lock().unwrap();
        if *left == 0 {
            return Box::pin(std::future::pending());
        }
        *left -= 1;
        let event = (batch.customer.clone(), batch.count, 0);
        self.1.0.lock().unwrap().events.entry(batch.id.clone()).or_insert(event);
        Box::pin(std::future::ready(BillingResult::Accepted))
    }

    fn reconcile<'a>(&'a self, _: &'a Batch, _: u64) -> BoxFuture<'a, Result<Reconciliation, String>> {
        Box::pin(std::future::ready(Ok(Reconciliation::Unclear)))
    }
}

#[test]
fn a_run_that_dies_is_taken_up_by_the_next() {
    let mut world = BillingWorld::new();
    for customer in ["x", "y", "z"] {
        world.book(Some(customer));
    }
    let mortal = CrashingBiller(Mutex::new(1), world.meter_stub.clone());
    {
        let mut run = std::pin::pin!(billing::run(&*world.store.ledger, &mortal, &world.clock, None));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(run.as_mut().poll(&mut cx).is_pending());
    }
    let left = CrashingBiller(Mutex::new(9), world.meter_stub.clone());
    let run = wait(billing::run(&*world.store.ledger, &left, &world.clock, None)).unwrap();
    assert_eq!((run.synced.len(), world.billed()), (2, 3));
}
