//! The agent of the network: its intents are skills, and their payloads are data parts or plain text.
//!
//! A query changes nothing and leaves no task. A booking is one step: the slot, the booking, its usage, the record of
//! its envelope and the notifications of subscribers are committed with the task. A final refusal is stored, so that a
//! repetition gets the same answer; a temporary one is not, so that a retry runs.

mod forwarding;
mod pay;

use crate::envelope::{EnvelopeCall, Recipient};
use crate::import::is_uuid;
use crate::intent::{BookingOrder, IntentRequest, VenueFilter};
use crate::key_holder::{KeyHolder, KeyHolderDirectory};
use crate::payment::PaymentService;
use crate::plain_text;
use crate::response;
use crate::webhook;
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_gateway::{Intent, Problem, ProblemCode};
use sabir_proto::{Artifact, ArtifactId, Content, Message, Object, Part, TaskId, Timestamp, first_data};
use sabir_store::{
    BookableVenue, Booking, BookingDetails, BookingStatus, Effect, Interaction, Ledger, LedgerEffect, NewBooking,
    NewUsage, Slot, StoreError, Venue, VenueQuery, VenueRef,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The price of a confirmed booking, in US cents.
pub const CONFIRM_CENTS: u32 = 25;
/// Below this, floating-point numbers represent every whole number.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
/// The id of the artifact that a booking leaves.
pub const BOOKING: &str = "booking";

/// The operator's settings of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTerms {
    /// The id of the network, such as `network:agnt`.
    pub id: String,
    /// The version that the network reports.
    pub version: String,
    /// The referral fee where a venue has none, in hundredths of a percent.
    pub fee: u32,
    /// The price of a confirmed booking, in cents.
    pub confirm_cents: u32,
}

impl Default for NetworkTerms {
    fn default() -> Self {
        Self { id: "network:agnt".into(), version: "1.0".into(), fee: 700, confirm_cents: CONFIRM_CENTS }
    }
}

/// The agent of a network.
pub struct NetworkAgent {
    terms: NetworkTerms,
    ledger: Arc<dyn Ledger>,
    key_holders: Arc<dyn KeyHolderDirectory>,
    payments: PaymentService,
    /// The routes to venues' own agents and to other networks, if there are any.
    routes: Option<Arc<crate::route::Routes>>,
}

impl std::fmt::Debug for NetworkAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VenueAgent").field("terms", &self.terms).finish_non_exhaustive()
    }
}

/// A request that is being handled.
struct VenueRequest<'a> {
    cx: &'a Context,
    intent: Intent,
    /// The payload, with whole numbers and the addressed venue filled in.
    payload: Object,
    /// The recipient; `None` for a request that came in no envelope.
    recipient: Option<Recipient>,
    /// The rest of the envelope; `None` also in a turn that resumes after a crash.
    envelope: Option<&'a EnvelopeCall>,
    key_holder: KeyHolder,
    /// The venue it is addressed to, if it is addressed to one.
    venue: Option<Venue>,
    /// Whether the request was plain text, so that the response has text as well.
    is_plain_text: bool,
    now: Timestamp,
}

/// The result of an intent.
enum IntentOutcome {
    /// The data that a query found.
    Found(Value),
    /// A booking to be committed.
    Booked(Box<PreparedBooking>),
    /// A booking that another network has made.
    Relayed(Object),
}

/// A booking that is about to be committed.
struct PreparedBooking {
    booking: NewBooking,
    shown: Map<String, Value>,
    venue_name: String,
}

impl NetworkAgent {
    /// The agent of a network without payments and routes.
    pub fn new(terms: NetworkTerms, ledger: Arc<dyn Ledger>, key_holders: Arc<dyn KeyHolderDirectory>) -> Self {
        Self { terms, ledger, key_holders, payments: PaymentService::default(), routes: None }
    }

    /// Enables payments through this service.
    #[must_use]
    pub fn with_payments(mut self, cashier: PaymentService) -> Self {
        self.payments = cashier;
        self
    }

