//! `sabir chat`.

use super::parts::Parts;
use super::{Interrupts, Session, drive, report, send};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem, Stop};
use crate::render::Node;
use clap::Args;
use sabir_client::Agent;
use sabir_proto::{CancelTask, ContextId, TaskRef, Tenant};
use std::io::{BufRead, IsTerminal};
use tokio::sync::mpsc;

/// What is said to somebody who has just sat down.
const GREETING: &str = "Type a message. /new starts over, /task shows the task, /cancel cancels it, /exit ends.";

/// Talk to an agent, turn by turn.
///
/// Each line is a message. The context is kept between turns, and the task as long as it waits for an answer. Lines that
/// begin with a slash are for this tool: /new, /task, /cancel, /exit. Lines from a pipe are turns, too.
#[derive(Debug, Args)]
pub(crate) struct Chat {}

impl Verb for Chat {
    fn run(self, invocation: Invocation) -> Outcome {
        if invocation.out.is_json() {
            return Err(Problem::usage("a conversation has no JSON form").hint("sabir send -o json \"…\"").into());
        }
        let typed = std::io::stdin().is_terminal();
        if typed && !std::io::stdout().is_terminal() {
            let message = "there is somebody to type and nobody to read: standard output is not a terminal";
            return Err(Problem::usage(message).hint("pipe the turns in, or use sabir send").into());
        }
        drive(invocation, Interrupts::Own, async |session| talk(session, typed).await)
    }
}

/// What is remembered between two turns, and shown after each: nothing lives here alone.
#[derive(Debug, Default)]
struct Thread {
    context: Option<ContextId>,
    /// The task, while it waits for an answer.
    waiting: Option<TaskRef>,
    /// The task of the last turn, whatever it does.
    last: Option<TaskRef>,
}

async fn talk(session: &Session, typed: bool) -> Outcome {
    session.reference()?;
    let agent = session.connect().await?;
    let settings = &session.settings;
    let wrong = |flag: &str, fault: String| Problem::usage(format!("--{flag} {fault}")).hint("sabir chat --help");
    let mut thread = Thread::default();
    if let Some(id) = settings.text("context-id") {
        thread.context = Some(ContextId::parse(id).map_err(|fault| wrong("context-id", fault.to_string()))?);
    }
    if let Some(id) = settings.text("task-id") {
        thread.waiting = Some(TaskRef::parse(id).map_err(|fault| wrong("task-id", fault.to_string()))?);
    }
    if typed {
        session.out.note(&format!("{}: {GREETING}", agent.card().name));
    }
    let mut lines = lines();
    loop {
        if typed {
            session.out.prompt("> ");
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = tokio::signal::ctrl_c() => None,
        };
        let Some(line) = line else { return Ok(Exit::Done) };
        match line.trim() {
            "" => {}
            "/exit" | "/quit" => return Ok(Exit::Done),
            "/new" => thread = Thread::default(),
            "/task" => show(session, &agent, &thread).await?,
            "/cancel" => cancel(session, &agent, &mut thread).await?,
            command if command.starts_with('/') && !command.contains(' ') => session.out.note(GREETING),
            text => turn(session, &agent, &mut thread, text).await?,
        }
    }
}

/// Lines of standard input. Reading cannot be interrupted, so it happens elsewhere.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// One turn. An agent that says no does not end the conversation; Ctrl-C leaves the task and stays.
async fn turn(session: &Session, agent: &Agent, thread: &mut Thread, text: &str) -> Result<(), Stop> {
    let parts = Parts::text(text).read(&mut std::io::empty())?;
    let mut request = send::request(session, parts, None)?;
    request.message.context_id.clone_from(&thread.context);
    request.message.task_id.clone_from(&thread.waiting);
    let asked = thread.waiting.clone();
    let answer = tokio::select! {
        answer = session.send_and_stay(agent, request, asked.as_ref()) => answer,
        _ = tokio::signal::ctrl_c() => {
            if let Some(task) = session.watcher.task() {
                session.out.note(&format!("Resume: {}", session.resume().rejoin(&task)));
            }
            return Ok(());
        }
    };
    let json = match answer {
        Ok(json) => json,
        Err(Stop::Problem(problem)) => {
            session.out.problem(&problem);
            return Ok(());
        }
        Err(gone @ Stop::ReaderGone) => return Err(gone),
    };
    thread.learn(Node::new(&json));
    session.report_response(&json).map(drop)
}

impl Thread {
    fn learn(&mut self, response: Node<'_>) {
        let Some(holder) = response.get("task").or_else(|| response.get("message")) else { return };
        if let Some(context) = holder.word("contextId").and_then(|id| ContextId::parse(&id).ok()) {
            self.context = Some(context);
        }
        let task = response.get("task").and_then(|task| task.word("id")).and_then(|id| TaskRef::parse(&id).ok());
        let state = response.get("task").map(report::state_of).unwrap_or_default();
        let waits = matches!(state.as_str(), "TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED");
        self.waiting = task.clone().filter(|_| waits);
        self.last = task.or(self.last.take());
    }
}

async fn show(session: &Session, agent: &Agent, thread: &Thread) -> Result<(), Stop> {
    let Some(task) = thread.waiting.as_ref().or(thread.last.as_ref()) else {
        session.out.note("there is no task yet");
        return Ok(());
    };
    match agent.task(task).await {
        Ok(said) => session.report_task(said.json(), Node::new(said.json())).map(drop),
        Err(error) => {
            session.out.problem(&session.failed(error));
            Ok(())
        }
    }
}

async fn cancel(session: &Session, agent: &Agent, thread: &mut Thread) -> Result<(), Stop> {
    let Some(id) = thread.waiting.take().or(thread.last.clone()) else {
        session.out.note("there is no task to cancel");
        return Ok(());
    };
    match agent.cancel(CancelTask { tenant: Tenant::none(), id, metadata: None }).await {
        Ok(said) => session.report_task(said.json(), Node::new(said.json())).map(drop),
        Err(error) => {
            session.out.problem(&session.failed(error));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_is_kept_only_while_it_waits() {
        let mut thread = Thread::default();
        let answer = |state: &str| format!(r#"{{"task":{{"id":"t","contextId":"c","status":{{"state":"{state}"}}}}}}"#);
        thread.learn(Node::new(&answer("TASK_STATE_INPUT_REQUIRED")));
        assert_eq!(thread.waiting.as_ref().unwrap().to_string(), "t");
        assert_eq!(thread.context.as_ref().unwrap().to_string(), "c");
        thread.learn(Node::new(&answer("TASK_STATE_COMPLETED")));
        assert!(thread.waiting.is_none() && thread.last.is_some() && thread.context.is_some());
        thread.learn(Node::new(r#"{"message":{"messageId":"m","contextId":"d","parts":[]}}"#));
        assert_eq!(thread.context.as_ref().unwrap().to_string(), "d");
    }
}
