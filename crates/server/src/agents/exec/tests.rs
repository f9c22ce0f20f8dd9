//! Promises of the exec agent, tested with real commands and the real engine.

mod bounds;
mod lifetime;

use super::Exec;
use crate::agents::chunks::ChunkLimits;
use crate::config::LimitsConfig;
use crate::config::agent::{AgentConfig, AgentLimits, ExecConfig, Kind, Stdin};
use crate::tokio_host::TokioHost;
use sabir_engine::watch::WatchItem;
use sabir_engine::{AnyAgent, Engine, HostedAgent, Limits, Metrics};
use sabir_proto::{
    AgentName, Artifact, Caller, CancelTask, Content, Event, Json, Message, MessageId, Object, Part, Role,
    SendConfiguration, SendMessage, SendReply, ServiceParameters, Task, TaskId, TaskRef, TaskState, Tenant,
};
use sabir_store::Scope;
use sabir_store::TaskStore;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn chunk_limits() -> ChunkLimits {
    ChunkLimits::new(&LimitsConfig::default(), &AgentLimits::default())
}

/// An engine with one command behind it.
struct ExecTest {
    engine: Engine,
    hosted: HostedAgent,
    scope: Arc<Scope>,
}

impl ExecTest {
    async fn new(command: &str) -> Self {
        Self::with(AgentConfig { command: Some(command.into()), ..AgentConfig::new("x", Kind::Exec) }, 5_000).await
    }

    async fn with(config: AgentConfig, grace_ms: u64) -> Self {
        Self::of(Exec::new(&config, Duration::from_millis(grace_ms), chunk_limits()).unwrap()).await
    }

    async fn of(exec: Exec) -> Self {
        let agent: Arc<dyn AnyAgent> = Arc::new(exec);
        let log = TaskStore::in_memory().log;
        let engine = Engine::open(log, Arc::new(TokioHost), Limits::default(), Metrics::default()).await.unwrap();
        let name = AgentName::parse("x").unwrap();
        let scope = Arc::new(Scope { tenant: Tenant::none(), caller: Caller::named("key:k1"), agent: name.clone() });
        Self { engine, hosted: HostedAgent { name, agent, push: false, tool_mode: sabir_proto::ToolMode::Full }, scope }
    }

    async fn send(&self, message: Message) -> Task {
        self.send_and(message, false).await
    }

    async fn send_and(&self, message: Message, return_immediately: bool) -> Task {
        let request = request(message, return_immediately);
        match self.engine.send(&self.hosted, self.scope.clone(), request, &ServiceParameters::default()).await.unwrap()
        {
            SendReply::Task(task, _) => task.thaw().unwrap(),
            SendReply::Message(message) => panic!("{message:?}"),
        }
    }

    async fn stream(&self, message: Message) -> Vec<Event> {
        self.stream_with(message, |_| {}).await
    }

    /// All events. After each, `seen` gets the number of events after the first.
    async fn stream_with(&self, message: Message, seen: impl Fn(usize)) -> Vec<Event> {
        let request = request(message, false);
        let mut watch =
            self.engine.stream(&self.hosted, self.scope.clone(), request, &ServiceParameters::default()).await.unwrap();
        let mut events = Vec::new();
        while let Some(item) = watch.next().await {
            match item.unwrap() {
                WatchItem::Event(event) => events.push(event.thaw().unwrap()),
                WatchItem::Reply(message) => panic!("{message:?}"),
            }
            seen(events.len() - 1);
        }
        events
    }

    async fn cancel(&self, id: TaskId) {
        let call = CancelTask { tenant: Tenant::none(), id: id.into(), metadata: None };
        assert_eq!(self.engine.cancel(&self.scope, &self.hosted, &call).await.unwrap().state, TaskState::Canceled);
    }
}

fn request(message: Message, return_immediately: bool) -> Box<SendMessage> {
    let configuration = SendConfiguration { return_immediately, ..SendConfiguration::default() };
    Box::new(SendMessage {
        tenant: Tenant::none(),
        message,
        configuration,
        metadata: None,
        alias: None,
        wants_task: false,
    })
}

