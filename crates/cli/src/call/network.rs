//! `sabir network …`: reads and updates the registry of a booking network.

use super::{InterruptHandling, Session, run_session, tls};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem, TransportStatus};
use bytes::Bytes;
use clap::Args;
use http::{Method, Request, header};
use sabir_client::{DocumentClient, Egress, Error};
use sabir_wire::agnt::PATH;
use serde_json::{Value, json};
use std::time::Duration;
use url::Url;

/// How long a registry may take.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest answer of a registry, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Ask a registry which networks there are, and who covers what, best first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir network list -a http://127.0.0.1:4000\n  \
    sabir network list -a http://127.0.0.1:4000 --category restaurant --location Canggu --intent booking.confirm")]
pub(crate) struct NetworkList {
    /// Networks that take this intent.
    #[arg(long, value_name = "INTENT")]
    intent: Option<String>,
    /// Networks that have venues of this category.
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,
    /// Networks that have venues there: a city, a part of one, or a country.
    #[arg(long, value_name = "PLACE")]
    location: Option<String>,
    /// Networks that can do this as well, such as via.
    #[arg(long, value_name = "FEATURE")]
    feature: Option<String>,
}

impl Verb for NetworkList {
    fn run(self, invocation: Invocation) -> Outcome {
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let mut url = below(&registry_server(session)?, "search")?;
            let wishes = [
                ("intent", &self.intent),
                ("category", &self.category),
                ("location", &self.location),
                ("feature", &self.feature),
            ];
            for (name, value) in wishes {
                if let Some(value) = value {
                    url.query_pairs_mut().append_pair(name, value);
                }
            }
            url.query_pairs_mut().append_pair("limit", "100");
            let found = ask(session, Method::GET, &url, None).await?;
            if session.out.is_json() {
                session.out.document(&found.to_string())?;
                return Ok(Exit::Done);
            }
            let networks = found["networks"].as_array().cloned().unwrap_or_default();
            session.out.text(|fields| {
                for network in &networks {
                    let record = &network["record"];
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    fields.field("Network", &text(&record["network_id"]));
                    fields.field("  Endpoint", &text(&record["endpoint"]));
                    for (label, member) in
                        [("  Categories", "categories"), ("  Areas", "areas"), ("  Cities", "cities")]
                    {
                        fields.maybe(label, comma_separated(&record["coverage"][member]).as_deref());
                    }
                    fields.field("  Fee", &format!("{} %", record["pricing"]["fee_pct"]));
                    fields.field("  Published at", &text(&network["origin"]));
                    fields.field("  Until", &text(&record["expires_at"]));
                }
                fields.field("Total", &networks.len().to_string());
            })?;
            Ok(Exit::Done)
        })
    }
}

/// Have a registry take up another network.
///
/// The record is read where the network publishes it, and put into the registry of --agent-card as it was signed. The
/// registry asks the network's own host for its keys before it believes it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sabir network add https://other.example -a http://127.0.0.1:4000")]
pub(crate) struct NetworkAdd {
    /// The other network.
    #[arg(value_name = "URL")]
    network: String,
}

impl Verb for NetworkAdd {
    fn run(self, invocation: Invocation) -> Outcome {
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let (from, to) = (address(&self.network)?, registry_server(session)?);
            copy_record(session, &from, &to).await
        })
    }
}

/// Publish a network at another registry.
///
/// The record that the network of --agent-card has signed for itself is put into the registry of --to. It is good for a day;
/// registries that read each other's changes pass it on by themselves.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sabir network publish --to https://registry.example -a http://127.0.0.1:4000")]
pub(crate) struct NetworkPublish {
    /// The registry to publish at.
    #[arg(long, value_name = "URL")]
    to: String,
}

impl Verb for NetworkPublish {
    fn run(self, invocation: Invocation) -> Outcome {
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let (from, to) = (registry_server(session)?, address(&self.to)?);
            copy_record(session, &from, &to).await
        })
    }
}

/// Take a network out of a registry, with a record that says so and is signed by its own key.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    sabir network remove network:agnt --key file:card-key.pem -a https://registry.example")]
pub(crate) struct NetworkRemove {
    /// The network.
    #[arg(value_name = "ID")]
    id: String,
    /// The network's private key, of [server.signing]: a file, file:PATH or env:NAME.
    #[arg(long, value_name = "KEY")]
    key: String,
}

