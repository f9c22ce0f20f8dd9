//! The oracle is `prost-reflect` with the descriptor of the release.

use super::{call_of, cards, events, pushes, try_all};
use crate::any;
use crate::mint;
use proptest::prelude::*;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use sabir_proto::{Call, Event, Fault, TaskRef, Tenant, WireReply};
use sabir_wire::Losses;
use sabir_wire::pb::a2a_v03 as pb;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::grpc::reply;
use sabir_wire::v03::grpc::request::Request;
use sabir_wire::v03::rest::{self, PathOperation};
use std::sync::LazyLock;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let files = protox::compile(["a2a_v03.proto"], [folder]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
});

fn descriptor(name: &str) -> prost_reflect::MessageDescriptor {
    POOL.get_message_by_name(&format!("a2a.v1.{name}")).unwrap()
}

/// Reads our JSON with the oracle, which refuses unknown members, enum names and bad base64.
fn understood<M: prost::Message + Default>(name: &str, json: &[u8]) -> M {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize(descriptor(name), &mut reader)
        .unwrap_or_else(|e| panic!("{name}: {e}\n{}", String::from_utf8_lossy(json)));
    message.transcode_to().unwrap()
}

/// A peer that knows every member of these messages.
const FILES: FileEncoding = FileEncoding::NamedBase64;

/// The oracle's JSON, in every spelling that readers must accept.
fn told(name: &str, message: &impl prost::Message) -> Vec<Vec<u8>> {
    let mut dynamic = DynamicMessage::new(descriptor(name));
    dynamic.transcode_from(message).unwrap();
    let full = || SerializeOptions::new().skip_default_fields(false);
    [full(), full().use_proto_field_name(true), full().use_enum_numbers(true), SerializeOptions::new()]
        .iter()
        .map(|options| {
            let mut out = serde_json::Serializer::new(Vec::new());
            dynamic.serialize_with_options(&mut out, options).unwrap();
            out.into_inner()
        })
        .collect()
}

#[test]
fn our_rest_is_the_json_of_the_protobuf_and_theirs_is_read() {
    let all = (events(), any::call(), cards(), pushes());
    try_all(&all.boxed(), &["card", "send", "create"], |((event, last), call, card, (task, config)), seen| {
        let mut losses = Losses::new();
        let mut out = Vec::new();
        // gRPC carries the bytes of a file as REST does, before they become base64.
        let mut wrapped = event.clone();
        FILES.write_event(&mut wrapped);
        let message = reply::event(&wrapped, last, &mut losses);
        rest::write_event(&event, last, FILES, &mut losses, &mut out);
        prop_assert_eq!(&understood::<pb::StreamResponse>("StreamResponse", &out), &message);
        for json in told("StreamResponse", &message) {
            let heard = rest::read_event(&json, FILES, &mut mint, &mut losses).unwrap();
            let last = matches!(event, Event::StatusUpdate(_)) && last;
            let mut heard = heard.event;
            FILES.write_event(&mut heard);
            prop_assert_eq!(&reply::event(&heard, last, &mut losses), &message);
        }

        let (name, body) = match &call {
            Call::Send(_) | Call::Stream(_) => ("SendMessageRequest", rest::write_call(&call, FILES, &mut losses)),
            Call::CreatePush { .. } => {
                ("CreateTaskPushNotificationConfigRequest", rest::write_call(&call, FILES, &mut losses))
            }
            _ => ("", Err(Fault::Parse(String::new()))),
        };
        let mut wrapped = call.clone();
        FILES.write_call(&mut wrapped);
        if let (Ok(body), Ok(request)) = (body, Request::of(&wrapped, &mut losses)) {
            match &request {
                Request::Send(message) | Request::Stream(message) => {
                    seen.note("send");
                    prop_assert_eq!(&understood::<pb::SendMessageRequest>(name, &body.body.unwrap()), message);
                    for json in told(name, message) {
                        let mut back =
                            rest::read_call(PathOperation::Send, "", &json, FILES, &mut mint, &mut losses).unwrap();
                        FILES.write_call(&mut back);
                        let Request::Send(back) = Request::of(&back, &mut losses).unwrap() else { panic!("a send") };
                        prop_assert_eq!(&back, message);
                    }
                }
                Request::CreatePush(message) => {
                    seen.note("create");
                    let back = understood::<pb::CreateTaskPushNotificationConfigRequest>(name, &body.body.unwrap());
                    prop_assert_eq!(&back, message);
                }
                _ => {}
            }
        }

        if let Ok(message) = reply::card(&card, &mut losses) {
            seen.note("card");
            let mut out = Vec::new();
            rest::write_answer(&WireReply::Card(Box::new(card)), FILES, &mut losses, &mut out).unwrap();
            prop_assert_eq!(&understood::<pb::AgentCard>("AgentCard", &out), &message);
            let call = Call::ExtendedCard { tenant: Tenant::none() };
            for json in told("AgentCard", &message) {
                let WireReply::Card(back) = rest::read_answer(&call, &json, FILES, &mut mint, &mut losses).unwrap()
                else {
                    panic!("a card")
                };
                prop_assert_eq!(&reply::card(&back, &mut losses).unwrap(), &message);
            }
        }

        let message = reply::push(&task, &config);
        let mut out = Vec::new();
        rest::write_answer(&WireReply::Push(task.clone(), config.clone()), FILES, &mut losses, &mut out).unwrap();
        prop_assert_eq!(&understood::<pb::TaskPushNotificationConfig>("TaskPushNotificationConfig", &out), &message);
        for json in told("TaskPushNotificationConfig", &message) {
            let asked = TaskRef::parse("asked").unwrap();
            let back = rest::read_answer(&call_of("create", &asked), &json, FILES, &mut mint, &mut losses).unwrap();
            prop_assert_eq!(back, WireReply::Push(task.clone(), config.clone()));
        }
        Ok(())
    });
}
