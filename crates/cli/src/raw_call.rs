//! `sabir call`: one method of any dialect, asked as it is written and answered as it is received.
//!
//! Nothing is made of the answer: no waiting for the task, no translation, no second attempt. So a user can see what
//! the agent itself says when another command seems to misread it.
//!
//! | Module | What it contains |
//! |---|---|
//! | `operations` | what can be asked in which dialect, for `call list` and `call describe` |
//! | `request` | the request that the arguments describe |
//! | `answer` | the answer, printed as it comes |

mod answer;
mod operations;
mod request;

use crate::Invocation;
use crate::call::{InterruptHandling, Session, run_session};
use crate::cli::Verb;
use crate::problem::{Outcome, Problem, Stop};
use crate::settings::Settings;
use clap::Args;
use request::RawRequest;
use sabir_client::{Agent, AgentReference, Binding, DiscoveredCard, Error};
use sabir_wire::Dialect;
use sabir_wire::card::CardSchema;

/// Call one method of an agent, and print the answer as it is received.
///
/// Speaks JSON-RPC unless --transport says otherwise. The parameters are sent as they are given. A streaming method prints
/// each event on a line of its own. With --debug the HTTP status and everything else on the wire is shown on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Words:\n  \
    METHOD               a method of the dialect, such as SendMessage, or message/send with --a2a-version 0.3\n  \
    VERB /path           a request of HTTP+JSON, with --transport HTTP+JSON\n  \
    list                 what can be called, in the dialect of --a2a-version\n  \
    describe METHOD      what a method takes, with an example\n\
    The agent may also stand before the method, as a URL. If it has no card, --a2a-version says that the URL is an endpoint.\n\n\
    Exit status: 0 for a result, 1 for an error of the agent, 4 if it asks for credentials.\n\n\
    Examples:\n  \
    sabir call -a http://127.0.0.1:4000 ListTasks -d '{\"pageSize\": 5}'\n  \
    sabir call http://127.0.0.1:4000 SendStreamingMessage -d @request.json\n  \
    sabir call http://127.0.0.1:4000 message/send --a2a-version 0.3 -d - < params.json\n  \
    sabir call http://127.0.0.1:4000 --transport HTTP+JSON 'GET /tasks?pageSize=5'\n  \
    sabir call describe SendMessage")]
pub(crate) struct RawCall {
    /// What to call; see below.
    #[arg(value_name = "METHOD", required = true, num_args = 1..=3)]
    words: Vec<String>,
    /// Parameters, or the body of an HTTP request: JSON, a file after @, or - for standard input.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    data: Option<String>,
}

impl Verb for RawCall {
    fn run(self, invocation: Invocation) -> Outcome {
        let (agent, words) = split_agent(&self.words);
        match words[..] {
            ["list"] => return operations::list(&invocation.out, dialect(&invocation.settings)?),
            ["describe"] => {
                return Err(Problem::usage("describe what?").hint("sabir call describe SendMessage").into());
            }
            ["describe", name] => {
                return operations::describe(&invocation.out, dialect(&invocation.settings)?, name);
            }
            _ => {}
        }
        let request = RawRequest::read(words, self.data.as_deref())?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let agent = connect(session, agent).await?;
            answer::print_answer(session, &agent, request).await
        })
    }
}

/// The address that stands before the method, if one does, and the rest.
fn split_agent(words: &[String]) -> (Option<&str>, Vec<&str>) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((first, rest)) if first.contains("://") && !rest.is_empty() => (Some(first), rest.to_vec()),
        _ => (None, words),
    }
}

/// The dialect to speak where there is no agent whose card would tell.
fn dialect(settings: &Settings) -> Result<Dialect, Problem> {
    match settings.a2a_version.text() {
        None | Some("auto") => Ok(Dialect::NEWEST),
        Some(name) => name.parse().map_err(|error| Problem::usage(format!("{error}"))),
    }
}

/// Connects to the agent, by JSON-RPC unless another binding was asked for.
async fn connect(session: &Session, agent: Option<&str>) -> Result<Agent, Stop> {
    let reference = match agent {
        None => session.reference()?,
        Some(text) => {
            AgentReference::parse(text).map_err(|error| Problem::usage(error.to_string()).hint("sabir call --help"))?
        }
    };
    let found = match (session.client.card(&reference).await, &reference) {
        (Ok(found), _) => found,
        // Many endpoints of older dialects have no card; a user who names the dialect knows what is there.
        (Err(Error::CardNotFound { .. } | Error::CardInvalid { .. }), AgentReference::Url(url))
            if session.settings.a2a_version.text().is_some() =>
        {
            DiscoveredCard::for_endpoint(url, dialect(&session.settings)?)
        }
        (Err(error), _) => return Err(session.problem(error, None).into()),
    };
    let mut found = session.require_trust(found).await?;
    found.card.supported_interfaces.sort_by_key(|interface| interface.protocol_binding.parse() != Ok(Binding::JsonRpc));
    let named = session.settings.a2a_version.text().is_some();
    if named && matches!(session.choose(&found), Err(Error::Fault { .. } | Error::NoInterface { .. })) {
        set_dialect(&mut found, dialect(&session.settings)?);
    }
    session.connect_to(found).await
}

/// Makes a card declare a dialect for its JSON-RPC interfaces, whatever it says itself: the answer shows what is true.
fn set_dialect(found: &mut DiscoveredCard, dialect: Dialect) {
    found.form = CardSchema::of(dialect);
    for interface in &mut found.card.supported_interfaces {
        if interface.protocol_binding.parse() == Ok(Binding::JsonRpc) {
            interface.protocol_version = dialect.name().into();
        }
    }
}
