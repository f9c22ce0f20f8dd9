//! `sabir::testing` shows what a caller of the agent sees, also after a crash.

use sabir::testing::TestEngine;
use sabir::{
    Agent, AgentName, Artifact, ArtifactId, CanceledTask, Content, Context, Ending, Event, Execution, Failure,
    MirrorSettings, Part, Recovery, TaskState, delegate,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

const HOUR: Duration = Duration::from_secs(3600);

/// Reports the number of its attempt, saves a checkpoint and sleeps; its recovery is configurable.
struct SleepingAgent {
    recovery: Recovery,
    made: Arc<AtomicU32>,
}

impl SleepingAgent {
    fn maker(recovery: Recovery) -> (Arc<AtomicU32>, impl Fn() -> Self + Send + Sync + 'static) {
        let made = Arc::new(AtomicU32::new(0));
        let counted = made.clone();
        let make = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Self { recovery, made: counted.clone() }
        };
        (made, make)
    }
}

impl Agent for SleepingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let left = cx.checkpoint().map(|data| String::from_utf8_lossy(data).into_owned());
        cx.status(format!("attempt {}, checkpoint {left:?}", cx.attempt())).await?;
        if left.is_none() {
            cx.set_checkpoint("asleep");
        }
        cx.sleep(HOUR).await;
        Ok(Ending::complete_with(format!("agent {}", self.made.load(Ordering::Relaxed))))
    }

    fn execution(&self) -> Execution {
        Execution { recovery: self.recovery, ..Execution::default() }
    }
}

#[tokio::test]
async fn a_crash_resumes_with_the_last_checkpoint_and_a_new_agent() {
    let (made, make) = SleepingAgent::maker(Recovery::Resume);
    let engine = TestEngine::start(make).await;
    let mut turn = engine.begin("sleep").await;
    turn.until_status("attempt 1, checkpoint None").await;
    engine.crash().await;
    assert_eq!(made.load(Ordering::Relaxed), 2, "an agent does not survive its process");
    turn.until_status("attempt 2, checkpoint Some(\"asleep\")").await;
    engine.skip_sleep().await;
    let turn = turn.finish().await;
    assert_eq!(turn.ending(), Ending::complete_with("agent 2"));
    assert_eq!(turn.statuses().len(), 2, "a caller sees each event once");
}

#[tokio::test]
async fn a_crash_fails_what_declares_no_recovery_and_restarts_what_is_idempotent() {
    let engine = TestEngine::start(SleepingAgent::maker(Recovery::Fail).1).await;
    let turn = engine.begin("sleep").await;
    engine.crash().await;
    let failed = turn.finish().await;
    assert_eq!(failed.task().status.state, TaskState::Failed);
    let Ending::Fail(words) = failed.ending() else { panic!("{:?}", failed.ending()) };
    assert!(words[0].as_text().is_some_and(|text| text.contains("the server stopped")), "{words:?}");

    let engine = TestEngine::start(SleepingAgent::maker(Recovery::Restart).1).await;
    let mut turn = engine.begin("sleep").await;
    turn.until_status("attempt 1, checkpoint None").await;
    engine.crash().await;
    turn.until_status("attempt 2, checkpoint None").await;
}

#[tokio::test]
async fn a_turn_that_crashes_three_times_at_the_same_point_is_given_up() {
    let engine = TestEngine::start(SleepingAgent::maker(Recovery::Resume).1).await;
    let mut turn = engine.begin("sleep").await;
    turn.until_status("attempt 1, checkpoint None").await;
    for attempt in 2..=3 {
        engine.crash().await;
        turn.until_status(&format!("attempt {attempt}, checkpoint Some(\"asleep\")")).await;
    }
    engine.crash().await;
    assert_eq!(turn.finish().await.task().status.state, TaskState::Failed);
}

#[tokio::test]
async fn a_skipped_sleep_takes_no_time_and_moves_the_clock() {
    struct ClockAgent;
    impl Agent for ClockAgent {
        async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
            let began = cx.now().millis();
            cx.sleep(HOUR).await;
            cx.sleep(HOUR).await;
            Ok(Ending::complete_with((cx.now().millis() - began).to_string()))
        }
    }
    let engine = TestEngine::start(|| ClockAgent).await;
    let turn = engine.begin("wait").await;
    let began = std::time::Instant::now();
    for _ in 0..2 {
        let skipped = engine.skip_sleep().await;
        assert!(skipped > HOUR / 2 && skipped <= HOUR, "{skipped:?}");
    }
    let Ending::Complete(words) = turn.finish().await.ending() else { panic!("it completes") };
    assert!(began.elapsed() < HOUR / 60);
    let slept: i64 = words[0].as_text().and_then(|text| text.parse().ok()).expect("a number");
    assert!(slept >= 7_200_000, "{slept}");
}

/// Streams its answer, a file and what it remembers of the conversation.
struct StreamingAgent;

impl Agent for StreamingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let past = cx.conversation().await?;
        let said: Vec<String> = past.iter().map(|task| task.messages[0].joined_text()).collect();
        let kept: Vec<_> = past.iter().filter_map(|task| task.data.clone()).collect();
        cx.keep(format!("turn {}", past.len() + 1));
        for word in ["I heard ", &said.join(" and "), "."] {
            let chunk = Artifact::new(ArtifactId::parse("answer")?, vec![Part::text(word)]);
            cx.chunk(chunk, true, false).await?;
            cx.commit().await?;
        }
        let file = Part { filename: Some("kept".into()), ..Part::new(Content::Raw(kept.concat())) };
        cx.artifact("file", vec![file]).await?;
        Ok(Ending::complete())
    }
}

