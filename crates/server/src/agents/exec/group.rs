//! The processes of one turn: how they start, and that none of them outlives the turn.
//!
//! A command gets a process group of its own. The server ends the whole group when the turn ends, when it is canceled
//! and when the server stops: SIGTERM first, then SIGKILL after the grace time if a process still lives. This runs on a
//! thread and not in a task, because a dropped future cannot wait, and a runtime that shuts down runs no new tasks.
//!
//! The number of a group is that of its first process. The kernel may reuse it when no process of the group is left.
//! Each check of the group is at most one pause old, and the kernel assigns numbers in turn, so no number is reused
//! within that time.
//!
//! Processes that leave the group (`setsid`) are out of reach. If the server itself is killed, the next one ends all
//! processes of its commands; see `journal`.

use super::work_directory::TurnDirectory;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::oneshot;

/// Gives the command its descriptors. Rust passes only three to a child, and a fourth takes `unsafe`. So the pipe for
/// events comes in as standard input, and the shell moves it to descriptor 3. Standard input is a file, so a command
/// that does not read it blocks no writer. The descriptor is bound to the command and not to the shell, because some
/// shells keep descriptors above 2 to themselves. The command is an argument, never spliced into this text.
const LAUNCH: &str = r#"exec /bin/sh -c "$1" 3>&0 <"$2""#;
/// The pause between two checks of a group that is being ended.
const PAUSE: Duration = Duration::from_millis(10);
/// After so many checks the state of the remaining processes is read too, which takes reading all of `/proc`.
const LOOKS_PER_CENSUS: u32 = 8;
/// How long the server waits for killed processes to disappear.
const KILL_TIME_MAX: Duration = Duration::from_secs(2);

/// A running command and everything it started.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    id: Pid,
    /// `None` once the group has ended or is being ended.
    child: Option<Child>,
    /// Completes when the group has ended.
    ending: Option<oneshot::Receiver<()>>,
    directory: Arc<TurnDirectory>,
    reaper: Arc<Reaper>,
}

/// The outputs of a command.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
    pub(super) events: pipe::Receiver,
}

