//! The limit on running commands, and what happens to the messages that wait.

use super::{ExecTest, chunk_limits, stdout, user_message, words};
use crate::agents::exec::{Exec, ProcessLimit};
use crate::config::agent::{AgentConfig, ExecConfig, Kind};
use sabir_proto::{GetTask, Task, TaskId, TaskState, Tenant};
use std::path::Path;
use std::time::Duration;

fn config(command: String, processes_max: usize) -> AgentConfig {
    let exec = Some(ExecConfig { processes_max });
    AgentConfig { command: Some(command), exec, ..AgentConfig::new("x", Kind::Exec) }
}

impl ExecTest {
    async fn get(&self, id: TaskId) -> Task {
        let call = GetTask { tenant: Tenant::none(), id: id.into(), history_length: None };
        self.engine.get(&self.scope, &call).await.unwrap().0.thaw().unwrap()
    }

    /// Waits until the task meets the condition.
    async fn task_when(&self, id: TaskId, is_so: impl Fn(&Task) -> bool) -> Task {
        for _ in 0..3000 {
            let task = self.get(id).await;
            if is_so(&task) {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}", self.get(id).await)
    }
}

fn settled(task: &Task) -> bool {
    task.status.state.is_settled()
}

async fn exists(path: &Path) {
    for _ in 0..3000 {
        if path.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} never appears", path.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_commands_run_than_are_allowed_and_all_messages_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let command = format!("touch {at}/run.$$; ls {at} | grep -c '^run' >>{at}/counts; sleep 0.01; rm {at}/run.$$");
    let world = ExecTest::with(config(command, 8), 1_000).await;
    let mut tasks = Vec::new();
    for _ in 0..150 {
        tasks.push(world.send_and(user_message("go"), true).await.id);
    }
    for task in tasks {
        assert_eq!(world.task_when(task, settled).await.status.state, TaskState::Completed);
    }
    let counts = std::fs::read_to_string(dir.path().join("counts")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(counts.len(), 150);
    assert!(counts.iter().all(|&count| count <= 8), "{counts:?}");
}

#[tokio::test]
async fn a_message_that_waits_says_so_and_can_be_canceled() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let world = ExecTest::with(config(format!("echo $$ >>{at}/ran; sleep 1000"), 1), 100).await;
    let first = world.send_and(user_message("go"), true).await;
    exists(&dir.path().join("ran")).await;
    let second = world.send_and(user_message("go"), true).await;
    let waits = |task: &Task| words(task) == "waiting: 1 commands of this agent are running already";
    let waiting = world.task_when(second.id, waits).await;
    assert_eq!(waiting.status.state, TaskState::Working);
    let third = world.send_and(user_message("go"), true).await;
    world.task_when(third.id, waits).await;
    world.cancel(second.id).await;
    world.cancel(first.id).await;
    for _ in 0..3000 {
        if std::fs::read_to_string(dir.path().join("ran")).unwrap().lines().count() == 2 {
            return world.cancel(third.id).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the one who was not canceled never ran");
}

#[tokio::test]
async fn agents_share_the_commands_of_their_server() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let limit = ProcessLimit::new(1);
    let make = |command: String| {
        Exec::new(&config(command, 64), Duration::from_millis(100), chunk_limits()).unwrap().with_server_limit(&limit)
    };
    let busy = ExecTest::of(make(format!("echo $$ >{at}/ran; sleep 1000"))).await;
    let other = ExecTest::of(make("echo served".into())).await;
    let first = busy.send_and(user_message("go"), true).await;
    exists(&dir.path().join("ran")).await;
    let second = other.send_and(user_message("go"), true).await;
    let waits = |task: &Task| words(task) == "waiting: 1 commands of this server are running already";
    other.task_when(second.id, waits).await;
    busy.cancel(first.id).await;
    assert_eq!(stdout(&other.task_when(second.id, settled).await), "served\n");
}

#[tokio::test]
async fn a_directory_that_cannot_be_removed_keeps_its_entry_and_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let ledger = std::sync::Arc::new(super::super::CommandJournal::beside(&dir.path().join("sabir.db")));
    // A file in its place cannot be removed as a directory, by any user.
    let command = format!(
        "d=${{A2A_OUT_DIR%/out}}; echo \"$d\" >>{at}/rooms; grep -q keep && mv \"$d\" {at}/moved && echo 1 >\"$d\"; exit 3"
    );
    let exec = Exec::new(&config(command, 4), Duration::from_millis(100), chunk_limits()).unwrap();
    let exec = exec.with_journal(Some(ledger.clone()));
    let leftovers = exec.leftovers.clone();
    let world = ExecTest::of(exec).await;
    let entries = || std::fs::read_dir(dir.path().join("sabir.db.exec")).map_or(0, Iterator::count);
    assert_eq!(world.send(user_message("keep")).await.status.state, TaskState::Failed);
    // The thread that ends its processes may hold it for a moment.
    for _ in 0..3000 {
        if !leftovers.paths().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let room = leftovers.paths().first().expect("it is left").clone();
    assert_eq!(entries(), 1);
    // The next server does not forget it either while it exists.
    assert_eq!((ledger.end_leftovers(Duration::ZERO).directories, entries()), (0, 1));
    // The obstacle is gone; the next turn removes both directories.
    std::fs::remove_file(&room).unwrap();
    std::fs::rename(dir.path().join("moved"), &room).unwrap();
    assert_eq!(world.send(user_message("go")).await.status.state, TaskState::Failed);
    assert!(!room.exists() && leftovers.paths().is_empty());
    assert_eq!(entries(), 0);
    for room in std::fs::read_to_string(dir.path().join("rooms")).unwrap().lines() {
        assert!(!Path::new(room).exists(), "{room}");
    }
}
