//! `sabir push …`: what a server owes to webhooks, and what it has given up.

use super::{ServerFiles, problem, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{ErrorCode, Outcome as Ran, Problem, Stop};
use crate::render::Fields;
use clap::Args;
use sabir_server::Config;
use sabir_server::admin::{
    AdminError, DELIVERIES_MAX, DeliveryOutcome, DeliveryView, OutboxRequest, OutboxResponse, SecretRef, Webhook,
    WebhookTrial, run_outbox_request, try_webhook,
};
use serde_json::{Value, json};

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
    server: ServerFiles,
}

impl Verb for PushList {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        if !(1..=DELIVERIES_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {DELIVERIES_MAX}")).into());
        }
        let config = self.server.config()?;
        let mut deliveries = Vec::new();
        for (dead, unwanted) in [(false, self.dead), (true, self.waiting)] {
            if !unwanted {
                let (task, after, limit) = (self.task.clone(), self.after, self.limit);
                deliveries.extend(list(&config, OutboxRequest::List { dead, task, after, limit })?);
            }
        }
        deliveries.sort_by_key(|delivery| delivery.number);
        print_deliveries(&out, &deliveries)
    }
}

/// Show one delivery, with when each attempt was made and what came of it.
#[derive(Debug, Args)]
pub(crate) struct PushShow {
    /// Its number, as `sabir push list` shows it.
    number: i64,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for PushShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let delivery = load_delivery(&self.server.config()?, OutboxRequest::Show { number: self.number }, self.number)?;
        if out.is_json() {
            out.document(&delivery_json(&delivery).to_string())?;
        }
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
    fn send_for_each(&self, server: &ServerFiles, out: &Output, order: fn(i64) -> OutboxRequest) -> Ran {
        let config = server.config()?;
        let mut deliveries = Vec::new();
        for number in &self.numbers {
            deliveries.push(load_delivery(&config, order(*number), *number)?);
        }
        if self.all_dead {
            for_each_dead_letter(&config, |number| {
                // The server or another command may have dealt with this delivery in the meantime, which is no error.
                if let OutboxResponse::Letter(Some(delivery)) =
                    wait(sabir_server::admin::run_outbox_request(&config, order(number)))?
                {
                    deliveries.push(*delivery);
                }
                Ok(())
            })?;
        }
        print_deliveries(out, &deliveries)
    }
}

/// Goes through all dead letters, the events of each webhook in their order. The numbers do not give that order: a
/// delivery that was given up after its neighbours may have a lower number than they have.
fn for_each_dead_letter(config: &Config, mut work: impl FnMut(i64) -> Result<(), Stop>) -> Result<(), Stop> {
    let (mut after, mut dead) = (0, Vec::new());
    loop {
        let page = list(config, OutboxRequest::List { dead: true, task: None, after, limit: DELIVERIES_MAX })?;
        let Some(last) = page.last() else { break };
        after = last.number;
        dead.extend(
            page.into_iter()
                .map(|delivery| (delivery.task_id, delivery.config_id, delivery.first_event, delivery.number)),
        );
    }
    dead.sort_unstable();
    dead.into_iter().try_for_each(|(.., number)| work(number))
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
    server: ServerFiles,
}

impl Verb for PushRetry {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        self.which.send_for_each(&self.server, &out, |number| OutboxRequest::Retry { number })
    }
}

/// Forget deliveries for good, dead ones or waiting ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sabir push drop 17\n  sabir push drop --all-dead")]
pub(crate) struct PushDrop {
    #[command(flatten)]
    which: DeliverySelection,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for PushDrop {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        self.which.send_for_each(&self.server, &out, |number| OutboxRequest::Drop { number })
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
    server: ServerFiles,
}

impl Verb for PushTest {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let config = self.server.config()?;
        let webhook = Webhook { url: self.url, token: self.token, scheme: self.scheme, credentials: self.credentials };
        let tried = wait(async { try_webhook(&config, webhook).await.map_err(AdminError::Failed) })?;
        let (accepted, words) = describe_outcome(&tried.delivered.outcome);
        let WebhookTrial { id, body, delivered } = tried;
        let took = u64::try_from(delivered.took.as_millis()).unwrap_or(u64::MAX);
        if out.is_json() {
            let told = json!({"id": id, "accepted": accepted, "result": words, "tookMs": took});
            out.document(&told.to_string())?;
        }
        out.text(|fields| {
            fields.field("Delivery ID", &id);
            fields.field("Body", &body);
            fields.field("Result", &words);
            fields.field("Took", &format!("{took} ms"));
        })?;
        Ok(if accepted { Exit::Done } else { Exit::Failed })
    }
}