impl ProcessGroup {
    /// Starts a command in its directory, with these variables and no others.
    pub(super) fn start(
        command: &str,
        variables: Vec<(OsString, OsString)>,
        directory: &Arc<TurnDirectory>,
        reaper: &Arc<Reaper>,
    ) -> io::Result<(Self, Pipes)> {
        let (ours, events) = pipe::pipe()?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", LAUNCH, "sh", command]).arg(directory.stdin());
        shell.env_clear().envs(variables).process_group(0);
        shell.stdin(ours.into_blocking_fd()?).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn()?;
        // The shell command holds a writing end of the events. While that is open, reading them never ends.
        drop(shell);
        let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let (Some(id), Some(stdout), Some(stderr)) = (id, child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("a new process has neither a number nor pipes"));
        };
        let group = Self { id, child: Some(child), ending: None, directory: directory.clone(), reaper: reaper.clone() };
        if let Err(error) = directory.record_leader(id) {
            // The journal has its directory already, and the next server finds the processes by that too.
            tracing::warn!(%error, "cannot write down which process a command has");
        }
        Ok((group, Pipes { stdout, stderr, events }))
    }

    /// Waits for the command itself; processes that it left in the background may go on. Cancel-safe.
    pub(super) async fn wait_for_exit(&mut self) -> io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the living processes of the group, and waits until they are gone. Cancel-safe.
    pub(super) async fn end_and_wait(&mut self) {
        self.end();
        if let Some(ending) = &mut self.ending {
            // An error means that the thread panicked; there is nothing else to wait for.
            drop(ending.await);
            self.ending = None;
        }
    }

    fn end(&mut self) {
        let Some(child) = self.child.take() else { return };
        let reaped = child.id().is_none();
        if !reaped || exists(self.id) {
            self.ending = Some(self.reaper.end_group(child, self.id, self.directory.clone()));
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends groups, with one thread for each. Shared by all turns of an agent.
#[derive(Debug)]
pub(super) struct Reaper {
    grace: Duration,
    busy: Mutex<usize>,
    idle: Condvar,
}

impl Reaper {
    pub(super) fn new(grace: Duration) -> Arc<Self> {
        Arc::new(Self { grace, busy: Mutex::new(0), idle: Condvar::new() })
    }

    /// Ends a group. The receiver completes when it is gone. The directory is kept until then, also if the turn drops
    /// it.
    fn end_group(self: &Arc<Self>, mut child: Child, id: Pid, room: Arc<TurnDirectory>) -> oneshot::Receiver<()> {
        signal(id, Signal::TERM);
        let (done, ending) = oneshot::channel();
        let work = BusyGuard::begin(self.clone());
        let end = move || {
            if !wait_until_gone(&mut child, id, work.0.grace) {
                signal(id, Signal::KILL);
                if !wait_until_gone(&mut child, id, KILL_TIME_MAX) {
                    tracing::warn!(group = id.as_raw_nonzero(), "processes of a command do not end, although killed");
                }
            }
            // The receiver is gone if the turn was dropped.
            let _ = done.send(());
            drop(room);
            drop(work);
        };
        if let Err(error) = std::thread::Builder::new().name("exec-reaper".into()).spawn(end) {
            tracing::error!(%error, "no thread to end a command with; killing it at once");
            signal(id, Signal::KILL);
        }
        ending
    }

    /// Waits until no group is being ended any more, with a time limit.
    pub(super) fn wait(&self) {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let time_max = self.grace + 2 * KILL_TIME_MAX;
        // Nothing more can be done after the time limit.
        drop(self.idle.wait_timeout_while(busy, time_max, |busy| *busy > 0));
    }
}

/// Counts a group that is being ended, until this is dropped: also if its thread never started or panicked.
struct BusyGuard(Arc<Reaper>);

impl BusyGuard {
    fn begin(reaper: Arc<Reaper>) -> Self {
        *reaper.busy.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(reaper)
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.idle.notify_all();
    }
}

/// Waits until the whole group is gone. False if that takes longer than `time`.
fn wait_until_gone(child: &mut Child, id: Pid, time: Duration) -> bool {
    let start = Instant::now();
    for look in 1_u32.. {
        // An error means that this process is no longer the parent of the child.
        let reaped = !matches!(child.try_wait(), Ok(None));
        if reaped {
            // If the server is the first process of a container, it is the parent of orphans and must reap them.
            while matches!(waitpgid(id, WaitOptions::NOHANG), Ok(Some(_))) {}
            if !exists(id) || (look.is_multiple_of(LOOKS_PER_CENSUS) && is_dead(id)) {
                return true;
            }
        }
        if start.elapsed() >= time {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

/// Whether the group has only dead processes that their parent has not reaped: the kernel still counts them. The first
/// process of a container often reaps late, or never.
#[cfg(target_os = "linux")]
fn is_dead(id: Pid) -> bool {
    let state = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name before this bracket is the program's own and may contain anything.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let (state, group) = (fields.next()?.to_owned(), fields.nth(1)?.parse().ok());
        (group == Some(id.as_raw_nonzero().get())).then_some(state)
    };
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let states: Vec<String> = entries.flatten().filter_map(state).collect();
    !states.is_empty() && states.iter().all(|state| state == "Z" || state == "X")
}

/// Other systems do not tell. Then the whole grace time passes, which is harmless.
#[cfg(not(target_os = "linux"))]
fn is_dead(_id: Pid) -> bool {
    false
}

fn exists(id: Pid) -> bool {
    // A missing permission does not prove that the group is gone.
    !matches!(test_kill_process_group(id), Err(Errno::SRCH))
}

fn signal(id: Pid, signal: Signal) {
    // The only errors: the group is gone, which is the goal, or a missing permission, which cannot be changed here.
    let _ = kill_process_group(id, signal);
}
