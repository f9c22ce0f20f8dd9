//! `sabir send`.

use super::parts::Parts;
use super::{InterruptHandling, Session, curl, job, observer, run_session};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::settings::WaitMode;
use clap::Args;
use sabir_client::{Agent, message_id, send_message};
use sabir_proto::{Call, ContextId, Json, Message, MessageId, Object, Part, Role, SendMessage, TaskRef};

/// Send a message to an agent, and wait for the result.
///
/// Waits until the task is settled or waits for input or credentials; --async returns its identifiers at once, --stream
/// shows every event as it comes. The exit code tells whether the message was delivered and the answer reported, not
/// what the answer was.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir send https://agent.example \"What is new?\"\n  \
    sabir send -a agent.example --stream -o json \"Close the quarter\"\n  \
    sabir send --text \"Read this\" --file ./report.pdf --media-type application/pdf\n  \
    echo '{\"month\":3}' | sabir send --data -\n  \
    sabir send -a agent.example --follow \"I want my money back\"\n  \
    sabir send --task-id 7c1e \"cost centre 12\"")]
pub(crate) struct SendCommand {
    #[command(flatten)]
    parts: Parts,
    /// Id of the message, to send the same turn again after a failure.
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// Print the request as a curl or grpcurl command and send nothing. In JSON: method, URL, headers and body.
    #[arg(long)]
    dry_run: bool,
    /// Follow a task that the agent hands to another one, with the credentials stored for that one, and report how it
    /// ends. Without this the agent is not told that it may hand the task over: it shows the other agent's work as its
    /// own, or names that agent.
    #[arg(long)]
    follow: bool,
}

impl Verb for SendCommand {
    fn run(mut self, invocation: Invocation) -> Outcome {
        let settings = &invocation.settings;
        let agent = self.parts.take_agent(settings.agent_card.is_typed(), settings.agent_card.text().is_some())?;
        let invocation = invocation.with_agent(agent.as_deref())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl SendCommand {
    async fn execute(self, session: &Session) -> Outcome {
        let settings = &session.settings;
        if settings.stream.is_typed() && settings.return_at_once.is_typed() {
            return Err(Problem::usage("--stream and --async exclude each other").hint("leave one of them out").into());
        }
        if self.follow && settings.stream.is_on() {
            let hint = "follow the stream of the agent that is named when the task is handed over";
            return Err(Problem::usage("--follow waits for the result and does not stream").hint(hint).into());
        }
        let waiting = settings.waiting(WaitMode::UntilSettled)?;
        if settings.agent_card.text().is_none()
            && let Some(address) = self.parts.address()
        {
            let hint = format!("sabir send --agent-card {} \"<message>\"", crate::render::shell(address));
            return Err(Problem::usage("there is an address and no message; an address alone is sent as a message")
                .hint(hint)
                .into());
        }
        session.reference()?;
        let parts = self.parts.read(&mut std::io::stdin().lock())?;
        let request = request(session, parts, self.message_id.as_deref())?;
        let agent = if self.follow { session.connect_following().await? } else { session.connect().await? };
        if self.dry_run {
            return print_dry_run(session, &agent, request, waiting);
        }
        if session.out.is_running()
            && !self.follow
            && (settings.stream.is_on() || (waiting == WaitMode::UntilSettled && !session.out.quiet))
        {
            return session.send_and_print(&agent, request).await;
        }
        if settings.stream.is_on() {
            let events = agent.stream(request, session.follow()).await;
            let mut events = events.map_err(|error| session.failed(error))?;
            return session.print_events(&mut events).await;
        }
        let json = match waiting {
            WaitMode::UntilSettled => session.send_and_wait(&agent, request).await?,
            WaitMode::ReturnAtOnce => {
                let mut request = request;
                request.configuration.return_immediately = true;
                let said = agent.send(request).await.map_err(|error| session.failed(error))?;
                said.json().to_owned()
            }
        };
        if self.follow && waiting == WaitMode::UntilSettled {
            return session.report_followed(json).await;
        }
        session.report_response(&json)
    }
}

/// Prints the request that would be sent, and the command that sends it by hand. Credentials are named and not shown.
fn print_dry_run(session: &Session, agent: &Agent, mut request: SendMessage, waiting: WaitMode) -> Outcome {
    let streams = session.settings.stream.is_on() || (waiting == WaitMode::UntilSettled && agent.streams());
    let call = if streams {
        Call::Stream(Box::new(request))
    } else {
        request.configuration.return_immediately = true;
        Call::Send(Box::new(request))
    };
    let written = agent.preview(call).map_err(|error| session.failed(error))?;
    let body = written.body.as_deref();
    if session.out.is_json() {
        let headers: serde_json::Map<String, serde_json::Value> = written
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), observer::shown(name, value, &session.out).into()))
            .collect();
        let body = body.map(|body| session.out.redactor.body(body));
        let body = body.map(|body| serde_json::from_str(&body).unwrap_or(serde_json::Value::String(body)));
        let url = session.out.redactor.url(&written.url);
        let document =
            serde_json::json!({"method": written.method.as_str(), "url": url, "headers": headers, "body": body});
        session.out.document(&document.to_string())?;
    } else {
        let command = curl::curl_command(&written.method, &written.url, &written.headers, body, &session.out);
        session.out.payload(&(crate::render::escape(&command) + "\n"))?;
    }
    Ok(Exit::Done)
}

/// Builds the request that the settings describe. Ids of tasks and contexts are passed on and never made up.
pub(crate) fn request(session: &Session, parts: Vec<Part>, id: Option<&str>) -> Result<SendMessage, Problem> {
    let settings = &session.settings;
    let wrong = |flag: &str, fault: String| {
        Problem::usage(format!("--{flag} {fault}")).hint(format!("sabir {} --help", session.path))
    };
    let message = Message {
        message_id: match id {
            Some(id) => MessageId::parse(id).map_err(|fault| wrong("message-id", fault.to_string()))?,
            None => message_id(),
        },
        context_id: match settings.context_id.text() {
            Some(id) => Some(ContextId::parse(id).map_err(|fault| wrong("context-id", fault.to_string()))?),
            None => None,
        },
        task_id: match settings.task_id.text() {
            Some(id) => Some(TaskRef::parse(id).map_err(|fault| wrong("task-id", fault.to_string()))?),
            None => None,
        },
        role: Role::User,
        parts,
        metadata: settings.job_id.copied().and_then(job::metadata),
        extensions: settings.extension.list().to_vec(),
        reference_task_ids: Vec::new(),
    };
    let mut request = send_message(message);
    request.metadata = metadata(session)?;
    request.configuration.accepted_output_modes = settings.accept.list().to_vec();
    request.configuration.history_length = settings.history.copied().and_then(|count| i32::try_from(count).ok());
    Ok(request)
}

/// `--metadata`, which rides in the request itself.
pub(crate) fn metadata(session: &Session) -> Result<Option<Object>, Problem> {
    let Some(text) = session.settings.metadata.text() else { return Ok(None) };
    let object = Json::parse(text).and_then(Object::new);
    object
        .map(Some)
        .map_err(|fault| Problem::usage(format!("--metadata {fault}")).hint("--metadata '{\"key\":\"value\"}'"))
}
