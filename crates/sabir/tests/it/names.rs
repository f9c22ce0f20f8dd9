//! An agent author needs only names from `sabir`: this file uses all of them, and compiles.

use sabir::{
    Agent, AgentName, AnyAgent, Artifact, ArtifactId, ArtifactUpdate, BoxFuture, Bytes, Caller, CancelOutcome,
    CanceledTask, CapabilitiesConfig, CardConfig, Child, Commit, Config, ConfigError, Content, Context, ContextId,
    Continuation, ConversationLimits, DelegationOutcome, Effect, Ending, Event, Execution, Extension, Failure, Fault,
    FrozenEvent, FrozenTask, HandoffRequest, Json, Lineage, Message, MessageId, MirrorArtifacts, MirrorSettings,
    NonText, Object, OutboundIdGuard, Part, PastTask, Provider, Recovery, Report, Requirements, Role, Seq, Server,
    Service, SkillConfig, StartError, StatusUpdate, Task, TaskEnded, TaskId, TaskRef, TaskState, TaskStatus, Tenant,
    Timestamp, ToolMode, Transfer, TransferContext, TransferredTask, delegate, skill,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Implements every method of an agent, and calls every method of its context.
struct FullAgent;

impl Agent for FullAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        look(cx);
        say(cx).await?;
        remember(cx).await?;
        ask_others(cx).await
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Restart, ..Execution::default() }
    }

    fn runs_inline(&self) -> bool {
        false
    }

    fn check_admission(&self) -> Result<(), Fault> {
        Err(Fault::Unavailable("closed on Sundays".into()))
    }

    fn cancel_grace(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn cancel_elsewhere(&self, canceled: CanceledTask) -> CancelOutcome {
        let (_, _): (TaskId, Option<Bytes>) = (canceled.task, canceled.checkpoint);
        let artifacts: Vec<(Artifact, bool)> = Vec::new();
        CancelOutcome { artifacts, ..CancelOutcome::unacknowledged("nobody was told") }
    }

    async fn repeat_cancel(&self, _: CanceledTask) -> bool {
        true
    }

    async fn on_canceled(&self, _: CanceledTask) {}

    async fn on_handed_over(&self, handed_over: TransferredTask) {
        let (_, _): (TaskId, Transfer) = (handed_over.task, handed_over.transfer);
    }
}

fn look(cx: &mut Context) {
    let message: &Message = cx.message();
    let (_, _, _): (&MessageId, Role, &Option<TaskRef>) = (&message.message_id, message.role, &message.task_id);
    let _: Option<&Object> = message.metadata.as_ref();
    let _: String = message.text_with(NonText::Describe);
    cx.prepend_parts(vec![Part::text("before")]);
    let (_, _): (TaskId, &ContextId) = (cx.task_id(), cx.context_id());
    let (_, _, _): (&Tenant, &Caller, ToolMode) = (cx.tenant(), cx.caller(), cx.tool_mode());
    let _: Option<TransferContext> = cx.transfer_context();
    let before: Option<&Task> = cx.before();
    let _: Option<(&TaskStatus, TaskState)> = before.map(|task| (&task.status, task.status.state));
    let (_, _, _): (String, bool, bool) = (cx.turn_id(), cx.is_open_deferred(), cx.follows_handoffs());
    let (_, _, _): (u32, Timestamp, u64) = (cx.attempt(), cx.now(), cx.random());
    let sleep: BoxFuture<'static, ()> = cx.sleep(Duration::ZERO);
    drop(sleep);
}

async fn say(cx: &mut Context) -> Result<(), TaskEnded> {
    let report: Report<'_> = cx.status("at work");
    report.await?;
    let commit: Commit<'_> = cx.commit();
    commit.await?;
    cx.progress(vec![Part { filename: Some("a.txt".into()), ..Part::new(Content::Raw(vec![1])) }]).await?;
    let id = ArtifactId::parse("a").expect("a letter is a legal id");
    cx.chunk(Artifact::new(id, vec![Part::new(Content::Url("https://example.com".into()))]), true, false).await?;
    cx.data("data", Json::parse("[1]").expect("JSON")).await?;
    cx.gap("the line was cut").await?;
    cx.set_waiting_for(None::<Continuation>);
    cx.require_cancel_elsewhere();
    Ok(())
}

async fn remember(cx: &mut Context) -> Result<(), Fault> {
    cx.set_checkpoint("here");
    let _: Option<&[u8]> = cx.checkpoint();
    cx.set_next_checkpoint("there");
    cx.keep(Bytes::from_static(b"kept"));
    cx.add_effect(Effect::StoreAgentData(Bytes::from_static(b"kept")));
    let _: Option<Bytes> = cx.kept().await?;
    let limits = ConversationLimits { messages_max: 4, ..ConversationLimits::default() };
    let past: Vec<PastTask> = cx.conversation_within(limits).await?;
    drop((past, cx.conversation().await?));
    Ok(())
}

async fn ask_others(cx: &mut Context) -> Result<Ending, Failure> {
    let other = AgentName::parse("other")?;
    let known: OutboundIdGuard = cx.register_outbound_ids(["name".to_owned()]);
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
    let _: FrozenTask = child.wait_until_rest().await?;
    drop(known);
    let mirror = MirrorSettings { progress: true, artifacts: MirrorArtifacts::Prefixed("other-".into()) };
    match delegate(cx, &other, "two", vec![Part::text("hi")], None, &mirror).await? {
        DelegationOutcome::Completed(_) => {
            Ok(Ending::Transfer(Box::new(HandoffRequest { to: "third".into(), ..handover() })))
        }
        asks @ (DelegationOutcome::NeedsInput(_)
        | DelegationOutcome::NotCompleted(_)
        | DelegationOutcome::Refused(_)) => Ok(asks.into_ending()),
    }
}

fn handover() -> HandoffRequest {
    let (state, output_keys) = Default::default();
    HandoffRequest {
        to: String::new(),
        required: Vec::new(),
        reason: None,
        text: None,
        state,
        output_keys,
        summary: None,
    }
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
    let service: Service = Service::with(config.expect("it is legal")).agent_with_card("all", FullAgent, card);
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
