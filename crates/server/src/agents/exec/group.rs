//! The processes of one turn: how they start, and that none of them outlives the turn.
//!
//! A command gets a process group of its own, and the whole group is ended with it: when the turn ends, when it is
//! canceled, when the server stops. Ending is SIGTERM, then SIGKILL after the grace if anything of the group still
//! lives. It happens on a thread and not in a task, because a future that is dropped cannot wait, and a runtime that
//! is shutting down runs no new tasks.
//!
//! A group's number is that of its first process, and the kernel may give it away once no process of the group is
//! left. Every look at the group is at most one pause old; the kernel hands numbers out in turn, so within that time
//! none comes back.
//!
//! Out of reach are processes that leave the group (`setsid`). If the server itself is killed, the next one ends them all;
//! see `ledger`.

use super::room::Room;
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

/// Gives the command its descriptors. Rust hands a child only three, and a fourth takes `unsafe`; so the pipe for
/// events comes in as standard input, and the shell puts it where it belongs. Standard input itself is a file: a
/// command that does not read it keeps nobody waiting. Bound to the command and not to the shell, because some shells
/// keep descriptors above 2 to themselves. The command is an argument, never spliced into this text.
const LAUNCH: &str = r#"exec /bin/sh -c "$1" 3>&0 <"$2""#;
/// Between two looks at a group that is being ended.
const PAUSE: Duration = Duration::from_millis(10);
/// Every so many looks it is asked whether those who are left are dead already, which takes reading about everybody.
const LOOKS_PER_CENSUS: u32 = 8;
/// How long killed processes get to disappear. Nothing can hurry them; this bounds how long anybody waits.
const KILL_TIME_MAX: Duration = Duration::from_secs(2);

/// A running command and everything it started.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    /// `None` once the group has ended or is being ended.
    child: Option<Child>,
    /// Completes when the group has ended.
    ending: Option<oneshot::Receiver<()>>,
    room: Arc<Room>,
    reaper: Arc<Reaper>,
}

/// Where a command speaks.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
    pub(super) events: pipe::Receiver,
}

impl Group {
    /// Starts a command in its room, with these variables and no others.
    pub(super) fn start(
        command: &str,
        variables: Vec<(OsString, OsString)>,
        room: &Arc<Room>,
        reaper: &Arc<Reaper>,
    ) -> io::Result<(Self, Pipes)> {
        let (ours, events) = pipe::pipe()?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", LAUNCH, "sh", command]).arg(room.stdin());
        shell.env_clear().envs(variables).process_group(0);
        shell.stdin(ours.into_blocking_fd()?).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn()?;
        // It holds a writing end of the events, which would never end.
        drop(shell);
        let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let (Some(id), Some(stdout), Some(stderr)) = (id, child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("a new process has neither a number nor pipes"));
        };
        let group = Self { id, child: Some(child), ending: None, room: room.clone(), reaper: reaper.clone() };
        if let Err(error) = room.started(id) {
            // Its directory is written down, by which it is found as well.
            tracing::warn!(%error, "cannot write down which process a command has");
        }
        Ok((group, Pipes { stdout, stderr, events }))
    }

    /// Waits for the command itself; what it left in the background may go on. May be dropped and asked again.
    pub(super) async fn exited(&mut self) -> io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => std::future::pending().await,
        }
    }

    /// Ends whatever of the group still lives, and waits for that. May be dropped and asked again.
    pub(super) async fn ended(&mut self) {
        self.end();
        if let Some(ending) = &mut self.ending {
            // An error is a thread that broke down, and there is nobody else to wait for.
            drop(ending.await);
            self.ending = None;
        }
    }

    fn end(&mut self) {
        let Some(child) = self.child.take() else { return };
        let reaped = child.id().is_none();
        if !reaped || exists(self.id) {
            self.ending = Some(self.reaper.take(child, self.id, self.room.clone()));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends groups, one thread each while it takes. Shared by all turns of an agent.
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

    /// Ends a group; the answer comes when it has. The room stays until then, however soon the turn lets go of it.
    fn take(self: &Arc<Self>, mut child: Child, id: Pid, room: Arc<Room>) -> oneshot::Receiver<()> {
        signal(id, Signal::TERM);
        let (done, ending) = oneshot::channel();
        let work = Work::begin(self.clone());
        let end = move || {
            if !disappears(&mut child, id, work.0.grace) {
                signal(id, Signal::KILL);
                if !disappears(&mut child, id, KILL_TIME_MAX) {
                    tracing::warn!(group = id.as_raw_nonzero(), "processes of a command do not end, although killed");
                }
            }
            // Nobody listens any more when the turn was dropped.
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

    /// Waits until nothing is being ended any more, but not for ever.
    pub(super) fn wait(&self) {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let time_max = self.grace + 2 * KILL_TIME_MAX;
        // Whether in time or not, there is nothing more to be done.
        drop(self.idle.wait_timeout_while(busy, time_max, |busy| *busy > 0));
    }
}

/// One ending under way; counted until dropped, also when its thread never started or broke down.
struct Work(Arc<Reaper>);

impl Work {
    fn begin(reaper: Arc<Reaper>) -> Self {
        *reaper.busy.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(reaper)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.idle.notify_all();
    }
}

/// Whether all of the group is gone within this time.
fn disappears(child: &mut Child, id: Pid, time: Duration) -> bool {
    let start = Instant::now();
    for look in 1_u32.. {
        // An error means that the child is no longer ours to wait for.
        let reaped = !matches!(child.try_wait(), Ok(None));
        if reaped {
            // Orphans of the group are ours if we are the first process of a container; nobody else would bury them.
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

/// Whether the group has only dead processes, which somebody else has yet to bury: for the kernel they are still of
/// the group. The first process of a container often takes long to, or never does.
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

/// Elsewhere nobody tells; it takes the whole grace, which is harmless.
#[cfg(not(target_os = "linux"))]
fn is_dead(_id: Pid) -> bool {
    false
}

fn exists(id: Pid) -> bool {
    // Not being allowed to is no proof of absence.
    !matches!(test_kill_process_group(id), Err(Errno::SRCH))
}

fn signal(id: Pid, signal: Signal) {
    // The only errors are that nobody is left, which is what we want, and that we may not, which we cannot change.
    let _ = kill_process_group(id, signal);
}
