//! Commands of a server that was killed: the next server ends them, and touches no other process.

use crate::rpc_client::state;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A command that leaves two children behind, one that ignores SIGTERM and one in a session of its own, and stays
/// itself.
const CONFIG: &str = r#"
[limits]
cancel_grace_seconds = 1
[[agent]]
name = "stay"
kind = "exec"
default = true
command = '''
sh -c 'trap "" TERM; echo $$ > deaf; while :; do sleep 1; done' &
setsid sh -c 'echo $$ > apart; while :; do sleep 1; done' &
echo $$ > leader
echo "$A2A_OUT_DIR" > room
while :; do sleep 1; done
'''
"#;

fn number(home: &ServerDirectory, name: &str) -> Option<u32> {
    fs::read_to_string(home.path(name)).ok()?.trim().parse().ok()
}

/// Whether a process is there and not only waiting to be buried.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn process_list_dir(home: &ServerDirectory) -> PathBuf {
    home.data().join("sabir.db.exec")
}

fn entries(home: &ServerDirectory) -> Vec<PathBuf> {
    fs::read_dir(process_list_dir(home))
        .map_or_else(|_| Vec::new(), |entries| entries.map(|e| e.unwrap().path()).collect())
}

struct UnrelatedProcess(Child);

impl UnrelatedProcess {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for UnrelatedProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn commands_of_a_killed_server_are_ended_by_the_next() {
    let bystander = UnrelatedProcess::start();
    let sabir = TestServer::start(CONFIG);
    let task = sabir.send_async("/", "go");
    let names = ["leader", "deaf", "apart"];
    eventually("all of them run", || names.iter().all(|name| number(&sabir.home, name).is_some()));
    eventually("its directory is told", || sabir.home.path("room").exists());
    let processes = names.map(|name| number(&sabir.home, name).unwrap());
    let room = fs::read_to_string(sabir.home.path("room")).unwrap();
    let room = Path::new(room.trim()).parent().unwrap().to_owned();
    let home = sabir.kill();
    assert!(processes.iter().all(|pid| is_running(*pid)), "nobody has ended them yet");
    assert!(room.is_dir());
    assert_eq!(entries(&home).len(), 1);
    // Entries that name another process: with another start time, with no such number, and with nonsense.
    let stranger = bystander.0.id();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for (name, rest) in [("sabir-exec-aaaaaa", format!("{stranger} 1")), ("sabir-exec-bbbbbb", "4194304 7".into())] {
        fs::write(process_list_dir(&home).join(name), format!("/tmp/{name}\n{}\n{rest}", boot.trim())).unwrap();
    }
    // Its own start time, but the machine was started anew since.
    let stat = fs::read_to_string(format!("/proc/{stranger}/stat")).unwrap();
    let born = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
    let entry = format!("/tmp/sabir-exec-cccccc\n00000000-0000-0000-0000-000000000000\n{stranger} {born}");
    fs::write(process_list_dir(&home).join("sabir-exec-cccccc"), entry).unwrap();
    // A directory that is not one of ours is not removed.
    let precious = home.path("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(process_list_dir(&home).join("sabir-exec-dddddd"), format!("{}\n{}", precious.display(), boot.trim()))
        .unwrap();
    fs::write(process_list_dir(&home).join("nonsense"), "\u{0}\n\n\n").unwrap();
    let sabir = TestServer::start_at(&home);
    for (name, pid) in names.iter().zip(processes) {
        assert!(!is_running(pid), "{name} is still there");
    }
    assert!(is_running(stranger), "somebody else was ended");
    assert!(precious.is_dir() && !room.exists());
    assert!(entries(&home).is_empty());
    assert!(sabir.log_text().contains("left behind"), "{}", sabir.log_text());
    eventually("the task has failed", || state(&sabir.get("/", &task["id"])) == "TASK_STATE_FAILED");
}

#[test]
fn a_turn_that_ended_leaves_no_entry() {
    let sabir = TestServer::start(
        "[[agent]]\nname = \"quick\"\nkind = \"exec\"\ndefault = true\ncommand = 'ls data/sabir.db.exec; echo done'\n",
    );
    let task = sabir.send("/", &crate::rpc_client::send_params("go"));
    assert!(task.to_string().contains("sabir-exec-"), "there is one while it runs: {task}");
    eventually("there is none", || entries(&sabir.home).is_empty());
    let sabir = TestServer::start_at(&sabir.kill());
    assert!(!sabir.log_text().contains("left behind"), "{}", sabir.log_text());
}

#[test]
fn directories_of_commands_go_however_few_descriptors_there_are() {
    let config = "[[agent]]\nname = \"stay\"\nkind = \"exec\"\ndefault = true\ncommand = 'sleep 1'\n";
    let home = ServerDirectory::new(config);
    let rooms = home.path("rooms");
    fs::create_dir(&rooms).unwrap();
    // Far fewer than 64 commands need.
    let mut command = home.command_in_shell("ulimit -n 96");
    command.env("TMPDIR", &rooms);
    let sabir = TestServer::run(&home, command);
    let tasks: Vec<_> = (0..60).map(|n| sabir.send_async("/", &format!("secret {n}"))["id"].clone()).collect();
    let settled = |id| ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"].contains(&state(&sabir.get("/", id)));
    eventually("all have ended", || tasks.iter().all(settled));
    assert!(tasks.iter().any(|id| state(&sabir.get("/", id)) == "TASK_STATE_FAILED"), "there were enough of them");
    sabir.send("/", &crate::rpc_client::send_params("one more"));
    let left = |at: &Path| fs::read_dir(at).map_or(0, |entries| entries.flatten().count());
    eventually("nothing is left", || left(&rooms) == 0 && entries(&home).is_empty());
}