fn user_message(text: &str) -> Message {
    Message::text(MessageId::parse("m").unwrap(), Role::User, text)
}

fn answer_message(task: &Task, text: &str) -> Message {
    Message { task_id: Some(TaskRef::Id(task.id)), ..user_message(text) }
}

async fn run(command: &str) -> Task {
    ExecTest::new(command).await.send(user_message("hello")).await
}

fn words(task: &Task) -> String {
    task.status.message.as_ref().map(Message::joined_text).unwrap_or_default()
}

fn text(artifact: &Artifact) -> String {
    artifact.parts.iter().filter_map(Part::as_text).collect()
}

fn artifact<'a>(task: &'a Task, id: &str) -> &'a Artifact {
    task.artifacts.iter().find(|a| a.artifact_id.as_str() == id).unwrap_or_else(|| panic!("no {id} in {task:?}"))
}

fn stdout(task: &Task) -> String {
    text(artifact(task, "stdout"))
}

/// Runs a command that must end in this state with exactly these words.
async fn check(command: &str, state: TaskState, expected: &str) {
    let task = run(command).await;
    assert_eq!((task.status.state, &*words(&task)), (state, expected), "{command}");
}

#[tokio::test]
async fn text_goes_in_and_comes_out_as_one_artifact() {
    let task = ExecTest::new("tr a-z A-Z").await.send(user_message("hello\nworld")).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!((task.artifacts.len(), &*stdout(&task)), (1, "HELLO\nWORLD"));
}

#[tokio::test]
async fn text_parts_are_joined_and_a_message_can_be_read_whole() {
    let parts = vec![Part::text("one"), Part::data(Json::parse("{}").unwrap()), Part::text("two")];
    let message = Message { parts, ..user_message("") };
    assert_eq!(stdout(&ExecTest::new("cat").await.send(message.clone()).await), "one\ntwo");
    let config = AgentConfig { command: Some("cat".into()), stdin: Stdin::Json, ..AgentConfig::new("x", Kind::Exec) };
    let task = ExecTest::with(config, 5_000).await.send(message.clone()).await;
    let read: Message = serde_json::from_str(&stdout(&task)).unwrap();
    assert_eq!((read.parts, read.task_id), (message.parts, Some(TaskRef::Id(task.id))));
}

#[tokio::test]
async fn a_command_that_does_not_read_keeps_nobody_waiting() {
    let task = ExecTest::new("echo done").await.send(user_message(&"x".repeat(4 << 20))).await;
    assert_eq!((task.status.state, &*stdout(&task)), (TaskState::Completed, "done\n"));
}

#[tokio::test]
async fn a_silent_command_makes_no_artifact() {
    let task = run("cat >/dev/null").await;
    assert_eq!((task.status.state, task.artifacts.len()), (TaskState::Completed, 0));
}

/// The chunks of an artifact among events: text, `append`, `lastChunk`.
fn chunks(events: &[Event]) -> Vec<(String, bool, bool)> {
    let chunk = |event: &Event| match event {
        Event::ArtifactUpdate(update) => Some((text(&update.artifact), update.append, update.last_chunk)),
        _ => None,
    };
    events.iter().filter_map(chunk).collect()
}

/// Runs a command that waits at `seen N` until the test has read N events.
async fn step_by_step(command: &str) -> Vec<Event> {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let command = format!("seen() {{ until test -e {at}/$1; do sleep 0.01; done; }}; {command}");
    let mark = |count: usize| std::fs::write(dir.path().join(count.to_string()), "").unwrap();
    ExecTest::new(&command).await.stream_with(user_message("go"), mark).await
}

#[tokio::test]
async fn text_streams_as_it_is_printed_and_the_last_chunk_says_so() {
    let command = r"echo one; seen 1; printf 'two\nthr'; seen 2; printf 'e\303'; seen 3; printf '\251e'; seen 4; printf 'fo\377ur'";
    let expected = [
        ("one\n", false, false),
        ("two\nthr", true, false),
        ("e", true, false),
        ("ée", true, false),
        ("fo\u{fffd}ur", true, true),
    ];
    let expected = expected.map(|(text, append, last)| (text.to_owned(), append, last));
    assert_eq!(chunks(&step_by_step(command).await), expected);
}