    /// The operator's settings.
    pub const fn terms(&self) -> &NetworkTerms {
        &self.terms
    }

    async fn answer_locally(&self, asked: &VenueRequest<'_>) -> Result<IntentOutcome, Problem> {
        match IntentRequest::read(asked.intent, &asked.payload)? {
            IntentRequest::Ping => {
                let agent = asked.key_holder.agents.first().cloned().unwrap_or_else(|| asked.from());
                let tier = asked.key_holder.tier.as_deref().unwrap_or("none");
                let active = self.ledger.active_venues();
                Ok(IntentOutcome::Found(response::ping(active, tier, &agent, &self.terms.version)))
            }
            IntentRequest::List(wanted) => {
                let venues = self.venues(asked, &wanted).await?;
                Ok(IntentOutcome::Found(response::list(venues.iter().map(response::venue).collect())))
            }
            IntentRequest::Search(wanted) => {
                let mut offers = Vec::new();
                for venue in self.venues(asked, &wanted).await? {
                    let slots = self.ledger.slots(&venue.id).await.map_err(store_problem)?;
                    offers.push(response::offer(&venue, &slots));
                }
                Ok(IntentOutcome::Found(response::search(offers, self.terms.fee, asked.now)))
            }
            IntentRequest::Status(id) => self.track(asked, id).await.map(IntentOutcome::Found),
            IntentRequest::Confirm(order) => Ok(IntentOutcome::Booked(Box::new(self.book(asked, order).await?))),
            // Payments are handled in `turn`.
            IntentRequest::Authorize(_) => Err(Problem::new(ProblemCode::UnknownIntent, "a payment is no question")),
        }
    }

    /// The status of a booking. Another key's booking is reported as not found.
    async fn track(&self, asked: &VenueRequest<'_>, id: TaskId) -> Result<Value, Problem> {
        let own = |booking: &Booking| {
            booking.details.key == asked.key() && asked.venue.as_ref().is_none_or(|at| at.id == booking.details.venue)
        };
        let found = self.ledger.booking(id).await.map_err(store_problem)?.filter(own);
        let booking = found.ok_or_else(|| {
            Problem::new(ProblemCode::BookingNotFound, format!("there is no booking {id} under this key"))
        })?;
        let venue = self.ledger.venue(VenueRef::Id(&booking.details.venue)).await.map_err(store_problem)?;
        let Booking { details: booked, status, created_at, transitions: moves, .. } = &booking;
        let mut shown = response::booking(&id.to_string(), venue.as_ref(), booked, *status, *created_at);
        if let Some(last) = moves.last() {
            shown.insert("updated_at".into(), json!(Timestamp::from_millis(last.at)));
        }
        Ok(Value::Object(shown))
    }

    /// The venues that match; a request to one venue gets that venue.
    async fn venues(&self, asked: &VenueRequest<'_>, wanted: &VenueFilter) -> Result<Vec<Venue>, Problem> {
        if let Some(venue) = &asked.venue {
            return Ok(vec![venue.clone()]);
        }
        let VenueFilter { category, location, terms, limit } = wanted.clone();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let query = VenueQuery { category, location, terms, inactive: false, limit };
        self.ledger.venues(&query).await.map_err(store_problem)
    }

    /// A venue that can be booked, by its id or its slug.
    async fn find_bookable(&self, asked: &VenueRequest<'_>, name: &str) -> Result<BookableVenue, Problem> {
        let mut found = None;
        if is_uuid(name) {
            found =
                self.ledger.bookable_venue(VenueRef::Id(&name.to_ascii_lowercase())).await.map_err(store_problem)?;
        }
        if found.is_none() {
            found = self.ledger.bookable_venue(VenueRef::Slug(name)).await.map_err(store_problem)?;
        }
        let found = found.filter(|found| found.venue.active).ok_or_else(|| unknown_venue(name))?;
        match &asked.venue {
            Some(at) if at.id != found.venue.id => {
                Err(crate::intent::invalid("venue_id: is another venue than the one this is addressed to"))
            }
            _ => Ok(found),
        }
    }

