//! Strategies for arbitrary canonical values, in the one form that survives translation: optional texts are absent
//! rather than empty, the members of free JSON are sorted, and its numbers are written as we write them.
//!
//! `least` is the length below which required texts and lists do not go: 0 for all a type can hold, 1 for what the
//! specification allows.

mod card;

pub(crate) use card::card;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use sabir_proto::{
    Artifact, ArtifactId, ArtifactUpdate, Authentication, Call, CancelTask, Content, ContextId, DeletePush, Event,
    GetPush, GetTask, Json, ListPush, ListTasks, Message, MessageId, Object, Part, PushConfig, Role, SendConfiguration,
    SendMessage, Stamp, StatusUpdate, Subscribe, Task, TaskId, TaskRef, TaskState, TaskStatus, Tenant, Timestamp,
    WireEvent, WireTask,
};
use std::fmt::Write as _;

pub(crate) fn text(least: usize) -> BoxedStrategy<String> {
    let plain = proptest::string::string_regex(&format!("[a-z/:]{{{least},8}}")).unwrap();
    let wild = proptest::string::string_regex(&format!("(?s).{{{least},8}}")).unwrap();
    prop_oneof![plain, wild].boxed()
}

pub(crate) fn optional_text() -> BoxedStrategy<Option<String>> {
    of(text(1)).boxed()
}

pub(crate) fn texts(least: usize) -> BoxedStrategy<Vec<String>> {
    vec(text(0), least..3).boxed()
}

fn id() -> &'static str {
    "[^\\p{Cc}]{1,12}"
}

fn number() -> impl Strategy<Value = String> {
    let whole = (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(|n| n.to_string());
    let small = (-100_i32..100).prop_map(|n| n.to_string());
    let double = (proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL)
        .prop_filter("written with a fraction", |n| n.fract() != 0.0 || n.abs() > 9_007_199_254_740_992.0)
        .prop_map(|n| serde_json::to_string(&n).unwrap());
    prop_oneof![whole, small, double]
}

/// A value as text; an object if the last step made one.
fn json_text() -> BoxedStrategy<String> {
    let quoted = text(0).prop_map(|s| serde_json::to_string(&s).unwrap());
    let leaf =
        prop_oneof![Just("null".to_owned()), Just("true".to_owned()), Just("false".to_owned()), number(), quoted];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let list = vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(",")));
        prop_oneof![list, members(inner)]
    })
    .boxed()
}

fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    btree_map(text(0), value, 0..4).prop_map(|members| {
        let mut out = String::new();
        for (name, value) in members {
            let joint = if out.is_empty() { "" } else { "," };
            write!(out, "{joint}{}:{value}", serde_json::to_string(&name).unwrap()).unwrap();
        }
        format!("{{{out}}}")
    })
}

fn json() -> impl Strategy<Value = Json> {
    json_text().prop_map(|text| Json::parse(&text).unwrap())
}

pub(crate) fn object() -> BoxedStrategy<Option<Object>> {
    of(members(json_text()).prop_map(|text| Object::new(Json::parse(&text).unwrap()).unwrap())).boxed()
}

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let content = prop_oneof![
        text(0).prop_map(Content::Text),
        vec(any::<u8>(), 0..9).prop_map(Content::Raw),
        text(0).prop_map(Content::Url),
        json().prop_map(Content::Data),
    ];
    (content, object(), optional_text(), optional_text()).prop_map(|(content, metadata, filename, media_type)| Part {
        content,
        metadata,
        filename,
        media_type,
    })
}

pub(crate) fn task_id() -> impl Strategy<Value = TaskId> {
    (any::<u64>(), any::<u64>()).prop_map(|(stamp, random)| TaskId::new(Stamp::from_u64(stamp), random))
}

pub(crate) fn task_ref() -> impl Strategy<Value = TaskRef> {
    prop_oneof![task_id().prop_map(TaskRef::Id), id().prop_map(|text| TaskRef::parse(&text).unwrap())]
}

