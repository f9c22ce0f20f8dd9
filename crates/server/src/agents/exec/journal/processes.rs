//! Finds and ends the processes that a killed server left.

use super::super::work_directory;
use super::{EndedLeftovers, LeftoverEntry};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The pause between two checks of processes that are being ended.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the server waits for killed processes to disappear.
const KILL_TIME_MAX: Duration = Duration::from_secs(2);

/// The start time of a process, in ticks since the last boot.
pub(super) fn born(pid: i32) -> Option<u64> {
    Process::read(pid).map(|process| process.born)
}

impl LeftoverEntry {
    /// Whether a process belongs to the turn.
    fn owns(&self, process: &Process, all: &[Process]) -> bool {
        let leads = |one: &Process| self.leader == Some((one.pid, one.born));
        let led = || self.leader.is_some_and(|(pid, _)| process.group == pid) && all.iter().any(leads);
        leads(process) || led() || process.was_given(&self.directory)
    }
}

/// A process as `/proc` describes it.
#[derive(Debug, Clone, Copy)]
struct Process {
    pid: i32,
    group: i32,
    /// The start time, in ticks since the last boot.
    born: u64,
    is_dead: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before this bracket is the program's own and may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let (state, group, born) = (fields.first()?, fields.get(2)?.parse().ok()?, fields.get(19)?.parse().ok()?);
        Some(Self { pid, group, born, is_dead: matches!(*state, "Z" | "X") })
    }

    fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Self::read).filter(|process| !process.is_dead).collect()
    }

    /// Whether it was started with this private directory. The environment of other users' processes cannot be read;
    /// they are none of the server's.
    fn was_given(&self, room: &Path) -> bool {
        let mut variable = b"A2A_OUT_DIR=".to_vec();
        variable.extend(room.join(work_directory::OUT).as_os_str().as_bytes());
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment.split(|b| *b == 0).any(|one| one == variable)
    }

    /// Opens a descriptor that never refers to another process.
    fn open(self) -> Option<ProcessHandle> {
        let by = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        let same = Self::read(self.pid).is_some_and(|now| now.born == self.born);
        same.then_some(ProcessHandle { process: self, pidfd: by })
    }
}

/// A process with a descriptor that refers to it alone.
struct ProcessHandle {
    process: Process,
    pidfd: OwnedFd,
}

impl ProcessHandle {
    fn signal(&self, signal: Signal) {
        // The only errors: the process is gone, which is the goal, or a missing permission, which cannot be changed
        // here.
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    fn is_alive(&self) -> bool {
        Process::read(self.process.pid).is_some_and(|now| now.born == self.process.born && !now.is_dead)
    }
}

/// Ends the processes of these turns, and those that start meanwhile.
pub(super) fn end(left: &[LeftoverEntry], grace: Duration) -> EndedLeftovers {
    let mut ended = EndedLeftovers::default();
    if left.is_empty() {
        return ended;
    }
    let mut known: Vec<ProcessHandle> = Vec::new();
    for (signal, time) in [(Signal::TERM, grace), (Signal::KILL, KILL_TIME_MAX)] {
        known.retain(ProcessHandle::is_alive);
        if signal == Signal::KILL {
            ended.killed = known.len();
        }
        known.iter().for_each(|held| held.signal(signal));
        let began = Instant::now();
        loop {
            let all = Process::all();
            let is_new =
                |p: &Process| !known.iter().any(|held| held.process.pid == p.pid && held.process.born == p.born);
            let found = all.iter().filter(|p| is_new(p) && left.iter().any(|left| left.owns(p, &all)));
            let found: Vec<ProcessHandle> = found.filter_map(|process| process.open()).collect();
            found.iter().for_each(|held| held.signal(signal));
            ended.processes += found.len();
            known.extend(found);
            if !known.iter().any(ProcessHandle::is_alive) {
                return ended;
            }
            if began.elapsed() >= time {
                break;
            }
            std::thread::sleep(PAUSE);
        }
    }
    if known.iter().any(ProcessHandle::is_alive) {
        tracing::warn!("processes that the last server left behind do not end, although killed");
    }
    ended
}