    async fn book(&self, asked: &VenueRequest<'_>, order: BookingOrder) -> Result<PreparedBooking, Problem> {
        let BookableVenue { venue, slots } = self.find_bookable(asked, &order.venue).await?;
        let slot = choose_slot(&slots, &order)?;
        let booked = BookingDetails {
            venue: venue.id.clone(),
            slot: slot.map(|slot| slot.id.clone()),
            time: slot.map(|slot| slot.time.clone()).or(order.time),
            party_size: order.party_size,
            note: order.note,
            key: asked.key(),
            from: asked.from(),
            correlation: asked.envelope.and_then(|envelope| envelope.correlation_id.clone()),
        };
        let (id, now) = (asked.cx.task_id(), asked.now);
        let shown = response::booking(&id.to_string(), Some(&venue), &booked, BookingStatus::Pending, now);
        let record = |record: Interaction| Box::new(Interaction { booking: Some(id), ..record });
        let booking = NewBooking {
            details: booked,
            status: BookingStatus::Pending,
            at: now,
            held_until: None,
            usage: Some(self.usage(asked)),
            interaction: asked.take_record().map(record),
        };
        Ok(PreparedBooking { booking, shown, venue_name: venue.name.clone() })
    }

    /// The usage of a booking.
    fn usage(&self, asked: &VenueRequest<'_>) -> NewUsage {
        NewUsage {
            intent: asked.intent.name().into(),
            cents: self.terms.confirm_cents,
            customer: asked.key_holder.customer.clone(),
        }
    }

    /// Commits a booking and the notifications of subscribers in the step that ends the turn.
    async fn commit(&self, asked: &VenueRequest<'_>, made: PreparedBooking) -> Result<Ending, Failure> {
        let PreparedBooking { booking, shown, venue_name: place } = made;
        let event = Some(webhook::CONFIRMED);
        let (prefix, correlation) = (asked.key_holder.prefix.clone(), booking.details.correlation.clone());
        notify_subscribers(&*self.ledger, asked.cx, &booking.details.key, event, false).await?;
        asked.cx.add_effect(LedgerEffect::Book(booking));
        let told = webhook::WebhookContext { event, prefix, correlation };
        asked.cx.chunk(booking_artifact(&Value::Object(shown), &told), false, true).await?;
        let words = || format!("Booked {place}: {} is pending.", asked.cx.task_id());
        Ok(if asked.is_plain_text { Ending::complete_with(words()) } else { Ending::complete() })
    }

    /// The venue that a request is addressed to, if it is one of ours; `Err` if the recipient is unknown.
    async fn recipient(&self, to: Option<&str>, now: Timestamp) -> Result<Option<Venue>, Problem> {
        let Some(to) = to.filter(|to| *to != self.terms.id) else { return Ok(None) };
        let mut found = self.ledger.venue(VenueRef::Agent(to)).await.map_err(store_problem)?;
        if found.is_none() {
            // The catalog names venues by their ids, since an agent's name may be illegal as a tenant.
            found = self.ledger.venue(VenueRef::Id(to)).await.map_err(store_problem)?;
        }
        match found.filter(|venue| venue.active) {
            None if self.is_forwarded(to, now) => Ok(None),
            found => found.map(Some).ok_or_else(|| forwarding::unknown_recipient(to)),
        }
    }
}

