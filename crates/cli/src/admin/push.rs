//! `sabir push …`: what a server owes to webhooks, and what it has given up.

use super::{Place, problem, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Code, Outcome as Ran, Problem, Stop};
use crate::render::Fields;
use clap::Args;
use sabir_server::Config;
use sabir_server::admin::{
    AdminError, LETTERS_MAX, Letter, Order, Outcome, Said, SecretRef, Tried, Webhook, order, try_webhook,
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
pub(crate) struct List {
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
    place: Place,
}

impl Verb for List {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        if !(1..=LETTERS_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {LETTERS_MAX}")).into());
        }
        let config = self.place.config()?;
        let mut letters = Vec::new();
        for (dead, unwanted) in [(false, self.dead), (true, self.waiting)] {
            if !unwanted {
                let (task, after, limit) = (self.task.clone(), self.after, self.limit);
                letters.extend(list(&config, Order::List { dead, task, after, limit })?);
            }
        }
        letters.sort_by_key(|letter| letter.number);
        show_all(&out, &letters)
    }
}

/// Show one delivery, with when each attempt was made and what came of it.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Its number, as `sabir push list` shows it.
    number: i64,
    #[command(flatten)]
    place: Place,
}

impl Verb for Show {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let letter = one(&self.place.config()?, Order::Show { number: self.number }, self.number)?;
        if out.is_json() {
            out.document(&value(&letter).to_string())?;
        }
        out.text(|floor| {
            fields(floor, &letter);
            for tried in &letter.tries {
                let status = tried.status.map(|status| format!(" HTTP {status}")).unwrap_or_default();
                let problem = if tried.problem.is_empty() { String::new() } else { format!(" {}", tried.problem) };
                floor.field("Attempt", &format!("{}{status} after {} ms{problem}", tried.at, tried.took_ms));
            }
        })?;
        Ok(Exit::Done)
    }
}

/// The deliveries that a command is about.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// Their numbers, as `sabir push list` shows them.
    #[arg(value_name = "NUMBER")]
    numbers: Vec<i64>,
    /// Everything that was given up.
    #[arg(long)]
    all_dead: bool,
}

impl Which {
    /// Sends one request for each delivery, and shows the deliveries.
    fn each(&self, place: &Place, out: &Output, order: fn(i64) -> Order) -> Ran {
        let config = place.config()?;
        let mut letters = Vec::new();
        for number in &self.numbers {
            letters.push(one(&config, order(*number), *number)?);
        }
        if self.all_dead {
            each_dead(&config, |number| {
                // The server or another command may have dealt with this delivery in the meantime, which is no error.
                if let Said::Letter(Some(letter)) = wait(sabir_server::admin::order(&config, order(number)))? {
                    letters.push(*letter);
                }
                Ok(())
            })?;
        }
        show_all(out, &letters)
    }
}

