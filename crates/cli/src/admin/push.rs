//! `sabir push …`: what a server owes to webhooks, and what it has given up.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome as Ran, Problem, Stop};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{
    AdminErrorCode, AdminOperation, DELIVERIES_MAX, DeliveryList, DeliveryState, DeliveryView, DropDelivery,
    ListDeliveries, RetryDelivery, SecretRef, ShowDelivery, TestWebhook, WebhookSecret, WebhookTrial,
};
use serde_json::json;

/// List deliveries that wait and deliveries that were given up (dead letters), by number.
///
/// What was delivered is not kept. This looks into the files of a server, or asks it while it runs; registering webhooks
/// with an agent is for `sabir task push-config`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir push list\n  \
    sabir push list --dead --data /var/lib/sabir\n  \
    sabir push list --task 0198c0de-… -o json")]
pub(crate) struct PushList {
    /// Only those that were given up.
    #[arg(long, conflicts_with = "waiting")]
    dead: bool,
    /// Only those that wait.
    #[arg(long)]
    waiting: bool,
    /// Only of this task.
    #[arg(long, value_name = "TASK_ID")]
    task: Option<String>,
    /// Only with higher numbers than this one.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: i64,
    /// At most so many of each kind.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for PushList {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        if !(1..=DELIVERIES_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {DELIVERIES_MAX}")).into());
        }
        let mut deliveries = Vec::new();
        for (state, unwanted) in [(DeliveryState::Waiting, self.dead), (DeliveryState::Dead, self.waiting)] {
            if !unwanted {
                let (task, after, limit) = (self.task.clone(), self.after, self.limit);
                deliveries.extend(self.server.ask(ListDeliveries { state, task, after, limit })?.deliveries);
            }
        }
        deliveries.sort_by_key(|delivery| delivery.number);
        print_deliveries(&out, deliveries)
    }
}

/// Show one delivery, with when each attempt was made and what came of it.
#[derive(Debug, Args)]
pub(crate) struct PushShow {
    /// Its number, as `sabir push list` shows it.
    number: i64,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for PushShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let delivery = self.server.ask(ShowDelivery { number: self.number })?;
        print_json(&out, &delivery)?;
        out.text(|fields| {
            write_fields(fields, &delivery);
            for tried in &delivery.tries {
                let status = tried.status.map(|status| format!(" HTTP {status}")).unwrap_or_default();
                let problem = if tried.problem.is_empty() { String::new() } else { format!(" {}", tried.problem) };
                fields.field("Attempt", &format!("{}{status} after {} ms{problem}", tried.at, tried.took_ms));
            }
        })?;
        Ok(Exit::Done)
    }
}

/// The deliveries that a command is about.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct DeliverySelection {
    /// Their numbers, as `sabir push list` shows them.
    #[arg(value_name = "NUMBER")]
    numbers: Vec<i64>,
    /// Everything that was given up.
    #[arg(long)]
    all_dead: bool,
}

impl DeliverySelection {
    /// Sends one request for each delivery, and shows the deliveries.
    fn send_for_each<O>(&self, server: &ServerTarget, out: &Output, operation: fn(i64) -> O) -> Ran
    where
        O: AdminOperation<Output = DeliveryView>,
    {
        let mut deliveries = Vec::new();
        for number in &self.numbers {
            deliveries.push(server.ask(operation(*number))?);
        }
        if self.all_dead {
            for number in dead_letters(server)? {
                // The server or another command may have dealt with this delivery in the meantime, which is no error.
                deliveries.extend(server.ask_if_exists(operation(number), AdminErrorCode::NoDelivery)?);
            }
        }
        print_deliveries(out, deliveries)
    }
}

/// The numbers of all dead letters, the events of each webhook in their order. The numbers do not give that order: a
/// delivery that was given up after its neighbours may have a lower number than they have.
fn dead_letters(server: &ServerTarget) -> Result<Vec<i64>, Stop> {
    let (mut after, mut dead) = (0, Vec::new());
    loop {
        let query = ListDeliveries { state: DeliveryState::Dead, task: None, after, limit: DELIVERIES_MAX };
        let page = server.ask(query)?.deliveries;
        let Some(last) = page.last() else { break };
        after = last.number;
        let place = |one: DeliveryView| (one.task_id, one.config_id, one.first_event, one.number);
        dead.extend(page.into_iter().map(place));
    }
    dead.sort_unstable();
    Ok(dead.into_iter().map(|(.., number)| number).collect())
}

