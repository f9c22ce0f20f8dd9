//! `sabir chat`: a conversation, turn by turn.
//!
//! What carries over from one turn to the next is the context, and the task only while it waits for an answer. The ids
//! are a command away (`/ids`) and stand at the end, so that nothing lives in this process alone: `sabir send` goes on
//! from there. In the text form they are printed after every turn.
//!
//! At a terminal a failed turn is told and the conversation goes on. In a pipe, where the next line may depend on the
//! last answer, it ends the run with the code of the failure.

mod conversation;
mod input;
mod prompt;
mod stdin_lines;

use super::target::AgentArgument;
use super::{InterruptHandling, Session, run_session};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Format;
use crate::problem::{Outcome, Problem, Stop};
use clap::Args;
use conversation::{Conversation, TurnEnd};
use futures_util::FutureExt;
use input::ChatInput;
use prompt::{Prompt, PromptInput};
use std::io::IsTerminal;
use stdin_lines::StdinLines;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Talk with an agent, turn by turn.
///
/// Every line is a message, and the answer runs on as the agent says it. The conversation carries over by itself: the
/// context from turn to turn, the task only while it waits for an answer, which is then simply typed. What was begun here
/// can be gone on with by `sabir send`; `/ids` shows the ids for it.
///
/// In a pipe, every line of standard input is a turn, and a turn that fails ends the run. For programs there is
/// `sabir send -o json`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Chat {
    #[command(flatten)]
    target: AgentArgument,
}

/// The help text below the options.
fn help() -> String {
    let list: String = input::help().lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "What can be typed beside messages:\n{list}\n\
         Ctrl-C while the agent works cancels the task and comes back to the prompt. At the prompt it drops the line.\n\n\
         Examples:\n  \
         sabir chat https://agent.example\n  \
         sabir chat https://agent.example --context-id c-40b9\n  \
         printf 'Plan a trip\\nMake it shorter\\n' | sabir chat -a https://agent.example"
    )
}

impl Verb for Chat {
    fn run(self, invocation: Invocation) -> Outcome {
        let mode = ChatMode::of(&invocation)?;
        let invocation = invocation.with_agent(self.target.agent())?;
        run_session(invocation, InterruptHandling::ByCommand, async |session| run_chat(session, mode).await)
    }
}

/// The kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatMode {
    /// A person at a terminal, who is prompted.
    Terminal,
    /// A pipe, which is read to its end.
    Pipe,
}

impl ChatMode {
    fn of(invocation: &Invocation) -> Result<Self, Problem> {
        if invocation.out.format == Format::Json {
            return Err(Problem::usage("chat speaks text only")
                .hint("one turn as JSON: sabir send -o json --context-id <id> \"<message>\""));
        }
        match (std::io::stdin().is_terminal(), std::io::stdout().is_terminal()) {
            (true, true) => Ok(Self::Terminal),
            (false, _) => Ok(Self::Pipe),
            // A person would type without seeing the answers.
            (true, false) => Err(Problem::usage("chat needs a terminal, or a pipe to read its turns from")
                .hint("one turn: sabir send \"<message>\"; or: printf 'one\\ntwo\\n' | sabir chat")),
        }
    }
}

/// Signals that end a turn or the chat.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Problem> {
        let on = |kind| signal(kind).map_err(|error| Problem::internal(format!("cannot listen for signals: {error}")));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to end the program.
    async fn terminated(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }

    /// Waits for any of them.
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }

    /// Forgets a Ctrl-C that came while the chat was at rest.
    fn discard_interrupt(&mut self) {
        while self.interrupt.recv().now_or_never().flatten().is_some() {}
    }
}

/// The source of turns.
enum TurnSource {
    Terminal(Prompt),
    Pipe(StdinLines),
}

