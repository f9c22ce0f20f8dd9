//! `sabir task push-config listen`: a receiver for notifications, for as long as a task runs.

use super::receiver::{NotificationReceiver, NotificationRules};
use super::webhook;
use crate::Invocation;
use crate::call::task::TaskArgument;
use crate::call::{InterruptHandling, Session, report, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem, Stop};
use crate::render::Node;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use sabir_client::Agent;
use sabir_proto::{Authentication, DeletePush, PushConfig, TaskRef, TaskState, Tenant};
use std::net::SocketAddr;
use tokio::signal::unix::{SignalKind, signal};

/// Receive the notifications of a task: registers a webhook, prints what arrives, and removes it again.
///
/// Ends when the task is settled or waits for input or credentials, or after --timeout. Many agents refuse to call
/// addresses of their own machine or network; give them one they can reach with --public-url. Without a task, only
/// checks and prints what arrives with the token.
#[derive(Debug, Args)]
pub(crate) struct PushConfigListen {
    #[command(flatten)]
    which: TaskArgument,
    /// Leave the registration at the agent.
    #[arg(long)]
    keep: bool,
}

impl Verb for PushConfigListen {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.which.agent())?;
        run_session(invocation, InterruptHandling::ByCommand, async |session| self.execute(session).await)
    }
}

/// A registration at an agent, to be taken back.
struct WebhookRegistration {
    agent: Agent,
    task: TaskRef,
    config: String,
}

impl PushConfigListen {
    async fn execute(self, session: &Session) -> Outcome {
        let wanted = self.which.is_given(session);
        if wanted {
            session.reference()?;
        }
        let task = if wanted { Some(self.which.task_id(session)?) } else { None };
        let settings = &session.settings;
        let listen = settings.listen.text().unwrap_or("127.0.0.1:0");
        let address: SocketAddr = listen.parse().map_err(|_| {
            Problem::usage(format!("--listen {listen} is no address with a port")).hint("--listen 127.0.0.1:0")
        })?;
        let token = match settings.push_token.text() {
            Some(token) => token.to_owned(),
            None => random_token(),
        };
        session.out.redactor.learn(&token);
        let rules = NotificationRules { token: token.clone(), task: task.as_ref().map(ToString::to_string) };
        let mut receiver = NotificationReceiver::bind(address, rules).await.map_err(|error| {
            Problem::usage(format!("cannot listen on {listen}: {error}")).hint("--listen 127.0.0.1:0 picks a free port")
        })?;
        let url = match settings.public_url.text() {
            Some(url) => webhook(url)?,
            None => format!("http://{}/", receiver.address()),
        };
        session.out.note(&format!("Listening: http://{}", receiver.address()));
        // Listens for Ctrl-C before it registers: a user who stops the command in between is still told how to go on.
        let mut interrupt = signal(SignalKind::interrupt())
            .map_err(|error| Problem::internal(format!("cannot listen for signals: {error}")))?;
        let limit = settings.timeout.copied();
        let over = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let mut over = std::pin::pin!(over);
        let late = || Stop::from(session.timeout_problem(limit.unwrap_or_default()));
        let registered = match &task {
            Some(task) => tokio::select! {
                registered = register(session, task, &url, &token) => Some(registered?),
                () = &mut over => return Err(late()),
            },
            None => None,
        };
        let outcome = tokio::select! {
            outcome = print_notifications(session, &mut receiver, registered.as_ref()) => outcome,
            () = &mut over => Err(late()),
            _ = interrupt.recv() => Ok(Exit::Interrupted),
        };
        receiver.finish().await;
        if let (Some(registered), false) = (&registered, self.keep) {
            registered.unregister(session).await;
        }
        if let (Ok(Exit::Interrupted), Some(task)) = (&outcome, &task) {
            session.out.note(&format!("Resume: {}", session.resume().wait_for_task(&task.to_string())));
        }
        outcome
    }
}

/// A random token of 256 bits.
fn random_token() -> String {
    let bytes: [u8; 32] = rand::random();
    URL_SAFE_NO_PAD.encode(bytes)
}

async fn register(session: &Session, task: &TaskRef, url: &str, token: &str) -> Result<WebhookRegistration, Stop> {
    let agent = session.connect().await?;
    // The same secret in both places: servers differ in which of the two they send.
    let authentication = Some(Authentication { scheme: "Bearer".to_owned(), credentials: Some(token.to_owned()) });
    let config = PushConfig { id: None, url: url.to_owned(), token: Some(token.to_owned()), authentication };
    let said = agent.create_push(task.clone(), config).await.map_err(|error| {
        let problem = session.failed(error);
        if problem.code == crate::problem::ErrorCode::Protocol("InvalidParamsError") {
            return Problem { hint: None, ..problem }
                .hint("many agents refuse webhooks on their own machine or network: --public-url https://…");
        }
        problem
    })?;
    let config = said.value.1.id.clone().unwrap_or_else(|| task.to_string());
    Ok(WebhookRegistration { agent, task: task.clone(), config })
}

impl WebhookRegistration {
    async fn unregister(&self, session: &Session) {
        let request = DeletePush { tenant: Tenant::none(), task_id: self.task.clone(), id: self.config.clone() };
        if let Err(error) = self.agent.delete_push(request).await {
            session.out.warn(&format!("the registration {} is still there: {error}", self.config));
        }
    }
}

/// Prints notifications until the task is over. The task is read once first: one that settled before the registration
/// sends no notification.
async fn print_notifications(
    session: &Session,
    receiver: &mut NotificationReceiver,
    registered: Option<&WebhookRegistration>,
) -> Outcome {
    if let Some(registered) = registered {
        let said = registered.agent.task(&registered.task).await.map_err(|error| session.failed(error))?;
        let state = said.value.status.state;
        if state.is_settled() || state.is_interrupted() {
            session.report_event(&format!(r#"{{"task":{}}}"#, said.json()))?;
            return report_registration_end(session, Node::new(said.json()), registered);
        }
    }
    loop {
        let notification = receiver.next().await?;
        session.report_event(&notification)?;
        let event = Node::new(&notification);
        let Some(holder) = event.get("task").or_else(|| event.get("statusUpdate")) else { continue };
        let over = TaskState::from_name(&report::state_of(holder))
            .is_some_and(|state| state.is_settled() || state.is_interrupted());
        if let (true, Some(registered)) = (over, registered) {
            return report_registration_end(session, holder, registered);
        }
    }
}

fn report_registration_end(session: &Session, holder: Node<'_>, registered: &WebhookRegistration) -> Outcome {
    let context = holder.word("contextId");
    session.report_end(Some(&registered.task.to_string()), context.as_deref(), &report::state_of(holder))
}
