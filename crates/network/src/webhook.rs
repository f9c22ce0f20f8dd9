//! Webhooks: notifications about a booking to the subscriptions of the key that made it.
//!
//! They are sent like all push notifications: each subscription is a push configuration of the booking's own task, in
//! the dialect [`DIALECT`], so it is committed with the booking, retried until it arrives, and stored as a dead letter
//! where it never does. A later transition has a task of its own in the same conversation. A configuration gets one
//! kind of event, and its id says which.

use sabir_proto::{Artifact, FrozenEvent, Json, Object, PushConfig, Timestamp};
use sabir_store::{Effect, SUBSCRIPTIONS_PER_KEY_MAX, Subscriber};
use serde::Serialize;
use serde_json::{Map, Value};

/// The dialect of these notifications.
pub const DIALECT: &str = "agnt";
/// The event for a new booking, in whatever status.
pub const CONFIRMED: &str = "booking.confirmed";
/// The event for a transition of a booking.
pub const STATUS_CHANGED: &str = "booking.status_changed";
/// All events that a subscription can name.
pub const EVENTS: [&str; 5] = [CONFIRMED, "booking.cancelled", "booking.completed", "booking.no_show", STATUS_CHANGED];
/// Push configurations of one booking: two for each subscription.
const CONFIGS_MAX: u32 = 32;
const _: () = assert!(CONFIGS_MAX as usize == 2 * SUBSCRIPTIONS_PER_KEY_MAX, "a subscription has room for both");

/// The prefix of configuration ids, and the suffix of those for [`STATUS_CHANGED`].
const PREFIX: &str = "webhook-";
const CHANGED: &str = ".changed";
/// The key of [`WebhookContext`] in the metadata of an artifact.
const CONTEXT_URN: &str = "urn:sabir:agnt:told";

/// Data for subscribers besides the booking itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookContext {
    /// The event name, where the transition has one of its own.
    pub event: Option<&'static str>,
    /// The visible prefix of the key.
    pub prefix: Option<String>,
    /// The caller's own id for the booking.
    pub correlation: Option<String>,
}

impl WebhookContext {
    /// The metadata for the booking's artifact.
    pub fn metadata(&self) -> Option<Object> {
        #[derive(Serialize)]
        struct ArtifactMetadata<'a> {
            #[serde(rename = "urn:sabir:agnt:told")]
            told: ContextMembers<'a>,
        }
        #[derive(Serialize)]
        struct ContextMembers<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            event: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            api_key_prefix: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            correlation_id: Option<&'a str>,
        }
        let (api_key_prefix, correlation_id) = (self.prefix.as_deref(), self.correlation.as_deref());
        let told = ContextMembers { event: self.event, api_key_prefix, correlation_id };
        Json::of(&ArtifactMetadata { told }).and_then(Object::new).ok()
    }
}

/// Whether a subscriber wants an event.
fn wants(subscriber: &Subscriber, event: &str) -> bool {
    subscriber.events.is_empty() || subscriber.events.iter().any(|wanted| wanted == event)
}

/// The push configurations for a step: `named` is the event name, if it has one of its own, and `moved` says whether a
/// known booking has moved. A URL that cannot be called was refused when it was subscribed; one that is stored all the
/// same is skipped, so that no booking fails because of it.
pub fn push_effects(subscribers: &[Subscriber], named: Option<&str>, moved: bool, at: Timestamp) -> Vec<Effect> {
    let mut effects = Vec::new();
    for subscriber in subscribers {
        let Ok(host) = sabir_gateway::host_of(&subscriber.url) else { continue };
        let mut put = |id: String| {
            let config = PushConfig { id: Some(id), url: subscriber.url.clone(), token: None, authentication: None };
            let (dialect, host) = (DIALECT.into(), host.clone());
            effects.push(Effect::PutPush { config, dialect, host, at, configs_max: CONFIGS_MAX });
        };
        if named.is_some_and(|event| wants(subscriber, event)) {
            put(format!("{PREFIX}{}", subscriber.id));
        }
        if moved && wants(subscriber, STATUS_CHANGED) {
            put(format!("{PREFIX}{}{CHANGED}", subscriber.id));
        }
    }
    effects
}

/// The id of the subscription behind a configuration.
pub fn subscription_of(config: &str) -> Option<&str> {
    let id = config.strip_prefix(PREFIX)?;
    Some(id.strip_suffix(CHANGED).unwrap_or(id)).filter(|id| !id.is_empty())
}

/// The body of a notification about an event of a task. It is the same at every attempt, since it is made from the
/// event alone; `None` for an event that is not about a booking.
pub fn body(config: &str, event: &FrozenEvent, at: Timestamp) -> Option<Vec<u8>> {
    let booking = match event.thaw()? {
        sabir_proto::Event::Task(task) => task.artifacts.into_iter().find(is_booking)?,
        sabir_proto::Event::ArtifactUpdate(update) => Some(update.artifact).filter(is_booking)?,
        _ => return None,
    };
    let told = booking.metadata.as_ref()?.get(CONTEXT_URN)?;
    let named = told.get("event").and_then(Value::as_str);
    let event = if config.ends_with(CHANGED) { STATUS_CHANGED } else { named? };
    let mut data: Map<String, Value> = sabir_proto::first_data(&booking.parts)?.read().ok()?;
    if let Some(venue) = data.get("venue").and_then(|venue| venue.get("id")).cloned() {
        data.insert("venue_id".into(), venue);
    }
    for name in ["api_key_prefix", "correlation_id"] {
        if let Some(value) = told.get(name).filter(|value| !value.is_null()) {
            data.insert(name.into(), value.clone());
        }
    }
    serde_json::to_vec(&NotificationBody { event, timestamp: at, data }).ok()
}

/// The body of a notification, in the form of *Standard Webhooks*.
#[derive(Serialize)]
struct NotificationBody<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    timestamp: Timestamp,
    data: Map<String, Value>,
}

fn is_booking(artifact: &Artifact) -> bool {
    artifact.artifact_id.as_str() == crate::BOOKING
}