impl Agent for NetworkAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let message = cx.message();
        let Some((intent, payload, spoken)) = parse_message(message) else {
            return Ok(Ending::reply(plain_text::HELP));
        };
        let refuse = |problem: &Problem| refusal(intent, spoken, problem);
        let payload = match payload {
            Ok(payload) => payload,
            Err(problem) => return Ok(refuse(&problem)),
        };
        let recipient = Recipient::of(message);
        // An envelope is parsed strictly; in messages of A2A some SDKs write all numbers with a decimal point.
        let payload = if recipient.is_some() { payload } else { with_whole_numbers(payload) };
        let tenant = cx.tenant().as_str();
        let to = recipient.as_ref().map(|named| &*named.to).or((!tenant.is_empty()).then_some(tenant));
        let at = match self.recipient(to, cx.now()).await {
            Ok(at) => at,
            Err(problem) => return Ok(refuse(&problem)),
        };
        let payload = with_default_venue(payload, intent, at.as_ref(), recipient.is_none());
        let (patron, now) = (self.key_holders.by_caller(cx.caller()), cx.now());
        let asked = VenueRequest {
            cx,
            intent,
            payload,
            recipient,
            envelope: cx.attachment(),
            key_holder: patron,
            venue: at,
            is_plain_text: spoken,
            now,
        };
        // Handles payments here, unless the request is forwarded.
        let ours = asked.venue.is_some() || asked.to().is_none_or(|to| to == self.terms.id);
        if asked.intent == Intent::PaymentAuthorize && ours {
            return Box::pin(self.pay(&asked)).await;
        }
        match self.answer_or_forward(&asked).await {
            Ok(IntentOutcome::Relayed(answer)) => {
                cx.chunk(forwarding::forwarded_artifact(&answer), false, true).await?;
                Ok(Ending::complete())
            }
            Ok(IntentOutcome::Found(found)) => Ok(Ending::Reply(response_parts(&found, spoken))),
            Ok(IntentOutcome::Booked(made)) => self.commit(&asked, *made).await,
            Err(problem) => Ok(refuse(&problem)),
        }
    }

    fn execution(&self) -> Execution {
        // Only a payment has several steps, and resumes where it stopped.
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }

    fn runs_inline(&self) -> bool {
        // Its effects are those of the step, so a booking and its task are one commit; a remote venue recognises a
        // repeated request by the timestamp of the envelope.
        true
    }
}

impl VenueRequest<'_> {
    /// The sender: by the envelope, or else the authenticated caller.
    fn from(&self) -> String {
        let named = self.envelope.map(|envelope| envelope.from.clone());
        named.unwrap_or_else(|| self.cx.caller().name().to_owned())
    }

    /// Takes the record of the envelope, to commit it with the effect of the request.
    fn take_record(&self) -> Option<Interaction> {
        self.envelope.and_then(|envelope| envelope.record.take())
    }

    /// The key that owns the booking; the caller's name if it has no key.
    fn key(&self) -> String {
        self.key_holder.key.clone().unwrap_or_else(|| self.cx.caller().name().to_owned())
    }
}

/// The request in a message: the skill it names with its data part, or its plain text.
fn parse_message(message: &Message) -> Option<(Intent, Result<Object, Problem>, bool)> {
    let named = message.skill();
    let intent = named.as_deref().and_then(Intent::parse);
    if named.is_some() && intent.is_none() {
        return None;
    }
    if let (Some(intent), Some(data)) = (intent, first_data(&message.parts)) {
        if message.parts.iter().filter(|part| matches!(part.content, Content::Data(_))).count() > 1 {
            let twice = crate::intent::invalid("one data part says what is wanted; there are more");
            return Some((intent, Err(twice), false));
        }
        let wrong = |_| crate::intent::invalid("the payload must be an object");
        return Some((intent, Object::new(data.clone()).map_err(wrong), false));
    }
    let (intent, payload) = plain_text::parse(intent, &message.joined_text())?;
    let wrong = |_| crate::intent::invalid("the payload cannot be read");
    Some((intent, Object::from_map(&payload).map_err(wrong), true))
}

/// The payload with `3.0` as 3. The official SDKs of 1.0 for Python and JavaScript store data as protobuf values, which
/// have one kind of number.
fn with_whole_numbers(payload: Object) -> Object {
    fn mend(value: &mut Value) {
        match value {
            Value::Object(members) => members.values_mut().for_each(mend),
            Value::Number(number) => {
                let exact = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < WHOLE_MAX);
                if let (false, Some(float)) = (number.is_i64() || number.is_u64(), exact) {
                    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and no larger than fits")]
                    let int = float as i64;
                    *number = int.into();
                }
            }
            _ => {}
        }
    }
    let mut members = payload.to_map();
    members.values_mut().for_each(mend);
    Object::from_map(&members).unwrap_or(payload)
}

