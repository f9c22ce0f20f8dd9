//! No process of a command outlives its turn, however the turn ends.

use super::{ExecTest, run, stdout, user_message, words};
use crate::config::agent::{AgentConfig, Kind};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sabir_proto::TaskState;
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits for a process number that a command writes to a file.
async fn process_number(path: &Path) -> Pid {
    for _ in 0..500 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if let Some(number) = text.strip_suffix('\n') {
            return Pid::from_raw(number.parse().unwrap()).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody wrote {}", path.display());
}

/// Whether a process runs. A dead process that its parent has not reaped does not.
fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let dead = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
    test_kill_process(pid).is_ok() && !dead
}

async fn dies_within(pid: Pid, time: Duration) -> bool {
    let start = Instant::now();
    while is_alive(pid) {
        if start.elapsed() > time {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    true
}

#[tokio::test]
async fn a_cancel_ends_the_whole_group_within_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let world = ExecTest::new(&format!(
        "echo \"$A2A_OUT_DIR\" >{at}/work; sleep 1000 & echo $! >{at}/child; echo $$ >{at}/shell; wait"
    ))
    .await;
    let task = world.send_and(user_message("go"), true).await;
    let (shell, child) =
        (process_number(&dir.path().join("shell")).await, process_number(&dir.path().join("child")).await);
    assert!(is_alive(shell) && is_alive(child));
    world.cancel(task.id).await;
    assert!(dies_within(shell, Duration::from_secs(2)).await && dies_within(child, Duration::from_secs(2)).await);
    drop(world);
    let work = std::fs::read_to_string(dir.path().join("work")).unwrap();
    assert!(!Path::new(work.trim()).exists(), "the agent waits for its last directory");
}

#[tokio::test]
async fn what_ignores_a_request_to_end_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let command = format!("trap '' TERM; echo $$ >{at}/shell; while :; do sleep 0.1; done");
    let config = AgentConfig { command: Some(command), ..AgentConfig::new("x", Kind::Exec) };
    let world = ExecTest::with(config, 300).await;
    let task = world.send_and(user_message("go"), true).await;
    let shell = process_number(&dir.path().join("shell")).await;
    let start = Instant::now();
    world.cancel(task.id).await;
    assert!(dies_within(shell, Duration::from_secs(5)).await);
    assert!(start.elapsed() >= Duration::from_millis(250), "it got its grace");
}

#[tokio::test]
async fn a_command_may_clean_up_within_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let world =
        ExecTest::new(&format!("trap 'echo 1 >{at}/clean; exit 0' TERM; echo $$ >{at}/shell; sleep 1000 & wait")).await;
    let task = world.send_and(user_message("go"), true).await;
    let shell = process_number(&dir.path().join("shell")).await;
    world.cancel(task.id).await;
    assert!(dies_within(shell, Duration::from_secs(4)).await);
    process_number(&dir.path().join("clean")).await;
}

#[tokio::test]
async fn what_is_left_in_the_background_does_not_outlive_the_turn() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let start = Instant::now();
    let task = run(&format!("sleep 1000 & echo $! >{at}/child; echo done")).await;
    assert_eq!((task.status.state, &*stdout(&task)), (TaskState::Completed, "done\n"));
    assert!(!is_alive(process_number(&dir.path().join("child")).await));
    let noisy = run(&format!("yes & echo $! >{at}/noisy; exit 3")).await;
    assert_eq!(words(&noisy), "the command failed with exit code 3");
    assert!(!is_alive(process_number(&dir.path().join("noisy")).await));
    assert!(start.elapsed() < Duration::from_secs(4), "it did not take the whole grace");
}

#[tokio::test]
async fn who_runs_away_with_the_pipes_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let start = Instant::now();
    let away = format!("setsid sh -c 'echo $$ >{at}/away; exec sleep 60'");
    let task = run(&format!("{away} & until test -s {at}/away; do sleep 0.01; done; printf bye")).await;
    assert_eq!((task.status.state, &*stdout(&task)), (TaskState::Completed, "bye"));
    assert!(start.elapsed() < Duration::from_secs(5));
    let away = process_number(&dir.path().join("away")).await;
    kill_process(away, Signal::KILL).unwrap();
}

#[test]
fn a_runtime_that_ends_ends_its_commands() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let command = format!("trap '' TERM; echo $$ >{at}/shell; while :; do sleep 0.1; done");
    let config = AgentConfig { command: Some(command), ..AgentConfig::new("x", Kind::Exec) };
    let shell = runtime.block_on(async {
        let world = ExecTest::with(config, 200).await;
        world.send_and(user_message("go"), true).await;
        process_number(&dir.path().join("shell")).await
    });
    drop(runtime);
    assert!(!is_alive(shell), "dropping the agent waits until the last command is gone");
}
