//! Agents that are commands: any program that reads its input and prints its answer.
//!
//! Each turn runs the command once, by `sh -c`, in a process group and a directory of its own. Its standard output
//! streams to the caller, lines on its descriptor 3 are events, the files that it leaves in a directory become
//! artifacts, and its exit code says how the turn ended. `docs/guides/exec.md` describes this contract for users.
//!
//! | Module | What it decides |
//! |---|---|
//! | `process_limit` | how many commands run at the same time, and which turn is next |
//! | `work_directory` | the private directory: its contents, and that the server removes all of it |
//! | `leftovers` | private directories that the server could not remove at once |
//! | `group` | the processes: how they start, and that none of them outlives the turn |
//! | `journal` | the journal of running commands, for the server that starts after a killed one |
//! | `relay` | the output of the running command, and the order in which it is passed on |
//! | `events` | the meaning of a line on descriptor 3 |
//! | `text` | how bytes are cut into chunks, lines and tails |
//! | `files` | how a file that the command left becomes an artifact |
//!
//! The message is only ever data: it never becomes part of a command line, a path or the name of a variable. Absent on
//! purpose is a sandbox. The command belongs to the operator and may do what the server may. It does not get the
//! environment of the server, because that holds secrets.

mod events;
mod files;
mod group;
mod journal;
mod leftovers;
mod process_limit;
mod relay;
mod text;
mod work_directory;

#[cfg(test)]
mod tests;

use super::chunks::ChunkLimits;
use super::delegation::{DelegatesTo, TurnDelegation};
use crate::config::agent::{AgentConfig, ExecConfig, Stdin};
use events::CommandNeed;
use group::{ProcessGroup, Reaper};
pub(crate) use journal::{CommandJournal, EndedLeftovers};
use leftovers::Leftovers;
pub(crate) use process_limit::ProcessLimit;
use process_limit::ProcessSlot;
use relay::{CommandOutcome, relay};
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_proto::Message;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use work_directory::TurnDirectory;

/// The variables every command sees: without them most programs do not find their way around.
pub(super) const VARIABLES_PASSED: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// Bytes of a skill's name. The caller writes it and the kernel limits variables; honest names are far shorter.
const SKILL_BYTES_MAX: usize = 256;
/// How long the first output of a command waits for more: a command that prints its answer and exits then sends it in
/// one chunk, which is marked as the last.
const FIRST_DELAY: Duration = Duration::from_millis(20);
/// `EX_TEMPFAIL`: the command cannot go on without more input.
const EXIT_ASK_INPUT: i32 = 75;
/// `EX_NOPERM`: the command will not do it.
const EXIT_REJECT: i32 = 77;

/// Runs a command per message.
#[derive(Debug)]
pub struct Exec {
    command: String,
    stdin: Stdin,
    /// Variables that are passed on besides [`VARIABLES_PASSED`].
    env: Vec<String>,
    reaper: Arc<Reaper>,
    chunks: ChunkLimits,
    /// The journal of running commands; `None` where the store is in memory.
    journal: Option<Arc<CommandJournal>>,
    /// Directories of turns that could not be removed yet.
    leftovers: Arc<Leftovers>,
    name: Arc<str>,
    /// Commands of this agent that run at the same time.
    processes: Arc<ProcessLimit>,
    /// Commands of all agents of this server that run at the same time.
    server_processes: Arc<ProcessLimit>,
    /// To which agents the command may delegate.
    delegates_to: Option<DelegatesTo>,
}

/// What a turn holds while its command runs.
#[derive(Debug)]
struct ProcessSlots {
    _agent: ProcessSlot,
    _server: ProcessSlot,
}

