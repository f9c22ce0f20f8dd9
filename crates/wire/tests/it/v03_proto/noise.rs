//! No input makes us panic: noise, and good bytes with a few of them changed.

use super::{call_of, cards, events, get, send, try_all};
use crate::any;
use crate::mint;
use proptest::prelude::*;
use sabir_proto::{Call, TaskRef, Tenant, WireReply};
use sabir_wire::Losses;
use sabir_wire::pb::a2a_v03 as pb;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::grpc::request::Request;
use sabir_wire::v03::grpc::{reply, request};
use sabir_wire::v03::rest::{self, PathOperation, RouteMatch};

fn read_protobuf(bytes: &[u8]) {
    let losses = &mut Losses::new();
    macro_rules! poke {
        ($($message:ty => $read:expr),* $(,)?) => { $(
            if let Ok(message) = <$message as prost::Message>::decode(bytes) {
                let _ = $read(message, losses);
            }
        )* };
    }
    poke!(
        pb::SendMessageRequest => request::send,
        pb::GetTaskRequest => request::get_task,
        pb::CancelTaskRequest => request::cancel_task,
        pb::TaskSubscriptionRequest => request::subscribe,
        pb::CreateTaskPushNotificationConfigRequest => request::create_push,
        pb::GetTaskPushNotificationConfigRequest => request::get_push,
        pb::ListTaskPushNotificationConfigRequest => request::list_push,
        pb::DeleteTaskPushNotificationConfigRequest => request::delete_push,
        pb::Task => reply::read_task,
        pb::SendMessageResponse => reply::read_sent,
        pb::StreamResponse => reply::read_event,
        pb::TaskPushNotificationConfig => reply::read_push,
        pb::ListTaskPushNotificationConfigResponse => reply::read_pushes,
        pb::AgentCard => reply::read_card,
    );
}

fn read_json(body: &[u8]) {
    let losses = &mut Losses::new();
    let task = TaskRef::parse("t").unwrap();
    for route in
        [PathOperation::Send, PathOperation::Stream, PathOperation::Cancel("t"), PathOperation::CreatePush("t")]
    {
        let _ = rest::read_call(route, "", body, FileEncoding::NamedBase64, &mut mint, losses);
    }
    let card = Call::ExtendedCard { tenant: Tenant::none() };
    for call in [send(), get(), call_of("create", &task), call_of("list", &task), call_of("delete", &task), card] {
        let _ = rest::read_answer(&call, body, FileEncoding::NamedBase64, &mut mint, losses);
    }
    let _ = rest::read_event(body, FileEncoding::NamedBase64, &mut mint, losses);
    let _ = rest::read_error(500, body);
}

#[test]
fn nothing_that_arrives_makes_us_panic() {
    let damage = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let noise = (proptest::collection::vec(any::<u8>(), 0..200), "\\PC{0,40}", any::object());
    let all = (events(), any::call(), cards(), damage, noise);
    try_all(&all.boxed(), &[], |((event, last), call, card, damage, (random, path, object)), _| {
        let damaged = |mut bytes: Vec<u8>| {
            for (at, byte) in &damage {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
            }
            bytes
        };
        let mut losses = Losses::new();
        read_protobuf(&random);
        read_json(&random);
        read_json(object.map(|o| o.as_str().to_owned()).unwrap_or_default().as_bytes());
        read_protobuf(&damaged(prost::Message::encode_to_vec(&reply::event(&event, last, &mut losses))));
        if let Ok(card) = reply::card(&card, &mut losses) {
            read_protobuf(&damaged(prost::Message::encode_to_vec(&card)));
        }
        if let Ok(Request::Send(request)) = Request::of(&call, &mut losses) {
            read_protobuf(&damaged(prost::Message::encode_to_vec(&request)));
        }
        let mut out = Vec::new();
        rest::write_event(&event, last, FileEncoding::NamedBase64, &mut losses, &mut out);
        read_json(&damaged(out));
        let mut out = Vec::new();
        let _ = rest::write_answer(&WireReply::Card(Box::new(card)), FileEncoding::NamedBase64, &mut losses, &mut out);
        read_json(&damaged(out));
        if let Ok(request) = rest::write_call(&call, FileEncoding::NamedBase64, &mut losses) {
            read_json(&damaged(request.body.unwrap_or_default()));
        }
        for method in [http::Method::GET, http::Method::POST, http::Method::DELETE] {
            if let RouteMatch::Operation(route, _) = rest::route(&method, &format!("/v1/tasks/{path}")) {
                let _ = rest::read_call(route, &path, &random, FileEncoding::NamedBase64, &mut mint, &mut losses);
            }
        }
        Ok(())
    });
}
