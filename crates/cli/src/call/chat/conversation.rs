//! The conversation: what carries over between turns, and how a turn goes.

use super::ChatMode;
use super::prompt::PromptText;
use crate::call::parts::{self, Parts};
use crate::call::session::format_seconds;
use crate::call::{Session, send};
use crate::output::indented;
use crate::problem::{ErrorCode, Problem, Stop};
use crate::render::{AnswerPrinter, Detail, Fields, Node, Tone, event, ids, message, state_word, task};
use sabir_client::{Agent, Error, TaskEvents};
use sabir_proto::{
    CancelTask, ContextId, FaultCode as Kind, Part, SendMessage, TaskRef, TaskState, Tenant, WireEvent, WireTask,
};
use std::io::Write;
use std::time::Duration;
use tokio::signal::unix::Signal;

/// How long an agent may take to cancel a task after Ctrl-C.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// How a turn of the chat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnEnd {
    Over,
    /// Ctrl-C in a pipe: the task goes on and the chat ends.
    Detached,
    /// The chat was left.
    Left,
}

/// A conversation with one agent.
pub(super) struct Conversation<'a> {
    session: &'a Session,
    agent: Agent,
    mode: ChatMode,
    /// Writes the answer of this turn, in the pretty form.
    printer: Option<AnswerPrinter>,
    context: Option<ContextId>,
    /// The last task, and its last known state.
    task: Option<(TaskRef, TaskState)>,
    /// Parts that are sent with the next message.
    attached: Vec<Part>,
    /// The last answer, as it was written.
    answer: Option<String>,
    /// Everything that was said, as lines of JSON.
    transcript: Vec<String>,
}