fn context_id() -> impl Strategy<Value = ContextId> {
    let ours = (any::<u64>(), any::<u64>()).prop_map(|(stamp, random)| ContextId::new(Stamp::from_u64(stamp), random));
    prop_oneof![ours, id().prop_map(|text| ContextId::parse(&text).unwrap())]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::User), Just(Role::Agent)]
}

pub(crate) fn message(least: usize) -> BoxedStrategy<Message> {
    let ids = (id(), of(context_id()), of(task_ref()), texts(0));
    (ids, role(), vec(part(), least..3), object(), texts(0))
        .prop_map(|((message_id, context_id, task_id, others), role, parts, metadata, extensions)| Message {
            message_id: MessageId::parse(&message_id).unwrap(),
            context_id,
            task_id,
            role,
            parts,
            metadata,
            extensions,
            reference_task_ids: others,
        })
        .boxed()
}

fn artifact(least: usize) -> BoxedStrategy<Artifact> {
    (id(), optional_text(), optional_text(), vec(part(), least..3), object(), texts(0))
        .prop_map(|(id, name, description, parts, metadata, extensions)| Artifact {
            artifact_id: ArtifactId::parse(&id).unwrap(),
            name,
            description,
            parts,
            metadata,
            extensions,
        })
        .boxed()
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![0..253_402_300_800_000_i64, (0..253_402_300_800_i64).prop_map(|s| s * 1000)]
        .prop_map(Timestamp::from_millis)
}

/// The states of the specification; our own has a test of its own.
fn state() -> impl Strategy<Value = TaskState> {
    proptest::sample::select(&TaskState::ALL[..8])
}

fn status(least: usize) -> impl Strategy<Value = TaskStatus> {
    (state(), of(message(least)), of(time())).prop_map(|(state, message, timestamp)| TaskStatus {
        state,
        message,
        timestamp,
    })
}

pub(crate) fn task(least: usize) -> BoxedStrategy<Task> {
    (task_id(), context_id(), status(least), object(), vec(message(least), 0..3), vec(artifact(least), 0..3))
        .prop_map(|(id, context_id, status, metadata, history, artifacts)| Task {
            id,
            context_id,
            status,
            metadata,
            history,
            artifacts,
        })
        .boxed()
}

/// Tasks of other servers: with any id, with a context or without.
pub(crate) fn their_task() -> BoxedStrategy<WireTask> {
    (task_ref(), of(context_id()), task(0))
        .prop_map(|(id, context_id, task)| WireTask {
            id,
            context_id,
            status: task.status,
            metadata: task.metadata,
            history: task.history,
            artifacts: task.artifacts,
        })
        .boxed()
}

/// Events of other servers.
pub(crate) fn their_event() -> BoxedStrategy<WireEvent> {
    (task_ref(), of(context_id()), event(0), their_task())
        .prop_map(|(task_id, context_id, event, task)| match event {
            Event::Task(_) => WireEvent::Task(task),
            Event::Message(message) => WireEvent::Message(message),
            Event::StatusUpdate(StatusUpdate { status, metadata, .. }) => {
                WireEvent::StatusUpdate(StatusUpdate { task_id, context_id, status, metadata })
            }
            Event::ArtifactUpdate(ArtifactUpdate { artifact, append, last_chunk, metadata, .. }) => {
                WireEvent::ArtifactUpdate(ArtifactUpdate {
                    task_id,
                    context_id,
                    artifact,
                    append,
                    last_chunk,
                    metadata,
                })
            }
        })
        .boxed()
}