#[tokio::test]
async fn the_next_message_of_a_conversation_finds_the_earlier_ones() {
    let engine = TestEngine::start(|| StreamingAgent).await;
    let first = engine.send("one").await;
    assert_eq!(first.artifact("answer"), "I heard .");
    let second = first.send_next("two").await;
    let third = second.send_next("three").await;
    assert_eq!(third.artifact("answer"), "I heard one and two.");
    let Content::Raw(kept) = &third.task().artifacts[1].parts[0].content else { panic!("a file") };
    assert_eq!(kept, b"turn 1turn 2");
    assert_ne!(second.task().id, third.task().id);
    assert_eq!(second.task().context_id, third.task().context_id);
    let chunks = third.events().iter().filter(|event| matches!(event, Event::ArtifactUpdate(one) if one.append));
    assert_eq!(chunks.count(), 3, "streamed text arrives chunk by chunk");
    assert_eq!(engine.send("alone").await.artifact("answer"), "I heard .");
}

/// Works until it is canceled, and reports the cancel to a channel.
struct CancelWatchingAgent {
    cancellations: mpsc::UnboundedSender<CanceledTask>,
}

impl Agent for CancelWatchingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        if cx.message().joined_text() == "ask" {
            return Ok(Ending::ask_input("Go on?"));
        }
        cx.set_checkpoint("half");
        cx.status("at work").await?;
        std::future::pending().await
    }

    async fn on_canceled(&self, canceled: CanceledTask) {
        self.cancellations.send(canceled).expect("the test listens");
    }
}

#[tokio::test]
async fn a_cancel_is_told_to_the_agent_at_work_and_to_one_that_waits_for_an_answer() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let engine = TestEngine::start(move || CancelWatchingAgent { cancellations: told.clone() }).await;
    let mut turn = engine.begin("work").await;
    turn.until_status("at work").await;
    let canceled = turn.cancel().await;
    assert_eq!(canceled.ending(), Ending::Cancel(Vec::new()));
    let message = heard.recv().await.expect("the agent is told");
    assert_eq!((message.task, message.checkpoint.as_deref()), (canceled.task().id, Some(&b"half"[..])));

    let asked = engine.send("ask").await;
    assert_eq!(asked.cancel().await.status.state, TaskState::Canceled);
    assert_eq!(heard.recv().await.map(|canceled| canceled.task), Some(asked.task().id));
}

/// Delegates its work to the agent `waiter`.
struct DelegatingAgent;

impl Agent for DelegatingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let waiter = AgentName::parse("waiter")?;
        let said = cx.message().parts.clone();
        Ok(delegate(cx, &waiter, "table", said, None, &MirrorSettings::EVERYTHING).await?.into_ending())
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }
}

/// Asks for a number, and sleeps before it answers.
struct AskingAgent;

impl Agent for AskingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        if cx.before().is_none() {
            return Ok(Ending::ask_input("For how many?"));
        }
        cx.status("laying the table").await?;
        cx.sleep(HOUR).await;
        cx.artifact("table", vec![Part::text(format!("a table for {}", cx.message().joined_text()))]).await?;
        Ok(Ending::complete_with("Enjoy."))
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }
}

#[tokio::test]
async fn agents_that_call_agents_are_tested_together_and_crash_together() {
    let engine = TestEngine::start(|| DelegatingAgent).await.with("waiter", || AskingAgent);
    let asked = engine.send("a table please").await;
    let Ending::AskInput(question) = asked.ending() else { panic!("{:?}", asked.ending()) };
    assert_eq!(question[0].as_text(), Some("For how many?"));
    let mut turn = asked.begin_answer("two").await;
    turn.until_status("laying the table").await;
    engine.crash().await;
    engine.skip_sleep().await;
    let served = turn.finish().await;
    assert_eq!(served.artifacts(), [("table".to_owned(), "a table for two".to_owned())]);
    assert_eq!(served.ending(), Ending::complete_with("Enjoy."));
}

#[tokio::test]
async fn a_reply_of_an_instant_agent_makes_no_task() {
    struct InstantAgent;
    impl Agent for InstantAgent {
        async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
            Ok(Ending::reply(cx.message().joined_text()))
        }

        fn execution(&self) -> Execution {
            Execution { instant: true, ..Execution::default() }
        }
    }
    let replied = TestEngine::start(|| InstantAgent).await.send("hi").await;
    assert_eq!((replied.ending(), replied.events().len()), (Ending::reply("hi"), 1));
    assert_eq!(replied.send_next("ho").await.ending(), Ending::reply("ho"));
}

#[tokio::test]
async fn a_panic_of_the_agent_is_a_failed_task_and_no_failed_test() {
    struct PanickingAgent;
    impl Agent for PanickingAgent {
        async fn turn(&self, _: &mut Context) -> Result<Ending, Failure> {
            panic!("on purpose")
        }
    }
    let failed = TestEngine::start(|| PanickingAgent).await.send("hi").await;
    assert_eq!(failed.ending(), Ending::fail("the agent broke down while working on this"));
}

#[tokio::test]
#[should_panic(expected = "the turn ended before the event that the test waits for")]
async fn waiting_for_what_does_not_come_fails_with_what_came() {
    TestEngine::start(|| StreamingAgent).await.begin("hi").await.until_status("never said").await;
}
