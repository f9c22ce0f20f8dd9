//! Subscriptions to events of bookings: created, listed, rotated and removed, for commands and for holders of keys.

use crate::admin::SubscriptionView;
use crate::tokio_host::TokioHost;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::TryRng as _;
use rand::rngs::SysRng;
use sabir_engine::Host as _;
use sabir_network::webhook::EVENTS;
use sabir_proto::{Secret, Timestamp};
use sabir_store::{Ledger, Subscription};
use std::time::Duration;

/// The longest time for which two secrets may sign.
pub(crate) const OVERLAP_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Subscribes a webhook to the bookings of a key. Only the returned value has the secret.
pub(crate) async fn subscribe(
    ledger: &dyn Ledger,
    key: &str,
    url: &str,
    events: Vec<String>,
    production: bool,
) -> Result<SubscriptionView, String> {
    let destination = sabir_gateway::parse_outbound_url(url).map_err(|e| e.to_string())?;
    if production && destination.scheme() != "https" {
        return Err("a server of production tells bookings by https alone".into());
    }
    if let Some(unknown) = events.iter().find(|event| !EVENTS.contains(&event.as_str())) {
        return Err(format!("{unknown:?} is no event; there are {}", EVENTS.join(", ")));
    }
    let (secret, now) = (secret()?, TokioHost.now());
    let id = format!("sub-{:016x}", TokioHost.random());
    let (key, url) = (key.to_owned(), url.to_owned());
    let made = Subscription { id, key, url, events, secret, previous: None, created_at: now, ended: None };
    ledger.subscribe(made.clone()).await.map_err(|e| e.to_string())?;
    Ok(SubscriptionView { secret: Some(made.secret.expose().to_owned()), ..view(made) })
}

/// The subscriptions of one key, or all of them.
pub(crate) async fn list(ledger: &dyn Ledger, key: Option<&str>) -> Result<Vec<SubscriptionView>, String> {
    let all = ledger.subscriptions(key).await.map_err(|e| e.to_string())?;
    Ok(all.into_iter().map(view).collect())
}

/// Gives a subscription another secret; the present one signs too for a while. A subscription that had ended is active
/// again.
pub(crate) async fn rotate(
    ledger: &dyn Ledger,
    id: &str,
    overlap: Duration,
) -> Result<Option<SubscriptionView>, String> {
    if overlap > OVERLAP_MAX {
        return Err(format!("two secrets sign for {} days at most", OVERLAP_MAX.as_secs() / 86_400));
    }
    let (secret, now) = (secret()?, TokioHost.now());
    let millis = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
    let until = Timestamp::from_millis(now.millis().saturating_add(millis));
    if !ledger.rotate_subscription(id, secret.clone(), until).await.map_err(|e| e.to_string())? {
        return Ok(None);
    }
    ledger.end_subscription(id, None).await.map_err(|e| e.to_string())?;
    let found = ledger.subscription(id).await.map_err(|e| e.to_string())?;
    Ok(found.map(|found| SubscriptionView { secret: Some(secret.expose().to_owned()), ..view(found) }))
}

/// Removes a subscription, and returns it.
pub(crate) async fn remove(ledger: &dyn Ledger, id: &str) -> Result<Option<SubscriptionView>, String> {
    let found = ledger.subscription(id).await.map_err(|e| e.to_string())?;
    let gone = ledger.unsubscribe(id).await.map_err(|e| e.to_string())?;
    Ok(found.filter(|_| gone).map(view))
}

/// A subscription without its secrets.
pub(crate) fn view(one: Subscription) -> SubscriptionView {
    let Subscription { id, key, url, events, previous, created_at, ended, .. } = one;
    let previous_until = previous.map(|(_, until)| until);
    SubscriptionView { id, key, url, events, created_at, previous_until, ended, secret: None }
}

/// 32 random bytes, in the form of *Standard Webhooks*.
fn secret() -> Result<Secret, String> {
    let mut random = [0; 32];
    SysRng.try_fill_bytes(&mut random).map_err(|e| format!("the operating system gives no random numbers: {e}"))?;
    Ok(Secret::new(format!("whsec_{}", STANDARD.encode(random))))
}