#[tokio::test]
async fn the_end_is_said_even_if_nothing_is_left_to_say() {
    let told = chunks(&step_by_step("echo one; seen 1").await);
    assert_eq!(told, [("one\n".to_owned(), false, false), (String::new(), true, true)]);
}

#[tokio::test]
async fn huge_output_without_a_line_break_comes_in_bounded_chunks() {
    let events = ExecTest::new("head -c 1000000 /dev/zero | tr '\\0' x").await.stream(user_message("go")).await;
    let lengths: Vec<usize> = chunks(&events).iter().map(|(text, ..)| text.len()).collect();
    assert!(lengths.iter().all(|n| *n <= 64 << 10), "{lengths:?}");
    assert_eq!(lengths.iter().sum::<usize>(), 1_000_000);
}

#[tokio::test]
async fn events_are_passed_on_in_their_order() {
    let command = r#"
        echo '{"status":"looking"}' >&3
        seen 1
        echo printed
        seen 2
        echo '{"artifact":{"id":"a","name":"A","text":"1","append":false}}' >&3
        echo '{"artifact":{"id":"a","text":"2","append":true,"lastChunk":true}}' >&3
        printf '{"artifact":{"id":"b","data":{"n":12345678901234567890}}}' >&3"#;
    let events = step_by_step(command).await;
    let seen: Vec<String> = events
        .iter()
        .skip(1)
        .map(|event| match event {
            Event::StatusUpdate(update) => {
                let words = update.status.message.as_ref().map(Message::joined_text).unwrap_or_default();
                format!("{:?} {words}", update.status.state)
            }
            Event::ArtifactUpdate(u) => {
                format!("{} {:?} {}", u.artifact.artifact_id, u.artifact.parts[0].content, u.last_chunk)
            }
            other => format!("{other:?}"),
        })
        .collect();
    let expected = [
        "Working looking",
        "stdout Text(\"printed\\n\") false",
        "a Text(\"1\") false",
        "a Text(\"2\") true",
        "b Data({\"n\":12345678901234567890}) true",
        "stdout Text(\"\") true",
        "Completed ",
    ];
    // The end of standard output and the last event have no defined order.
    let sorted = |seen: &[String]| {
        let mut seen = seen.to_vec();
        seen[4..6].sort();
        seen
    };
    assert_eq!(seen.len(), expected.len(), "{seen:?}");
    assert_eq!(sorted(&seen), sorted(&expected.map(str::to_owned)));
}