impl<'a> Conversation<'a> {
    /// Begins where the settings say: with nothing, in a context, or at a task that waits.
    pub(super) fn begin(session: &'a Session, agent: Agent, mode: ChatMode) -> Result<Self, Problem> {
        let named = send::request(session, Vec::new(), None)?.message;
        Ok(Self {
            session,
            agent,
            mode,
            printer: None,
            context: named.context_id,
            task: named.task_id.map(|id| (id, TaskState::InputRequired)),
            attached: Vec::new(),
            answer: None,
            transcript: Vec::new(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.agent.card().name
    }

    pub(super) fn is_interactive(&self) -> bool {
        self.mode == ChatMode::Terminal
    }

    /// The task that waits for an answer.
    fn waiting(&self) -> Option<&TaskRef> {
        self.task.as_ref().filter(|(_, state)| state.is_interrupted()).map(|(id, _)| id)
    }

    pub(super) fn waits_for_authorisation(&self) -> bool {
        matches!(self.task, Some((_, TaskState::AuthRequired)))
    }

    pub(super) fn prompt(&self) -> PromptText {
        let (plain, tone) = match self.task {
            Some((_, TaskState::InputRequired)) => ("reply>", Tone::Attention),
            Some((_, TaskState::AuthRequired)) => ("reply, or Enter once it is authorised>", Tone::Attention),
            _ => ("you>", Tone::Strong),
        };
        PromptText { plain: format!("{plain} "), styled: self.session.out.paint.tint(tone, plain) + " " }
    }

    /// The command that goes on from here.
    pub(super) fn resume(&self) -> Option<String> {
        let resume = self.session.resume();
        match &self.task {
            Some((id, state)) if state.is_interrupted() => Some(resume.reply(&id.to_string())),
            Some((id, state)) if !state.is_settled() => Some(resume.wait_for_task(&id.to_string())),
            _ => self.context.as_ref().map(|context| resume.continue_context(&context.to_string())),
        }
    }

    /// Says something, and follows what becomes of it.
    pub(super) async fn say(&mut self, text: String, interrupts: &mut Signal) -> Result<TurnEnd, Stop> {
        let request = self.request(text)?;
        let line = serde_json::json!({ "sent": &request.message }).to_string();
        self.answer = None;
        self.begin_answer();
        let (agent, follow) = (self.agent.clone(), self.session.follow());
        let session = self.session;
        let ended =
            run_interruptible(session, interrupts, self.print_answer_events(agent.stream(request, follow))).await;
        self.end_answer();
        let turn = match ended? {
            None => self.interrupted(interrupts).await,
            Some(ended) => ended.map(|()| TurnEnd::Over),
        };
        // What could not be sent stays where it is and may be tried again.
        if turn.is_ok() {
            self.transcript.push(line);
            self.transcript.extend(self.answer.iter().map(|answer| format!(r#"{{"received":{answer}}}"#)));
            self.attached.clear();
        }
        turn
    }

    /// Waits for the last task. One that needs an authorisation may get it elsewhere and go on by itself, so that is
    /// waited for as well.
    pub(super) async fn wait(&mut self, interrupts: &mut Signal) -> Result<TurnEnd, Stop> {
        let (id, agent, pace) = (self.last_task()?, self.agent.clone(), self.session.poll_pace());
        let waited = async {
            loop {
                let said = agent.wait(id.clone(), pace).await?;
                if said.value.status.state != TaskState::AuthRequired {
                    return Ok(said);
                }
                tokio::time::sleep(pace.first).await;
            }
        };
        match run_interruptible(self.session, interrupts, waited).await? {
            None => self.interrupted(interrupts).await,
            Some(said) => {
                let said = said.map_err(|error| self.problem_of_failure(error))?;
                self.answer = Some(said.json().to_owned());
                self.report(&said.value, said.json())
            }
        }
    }

    pub(super) async fn cancel(&mut self, interrupts: &mut Signal) -> Result<TurnEnd, Stop> {
        let id = self.last_task()?;
        let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
        let agent = self.agent.clone();
        let Some(said) = run_interruptible(self.session, interrupts, agent.cancel(request)).await? else {
            return Ok(self.interrupted_end());
        };
        let said = said.map_err(|error| self.session.failed(error))?;
        self.report(&said.value, said.json())
    }

    pub(super) async fn show(&mut self, interrupts: &mut Signal) -> Result<TurnEnd, Stop> {
        let (id, agent) = (self.last_task()?, self.agent.clone());
        let Some(said) = run_interruptible(self.session, interrupts, agent.task(&id)).await? else {
            return Ok(self.interrupted_end());
        };
        let said = said.map_err(|error| self.session.failed(error))?;
        self.report(&said.value, said.json())
    }

    /// How a command ends that Ctrl-C interrupted.
    fn interrupted_end(&self) -> TurnEnd {
        if self.is_interactive() { TurnEnd::Over } else { TurnEnd::Detached }
    }

    /// Shows a task as it is, and remembers what carries over.
    fn report(&mut self, task: &WireTask, json: &str) -> Result<TurnEnd, Stop> {
        self.remember_task(task);
        if !self.session.out.is_running() {
            self.print_task(json)?;
            return Ok(TurnEnd::Over);
        }
        self.begin_answer();
        if let Some(printer) = &mut self.printer {
            self.session.print(printer, |printer| printer.task(task))?;
        }
        self.end_answer();
        let state = task.status.state;
        if !state.is_interrupted() && (!state.is_settled() || state == TaskState::Completed) {
            self.session.out.note(&format!("the task is {}", state_word(state.name())));
        }
        Ok(TurnEnd::Over)
    }

    /// Ctrl-C during a turn. A person means the turn: its task is cancelled. In a pipe the task goes on.
    async fn interrupted(&mut self, interrupts: &mut Signal) -> Result<TurnEnd, Stop> {
        if !self.is_interactive() {
            return Ok(self.detached());
        }
        let out = &self.session.out;
        let Some((id, _)) = self.task.clone().filter(|(_, state)| !state.is_settled()) else {
            out.note("stopped waiting; the agent has not named a task, so it may still be at work");
            return Ok(TurnEnd::Over);
        };
        let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
        out.progress("cancelling the task");
        let agent = self.agent.clone();
        let canceled = tokio::select! {
            canceled = tokio::time::timeout(CANCEL_TIMEOUT, agent.cancel(request)) => canceled.ok(),
            _ = interrupts.recv() => None,
        };
        out.clear_progress();
        match canceled {
            Some(Ok(said)) => {
                self.remember_task(&said.value);
                out.note(&format!("the task is {}", state_word(said.value.status.state.name())));
            }
            Some(Err(error)) => {
                let problem = self.session.failed(error);
                out.warn(&format!("the agent did not cancel the task: {}; /task shows how it stands", problem.message));
            }
            None => out.warn("the agent did not say that it cancelled the task; /task shows how it stands"),
        }
        Ok(TurnEnd::Over)
    }

    fn begin_answer(&mut self) {
        let session = self.session;
        self.printer = session.out.is_running().then(|| session.printer(self.name()));
    }

    /// Ends the line of an answer, also of one that broke off.
    fn end_answer(&mut self) {
        self.printer = None;
        self.session.out.end_line();
    }

    /// The ids of the task and the conversation.
    pub(super) fn ids(&self) -> Result<TurnEnd, Stop> {
        let task = self.task.as_ref().map(|(id, _)| id.to_string());
        let state = self.task.as_ref().map(|(_, state)| state.name());
        let context = self.context.as_ref().map(ToString::to_string);
        self.session.out.text(|fields| ids(fields, task.as_deref(), context.as_deref(), state))?;
        Ok(TurnEnd::Over)
    }

    /// Begins anew. What was said stays in the transcript.
    pub(super) fn forget(&mut self) {
        self.context = None;
        self.task = None;
        self.attached.clear();
    }

    pub(super) fn attach(&mut self, place: &str) -> Result<TurnEnd, Stop> {
        let part = parts::file(place)?;
        let name = part.filename.clone().unwrap_or_else(|| place.to_owned());
        self.attached.push(part);
        self.session.out.note(&format!("{name} goes with the next line"));
        Ok(TurnEnd::Over)
    }

    pub(super) fn raw(&self) -> Result<TurnEnd, Stop> {
        let Some(answer) = &self.answer else {
            return Err(Problem::usage("there is no answer yet").hint("say something first").into());
        };
        let mut fields = Fields::new();
        fields.block("Data", &indented(answer));
        self.session.out.fields(fields)?;
        Ok(TurnEnd::Over)
    }

    pub(super) fn save(&self, path: &str) -> Result<TurnEnd, Stop> {
        let written = std::fs::File::create_new(path).and_then(|mut file| {
            self.transcript.iter().try_for_each(|line| writeln!(file, "{line}"))?;
            file.sync_all()
        });
        written.map_err(|error| {
            Problem::new(ErrorCode::Vendor("SABIR_ERR_SAVE"), format!("cannot save to {path}: {error}"))
                .hint("/save takes the path of a file that does not exist yet")
        })?;
        self.session.out.note(&format!("saved {} lines to {path}", self.transcript.len()));
        Ok(TurnEnd::Over)
    }

    fn last_task(&self) -> Result<TaskRef, Problem> {
        let last = self.task.as_ref().map(|(id, _)| id.clone());
        last.ok_or_else(|| Problem::usage("there is no task").hint("say something first"))
    }

    /// The message of a turn.
    fn request(&self, text: String) -> Result<SendMessage, Problem> {
        let mut parts = Parts::text(&text).read(&mut std::io::empty())?;
        parts.extend(self.attached.iter().cloned());
        let mut request = send::request(self.session, parts, None)?;
        request.message.context_id = self.context.clone();
        request.message.task_id = self.waiting().cloned();
        Ok(request)
    }

    async fn print_answer_events(&mut self, open: impl Future<Output = Result<TaskEvents, Error>>) -> Result<(), Stop> {
        let mut events = open.await.map_err(|error| self.problem_of_failure(error))?;
        let mut reply = None;
        while let Some(next) = events.next().await {
            let said = next.map_err(|error| self.problem_of_failure(error))?;
            if let WireEvent::Message(message) = &said.value {
                self.context = message.context_id.clone().or_else(|| self.context.take());
                self.task = None;
                reply = Some(said.json().to_owned());
            }
            if let Some(task) = events.task() {
                let task = task.clone();
                self.remember_task(&task);
            }
            if let Some(printer) = &mut self.printer {
                self.session.print(printer, |printer| printer.event(&said.value))?;
            } else if self.session.out.lines {
                self.session.out.text(|fields| event(fields, Node::new(said.json()), self.session.out.verbose))?;
            }
        }
        match (reply, events.folded_task()) {
            (Some(reply), _) => {
                self.answer = Some(reply.clone());
                if !self.session.out.lines && self.printer.is_none() {
                    self.print_message(&reply)?;
                }
            }
            (None, Some(folded)) if self.printer.is_some() => {
                // The folded events are the answer. What is missing from them can be read with /task.
                self.answer = Some(folded.json().to_owned());
                self.remember_task(&folded.value);
            }
            (None, Some(folded)) => {
                // The task as the agent reports it, or, if the agent does not answer, as its events describe it.
                let whole = self.agent.task(&folded.value.id).await.unwrap_or(folded);
                self.answer = Some(whole.json().to_owned());
                if self.session.out.lines {
                    let state = whole.value.status.state.name();
                    self.print_ids(&whole.value, state)?;
                } else {
                    self.print_task(whole.json())?;
                }
                self.remember_task(&whole.value);
            }
            (None, None) => {
                let words = "the agent answered with neither a task nor a message";
                return Err(Problem::new(ErrorCode::Protocol("InvalidAgentResponseError"), words).into());
            }
        }
        Ok(())
    }

    /// Keeps the context and the task for the next turn.
    fn remember_task(&mut self, task: &WireTask) {
        if let Some(context) = &task.context_id {
            self.context = Some(context.clone());
        }
        self.task = Some((task.id.clone(), task.status.state));
    }

    /// Converts a failure into a problem. A task that takes no more messages is forgotten: the next line opens a new
    /// one.
    fn problem_of_failure(&mut self, error: Error) -> Problem {
        let gone = |fault: &sabir_proto::Fault| matches!(fault.code(), Kind::TaskNotFound | Kind::UnsupportedOperation);
        if self.waiting().is_some() && matches!(&error, Error::Fault { fault, .. } if gone(fault)) {
            self.task = None;
        }
        self.session.failed(error)
    }

    fn detached(&self) -> TurnEnd {
        if let Some(resume) = self.task.as_ref().map(|(id, _)| self.session.resume().wait_for_task(&id.to_string())) {
            self.session.out.note(&format!("detached; the task goes on\nResume: {resume}"));
        }
        TurnEnd::Detached
    }

    fn print_task(&self, json: &str) -> Result<(), Stop> {
        let mut fields = Fields::new();
        task(&mut fields, Node::new(json), &[], Detail { verbose: self.session.out.verbose, history: false });
        self.session.out.fields(fields)
    }

    fn print_ids(&self, task: &WireTask, state: &str) -> Result<(), Stop> {
        let mut fields = Fields::new();
        let context = task.context_id.as_ref().map(ToString::to_string);
        ids(&mut fields, Some(&task.id.to_string()), context.as_deref(), Some(state));
        self.session.out.fields(fields)
    }

    /// `{"message": …}`
    fn print_message(&self, json: &str) -> Result<(), Stop> {
        let node = Node::new(json);
        let said = node.get("message").unwrap_or(node);
        let mut fields = Fields::new();
        fields.maybe("Task ID", said.word("taskId").as_deref());
        fields.field("Context ID", &said.word("contextId").unwrap_or_default());
        message(&mut fields, said, self.session.out.verbose);
        self.session.out.fields(fields)
    }
}

/// Runs work until it ends, until Ctrl-C, which gives `None`, or until the timeout of a turn. Shows progress meanwhile.
async fn run_interruptible<T>(
    session: &Session,
    interrupts: &mut Signal,
    work: impl Future<Output = T>,
) -> Result<Option<T>, Stop> {
    let limit = session.settings.timeout.copied();
    let expiry = async {
        match limit {
            None => std::future::pending().await,
            Some(limit) => {
                tokio::time::sleep(limit).await;
                limit
            }
        }
    };
    let ended = tokio::select! {
        biased;
        done = work => Ok(Some(done)),
        _ = interrupts.recv() => Ok(None),
        limit = expiry => {
            let problem = Problem::new(ErrorCode::Timeout, format!("not done after {}", format_seconds(limit)));
            let resume = session.observer.task().map(|task| session.resume().wait_for_task(&task));
            Err(resume.into_iter().fold(problem, Problem::hint).into())
        }
        () = session.observer.show_progress(&session.out) => Ok(None),
    };
    session.out.clear_progress();
    ended
}