impl Verb for NetworkRemove {
    fn run(self, invocation: Invocation) -> Outcome {
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let url = below(&registry_server(session)?, &format!("networks/{}", self.id))?;
            let entry = ask(session, Method::GET, &url, None).await?;
            let signed = sabir_server::admin::make_withdrawal(&entry["record"].to_string(), &self.key)
                .map_err(|problem| Problem::usage(problem).hint("sabir network remove --help"))?;
            ask(session, Method::DELETE, &url, Some(signed)).await?;
            session.out.text(|fields| fields.field("Removed", &self.id))?;
            if session.out.is_json() {
                session.out.document(&json!({"removed": self.id}).to_string())?;
            }
            Ok(Exit::Done)
        })
    }
}

/// Reads the record of the network at one place, and puts it into the registry at another.
async fn copy_record(session: &Session, from: &Url, to: &Url) -> Outcome {
    let mut status = from.clone();
    status.set_path(&format!("{PATH}/status"));
    let status = ask(session, Method::GET, &status, None).await?;
    let Some(id) = status["network"].as_str() else {
        return Err(Problem::new(ErrorCode::CardInvalid, format!("there is no booking network at {from}")).into());
    };
    let path = format!("networks/{id}");
    let entry = ask(session, Method::GET, &below(from, &path)?, None).await.map_err(|problem| {
        problem.hint("a network publishes a record when it has a key to sign it with: [server.signing]")
    })?;
    let signed = json!({"record": entry["record"], "signature": entry["signature"]}).to_string();
    let taken = ask(session, Method::PUT, &below(to, &path)?, Some(signed)).await?;
    session.out.text(|fields| {
        fields.field("Network", id);
        fields.field("Registry", to.as_str());
        fields.field("Record", taken["status"].as_str().unwrap_or_default());
    })?;
    if session.out.is_json() {
        session.out.document(&taken.to_string())?;
    }
    Ok(Exit::Done)
}

/// The server whose registry the command uses.
fn registry_server(session: &Session) -> Result<Url, Problem> {
    match session.settings.agent_card.text() {
        Some(text) => address(text),
        None => Err(Problem::usage("no server was given")
            .hint("sabir network … -a http://127.0.0.1:4000, or set A2ACLI_AGENT_CARD")),
    }
}

fn address(text: &str) -> Result<Url, Problem> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&whole).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let mut url = url.ok_or_else(|| Problem::usage(format!("{text:?} is no URL of a server")))?;
    url.set_path("/");
    url.set_query(None);
    Ok(url)
}

fn below(server: &Url, path: &str) -> Result<Url, Problem> {
    let joined = server.join("/registry/v1/").and_then(|base| base.join(&path.replace(':', "%3A")));
    joined.map_err(|error| Problem::usage(format!("no URL: {error}")))
}

async fn ask(session: &Session, method: Method, url: &Url, body: Option<String>) -> Result<Value, Problem> {
    let problem = |error: Error| super::problem_of(&error);
    let documents =
        DocumentClient::new(Egress::anywhere(), &tls(&session.settings).map_err(problem)?, REGISTRY_TIMEOUT);
    let request = Request::builder().method(method).uri(url.as_str()).header(header::ACCEPT, "application/json");
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Bytes::from(body.unwrap_or_default()));
    let request = request.map_err(|_| Problem::usage("the URL cannot be called"))?;
    let answer = documents.map_err(problem)?.exchange(request, ANSWER_BYTES_MAX).await.map_err(problem)?;
    let status = answer.status();
    let said: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    if status.is_success() {
        return Ok(said);
    }
    let message = match said["error"]["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("{url} answers HTTP {status}; is there a booking network?"),
    };
    let code = match status.as_u16() {
        401 | 403 => ErrorCode::AuthFailed,
        404 => ErrorCode::Vendor("SABIR_ERR_NO_NETWORK"),
        409 => ErrorCode::Vendor("SABIR_ERR_STALE"),
        _ => ErrorCode::Internal,
    };
    Err(Problem::new(code, message).transport(Some(TransportStatus::Number(status.as_u16().into()))))
}

/// A list of texts on one line; nothing where it is empty.
fn comma_separated(list: &Value) -> Option<String> {
    let words: Vec<&str> = list.as_array()?.iter().filter_map(Value::as_str).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
