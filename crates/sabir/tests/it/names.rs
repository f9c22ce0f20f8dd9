//! An agent author needs only names from `sabir`: this file uses all of them, and compiles.

use sabir::{
    Agent, AgentName, AnyAgent, Artifact, ArtifactId, ArtifactUpdate, BoxFuture, Bytes, CalledOff, Caller, Canceled,
    CapabilitiesConfig, CardConfig, Child, Commit, Config, ConfigError, Content, Context, ContextId, Continuation,
    ConversationLimits, Effect, Ended, Ending, Event, Extension, Failure, Fault, FrozenEvent, FrozenTask, HandedOver,
    Handover, Json, KnownAs, Lineage, Message, MessageId, Mirror, MirrorArtifacts, Mirrored, Nature, NonText, Object,
    Part, PastTask, Provider, Recovery, Report, Requirements, Role, Seq, Server, Service, SkillConfig, StartError,
    StatusUpdate, Task, TaskId, TaskRef, TaskState, TaskStatus, Tenant, Timestamp, ToolMode, Transfer, TransferContext,
    delegate, skill,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Implements every method of an agent, and calls every method of its context.
struct Everything;

impl Agent for Everything {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        look(cx);
        say(cx).await?;
        remember(cx).await?;
        ask_others(cx).await
    }

    fn nature(&self) -> Nature {
        Nature { recovery: Recovery::Restart, ..Nature::default() }
    }

    fn is_carried(&self) -> bool {
        false
    }

    fn admits(&self) -> Result<(), Fault> {
        Err(Fault::Unavailable("closed on Sundays".into()))
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn call_off(&self, canceled: Canceled) -> CalledOff {
        let (_, _): (TaskId, Option<Bytes>) = (canceled.task, canceled.checkpoint);
        let artifacts: Vec<(Artifact, bool)> = Vec::new();
        CalledOff { artifacts, ..CalledOff::unheard("nobody was told") }
    }

    async fn remind(&self, _: Canceled) -> bool {
        true
    }

    async fn canceled(&self, _: Canceled) {}

    async fn handed_over(&self, handed_over: HandedOver) {
        let (_, _): (TaskId, Transfer) = (handed_over.task, handed_over.transfer);
    }
}

fn look(cx: &mut Context) {
    let message: &Message = cx.message();
    let (_, _, _): (&MessageId, Role, &Option<TaskRef>) = (&message.message_id, message.role, &message.task_id);
    let _: Option<&Object> = message.metadata.as_ref();
    let _: String = message.text_with(NonText::Describe);
    cx.hear_first(vec![Part::text("before")]);
    let (_, _): (TaskId, &ContextId) = (cx.task_id(), cx.context_id());
    let (_, _, _): (&Tenant, &Caller, ToolMode) = (cx.tenant(), cx.caller(), cx.tools());
    let _: Option<TransferContext> = cx.transfer_context();
    let before: Option<&Task> = cx.before();
    let _: Option<(&TaskStatus, TaskState)> = before.map(|task| (&task.status, task.status.state));
    let (_, _, _): (String, bool, bool) = (cx.turn_id(), cx.is_brief(), cx.follows_handoffs());
    let (_, _, _): (u32, Timestamp, u64) = (cx.attempt(), cx.now(), cx.random());
    let sleep: BoxFuture<'static, ()> = cx.sleep(Duration::ZERO);
    drop(sleep);
}

async fn say(cx: &mut Context) -> Result<(), Ended> {
    let report: Report<'_> = cx.status("at work");
    report.await?;
    let commit: Commit<'_> = cx.commit();
    commit.await?;
    cx.progress(vec![Part { filename: Some("a.txt".into()), ..Part::new(Content::Raw(vec![1])) }]).await?;
    let id = ArtifactId::parse("a").expect("a letter is a legal id");
    cx.chunk(Artifact::new(id, vec![Part::new(Content::Url("https://example.com".into()))]), true, false).await?;
    cx.data("data", Json::parse("[1]").expect("JSON")).await?;
    cx.gap("the line was cut").await?;
    cx.waits_for(None::<Continuation>);
    cx.owe_cancel();
    Ok(())
}

async fn remember(cx: &mut Context) -> Result<(), Fault> {
    cx.set_checkpoint("here");
    let _: Option<&[u8]> = cx.checkpoint();
    cx.leave("there");
    cx.keep(Bytes::from_static(b"kept"));
    cx.effect(Effect::KeepData(Bytes::from_static(b"kept")));
    let _: Option<Bytes> = cx.kept().await?;
    let limits = ConversationLimits { messages_max: 4, ..ConversationLimits::default() };
    let past: Vec<PastTask> = cx.conversation_within(limits).await?;
    drop((past, cx.conversation().await?));
    Ok(())
}

async fn ask_others(cx: &mut Context) -> Result<Ending, Failure> {
    let other = AgentName::parse("other")?;
    let known: KnownAs = cx.known_as(["name".to_owned()]);
    let (_, _): (&Lineage, &AgentName) = (cx.lineage(), cx.agent());
    cx.spend(1).await?;
    let mut child: Child = cx.delegate(&other, "one", vec![Part::text("hi")], None).await?;
    if let Some(event) = child.next().await {
        let event: FrozenEvent = event?;
        let _: Seq = event.seq;
        match event.thaw() {
            Some(Event::StatusUpdate(StatusUpdate { .. }) | Event::ArtifactUpdate(ArtifactUpdate { .. })) => {}
            Some(Event::Task(_) | Event::Message(_)) | None => {}
        }
    }
    let _: FrozenTask = child.rest().await?;
    drop(known);
    let mirror = Mirror { progress: true, artifacts: MirrorArtifacts::Under("other-".into()) };
    match delegate(cx, &other, "two", vec![Part::text("hi")], None, &mirror).await? {
        Mirrored::Done(_) => Ok(Ending::Transfer(Box::new(Handover { to: "third".into(), ..handover() }))),
        asks @ (Mirrored::Asks(_) | Mirrored::Missed(_) | Mirrored::Refused(_)) => Ok(asks.into_ending()),
    }
}

fn handover() -> Handover {
    let (state, output_keys) = Default::default();
    Handover { to: String::new(), required: Vec::new(), reason: None, text: None, state, output_keys, summary: None }
}

#[test]
fn every_type_that_an_author_meets_has_a_name_in_this_crate() {
    let card = CardConfig {
        provider: Some(Provider { url: "https://example.com".into(), organization: "Example".into() }),
        skills: vec![SkillConfig {
            security_requirements: Requirements::All(BTreeMap::new()),
            ..skill("all", "All", "Does all")
        }],
        capabilities: CapabilitiesConfig { push_notifications: true, ..CapabilitiesConfig::default() },
        extensions: vec![Extension { uri: "urn:x".into(), description: None, required: false, params: None }],
        ..CardConfig::default()
    };
    let config: Result<Config, ConfigError> = Config::read("[server]\nlisten = \"127.0.0.1:0\"");
    let service: Service = Service::with(config.expect("it is legal")).agent_with_card("all", Everything, card);
    let own: HashMap<String, Arc<dyn AnyAgent>> = HashMap::new();
    // The closure is never called; it only checks the types.
    let start = async || -> Result<(Server, Server), StartError> {
        Ok((service.start().await?, Server::start_with(Config::default(), own).await?))
    };
    drop(start);
}

#[test]
fn what_authors_read_names_no_internal_crate() {
    let read = [
        ("examples/booking.rs", include_str!("../../../../examples/booking.rs")),
        ("examples/call_agent.rs", include_str!("../../../../examples/call_agent.rs")),
        ("examples/delegate.rs", include_str!("../../../../examples/delegate.rs")),
        ("examples/echo.rs", include_str!("../../../../examples/echo.rs")),
        ("examples/native_client.rs", include_str!("../../../../examples/native_client.rs")),
        ("examples/testing.rs", include_str!("../../../../examples/testing.rs")),
        ("examples/xpr_client.rs", include_str!("../../../../examples/xpr_client.rs")),
        ("docs/guides/rust.md", include_str!("../../../../docs/guides/rust.md")),
        ("docs/guides/delegation.md", include_str!("../../../../docs/guides/delegation.md")),
        ("docs/guides/client.md", include_str!("../../../../docs/guides/client.md")),
        ("this file", include_str!("names.rs")),
    ];
    for (name, text) in read {
        let (internal, path) = (concat!("sab", "ir_"), "::");
        let named = text.match_indices(internal).find(|(at, _)| {
            let rest = text[*at..].trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '_');
            rest.starts_with(path)
        });
        assert_eq!(named, None, "{name} names an internal crate");
    }
}
