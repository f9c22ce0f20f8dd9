//! Values with reserved members: names and marks that a dialect puts into free metadata.

use crate::any;
use proptest::prelude::*;
use proptest::sample::select;
use sabir_proto::{Call, Content, Json, Message, Object, Part, WireEvent, WireTask};

/// Members that some dialect puts into the metadata of a message.
const MESSAGE_MARKS: [&str; 5] = [
    r#"{"xpr:callerAccount":"alice","xpr:jobId":42}"#,
    r#"{"xpr:callerAccount":7}"#,
    r#"{"xpr:jobId":"9","other":[]}"#,
    r#"{"skillId":"s"}"#,
    "{}",
];

/// The mark of wrapped data, right and wrong.
const PART_MARKS: [&str; 4] =
    [r#"{"data_part_compat":true}"#, r#"{"data_part_compat":true,"x":1}"#, r#"{"data_part_compat":false}"#, "{}"];

/// Data that looks as if it were wrapped.
const DATA: [&str; 4] = [r#"{"value":1}"#, r#"{"value":{"value":null}}"#, r#"{"values":[]}"#, "[1]"];

type ReservedMembers = (Option<Object>, Option<(Object, Json)>);

fn reserved_members() -> impl Strategy<Value = ReservedMembers> {
    let json = |text: &str| Json::parse(text).unwrap();
    let object = move |text: &str| Object::new(json(text)).unwrap();
    let message = prop_oneof![3 => Just(None), 1 => select(&MESSAGE_MARKS[..]).prop_map(move |t| Some(object(t)))];
    let part = (select(&PART_MARKS[..]), select(&DATA[..])).prop_map(move |(m, d)| Some((object(m), json(d))));
    (message, prop_oneof![3 => Just(None), 1 => part])
}

fn add_to_message(message: &mut Message, (metadata, part): &ReservedMembers) {
    message.metadata = metadata.clone().or_else(|| message.metadata.take());
    add_to_parts(&mut message.parts, part.as_ref());
}

fn add_to_parts(parts: &mut [Part], spice: Option<&(Object, Json)>) {
    if let (Some(part), Some((metadata, data))) = (parts.first_mut(), spice) {
        part.content = Content::Data(data.clone());
        part.metadata = Some(metadata.clone());
    }
}

fn add_to_task(task: &mut WireTask, spice: &ReservedMembers) {
    task.history.first_mut().into_iter().for_each(|message| add_to_message(message, spice));
    task.status.message.iter_mut().for_each(|message| add_to_message(message, spice));
    task.artifacts.first_mut().into_iter().for_each(|artifact| add_to_parts(&mut artifact.parts, spice.1.as_ref()));
}

pub(super) fn calls() -> BoxedStrategy<Call> {
    (any::call(), reserved_members())
        .prop_map(|(mut call, spice)| {
            if let Call::Send(send) | Call::Stream(send) = &mut call {
                add_to_message(&mut send.message, &spice);
            }
            call
        })
        .boxed()
}

pub(super) fn messages() -> BoxedStrategy<Message> {
    (any::message(0), reserved_members())
        .prop_map(|(mut message, spice)| {
            add_to_message(&mut message, &spice);
            message
        })
        .boxed()
}

pub(super) fn tasks() -> BoxedStrategy<WireTask> {
    (any::their_task(), reserved_members())
        .prop_map(|(mut task, spice)| {
            add_to_task(&mut task, &spice);
            task
        })
        .boxed()
}

pub(super) fn events() -> BoxedStrategy<WireEvent> {
    (any::their_event(), reserved_members())
        .prop_map(|(mut event, spice)| {
            match &mut event {
                WireEvent::Task(task) => add_to_task(task, &spice),
                WireEvent::Message(message) => add_to_message(message, &spice),
                WireEvent::StatusUpdate(update) => {
                    update.status.message.iter_mut().for_each(|message| add_to_message(message, &spice));
                }
                WireEvent::ArtifactUpdate(update) => add_to_parts(&mut update.artifact.parts, spice.1.as_ref()),
            }
            event
        })
        .boxed()
}
