//! `sabir chat`: a conversation, turn by turn.
//!
//! What carries over from one turn to the next is the context, and the task only while it waits for an answer. Both are
//! printed after every turn, so that nothing lives in this process alone: whoever leaves can go on with `sabir send`.
//!
//! At a terminal a failed turn is told and the conversation goes on. In a pipe, where the next line may depend on the
//! last answer, it ends the run with the code of the failure.

mod lines;
mod talk;
mod words;

use super::{Interrupts, Session, drive};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::{Format, report};
use crate::problem::{Outcome, Problem, Stop};
use clap::Args;
use lines::Lines;
use std::io::{IsTerminal, Write};
use talk::{Talk, Turn};
use tokio::signal::unix::{Signal, SignalKind, signal};
use words::{HELP, Line};

/// Talk with an agent, turn by turn.
///
/// Every line is a message. The conversation carries over by itself: the context from turn to turn, the task only while
/// it waits for an answer, which is then simply typed. The ids are printed after every turn; what was begun here can be
/// gone on with by `sabir send`.
///
/// In a pipe, every line of standard input is a turn, and a turn that fails ends the run. For programs there is
/// `sabir send -o json`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Chat {}

/// What stands below the options.
fn help() -> String {
    let list: String = HELP.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "What can be typed beside messages:\n{list}\n\
         Ctrl-C while the agent works leaves the task running and comes back to the prompt; at the prompt it leaves.\n\n\
         Examples:\n  \
         sabir chat -a https://agent.example\n  \
         sabir chat -a https://agent.example --context-id c-40b9\n  \
         printf 'Plan a trip\\nMake it shorter\\n' | sabir chat -a https://agent.example"
    )
}

impl Verb for Chat {
    fn run(self, invocation: Invocation) -> Outcome {
        let mode = Mode::of(&invocation)?;
        drive(invocation, Interrupts::Own, async |session| converse(session, mode).await)
    }
}

/// Who is at the other end.
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
            // Somebody would be waited for who sees neither answers nor what they are about.
            (true, false) => Err(Problem::usage("chat needs a terminal, or a pipe to read its turns from")
                .hint("one turn: sabir send \"<message>\"; or: printf 'one\\ntwo\\n' | sabir chat")),
        }
    }
}

async fn converse(session: &Session, mode: Mode) -> Outcome {
    let interrupts = signal(SignalKind::interrupt());
    let mut interrupts = interrupts.map_err(|error| Problem::internal(format!("cannot listen for Ctrl-C: {error}")))?;
    let agent = session.connect().await?;
    let mut talk = Talk::begin(session, agent)?;
    let mut lines = Lines::of_stdin();
    if mode == Mode::Person {
        session.out.note(&format!("talking to {}; /help lists what else can be typed", talk.name()));
    }
    let ended = turns(session, mode, &mut talk, &mut lines, &mut interrupts).await;
    if let Some(resume) = talk.resume() {
        session.out.note(&format!("Resume: {resume}"));
    }
    ended
}

async fn turns(
    session: &Session,
    mode: Mode,
    talk: &mut Talk<'_>,
    lines: &mut Lines,
    interrupts: &mut Signal,
) -> Outcome {
    loop {
        if mode == Mode::Person {
            // A prompt is no result: it goes where nobody parses it. If it cannot be shown there is nothing to be done.
            let mut stderr = std::io::stderr().lock();
            _ = write!(stderr, "{}", talk.prompt()).and_then(|()| stderr.flush());
        }
        let typed = tokio::select! {
            biased;
            typed = lines.next() => typed?,
            _ = interrupts.recv() => return Ok(Exit::Interrupted),
        };
        let line = match typed {
            None => return Ok(Exit::Done),
            Some(typed) => Line::read(&typed),
        };
        match one(session, mode, talk, line, interrupts).await {
            Ok(Turn::Over) => {}
            Ok(Turn::Left) => return Ok(Exit::Done),
            Ok(Turn::Detached) if mode == Mode::Pipe => return Ok(Exit::Interrupted),
            Ok(Turn::Detached) => session.out.note("/wait waits for it again, /cancel cancels it"),
            Err(Stop::Problem(problem)) if mode == Mode::Person => {
                report(&problem, Format::Text, &session.out.redactor);
            }
            Err(stop) => return Err(stop),
        }
    }
}

/// What one line leads to.
async fn one(
    session: &Session,
    mode: Mode,
    talk: &mut Talk<'_>,
    line: Line,
    interrupts: &mut Signal,
) -> Result<Turn, Stop> {
    match line {
        // Where the agent waits for an authorisation from elsewhere, Enter says that it was given.
        Line::Nothing if mode == Mode::Person && talk.waits_for_authorisation() => talk.wait(interrupts).await,
        Line::Nothing => Ok(Turn::Over),
        Line::Say(text) => talk.say(text, interrupts).await,
        Line::Wait => talk.wait(interrupts).await,
        Line::Cancel => talk.cancel().await,
        Line::Task => talk.show().await,
        Line::New => {
            talk.forget();
            session.out.note("a new conversation begins with the next line");
            Ok(Turn::Over)
        }
        Line::File(place) => talk.attach(&place),
        Line::Raw => talk.raw(),
        Line::Save(path) => talk.save(&path),
        Line::Help => {
            session.out.note(HELP);
            Ok(Turn::Over)
        }
        Line::Exit => Ok(Turn::Left),
        Line::Wrong(what) => {
            Err(Problem::usage(what).hint("/help, or // to send a line that begins with a slash").into())
        }
    }
}