impl Exec {
    /// `grace` is the time between SIGTERM and SIGKILL. The error says what is wrong with the configuration.
    pub(crate) fn new(config: &AgentConfig, grace: Duration, chunks: ChunkLimits) -> Result<Self, String> {
        let command = config.command.clone().unwrap_or_default();
        if command.trim().is_empty() {
            return Err("kind = \"exec\" needs a command".into());
        }
        if command.contains('\0') {
            return Err("command contains a NUL".into());
        }
        for name in &config.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!(
                    "env lists {name:?}, which cannot be the name of a variable; write names, not values"
                ));
            }
            if name.starts_with("A2A_") {
                return Err(format!("env lists {name:?}, but A2A_… are set by the server"));
            }
        }
        let ExecConfig { processes_max } = config.exec.unwrap_or_default();
        if processes_max == 0 {
            return Err("exec.processes_max = 0 would run no command; make it at least 1".into());
        }
        let (stdin, env, reaper) = (config.stdin, config.env.clone(), Reaper::new(grace));
        let chunks = ChunkLimits { first_delay: FIRST_DELAY.min(chunks.delay), ..chunks };
        let (processes, leftovers) = (ProcessLimit::new(processes_max), Arc::default());
        let (name, server_processes) = (config.name.as_str().into(), ProcessLimit::new(usize::MAX));
        Ok(Self {
            command,
            stdin,
            env,
            reaper,
            chunks,
            journal: None,
            leftovers,
            name,
            processes,
            server_processes,
            delegates_to: None,
        })
    }

    /// Sets the process limit that all agents of the server share.
    #[must_use]
    pub(crate) fn with_server_limit(mut self, server_processes: &Arc<ProcessLimit>) -> Self {
        self.server_processes = server_processes.clone();
        self
    }

    /// Waits until the command may run. A turn that has to wait says so once.
    async fn slots(&self, cx: &Context) -> Result<ProcessSlots, Failure> {
        let (caller, agent) = (Arc::from(cx.caller().name()), &self.name);
        let agent_slot = match self.processes.try_acquire() {
            Some(slot) => slot,
            None => {
                self.report_full(cx, &self.processes, "of this agent").await?;
                self.processes.acquire(&caller).await
            }
        };
        let server_slot = match self.server_processes.try_acquire() {
            Some(slot) => slot,
            None => {
                self.report_full(cx, &self.server_processes, "of this server").await?;
                self.server_processes.acquire(agent).await
            }
        };
        Ok(ProcessSlots { _agent: agent_slot, _server: server_slot })
    }

    async fn report_full(&self, cx: &Context, limit: &ProcessLimit, whose: &str) -> Result<(), Failure> {
        let running = limit.processes_max();
        Ok(cx.status(format!("waiting: {running} commands {whose} are running already")).await?)
    }

    /// Sets the journal that records the running commands.
    #[must_use]
    pub(crate) fn with_journal(mut self, ledger: Option<Arc<CommandJournal>>) -> Self {
        self.journal = ledger;
        self
    }

    /// Sets the agents that the command may delegate to.
    #[must_use]
    pub(crate) fn with_delegates(mut self, delegates_to: Option<DelegatesTo>) -> Self {
        self.delegates_to = delegates_to;
        self
    }

    /// The whole environment of the command. It gets nothing else of the server's environment.
    fn variables(
        &self,
        cx: &Context,
        skill: &str,
        room: &TurnDirectory,
        delegation: Option<&TurnDelegation>,
    ) -> Vec<(OsString, OsString)> {
        let passed = VARIABLES_PASSED.into_iter().chain(self.env.iter().map(String::as_str));
        let passed = passed.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        let ours = [
            ("A2A_TASK_ID", cx.task_id().to_string().into()),
            ("A2A_CONTEXT_ID", cx.context_id().to_string().into()),
            ("A2A_SKILL", skill.into()),
            ("A2A_CALLER", cx.caller().name().into()),
            ("A2A_TOOL_MODE", cx.tool_mode().name().into()),
            ("A2A_JOB_ID", cx.message().job().map(|job| job.to_string()).unwrap_or_default().into()),
            ("A2A_TURN_ID", cx.turn_id().into()),
            ("A2A_ATTEMPT", cx.attempt().to_string().into()),
            ("A2A_PARTS_DIR", room.parts().into_os_string()),
            ("A2A_OUT_DIR", room.out().into_os_string()),
        ];
        let delegation = delegation.into_iter().flat_map(|delegation| {
            [("A2A_DELEGATE_URL", delegation.url.clone()), ("A2A_DELEGATE_TOKEN", delegation.token.expose().to_owned())]
        });
        let delegation = delegation.map(|(name, value)| (name.into(), value.into()));
        passed.chain(ours.map(|(name, value): (&str, OsString)| (name.into(), value))).chain(delegation).collect()
    }

    /// Waits until the command may run, then makes its private directory with the parts of the message.
    async fn make_directory(&self, cx: &Context) -> Result<Arc<TurnDirectory>, Failure> {
        let slots = self.slots(cx).await?;
        let (message, before, stdin) = (cx.message().clone(), cx.before().cloned(), self.stdin);
        let (journal, leftovers) = (self.journal.clone(), self.leftovers.clone());
        let furnish =
            move || TurnDirectory::create(&message, before.as_ref(), stdin, journal.as_deref(), &leftovers, slots);
        match spawn_blocking(furnish).await {
            Ok(Ok(room)) => Ok(Arc::new(room)),
            Ok(Err(error)) => Err(server_failure(cx, "making its directory", &error)),
            Err(error) => Err(server_failure(cx, "making its directory", &error)),
        }
    }
}

