//! Our JSON is ProtoJSON: `prost-reflect` writes the same JSON for our protobuf values, and we read what it writes.
//!
//! It has the descriptor of the file that the messages are generated from. ProtoJSON may leave out members at their
//! default and may write them; the specification requires some of them, so our JSON lies between what the oracle writes
//! sparsely and what it writes fully.

use crate::{any, cases};
use proptest::prelude::*;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use sabir_proto::{AgentCard, Event, FrozenEvent, FrozenTask, Seq, Task, Timestamp, View};
use sabir_wire::pb::lf_a2a_v1 as pb;
use sabir_wire::v1::grpc::reply;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::LazyLock;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let files = protox::compile(["a2a_v1.proto"], [folder]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
});

/// The JSON that the oracle writes.
fn told(name: &str, message: &impl prost::Message, options: &SerializeOptions) -> String {
    let descriptor = POOL.get_message_by_name(&format!("lf.a2a.v1.{name}")).unwrap();
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic.transcode_from(message).unwrap();
    let mut out = serde_json::Serializer::new(Vec::new());
    dynamic.serialize_with_options(&mut out, options).unwrap();
    String::from_utf8(out.into_inner()).unwrap()
}

fn full() -> SerializeOptions {
    SerializeOptions::new().skip_default_fields(false)
}

/// Checks that our JSON has every member of `sparse`, none that `full` lacks, and equal values.
fn between(sparse: &Value, ours: &Value, full: &Value, at: &str) -> Result<(), String> {
    match (sparse, ours, full) {
        (Value::Object(sparse), Value::Object(ours), Value::Object(full)) => {
            if let Some(name) = sparse.keys().find(|name| !ours.contains_key(*name)) {
                return Err(format!("{at}.{name} is missing"));
            }
            ours.iter().try_for_each(|(name, value)| {
                let at = format!("{at}.{name}");
                let widest = full.get(name).ok_or_else(|| format!("{at} is unknown"))?;
                between(sparse.get(name).unwrap_or(widest), value, widest, &at)
            })
        }
        (Value::Array(sparse), Value::Array(ours), Value::Array(full)) if sparse.len() == ours.len() => {
            let triples = sparse.iter().zip(ours).zip(full).enumerate();
            triples.into_iter().try_for_each(|(i, ((s, o), f))| between(s, o, f, &format!("{at}[{i}]")))
        }
        (Value::Number(sparse), Value::Number(ours), _) if close(sparse.as_f64(), ours.as_f64()) => Ok(()),
        // The oracle writes as many digits of a second as are needed, ours always three.
        (Value::String(sparse), Value::String(ours), _) if at.ends_with(".status.timestamp") => {
            let (theirs, ours) = (Timestamp::parse(sparse), Timestamp::parse(ours));
            if theirs == ours && ours.is_some() { Ok(()) } else { Err(format!("{at}: {sparse}")) }
        }
        _ if sparse == ours => Ok(()),
        _ => Err(format!("{at}: {ours} where the oracle has {sparse}")),
    }
}

/// Equal except for the last bit: serde_json reads doubles no more exactly than that.
fn close(a: Option<f64>, b: Option<f64>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    (a - b).abs() <= (a.abs() * f64::EPSILON).max(f64::MIN_POSITIVE)
}

fn check_written(name: &str, message: &impl prost::Message, ours: &impl serde::Serialize) -> Result<(), TestCaseError> {
    let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let sparse = parse(told(name, message, &SerializeOptions::new()));
    let full = parse(told(name, message, &full()));
    let ours = parse(serde_json::to_string(ours).unwrap());
    between(&sparse, &ours, &full, "")
        .map_err(|difference| TestCaseError::fail(format!("{name}{difference}\nours:   {ours}\noracle: {sparse}")))
}

/// Reads the oracle's JSON as ours. The values are compared as protobuf, where neither the order of free members nor
/// the spelling of a number counts.
fn check_read<M, T>(
    name: &str,
    message: &M,
    options: &SerializeOptions,
    write: impl Fn(&T) -> M,
) -> Result<(), TestCaseError>
where
    M: prost::Message + PartialEq + std::fmt::Debug,
    T: DeserializeOwned,
{
    let text = told(name, message, options);
    let ours: T = serde_json::from_str(&text).map_err(|e| TestCaseError::fail(format!("{name}: {e}\n{text}")))?;
    prop_assert_eq!(&write(&ours), message, "{}", text);
    Ok(())
}

fn write_task(task: &Task) -> pb::Task {
    reply::task(&FrozenTask::freeze(task), View::WHOLE).unwrap()
}

fn write_event(event: &Event) -> pb::StreamResponse {
    reply::event(FrozenEvent::freeze(Seq(1), event).to_wire().unwrap())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn our_tasks_are_protojson(task in any::task(0)) {
        check_written("Task", &write_task(&task), &task)?;
    }

    #[test]
    fn our_events_are_protojson(event in any::event(0)) {
        check_written("StreamResponse", &write_event(&event), &event)?;
    }

    #[test]
    fn our_cards_are_protojson(card in any::card(0)) {
        check_written("AgentCard", &reply::card(&card), &card)?;
    }

    #[test]
    fn we_read_what_is_written_in_full(task in any::task(0), event in any::event(0), card in any::card(0)) {
        check_read("Task", &write_task(&task), &full(), write_task)?;
        check_read("StreamResponse", &write_event(&event), &full(), write_event)?;
        check_read("AgentCard", &reply::card(&card), &full(), |card: &AgentCard| reply::card(card))?;
    }

    #[test]
    fn we_read_what_is_written_sparsely(task in any::task(1), event in any::event(1), card in any::card(1)) {
        let sparse = SerializeOptions::new();
        check_read("Task", &write_task(&task), &sparse, write_task)?;
        check_read("StreamResponse", &write_event(&event), &sparse, write_event)?;
        check_read("AgentCard", &reply::card(&card), &sparse, |card: &AgentCard| reply::card(card))?;
    }

    #[test]
    fn we_read_enums_by_number(task in any::task(1)) {
        check_read("Task", &write_task(&task), &SerializeOptions::new().use_enum_numbers(true), write_task)?;
    }
}
