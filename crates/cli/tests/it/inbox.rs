//! Waiting tasks are found and answered in one place, runaway tasks are stopped, and calls do not go in circles.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::remote::words;
use crate::rpc_client::{DESK_PATH, send_params, state};
use crate::test_server::{AGENTS, ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::net::TcpListener;

struct InboxFixture {
    sabir: TestServer,
    desk: CommandDirectory,
}

impl InboxFixture {
    fn new(config: &str) -> Self {
        Self { sabir: TestServer::start(config), desk: CommandDirectory::new() }
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&self.desk, &self.sabir.home, arguments)
    }
}

#[track_caller]
fn run(desk: &CommandDirectory, home: &ServerDirectory, arguments: &[&str]) -> CommandOutput {
    let data = home.data();
    desk.run(&[arguments, &["--data", data.to_str().unwrap()]].concat())
}

fn id(task: &Value) -> &str {
    task["id"].as_str().unwrap()
}

#[test]
fn everything_that_asks_is_in_the_inbox_and_is_answered_there() {
    let world = InboxFixture::new(AGENTS);
    assert_eq!(world.run(&["inbox", "list", "-o", "json"]).json(), json!({"questions": []}));
    let booking = world.sabir.send(DESK_PATH, &send_params("book"));
    let signing = world.sabir.send(DESK_PATH, &send_params("sign"));
    world.sabir.send("/", &send_params("nothing to ask"));
    let listed = world.run(&["inbox", "list", "-o", "json"]).json();
    let asked = listed["questions"].as_array().unwrap();
    assert_eq!(asked.len(), 2, "{listed}");
    assert_eq!((&asked[0]["taskId"], &asked[0]["question"]), (&booking["id"], &json!("Which day?")));
    assert_eq!((&asked[0]["agent"], &asked[0]["state"]), (&json!("desk"), &json!("input-required")));
    assert_eq!((&asked[1]["taskId"], &asked[1]["state"]), (&signing["id"], &json!("auth-required")));
    assert_eq!(world.run(&["inbox", "list", "--agent", "demo"]).fields("Total"), ["0"]);
    let shown = world.run(&["inbox", "show", id(&booking)]);
    assert_eq!((shown.fields("Question"), shown.fields("Caller").last()), (vec!["Which day?"], Some(&"book")));
    let replied = world.run(&["inbox", "reply", id(&booking), "Friday"]);
    assert_eq!(replied.fields("Task ID"), [id(&booking)], "{replied:?}");
    eventually("the next question", || {
        let again = world.run(&["inbox", "show", id(&booking)]);
        again.fields("Question") == ["How many?"]
    });
    world.run(&["inbox", "reply", id(&booking), "two"]).expect_success();
    eventually("the end", || state(&world.sabir.get(DESK_PATH, &booking["id"])) == "TASK_STATE_COMPLETED");
    let task = world.sabir.get(DESK_PATH, &booking["id"]);
    let told = task["history"].as_array().unwrap().iter().find(|m| m["parts"][0]["text"] == "Friday").unwrap();
    assert!(told["metadata"]["urn:sabir:ext:inbox:v1"]["by"].as_str().unwrap().starts_with("operator:"), "{told}");
    let late = world.run(&["inbox", "reply", id(&booking), "three"]);
    assert!(late.code != 0 && late.stderr.contains("takes no more messages"), "{late:?}");
    let nobody = world.run(&["inbox", "show", "01890a5d-ac96-774b-bcce-b302099a8057"]);
    assert!(nobody.code != 0 && nobody.stderr.contains("not found"), "{nobody:?}");
    // Without a server the questions are listed, but no agent can take an answer.
    let home = world.sabir.stop();
    assert_eq!(run(&world.desk, &home, &["inbox", "list"]).fields("Task ID"), [id(&signing)]);
    let unheard = run(&world.desk, &home, &["inbox", "reply", id(&signing), "here"]);
    assert!(unheard.code != 0 && unheard.stderr.contains("start its server"), "{unheard:?}");
}

#[test]
fn the_kill_switch_works_with_a_server_and_without() {
    let world = InboxFixture::new(AGENTS);
    let (first, second) = (world.sabir.send_async(DESK_PATH, "forever"), world.sabir.send_async(DESK_PATH, "forever"));
    let ended = world.run(&["task", "cancel", id(&first), "--tree", "-o", "json"]).json();
    assert_eq!(ended, json!({"canceled": [{"taskId": first["id"], "agent": "desk"}]}));
    assert_eq!(state(&world.sabir.get(DESK_PATH, &first["id"])), "TASK_STATE_CANCELED");
    assert_eq!(world.run(&["task", "cancel", id(&first), "--tree"]).fields("Canceled"), ["0"]);
    let misplaced = world.run(&["task", "cancel", id(&second)]);
    assert!(misplaced.code == 2 && misplaced.stderr.contains("--tree"), "{misplaced:?}");
    let home = world.sabir.kill();
    assert_eq!(run(&world.desk, &home, &["task", "cancel", id(&second), "--tree"]).fields("Canceled"), ["1"]);
    let sabir = TestServer::start_at(&home);
    assert_eq!(state(&sabir.get(DESK_PATH, &second["id"])), "TASK_STATE_CANCELED");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server whose one agent is a remote agent.
fn forwarding_server(name: &str, port: u16, to: &str) -> TestServer {
    let config = format!(
        "[egress]\nallow = [\"127.0.0.0/8\"]\n\
         [[agent]]\nname = \"{name}\"\nkind = \"a2a\"\ndefault = true\nurl = \"{to}\"\n"
    );
    let home = ServerDirectory::new(&config);
    TestServer::run(&home, home.command_at(&format!("127.0.0.1:{port}")))
}

/// Two servers that each forward to the other: the call comes back, is refused, and fails with the reason.
#[test]
fn a_call_that_comes_back_to_us_is_refused() {
    let (here, there) = (free_port(), free_port());
    let other = forwarding_server("back", there, &format!("http://127.0.0.1:{here}/agents/forth"));
    let sabir = forwarding_server("forth", here, &format!("http://127.0.0.1:{there}/agents/back"));
    let task = sabir.send_async("/", "round and round");
    eventually("the end", || state(&sabir.get("/", &task["id"])) == "TASK_STATE_FAILED");
    let task = sabir.get("/", &task["id"]);
    assert!(words(&task).contains("go round in a circle"), "{task}\n{}", other.log_text());
    assert_eq!(sabir.task_count("/"), 1, "nothing was opened on the way back");
}