pub(crate) fn event(least: usize) -> BoxedStrategy<Event> {
    let status_update = (task_id(), context_id(), status(least), object())
        .prop_map(|(task_id, context_id, status, metadata)| StatusUpdate { task_id, context_id, status, metadata });
    let artifact_update = (task_id(), context_id(), artifact(least), any::<(bool, bool)>(), object()).prop_map(
        |(task_id, context_id, artifact, (append, last_chunk), metadata)| ArtifactUpdate {
            task_id,
            context_id,
            artifact,
            append,
            last_chunk,
            metadata,
        },
    );
    prop_oneof![
        task(least).prop_map(Event::Task),
        message(least).prop_map(Event::Message),
        status_update.prop_map(Event::StatusUpdate),
        artifact_update.prop_map(Event::ArtifactUpdate),
    ]
    .boxed()
}

pub(crate) fn push() -> BoxedStrategy<PushConfig> {
    let authentication =
        (text(1), optional_text()).prop_map(|(scheme, credentials)| Authentication { scheme, credentials });
    (optional_text(), text(1), optional_text(), of(authentication))
        .prop_map(|(id, url, token, authentication)| PushConfig { id, url, token, authentication })
        .boxed()
}

fn tenant() -> impl Strategy<Value = Tenant> {
    prop_oneof![Just(Tenant::none()), "[A-Z~-][a-z0-9._~-]{0,9}".prop_map(|text| Tenant::parse(&text).unwrap())]
}

fn send() -> impl Strategy<Value = Box<SendMessage>> {
    let configuration = (texts(0), of(push()), of(any::<i32>()), any::<bool>()).prop_map(
        |(accepted_output_modes, task_push_notification_config, history_length, return_immediately)| {
            SendConfiguration {
                accepted_output_modes,
                task_push_notification_config,
                history_length,
                return_immediately,
            }
        },
    );
    (tenant(), message(0), configuration, object()).prop_map(|(tenant, message, configuration, metadata)| {
        Box::new(SendMessage { tenant, message, configuration, metadata, alias: None, wants_task: false })
    })
}

fn list() -> impl Strategy<Value = ListTasks> {
    let filter = (of(context_id()), of(state()), of(time()));
    (tenant(), filter, of(any::<i32>()), text(0), of(any::<i32>()), of(any::<bool>())).prop_map(
        |(tenant, (context_id, status, status_timestamp_after), page_size, page_token, history_length, artifacts)| {
            ListTasks {
                tenant,
                context_id,
                status,
                page_size,
                page_token,
                history_length,
                status_timestamp_after,
                include_artifacts: artifacts,
            }
        },
    )
}

pub(crate) fn call() -> BoxedStrategy<Call> {
    let get = (tenant(), task_ref(), of(any::<i32>()))
        .prop_map(|(tenant, id, history_length)| Call::Get(GetTask { tenant, id, history_length }));
    let cancel = (tenant(), task_ref(), object())
        .prop_map(|(tenant, id, metadata)| Call::Cancel(CancelTask { tenant, id, metadata }));
    let subscribe = (tenant(), task_ref()).prop_map(|(tenant, id)| Call::Subscribe(Subscribe { tenant, id }));
    let create =
        (tenant(), task_ref(), push()).prop_map(|(tenant, task, config)| Call::CreatePush { tenant, task, config });
    let get_push = (tenant(), task_ref(), text(1))
        .prop_map(|(tenant, task_id, id)| Call::GetPush(GetPush { tenant, task_id, id }));
    let delete_push = (tenant(), task_ref(), text(1))
        .prop_map(|(tenant, task_id, id)| Call::DeletePush(DeletePush { tenant, task_id, id }));
    let list_push =
        (tenant(), task_ref(), of(1..=i32::MAX), text(0)).prop_map(|(tenant, task_id, page_size, page_token)| {
            Call::ListPush(ListPush { tenant, task_id, page_size, page_token })
        });
    prop_oneof![
        3 => send().prop_map(Call::Send),
        3 => send().prop_map(Call::Stream),
        2 => list().prop_map(Call::List),
        4 => prop_oneof![get, cancel, subscribe, create, get_push, list_push, delete_push],
        1 => tenant().prop_map(|tenant| Call::ExtendedCard { tenant }),
    ]
    .boxed()
}