/// Adds the `venue_id` to an order that is addressed to a venue and leaves it out.
fn with_default_venue(payload: Object, intent: Intent, at: Option<&Venue>, may_omit: bool) -> Object {
    let Some(venue) = at.filter(|_| may_omit && intent == Intent::BookingConfirm) else { return payload };
    let mut members = payload.to_map();
    members.entry("venue_id").or_insert_with(|| venue.id.clone().into());
    Object::from_map(&members).unwrap_or(payload)
}

/// The slot of an order; `None` for a venue without slots, and where the order has neither a slot nor a time: the venue
/// chooses then.
fn choose_slot<'a>(slots: &'a [Slot], order: &BookingOrder) -> Result<Option<&'a Slot>, Problem> {
    let gone =
        || Problem::new(ProblemCode::SlotUnavailable, "the slot is not available; search again, or take another");
    match (&order.slot, &order.time) {
        (Some(id), time) => {
            let slot = slots.iter().find(|slot| slot.id == *id).ok_or_else(gone)?;
            if time.as_ref().is_some_and(|time| *time != slot.time) {
                return Err(crate::intent::invalid("time: is not the time of the slot"));
            }
            if slot.taken >= slot.capacity { Err(gone()) } else { Ok(Some(slot)) }
        }
        (None, Some(time)) if !slots.is_empty() => {
            let open = slots.iter().find(|slot| slot.time == *time && slot.taken < slot.capacity);
            open.map(Some).ok_or_else(gone)
        }
        (None, _) => Ok(None),
    }
}

/// Adds the notifications of a key's subscribers to the step that ends the turn.
pub(crate) async fn notify_subscribers(
    ledger: &dyn Ledger,
    cx: &Context,
    key: &str,
    named: Option<&str>,
    moved: bool,
) -> Result<(), StoreError> {
    notifications(ledger, key, named, moved, cx.now()).await?.into_iter().for_each(|effect| cx.add_effect(effect));
    Ok(())
}

/// The notifications of a key's subscribers, as effects.
async fn notifications(
    ledger: &dyn Ledger,
    key: &str,
    named: Option<&str>,
    moved: bool,
    now: Timestamp,
) -> Result<Vec<Effect>, StoreError> {
    Ok(webhook::push_effects(&ledger.subscribers(key).await?, named, moved, now))
}

/// The artifact that a booking leaves in its task.
pub(crate) fn booking_artifact(shown: &Value, told: &webhook::WebhookContext) -> Artifact {
    let id = ArtifactId::parse(BOOKING).expect("a plain word is a legal id");
    let mut artifact = Artifact::new(id, vec![Part::data(response::data(shown))]);
    artifact.metadata = told.metadata();
    artifact
}

fn unknown_venue(name: &str) -> Problem {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    Problem::new(ProblemCode::VenueNotFound, format!("there is no venue {shown:?} that can be booked"))
}

/// The problem for a failed store, which may be temporary.
fn store_problem(error: StoreError) -> Problem {
    tracing::error!(%error, "the ledger does not answer");
    Problem::new(ProblemCode::Internal, "the ledger does not answer; try again")
}

/// A refusal. A final one of a request with an effect is stored with its task.
fn refusal(intent: Intent, spoken: bool, problem: &Problem) -> Ending {
    let mut parts = vec![Part::data(response::data(&response::refusal(problem)))];
    if spoken {
        parts.insert(0, Part::text(problem.message.clone()));
    }
    let is_final = !problem.code.is_retryable();
    if intent.has_effect() && is_final { Ending::Reject(parts) } else { Ending::Reply(parts) }
}

/// The parts of a response, with text where the request was plain text.
fn response_parts(found: &Value, spoken: bool) -> Vec<Part> {
    let mut parts = vec![Part::data(response::data(found))];
    if spoken {
        parts.insert(0, Part::text(plain_text::describe(found)));
    }
    parts
}