/// Try deliveries again now, dead ones too, as if for the first time.
///
/// A delivery goes before younger events for the same webhook.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sabir push retry 17 18\n  sabir push retry --all-dead")]
pub(crate) struct PushRetry {
    #[command(flatten)]
    which: DeliverySelection,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for PushRetry {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        self.which.send_for_each(&self.server, &out, |number| RetryDelivery { number })
    }
}

/// Forget deliveries for good, dead ones or waiting ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sabir push drop 17\n  sabir push drop --all-dead")]
pub(crate) struct PushDrop {
    #[command(flatten)]
    which: DeliverySelection,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for PushDrop {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        self.which.send_for_each(&self.server, &out, |number| DropDelivery { number })
    }
}

/// Send a sample to a webhook, as the server would: same addresses allowed, same signatures.
///
/// The sample reports the end of a task that does not exist. Nothing is kept. Exit code 1 if the webhook does not
/// accept it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir push test https://hooks.example/a2a\n  \
    sabir push test https://hooks.example/a2a --scheme Bearer --credentials env:HOOK_TOKEN")]
pub(crate) struct PushTest {
    /// The URL of the webhook.
    url: String,
    /// The scheme of its authentication, such as Bearer.
    #[arg(long, value_name = "SCHEME")]
    scheme: Option<String>,
    /// Where the credentials for it are: env:NAME or file:PATH.
    #[arg(long, value_name = "REF", requires = "scheme", value_parser = reference)]
    credentials: Option<SecretRef>,
    /// Where the token for X-A2A-Notification-Token is: env:NAME or file:PATH.
    #[arg(long, value_name = "REF", value_parser = reference)]
    token: Option<SecretRef>,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for PushTest {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let Self { url, scheme, credentials, token, server } = self;
        let read = |reference: Option<SecretRef>| reference.as_ref().map(WebhookSecret::read).transpose();
        let credentials = read(credentials).map_err(Problem::usage)?;
        let token = read(token).map_err(Problem::usage)?;
        let tried = server.ask(TestWebhook { url, token, scheme, credentials })?;
        let WebhookTrial { id, accepted, result, took_ms, body } = tried;
        if out.is_json() {
            let shown = json!({"id": id, "accepted": accepted, "result": result, "tookMs": took_ms});
            out.document(&shown.to_string())?;
        }
        out.text(|fields| {
            fields.field("Delivery ID", &id);
            fields.field("Body", &body);
            fields.field("Result", &result);
            fields.field("Took", &format!("{took_ms} ms"));
        })?;
        Ok(if accepted { Exit::Done } else { Exit::Failed })
    }
}

/// Parses a secret reference. A relative path starts where it was typed.
fn reference(text: &str) -> Result<SecretRef, String> {
    // Not repeated: what was typed instead may be the secret itself.
    match SecretRef::parse(text).map_err(|_| "it is env:NAME or file:PATH".to_owned())? {
        SecretRef::File(path) => Ok(SecretRef::File(std::path::absolute(path).map_err(|e| e.to_string())?)),
        SecretRef::Env(name) => Ok(SecretRef::Env(name)),
    }
}

fn print_deliveries(out: &Output, deliveries: Vec<DeliveryView>) -> Ran {
    let list = DeliveryList { deliveries };
    print_json(out, &list)?;
    out.text(|fields| {
        list.deliveries.iter().for_each(|delivery| write_fields(fields, delivery));
        fields.field("Total", &list.deliveries.len().to_string());
    })?;
    Ok(Exit::Done)
}

const fn state_name(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Waiting => "waiting",
        DeliveryState::Dead => "dead",
    }
}

/// Shows a delivery as fields.
fn write_fields(fields: &mut Fields, delivery: &DeliveryView) {
    let events = match (delivery.first_event, delivery.last_event) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first} to {last}"),
    };
    fields.field("Delivery", &delivery.number.to_string());
    fields.field("State", state_name(delivery.state));
    fields.field("Task ID", &delivery.task_id);
    fields.field("Config ID", &delivery.config_id);
    fields.maybe("Receiver", delivery.receiver.as_deref());
    fields.maybe("Dialect", delivery.dialect.as_deref());
    fields.field("Events", &events);
    fields.field("Since", &delivery.at.to_string());
    fields.field("Attempts", &delivery.attempts.to_string());
    fields.maybe("Next attempt", delivery.due.map(|due| due.to_string()).as_deref());
    if let Some(last) = delivery.tries.last() {
        fields.maybe("Last status", last.status.map(|status| status.to_string()).as_deref());
        fields.maybe("Last problem", Some(&last.problem));
    }
    fields.maybe("Given up", delivery.buried.map(|at| at.to_string()).as_deref());
    fields.maybe("Reason", delivery.reason.as_deref());
}
