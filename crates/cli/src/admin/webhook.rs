//! `sabir webhook …`: the webhooks that are told of changes to the bookings of a key.

use super::venue::{ask, unexpected_response};
use super::{ServerFiles, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{Expect, NetworkRequest, NetworkResponse, SubscriptionView};
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
pub(crate) struct WebhookAdd {
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
    server: ServerFiles,
}

impl Verb for WebhookAdd {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let Self { key, url, events, server: place } = self;
        if !url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err(Problem::usage("--url is not an address that can be called; write https://HOST/PATH").into());
        }
        let keys = wait(place.open(Expect::Existing)?.keys())?;
        if !keys.iter().any(|known| known.id.as_str() == key) {
            let unknown = Problem::new(ErrorCode::Vendor("SABIR_ERR_UNKNOWN_KEY"), format!("there is no key {key}"));
            return Err(unknown.hint("sabir key list shows the ids").into());
        }
        print_webhook(&out, ask(&place, NetworkRequest::Subscribe { key, url, events })?, "")
    }
}

/// List the webhooks of bookings.
#[derive(Debug, Args)]
pub(crate) struct WebhookList {
    /// Only of the bookings of this key.
    #[arg(long, value_name = "KEY_ID")]
    key: Option<String>,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for WebhookList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let order = NetworkRequest::Subscriptions { key: self.key };
        let NetworkResponse::Subscriptions(all) = ask(&self.server, order)? else {
            return Err(unexpected_response());
        };
        if out.is_json() {
            out.document(&json!({"webhooks": all}).to_string())?;
        }
        out.text(|fields| {
            all.iter().for_each(|one| write_fields(fields, one));
            fields.field("Total", &all.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Give a webhook another secret, which is shown once.
///
/// For a while both sign, so that the receiver can change over when it likes; what waits is signed with both as well. The
/// header X-Agnt-Signature has room for one, and is by the new one at once.
#[derive(Debug, Args)]
pub(crate) struct WebhookRotate {
    /// Its id, as sabir webhook list shows it.
    id: String,
    /// Hours for which the secret before this one signs as well.
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    overlap: u64,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for WebhookRotate {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let overlap_seconds = self.overlap.saturating_mul(3600);
        let order = NetworkRequest::RotateSubscription { id: self.id.clone(), overlap_seconds };
        print_webhook(&out, ask(&self.server, order)?, &self.id)
    }
}

/// Remove a webhook. Deliveries that still wait for it are given up.
#[derive(Debug, Args)]
pub(crate) struct WebhookRemove {
    /// Its id, as sabir webhook list shows it.
    id: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for WebhookRemove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let order = NetworkRequest::Unsubscribe { id: self.id.clone() };
        print_webhook(&out, ask(&self.server, order)?, &self.id)
    }
}

fn print_webhook(out: &Output, said: NetworkResponse, id: &str) -> Outcome {
    match said {
        NetworkResponse::Subscription(Some(webhook)) => {
            if out.is_json() {
                out.document(&json!(webhook).to_string())?;
            }
            out.text(|fields| write_fields(fields, &webhook))?;
            if webhook.secret.is_some() {
                out.note("The secret is shown this once; give it to the receiver.");
            }
            Ok(Exit::Done)
        }
        NetworkResponse::Subscription(None) => {
            let unknown = Problem::new(ErrorCode::Vendor("SABIR_ERR_NO_WEBHOOK"), format!("there is no webhook {id}"));
            Err(unknown.hint("sabir webhook list shows all of them").into())
        }
        _ => Err(unexpected_response()),
    }
}

fn write_fields(fields: &mut Fields, webhook: &SubscriptionView) {
    fields.field("Webhook", &webhook.id);
    fields.field("Key", &webhook.key);
    fields.field("URL", &webhook.url);
    let events = if webhook.events.is_empty() { "all".to_owned() } else { webhook.events.join(", ") };
    fields.field("Events", &events);
    fields.field("Since", &webhook.created_at.to_string());
    fields.maybe("Old secret until", webhook.previous_until.map(|until| until.to_string()).as_deref());
    fields.maybe("Ended", webhook.ended.as_deref());
    fields.maybe("Secret", webhook.secret.as_deref());
}