async fn run_chat(session: &Session, mode: ChatMode) -> Outcome {
    let mut signals = Signals::listen()?;
    let agent = tokio::select! {
        connected = session.connect() => connected?,
        () = signals.any() => return Ok(Exit::Interrupted),
        () = session.observer.show_progress(&session.out) => return Ok(Exit::Interrupted),
    };
    session.out.clear_progress();
    let mut conversation = Conversation::begin(session, agent, mode)?;
    let mut input = match mode {
        ChatMode::Terminal => {
            session.out.note(&format!("talking to {}; /help lists what else can be typed", conversation.name()));
            TurnSource::Terminal(Prompt::open()?)
        }
        ChatMode::Pipe => TurnSource::Pipe(StdinLines::of_stdin()),
    };
    let ended = turns(session, &mut conversation, &mut input, &mut signals).await;
    if let Some(resume) = conversation.resume() {
        session.out.note(&format!("Resume: {resume}"));
    }
    ended
}

async fn turns(
    session: &Session,
    conversation: &mut Conversation<'_>,
    input: &mut TurnSource,
    signals: &mut Signals,
) -> Outcome {
    loop {
        let typed = match input {
            TurnSource::Terminal(prompt) => {
                let asked = prompt.next(conversation.prompt());
                tokio::select! {
                    typed = asked => typed?,
                    () = signals.terminated() => {
                        prompt.restore_terminal();
                        return Ok(Exit::Interrupted);
                    }
                }
            }
            TurnSource::Pipe(lines) => tokio::select! {
                biased;
                typed = lines.next() => typed?.map_or(PromptInput::End, PromptInput::Line),
                () = signals.any() => return Ok(Exit::Interrupted),
            },
        };
        let line = match typed {
            PromptInput::End => return Ok(Exit::Done),
            PromptInput::Interrupted => continue,
            PromptInput::Line(typed) => ChatInput::read(&typed),
        };
        let is_person = matches!(input, TurnSource::Terminal(_));
        if is_person {
            signals.discard_interrupt();
        }
        let turn = tokio::select! {
            turn = run_line(session, conversation, line, &mut signals.interrupt) => Some(turn),
            _ = signals.terminate.recv() => None,
            _ = signals.hang_up.recv() => None,
        };
        match turn {
            None => return Ok(Exit::Interrupted),
            Some(Ok(TurnEnd::Over)) => {}
            Some(Ok(TurnEnd::Left)) => return Ok(Exit::Done),
            Some(Ok(TurnEnd::Detached)) => return Ok(Exit::Interrupted),
            Some(Err(Stop::Problem(problem))) if is_person => session.out.report(&problem),
            Some(Err(stop)) => return Err(stop),
        }
    }
}

/// Runs one line of input.
async fn run_line(
    session: &Session,
    conversation: &mut Conversation<'_>,
    line: ChatInput,
    interrupts: &mut Signal,
) -> Result<TurnEnd, Stop> {
    match line {
        // Where the agent waits for an authorisation from elsewhere, Enter says that it was given.
        ChatInput::Nothing if conversation.is_interactive() && conversation.waits_for_authorisation() => {
            conversation.wait(interrupts).await
        }
        ChatInput::Nothing => Ok(TurnEnd::Over),
        ChatInput::Say(text) => conversation.say(text, interrupts).await,
        ChatInput::Wait => conversation.wait(interrupts).await,
        ChatInput::Cancel => conversation.cancel(interrupts).await,
        ChatInput::Task => conversation.show(interrupts).await,
        ChatInput::New => {
            conversation.forget();
            session.out.note("a new conversation begins with the next line");
            Ok(TurnEnd::Over)
        }
        ChatInput::File(place) => conversation.attach(&place),
        ChatInput::Ids => conversation.ids(),
        ChatInput::Raw => conversation.raw(),
        ChatInput::Save(path) => conversation.save(&path),
        ChatInput::Help => {
            session.out.note(&input::help());
            Ok(TurnEnd::Over)
        }
        ChatInput::Exit => Ok(TurnEnd::Left),
        ChatInput::Wrong(what) => {
            Err(Problem::usage(what).hint("/help, or // to send a line that begins with a slash").into())
        }
    }
}
