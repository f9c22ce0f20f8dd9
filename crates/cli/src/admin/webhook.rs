//! `sabir webhook …`: the webhooks that are told of changes to the bookings of a key.

use super::venue::{ask, unexpected};
use super::{Place, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Code, Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{Expect, NetworkOrder, NetworkSaid, SubscriptionView};
use serde_json::json;

/// Have a URL told of what happens to the bookings of a key.
///
/// Every delivery is signed with the secret that is shown here, once: in the headers of Standard Webhooks and in
/// X-Agnt-Timestamp and X-Agnt-Signature. Deliveries are tried for a day; sabir push shows those that wait or were given
/// up.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir webhook add --key k01ab… --url https://hooks.example/bookings\n  \
    sabir webhook add --key k01ab… --url https://hooks.example/bookings --event booking.confirmed --event booking.cancelled")]
pub(crate) struct Add {
    /// The key, by its id, as sabir key list shows it.
    #[arg(long, value_name = "KEY_ID")]
    key: String,
    /// The URL that receives the deliveries.
    #[arg(long)]
    url: String,
    /// Of what: booking.confirmed, booking.cancelled, booking.completed, booking.no_show or booking.status_changed; of
    /// everything when not given. May be repeated.
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    #[command(flatten)]
    place: Place,
}

impl Verb for Add {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let Self { key, url, events, place } = self;
        if !url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err(Problem::usage("--url is not an address that can be called; write https://HOST/PATH").into());
        }
        let keys = wait(place.open(Expect::Existing)?.keys())?;
        if !keys.iter().any(|known| known.id.as_str() == key) {
            let unknown = Problem::new(Code::Vendor("SABIR_ERR_UNKNOWN_KEY"), format!("there is no key {key}"));
            return Err(unknown.hint("sabir key list shows the ids").into());
        }
        one(&out, ask(&place, NetworkOrder::Subscribe { key, url, events })?, "")
    }
}

/// List the webhooks of bookings.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of the bookings of this key.
    #[arg(long, value_name = "KEY_ID")]
    key: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Verb for List {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let order = NetworkOrder::Subscriptions { key: self.key };
        let NetworkSaid::Subscriptions(all) = ask(&self.place, order)? else {
            return Err(unexpected());
        };
        if out.is_json() {
            out.document(&json!({"webhooks": all}).to_string())?;
        }
        out.text(|floor| {
            all.iter().for_each(|one| fields(floor, one));
            floor.field("Total", &all.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Give a webhook another secret, which is shown once.
///
/// For a while both sign, so that the receiver can change over when it likes; what waits is signed with both as well. The
/// header X-Agnt-Signature has room for one, and is by the new one at once.
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// Its id, as sabir webhook list shows it.
    id: String,
    /// Hours for which the secret before this one signs as well.
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    overlap: u64,
    #[command(flatten)]
    place: Place,
}

impl Verb for Rotate {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let overlap_seconds = self.overlap.saturating_mul(3600);
        let order = NetworkOrder::RotateSubscription { id: self.id.clone(), overlap_seconds };
        one(&out, ask(&self.place, order)?, &self.id)
    }
}

/// Remove a webhook. Deliveries that still wait for it are given up.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// Its id, as sabir webhook list shows it.
    id: String,
    #[command(flatten)]
    place: Place,
}

impl Verb for Remove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let order = NetworkOrder::Unsubscribe { id: self.id.clone() };
        one(&out, ask(&self.place, order)?, &self.id)
    }
}

fn one(out: &Output, said: NetworkSaid, id: &str) -> Outcome {
    match said {
        NetworkSaid::Subscription(Some(webhook)) => {
            if out.is_json() {
                out.document(&json!(webhook).to_string())?;
            }
            out.text(|floor| fields(floor, &webhook))?;
            if webhook.secret.is_some() {
                out.note("The secret is shown this once; give it to the receiver.");
            }
            Ok(Exit::Done)
        }
        NetworkSaid::Subscription(None) => {
            let unknown = Problem::new(Code::Vendor("SABIR_ERR_NO_WEBHOOK"), format!("there is no webhook {id}"));
            Err(unknown.hint("sabir webhook list shows all of them").into())
        }
        _ => Err(unexpected()),
    }
}

fn fields(floor: &mut Fields, webhook: &SubscriptionView) {
    floor.field("Webhook", &webhook.id);
    floor.field("Key", &webhook.key);
    floor.field("URL", &webhook.url);
    let events = if webhook.events.is_empty() { "all".to_owned() } else { webhook.events.join(", ") };
    floor.field("Events", &events);
    floor.field("Since", &webhook.created_at.to_string());
    floor.maybe("Old secret until", webhook.previous_until.map(|until| until.to_string()).as_deref());
    floor.maybe("Ended", webhook.ended.as_deref());
    floor.maybe("Secret", webhook.secret.as_deref());
}