/// Goes through all dead letters, the events of each webhook in their order. The numbers do not give that order: a
/// delivery that was given up after its neighbours may have a lower number than they have.
fn each_dead(config: &Config, mut work: impl FnMut(i64) -> Result<(), Stop>) -> Result<(), Stop> {
    let (mut after, mut dead) = (0, Vec::new());
    loop {
        let page = list(config, Order::List { dead: true, task: None, after, limit: LETTERS_MAX })?;
        let Some(last) = page.last() else { break };
        after = last.number;
        dead.extend(
            page.into_iter().map(|letter| (letter.task_id, letter.config_id, letter.first_event, letter.number)),
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
pub(crate) struct Retry {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    place: Place,
}

impl Verb for Retry {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        self.which.each(&self.place, &out, |number| Order::Retry { number })
    }
}

/// Forget deliveries for good, dead ones or waiting ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sabir push drop 17\n  sabir push drop --all-dead")]
pub(crate) struct Drop {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    place: Place,
}

impl Verb for Drop {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        self.which.each(&self.place, &out, |number| Order::Drop { number })
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
pub(crate) struct Test {
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
    place: Place,
}

impl Verb for Test {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let config = self.place.config()?;
        let webhook = Webhook { url: self.url, token: self.token, scheme: self.scheme, credentials: self.credentials };
        let tried = wait(async { try_webhook(&config, webhook).await.map_err(AdminError::Failed) })?;
        let (accepted, words) = verdict(&tried.delivered.outcome);
        let Tried { id, body, delivered } = tried;
        let took = u64::try_from(delivered.took.as_millis()).unwrap_or(u64::MAX);
        if out.is_json() {
            let told = json!({"id": id, "accepted": accepted, "result": words, "tookMs": took});
            out.document(&told.to_string())?;
        }
        out.text(|floor| {
            floor.field("Delivery ID", &id);
            floor.field("Body", &body);
            floor.field("Result", &words);
            floor.field("Took", &format!("{took} ms"));
        })?;
        Ok(if accepted { Exit::Done } else { Exit::Failed })
    }
}

/// Whether a sample was accepted, and what happened in words.
fn verdict(outcome: &Outcome) -> (bool, String) {
    match outcome {
        Outcome::Accepted { status } => (true, format!("accepted with HTTP {status}")),
        Outcome::Refused { status, retry_after: None } => {
            (false, format!("refused with HTTP {status}; a delivery would be tried again"))
        }
        Outcome::Refused { status, retry_after: Some(after) } => {
            (false, format!("refused with HTTP {status}; a delivery would be tried again after {} s", after.as_secs()))
        }
        Outcome::Gone { status } => (false, format!("gone with HTTP {status}; nothing more would be delivered")),
        Outcome::Forbidden { reason } => (false, format!("not called: {reason}")),
        Outcome::Unreachable { reason } | Outcome::Unanswered { reason } | Outcome::Withheld { reason } => {
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

fn list(config: &Config, wanted: Order) -> Result<Vec<Letter>, Stop> {
    match wait(order(config, wanted))? {
        Said::Letters(letters) => Ok(letters),
        Said::Letter(_) | Said::Failed(_) => Err(unexpected()),
    }
}

fn one(config: &Config, wanted: Order, number: i64) -> Result<Letter, Stop> {
    match wait(order(config, wanted))? {
        Said::Letter(Some(letter)) => Ok(*letter),
        Said::Letter(None) => {
            let none = format!("there is no delivery {number}; what was delivered is not kept");
            Err(Problem::new(Code::Vendor("SABIR_ERR_NO_DELIVERY"), none)
                .hint("sabir push list shows the numbers")
                .into())
        }
        Said::Letters(_) | Said::Failed(_) => Err(unexpected()),
    }
}

fn unexpected() -> Stop {
    problem(AdminError::Failed("the server answers something else than it was asked; is it another version?".into()))
        .into()
}

fn show_all(out: &Output, letters: &[Letter]) -> Ran {
    if out.is_json() {
        out.document(&json!({"deliveries": letters.iter().map(value).collect::<Vec<_>>()}).to_string())?;
    }
    out.text(|floor| {
        letters.iter().for_each(|letter| fields(floor, letter));
        floor.field("Total", &letters.len().to_string());
    })?;
    Ok(Exit::Done)
}

/// A delivery in JSON, with its state.
fn value(letter: &Letter) -> Value {
    let mut all = serde_json::to_value(letter).unwrap_or_default();
    all["state"] = json!(state(letter));
    all
}

fn state(letter: &Letter) -> &'static str {
    if letter.buried.is_some() { "dead" } else { "waiting" }
}

/// Shows a delivery as fields.
fn fields(floor: &mut Fields, letter: &Letter) {
    let events = match (letter.first_event, letter.last_event) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first} to {last}"),
    };
    floor.field("Delivery", &letter.number.to_string());
    floor.field("State", state(letter));
    floor.field("Task ID", &letter.task_id);
    floor.field("Config ID", &letter.config_id);
    floor.maybe("Receiver", letter.receiver.as_deref());
    floor.maybe("Dialect", letter.dialect.as_deref());
    floor.field("Events", &events);
    floor.field("Since", &letter.at.to_string());
    floor.field("Attempts", &letter.attempts.to_string());
    floor.maybe("Next attempt", letter.due.map(|due| due.to_string()).as_deref());
    if let Some(last) = letter.tries.last() {
        floor.maybe("Last status", last.status.map(|status| status.to_string()).as_deref());
        floor.maybe("Last problem", Some(&last.problem));
    }
    floor.maybe("Given up", letter.buried.map(|at| at.to_string()).as_deref());
    floor.maybe("Reason", letter.reason.as_deref());
}
