//! `sabir auth status` and `sabir auth logout`: shows and removes stored tokens.

use super::{store, store_problem, unix_seconds};
use crate::Invocation;
use crate::call::target::AgentArgument;
use crate::call::{InterruptHandling, Session, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem, Stop};
use crate::render::Fields;
use clap::Args;
use sabir_client::AgentReference;
use sabir_client::tokens::StoredToken;
use sabir_proto::Timestamp;
use serde_json::json;

/// Show which agents a token is kept for: all of them, or one.
///
/// Tokens themselves are not shown.
#[derive(Debug, Args)]
pub(crate) struct AuthStatus {
    #[command(flatten)]
    target: AgentArgument,
}

/// Forget the tokens that are kept for an agent.
#[derive(Debug, Args)]
pub(crate) struct AuthLogout {
    #[command(flatten)]
    target: AgentArgument,
    /// Only that of this security scheme.
    #[arg(long, value_name = "NAME")]
    scheme: Option<String>,
    /// Those of every agent.
    #[arg(long, conflicts_with = "scheme")]
    all: bool,
}

impl Verb for AuthStatus {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.target.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let origin = match session.settings.agent_card.text() {
                Some(_) => Some(origin(session).await?),
                None => None,
            };
            let tokens = list_tokens(session, origin.as_deref())?;
            if session.out.is_json() {
                let list: Vec<_> = tokens.iter().map(token_json).collect();
                session.out.document(&json!({ "tokens": list }).to_string())?;
                return Ok(Exit::Done);
            }
            let mut fields = Fields::new();
            for stored in &tokens {
                fields.field("Agent", &stored.key.origin);
                fields.field("Scheme", &stored.key.scheme);
                fields.field("Client ID", &stored.key.client_id);
                fields.field("Flow", &stored.flow);
                fields.maybe("Scopes", Some(&stored.token.scopes.join(" ")));
                fields.field("Expires", &expiry_text(stored.token.expires, unix_seconds()));
            }
            fields.field("Total", &tokens.len().to_string());
            session.out.fields(fields)?;
            Ok(Exit::Done)
        })
    }
}

impl Verb for AuthLogout {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.target.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let origin = match (self.all, session.settings.agent_card.text()) {
                (true, _) => None,
                (false, Some(_)) => Some(origin(session).await?),
                (false, None) => {
                    let hint = "sabir auth logout <agent>, or --all";
                    return Err(Problem::usage("no agent was given").hint(hint).into());
                }
            };
            let store = store()?;
            let mut removed = 0;
            for stored in list_tokens(session, origin.as_deref())? {
                let client = session.settings.client_id.text().is_none_or(|id| id == stored.key.client_id);
                if client && self.scheme.as_ref().is_none_or(|name| *name == stored.key.scheme) {
                    removed += usize::from(store.remove(&stored.key).map_err(|error| store_problem(&error))?);
                }
            }
            if session.out.is_json() {
                session.out.document(&json!({ "removed": removed }).to_string())?;
            } else {
                let mut fields = Fields::new();
                fields.field("Removed", &removed.to_string());
                session.out.fields(fields)?;
            }
            Ok(Exit::Done)
        })
    }
}

/// The origin of the agent. No request is made where the reference already contains it.
async fn origin(session: &Session) -> Result<String, Stop> {
    match session.reference()? {
        AgentReference::Origin(url) | AgentReference::Url(url) => Ok(url.origin().ascii_serialization()),
        AgentReference::File(_) => super::origin(session, &session.card().await?),
    }
}

fn list_tokens(session: &Session, origin: Option<&str>) -> Result<Vec<StoredToken>, Problem> {
    let mut tokens = Vec::new();
    for listed in store()?.list().map_err(|error| store_problem(&error))? {
        match listed {
            Ok(stored) if origin.is_none_or(|origin| origin == stored.key.origin) => tokens.push(stored),
            Ok(_) => {}
            Err(error) => session.out.warn(&error.to_string()),
        }
    }
    Ok(tokens)
}

fn token_json(stored: &StoredToken) -> serde_json::Value {
    json!({
        "agent": stored.key.origin,
        "scheme": stored.key.scheme,
        "clientId": stored.key.client_id,
        "flow": stored.flow,
        "scopes": stored.token.scopes,
        "expires": stored.token.expires,
        "valid": stored.token.is_fresh(unix_seconds()),
    })
}

/// When a token ends, for people.
pub(super) fn expiry_text(expires: Option<u64>, now: u64) -> String {
    match expires {
        None => "not said".to_owned(),
        Some(at) => {
            let time =
                i64::try_from(at).map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)).to_string());
            let time = time.unwrap_or_else(|_| at.to_string());
            if at > now { time } else { format!("{time} (over)") }
        }
    }
}
