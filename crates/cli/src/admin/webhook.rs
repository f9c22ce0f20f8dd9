//! `sabir webhook …`: the webhooks that are told of changes to the bookings of a key.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{ListSubscriptions, RotateSubscription, Subscribe, SubscriptionView, Unsubscribe};

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
    server: ServerTarget,
}

impl Verb for WebhookAdd {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let Self { key, url, events, server } = self;
        if !url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err(Problem::usage("--url is not an address that can be called; write https://HOST/PATH").into());
        }
        print_webhook(&out, &server.ask(Subscribe { key, url, events })?)
    }
}

/// List the webhooks of bookings.
#[derive(Debug, Args)]
pub(crate) struct WebhookList {
    /// Only of the bookings of this key.
    #[arg(long, value_name = "KEY_ID")]
    key: Option<String>,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for WebhookList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let list = self.server.ask(ListSubscriptions { key: self.key })?;
        print_json(&out, &list)?;
        out.text(|fields| {
            list.webhooks.iter().for_each(|one| write_fields(fields, one));
            fields.field("Total", &list.webhooks.len().to_string());
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
    server: ServerTarget,
}

impl Verb for WebhookRotate {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let overlap_seconds = self.overlap.saturating_mul(3600);
        print_webhook(&out, &self.server.ask(RotateSubscription { id: self.id, overlap_seconds })?)
    }
}

/// Remove a webhook. Deliveries that still wait for it are given up.
#[derive(Debug, Args)]
pub(crate) struct WebhookRemove {
    /// Its id, as sabir webhook list shows it.
    id: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for WebhookRemove {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        print_webhook(&out, &self.server.ask(Unsubscribe { id: self.id })?)
    }
}

fn print_webhook(out: &Output, webhook: &SubscriptionView) -> Outcome {
    print_json(out, webhook)?;
    out.text(|fields| write_fields(fields, webhook))?;
    if webhook.secret.is_some() {
        out.note("The secret is shown this once; give it to the receiver.");
    }
    Ok(Exit::Done)
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