/// Whether a sample was accepted, and what happened in words.
fn describe_outcome(outcome: &DeliveryOutcome) -> (bool, String) {
    match outcome {
        DeliveryOutcome::Accepted { status } => (true, format!("accepted with HTTP {status}")),
        DeliveryOutcome::Refused { status, retry_after: None } => {
            (false, format!("refused with HTTP {status}; a delivery would be tried again"))
        }
        DeliveryOutcome::Refused { status, retry_after: Some(after) } => {
            (false, format!("refused with HTTP {status}; a delivery would be tried again after {} s", after.as_secs()))
        }
        DeliveryOutcome::Gone { status } => {
            (false, format!("gone with HTTP {status}; nothing more would be delivered"))
        }
        DeliveryOutcome::Forbidden { reason } => (false, format!("not called: {reason}")),
        DeliveryOutcome::Unreachable { reason }
        | DeliveryOutcome::NoAnswer { reason }
        | DeliveryOutcome::NotAttempted { reason } => {
            (false, format!("no answer: {reason}; a delivery would be tried again"))
        }
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

fn list(config: &Config, wanted: OutboxRequest) -> Result<Vec<DeliveryView>, Stop> {
    match wait(run_outbox_request(config, wanted))? {
        OutboxResponse::Letters(deliveries) => Ok(deliveries),
        OutboxResponse::Letter(_) | OutboxResponse::Failed(_) => Err(unexpected_response()),
    }
}

fn load_delivery(config: &Config, wanted: OutboxRequest, number: i64) -> Result<DeliveryView, Stop> {
    match wait(run_outbox_request(config, wanted))? {
        OutboxResponse::Letter(Some(delivery)) => Ok(*delivery),
        OutboxResponse::Letter(None) => {
            let none = format!("there is no delivery {number}; what was delivered is not kept");
            Err(Problem::new(ErrorCode::Vendor("SABIR_ERR_NO_DELIVERY"), none)
                .hint("sabir push list shows the numbers")
                .into())
        }
        OutboxResponse::Letters(_) | OutboxResponse::Failed(_) => Err(unexpected_response()),
    }
}

fn unexpected_response() -> Stop {
    problem(AdminError::Failed("the server answers something else than it was asked; is it another version?".into()))
        .into()
}

fn print_deliveries(out: &Output, deliveries: &[DeliveryView]) -> Ran {
    if out.is_json() {
        out.document(&json!({"deliveries": deliveries.iter().map(delivery_json).collect::<Vec<_>>()}).to_string())?;
    }
    out.text(|fields| {
        deliveries.iter().for_each(|delivery| write_fields(fields, delivery));
        fields.field("Total", &deliveries.len().to_string());
    })?;
    Ok(Exit::Done)
}

/// A delivery in JSON, with its state.
fn delivery_json(delivery: &DeliveryView) -> Value {
    let mut all = serde_json::to_value(delivery).unwrap_or_default();
    all["state"] = json!(state_name(delivery));
    all
}

fn state_name(delivery: &DeliveryView) -> &'static str {
    if delivery.buried.is_some() { "dead" } else { "waiting" }
}

/// Shows a delivery as fields.
fn write_fields(fields: &mut Fields, delivery: &DeliveryView) {
    let events = match (delivery.first_event, delivery.last_event) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first} to {last}"),
    };
    fields.field("Delivery", &delivery.number.to_string());
    fields.field("State", state_name(delivery));
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