impl Agent for Exec {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let Some(skill) = skill(cx.message()) else {
            let problem = format!("the name of the skill has control characters, or more than {SKILL_BYTES_MAX} bytes");
            return Ok(Ending::reject(problem));
        };
        let room = self.make_directory(cx).await?;
        let delegation = self.delegates_to.as_ref().and_then(|agents| agents.open(cx));
        let variables = self.variables(cx, &skill, &room, delegation.as_ref());
        let started = ProcessGroup::start(&self.command, variables, &room, &self.reaper);
        let (mut group, pipes) = started.map_err(|e| server_failure(cx, "starting it", &e))?;
        let work = relay(cx, &mut group, pipes, self.chunks);
        let mut outcome = TurnDelegation::serve_during(delegation, cx, work).await?;
        drop(group);
        if !matches!(outcome.status.code(), Some(0 | EXIT_ASK_INPUT)) && cx.caller().is_anonymous() {
            hide_stderr(cx, &mut outcome);
        }
        if outcome.status.code() == Some(0) {
            let out = room.clone();
            let found = spawn_blocking(move || files::collect(out.handle()));
            for artifact in found.await.map_err(|e| server_failure(cx, "reading its files", &e))?? {
                cx.chunk(artifact, false, true).await?;
            }
        }
        // Removed before the caller learns that the turn has ended, and on a blocking thread because it is file I/O.
        spawn_blocking(move || drop(room)).await.map_err(|e| server_failure(cx, "removing its directory", &e))?;
        Ok(ending(&outcome))
    }

    fn execution(&self) -> Execution {
        // A command may do anything, so it runs only after its task is stored, and never twice for one turn.
        Execution { recovery: Recovery::Fail, ..Execution::default() }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // Waits for the grace time at most, so that a stopping server still kills processes that ignore SIGTERM.
        self.reaper.wait();
        self.leftovers.retry();
    }
}

/// Standard error names files and settings of this machine. The operator reads it in the log, and a caller without a
/// credential learns only that it is there.
fn hide_stderr(cx: &Context, outcome: &mut CommandOutcome) {
    if !outcome.stderr.is_empty() {
        tracing::info!(task = %cx.task_id(), stderr = outcome.stderr, "a command failed");
        outcome.stderr = "the operator finds what it wrote to standard error in the log of the server".to_owned();
    }
}

/// How the turn ends. This is the only place that gives an exit code a meaning.
fn ending(outcome: &CommandOutcome) -> Ending {
    let CommandOutcome { status, need: asked, last_line, stderr } = outcome;
    match (status.code(), asked) {
        (Some(0 | EXIT_ASK_INPUT), Some(CommandNeed::Input(question))) => Ending::ask_input(question),
        (Some(0 | EXIT_ASK_INPUT), Some(CommandNeed::Auth(request))) => Ending::ask_auth(request),
        (Some(0), Some(CommandNeed::Transfer(order))) => Ending::Transfer(order.clone()),
        (Some(0), None) => Ending::complete(),
        (Some(EXIT_ASK_INPUT), None | Some(CommandNeed::Transfer(_))) => {
            Ending::ask_input(first_of([last_line, "more input is needed"]))
        }
        (Some(EXIT_REJECT), _) => Ending::reject(first_of([last_line, stderr, "the command declined"])),
        (Some(code), _) => failed(&format!("the command failed with exit code {code}"), stderr),
        (None, _) => {
            let signal = status.signal().unwrap_or(0);
            failed(&format!("the command was ended by signal {signal}"), stderr)
        }
    }
}

fn failed(what: &str, stderr: &str) -> Ending {
    if stderr.is_empty() { Ending::fail(what) } else { Ending::fail(format!("{what}:\n{stderr}")) }
}

/// The first text that is not empty.
fn first_of<const N: usize>(texts: [&str; N]) -> &str {
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or("")
}

/// The skill that the message asks for; empty for none, `None` if it cannot be the value of a variable.
fn skill(message: &Message) -> Option<String> {
    let skill = message.skill().unwrap_or_default();
    (skill.len() <= SKILL_BYTES_MAX && !skill.contains(char::is_control)).then_some(skill)
}

/// A failure of the server, not of the command: the log gets the cause, the caller does not.
fn server_failure(cx: &Context, doing: &str, error: &dyn std::error::Error) -> Failure {
    tracing::error!(task = %cx.task_id(), %error, "a command could not be run: {doing}");
    Failure("the server could not run the command behind this agent".into())
}
