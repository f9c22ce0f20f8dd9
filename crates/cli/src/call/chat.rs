//! `sabir chat`: a conversation, turn by turn.
//!
//! What carries over from one turn to the next is the context, and the task only while it waits for an answer. The ids
//! are a command away (`/ids`) and stand at the end, so that nothing lives in this process alone: `sabir send` goes on
//! from there. In the text form they are printed after every turn.
//!
//! At a terminal a failed turn is told and the conversation goes on. In a pipe, where the next line may depend on the
//! last answer, it ends the run with the code of the failure.

mod lines;
mod prompt;
mod talk;
mod words;

use super::target::Target;
use super::{Interrupts, Session, drive};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Format;
use crate::problem::{Outcome, Problem, Stop};
use clap::Args;
use futures_util::FutureExt;
use lines::Lines;
use prompt::{Prompt, Typed};
use std::io::IsTerminal;
use talk::{Talk, Turn};
use tokio::signal::unix::{Signal, SignalKind, signal};
use words::Line;

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
    target: Target,
}

/// What stands below the options.
fn help() -> String {
    let list: String = words::help().lines().map(|line| format!("  {line}\n")).collect();
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
        let mode = Mode::of(&invocation)?;
        let invocation = invocation.aim(self.target.agent())?;
        drive(invocation, Interrupts::Own, async |session| converse(session, mode).await)
    }
}

/// Where the lines come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A person, who is prompted.
    Person,
    /// A pipe, which is read to its end.
    Pipe,
}

impl Mode {
    fn of(invocation: &Invocation) -> Result<Self, Problem> {
        if invocation.out.format == Format::Json {
            return Err(Problem::usage("chat speaks text only")
                .hint("one turn as JSON: sabir send -o json --context-id <id> \"<message>\""));
        }
        match (std::io::stdin().is_terminal(), std::io::stdout().is_terminal()) {
            (true, true) => Ok(Self::Person),
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
    async fn ended(&mut self) {
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
    fn forget(&mut self) {
        while self.interrupt.recv().now_or_never().flatten().is_some() {}
    }
}

/// Where turns come from.
enum Input {
    Person(Prompt),
    Pipe(Lines),
}

async fn converse(session: &Session, mode: Mode) -> Outcome {
    let mut signals = Signals::listen()?;
    let agent = tokio::select! {
        connected = session.connect() => connected?,
        () = signals.any() => return Ok(Exit::Interrupted),
        () = session.watcher.show_progress(&session.out) => return Ok(Exit::Interrupted),
    };
    session.out.clear_progress();
    let mut talk = Talk::begin(session, agent, mode)?;
    let mut input = match mode {
        Mode::Person => {
            session.out.note(&format!("talking to {}; /help lists what else can be typed", talk.name()));
            Input::Person(Prompt::open()?)
        }
        Mode::Pipe => Input::Pipe(Lines::of_stdin()),
    };
    let ended = turns(session, &mut talk, &mut input, &mut signals).await;
    if let Some(resume) = talk.resume() {
        session.out.note(&format!("Resume: {resume}"));
    }
    ended
}

async fn turns(session: &Session, talk: &mut Talk<'_>, input: &mut Input, signals: &mut Signals) -> Outcome {
    loop {
        let typed = match input {
            Input::Person(prompt) => {
                let asked = prompt.next(talk.prompt());
                tokio::select! {
                    typed = asked => typed?,
                    () = signals.ended() => {
                        prompt.give_back();
                        return Ok(Exit::Interrupted);
                    }
                }
            }
            Input::Pipe(lines) => tokio::select! {
                biased;
                typed = lines.next() => typed?.map_or(Typed::End, Typed::Line),
                () = signals.any() => return Ok(Exit::Interrupted),
            },
        };
        let line = match typed {
            Typed::End => return Ok(Exit::Done),
            Typed::Dropped => continue,
            Typed::Line(typed) => Line::read(&typed),
        };
        let is_person = matches!(input, Input::Person(_));
        if is_person {
            signals.forget();
        }
        let turn = tokio::select! {
            turn = one(session, talk, line, &mut signals.interrupt) => Some(turn),
            _ = signals.terminate.recv() => None,
            _ = signals.hang_up.recv() => None,
        };
        match turn {
            None => return Ok(Exit::Interrupted),
            Some(Ok(Turn::Over)) => {}
            Some(Ok(Turn::Left)) => return Ok(Exit::Done),
            Some(Ok(Turn::Detached)) => return Ok(Exit::Interrupted),
            Some(Err(Stop::Problem(problem))) if is_person => session.out.report(&problem),
            Some(Err(stop)) => return Err(stop),
        }
    }
}

/// What one line leads to.
async fn one(session: &Session, talk: &mut Talk<'_>, line: Line, interrupts: &mut Signal) -> Result<Turn, Stop> {
    match line {
        // Where the agent waits for an authorisation from elsewhere, Enter says that it was given.
        Line::Nothing if talk.is_with_a_person() && talk.waits_for_authorisation() => talk.wait(interrupts).await,
        Line::Nothing => Ok(Turn::Over),
        Line::Say(text) => talk.say(text, interrupts).await,
        Line::Wait => talk.wait(interrupts).await,
        Line::Cancel => talk.cancel(interrupts).await,
        Line::Task => talk.show(interrupts).await,
        Line::New => {
            talk.forget();
            session.out.note("a new conversation begins with the next line");
            Ok(Turn::Over)
        }
        Line::File(place) => talk.attach(&place),
        Line::Ids => talk.ids(),
        Line::Raw => talk.raw(),
        Line::Save(path) => talk.save(&path),
        Line::Help => {
            session.out.note(&words::help());
            Ok(Turn::Over)
        }
        Line::Exit => Ok(Turn::Left),
        Line::Wrong(what) => {
            Err(Problem::usage(what).hint("/help, or // to send a line that begins with a slash").into())
        }
    }
}