#[tokio::test]
async fn a_line_that_is_no_event_fails_the_task_and_ends_the_command() {
    let start = Instant::now();
    let task = run("echo '{\"staus\":\"x\"}' >&3; sleep 1000").await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert!(words(&task).contains(r#"{"staus":"x"}"#), "{}", words(&task));
    let task = run("head -c 3000000 /dev/zero | tr '\\0' x >&3; sleep 1000").await;
    assert!(words(&task).contains("more than 1048576 bytes") && words(&task).len() < 1000, "{}", words(&task));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_question_is_answered_in_the_next_turn() {
    let command = r#"
        if test -f "$A2A_PARTS_DIR/task.json"; then
            grep -q 'Which day?' "$A2A_PARTS_DIR/task.json" && echo "booked: $(cat)"
        else
            echo '{"input-required":"Which day?"}' >&3
        fi"#;
    let world = ExecTest::new(command).await;
    let asked = world.send(user_message("book")).await;
    assert_eq!((asked.status.state, &*words(&asked)), (TaskState::InputRequired, "Which day?"));
    let booked = world.send(answer_message(&asked, "Monday")).await;
    assert_eq!((booked.status.state, &*stdout(&booked)), (TaskState::Completed, "booked: Monday\n"));
}

#[tokio::test]
async fn the_exit_code_says_how_the_turn_ended() {
    use TaskState::{AuthRequired, Completed, Failed, InputRequired, Rejected};
    check("exit 0", Completed, "").await;
    check("echo 'Thinking'; echo 'Which one?'; echo; exit 75", InputRequired, "Which one?").await;
    check("exit 75", InputRequired, "more input is needed").await;
    check(r#"echo x; echo '{"input-required":"Who?"}' >&3; exit 75"#, InputRequired, "Who?").await;
    check(r#"echo '{"auth-required":"Log in"}' >&3"#, AuthRequired, "Log in").await;
    check(r#"echo '{"auth-required":"Log in"}' >&3; exit 75"#, AuthRequired, "Log in").await;
    check("echo 'not my job'; exit 77", Rejected, "not my job").await;
    check("echo 'not mine' >&2; exit 77", Rejected, "not mine").await;
    check(r#"echo '{"input-required":"Who?"}' >&3; exit 77"#, Rejected, "the command declined").await;
    check("exit 3", Failed, "the command failed with exit code 3").await;
    check("echo a >&2; printf '\\033[1mb\\n' >&2; exit 1", Failed, "the command failed with exit code 1:\na\n[1mb")
        .await;
    check(r#"echo '{"input-required":"Who?"}' >&3; exit 1"#, Failed, "the command failed with exit code 1").await;
    check("kill -9 $$", Failed, "the command was ended by signal 9").await;
}

#[tokio::test]
async fn a_failure_shows_the_end_of_standard_error_only() {
    let task = run("i=0; while test $i -lt 5000; do echo line $i; i=$((i+1)); done >&2; exit 1").await;
    let words = words(&task);
    assert!(words.len() < 2200 && words.ends_with("\nline 4999") && words.contains(":\nline 4"), "{words}");
}

#[tokio::test]
async fn a_caller_without_a_credential_does_not_read_standard_error() {
    for (command, expected) in [
        ("echo /etc/secret >&2; exit 1", "the command failed with exit code 1:\nthe operator finds what it wrote"),
        ("echo /etc/secret >&2; exit 77", "the operator finds what it wrote"),
        ("exit 3", "the command failed with exit code 3"),
    ] {
        let mut world = ExecTest::new(command).await;
        let scope = Scope { caller: Caller::anonymous(), ..(*world.scope).clone() };
        world.scope = Arc::new(scope);
        let task = world.send(user_message("go")).await;
        assert!(words(&task).starts_with(expected) && !words(&task).contains("secret"), "{}", words(&task));
    }
}

#[tokio::test]
async fn the_servers_environment_is_not_seen() {
    // Cargo sets these variables for every test; they stand for the secrets of a server.
    let secret = "CARGO_PKG_NAME";
    assert!(std::env::var_os(secret).is_some() && std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let names = |task: &Task| -> Vec<String> {
        let out = stdout(task);
        let names = out.lines().filter_map(|line| line.split_once('=').map(|(name, _)| name.to_owned()));
        // Shells set these themselves.
        names.filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(&&**name)).collect()
    };
    let allowed = [&super::VARIABLES_PASSED[..], &OURS].concat();
    let task = run("env").await;
    let seen = names(&task);
    assert!(seen.iter().all(|name| allowed.contains(&&**name)), "{seen:?}");
    assert!(OURS.iter().all(|name| seen.iter().any(|n| n == name)), "{seen:?}");
    let env = vec![secret.to_owned(), "NOT_SET_ANYWHERE".to_owned()];
    let config = AgentConfig { command: Some("env".into()), env, ..AgentConfig::new("x", Kind::Exec) };
    let seen = names(&ExecTest::with(config, 5_000).await.send(user_message("go")).await);
    assert!(
        seen.iter().any(|name| name == secret) && !seen.iter().any(|name| name == "CARGO_MANIFEST_DIR"),
        "{seen:?}"
    );
}

const OURS: [&str; 10] = [
    "A2A_TASK_ID",
    "A2A_CONTEXT_ID",
    "A2A_SKILL",
    "A2A_CALLER",
    "A2A_TOOL_MODE",
    "A2A_JOB_ID",
    "A2A_TURN_ID",
    "A2A_ATTEMPT",
    "A2A_PARTS_DIR",
    "A2A_OUT_DIR",
];

#[tokio::test]
async fn the_command_is_told_who_calls_for_which_job_and_what_it_may_do() {
    let world = ExecTest::new(r#"printf '%s\n' "$A2A_CALLER" "$A2A_JOB_ID" "$A2A_TOOL_MODE""#).await;
    let job = Object::new(Json::of(&serde_json::json!({ "xpr:jobId": 42 })).unwrap()).unwrap();
    let task = world.send(Message { metadata: Some(job), ..user_message("x") }).await;
    assert_eq!(stdout(&task), "key:k1\n42\nfull\n");
    let task = world.send(user_message("x")).await;
    assert_eq!(stdout(&task), "key:k1\n\nfull\n");
}

#[tokio::test]
async fn the_task_is_named_and_a_name_is_never_code() {
    let world =
        ExecTest::new(r#"printf '%s\n' "$A2A_TASK_ID" "$A2A_CONTEXT_ID" "$A2A_SKILL" "$A2A_TURN_ID" "$A2A_ATTEMPT""#)
            .await;
    let skill = |name: &str| Some(Object::new(Json::of(&serde_json::json!({ "skillId": name })).unwrap()).unwrap());
    let context = sabir_proto::ContextId::parse("$(id); `id` '\"").unwrap();
    let message = Message { context_id: Some(context), metadata: skill("count; $(id)"), ..user_message("x") };
    let task = world.send(message).await;
    let expected = format!("{0}\n$(id); `id` '\"\ncount; $(id)\n{0}/0\n1\n", task.id);
    assert_eq!(stdout(&task), expected);
    for name in ["a\0b", "a\nb", &"x".repeat(300)] {
        let refused = world.send(Message { metadata: skill(name), ..user_message("x") }).await;
        assert_eq!(refused.status.state, TaskState::Rejected, "{name}");
    }
}

#[tokio::test]
async fn parts_are_files_whose_names_are_ours() {
    let named = |content: Content, filename: &str| Part {
        filename: Some(filename.into()),
        media_type: Some("application/x-test".into()),
        ..Part::new(content)
    };
    let parts = vec![
        named(Content::Text("words".into()), "../../x"),
        named(Content::Raw(vec![0, 255]), "/etc/passwd"),
        Part::data(Json::parse(r#"{"a":1}"#).unwrap()),
        Part::new(Content::Url("https://example.com/".into())),
    ];
    let command =
        r#"cd "$A2A_PARTS_DIR" && ls -A && cat 1.txt 3.json 4.url && od -An -tx1 2.bin && cat parts.json && ls -A .."#;
    let task = ExecTest::new(command).await.send(Message { parts, ..user_message("") }).await;
    let listed = concat!(
        "1.txt\n2.bin\n3.json\n4.url\nparts.json\n",
        "words{\"a\":1}https://example.com/ 00 ff\n",
        r#"[{"index":1,"file":"1.txt","kind":"text","mediaType":"application/x-test","filename":"../../x"},"#,
        r#"{"index":2,"file":"2.bin","kind":"raw","mediaType":"application/x-test","filename":"/etc/passwd"},"#,
        r#"{"index":3,"file":"3.json","kind":"data"},{"index":4,"file":"4.url","kind":"url"}]"#,
        "out\nparts\nstdin\n",
    );
    assert_eq!(stdout(&task), listed);
}

#[tokio::test]
async fn the_directory_is_private_fresh_and_gone_afterwards() {
    let task = run("cat >/dev/null; cd \"$A2A_OUT_DIR\"; pwd; ls -ld . .. | cut -c1-10; ls -A; mkdir -p ../locked/in && touch ../locked/in/x && chmod 0 ../locked").await;
    let out = stdout(&task);
    let mut lines = out.lines();
    let work = PathBuf::from(lines.next().unwrap());
    assert_eq!(lines.collect::<Vec<_>>(), ["drwx------", "drwx------"], "{out}");
    assert!(!work.exists() && !work.parent().unwrap().exists(), "{out}");
}

#[tokio::test]
async fn files_become_artifacts_in_the_order_of_their_names() {
    let command = r#"cd "$A2A_OUT_DIR"
        printf 'b' >b.txt; printf '{"n": 1}' >a.json; printf '{' >bad.json; printf '\377' >z.md
        printf 'x' >readme; printf '\211PNG' >p.PNG; printf '1,2' >t.csv; printf '?' >odd.xyz; printf s >stdout
        printf 'n' >"$(printf 'new\nline')"; echo said"#;
    let task = run(command).await;
    assert_eq!((task.status.state, &*words(&task)), (TaskState::Completed, ""));
    let seen: Vec<_> = task
        .artifacts
        .iter()
        .map(|a| {
            let part = &a.parts[0];
            let kind = match &part.content {
                Content::Text(text) => format!("text {text}"),
                Content::Data(json) => format!("data {}", json.as_str()),
                Content::Raw(bytes) => format!("raw {}", bytes.len()),
                Content::Url(url) => panic!("{url}"),
            };
            let (filename, media_type) = (part.filename.as_deref(), part.media_type.as_deref());
            format!("{} {} {} {kind}", a.artifact_id, filename.unwrap_or("-"), media_type.unwrap_or("-"))
        })
        .collect();
    let expected = [
        "stdout - - text said\n",
        "a.json a.json application/json data {\"n\":1}",
        "b.txt b.txt text/plain text b",
        "bad.json bad.json application/json raw 1",
        "new_line new_line text/plain text n",
        "odd.xyz odd.xyz application/octet-stream raw 1",
        "p.PNG p.PNG image/png raw 4",
        "readme readme text/plain text x",
        "stdout-2 stdout text/plain text s",
        "t.csv t.csv text/csv raw 3",
        "z.md z.md text/markdown raw 1",
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn only_regular_files_within_the_limits_are_taken() {
    let check = async |command: &str, problem: &str| {
        let task = run(&format!("cd \"$A2A_OUT_DIR\"; {command}")).await;
        assert_eq!(task.status.state, TaskState::Failed, "{command}");
        assert!(words(&task).contains(problem), "{command}: {}", words(&task));
        assert!(task.artifacts.is_empty(), "{command}");
    };
    let irregular = "/x is not a regular file";
    check("ln -s /etc/passwd x", irregular).await;
    check("touch a; ln -s a x", irregular).await;
    check("mkdir x", irregular).await;
    check("mkfifo x", irregular).await;
    check("cd ..; rmdir out; ln -s /etc out", "not the directory it was").await;
    check("for i in $(seq 65); do : >$i; done", "more than 64 files").await;
    check("head -c 8388609 /dev/zero >x", "/x has more than 8388608 bytes").await;
    check("for i in 1 2 3; do head -c 6000000 /dev/zero >$i; done", "more than 16777216 bytes together").await;
    let task = run(r#"rmdir "$A2A_OUT_DIR""#).await;
    assert_eq!((task.status.state, task.artifacts.len()), (TaskState::Completed, 0));
    let task = run(r#"echo x >"$A2A_OUT_DIR/x"; exit 75"#).await;
    assert_eq!((task.status.state, task.artifacts.len()), (TaskState::InputRequired, 0));
}

#[test]
fn a_configuration_that_cannot_work_is_refused_at_start() {
    let check = |command: Option<&str>, env: &[&str], problem: &str| {
        let env = env.iter().map(|&name| name.into()).collect();
        let config = AgentConfig { command: command.map(str::to_owned), env, ..AgentConfig::new("x", Kind::Exec) };
        let refused = Exec::new(&config, Duration::ZERO, chunk_limits()).unwrap_err();
        assert!(refused.contains(problem), "{refused}");
    };
    check(None, &[], "needs a command");
    check(Some(" "), &[], "needs a command");
    check(Some("a\0b"), &[], "NUL");
    check(Some("cat"), &["TOKEN=abc"], "names, not values");
    check(Some("cat"), &["A2A_TASK_ID"], "set by the server");
    let exec = Some(ExecConfig { processes_max: 0 });
    let config = AgentConfig { command: Some("cat".into()), exec, ..AgentConfig::new("x", Kind::Exec) };
    assert!(Exec::new(&config, Duration::ZERO, chunk_limits()).unwrap_err().contains("at least 1"));
}
