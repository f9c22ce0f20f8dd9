//! Fills in what servers leave out of protobuf messages, before they are read; [`crate::v1::repair`] does the same for
//! JSON. proto3 leaves out empty members, so an agent that forgets the id of a message sends one without an id.

use crate::pb::lf_a2a_v1 as pb;
use crate::v1::repair::UNNAMED;
use pb::part::Content;
use pb::send_message_response::Payload as Sent;
use pb::stream_response::Payload;
use prost_types::Value;
use prost_types::value::Kind;

/// Repairs an event of a stream.
pub(super) fn event(response: &mut pb::StreamResponse) {
    match &mut response.payload {
        Some(Payload::Task(whole)) => task(whole),
        Some(Payload::Message(direct)) => message(direct),
        Some(Payload::StatusUpdate(update)) => update.status.iter_mut().for_each(status),
        Some(Payload::ArtifactUpdate(update)) => update.artifact.iter_mut().for_each(artifact),
        None => {}
    }
}

/// Repairs the answer to a send.
pub(super) fn sent(response: &mut pb::SendMessageResponse) {
    match &mut response.payload {
        Some(Sent::Task(whole)) => task(whole),
        Some(Sent::Message(direct)) => message(direct),
        None => {}
    }
}

/// Repairs a task, its messages and artifacts.
pub(super) fn task(task: &mut pb::Task) {
    task.status.iter_mut().for_each(status);
    task.history.iter_mut().for_each(message);
    task.artifacts.iter_mut().for_each(artifact);
}

fn status(status: &mut pb::TaskStatus) {
    status.message.iter_mut().for_each(message);
}

fn message(message: &mut pb::Message) {
    name(&mut message.message_id);
    if message.role() == pb::Role::Unspecified {
        message.set_role(pb::Role::Agent);
    }
    message.parts.iter_mut().for_each(part);
}

fn artifact(artifact: &mut pb::Artifact) {
    name(&mut artifact.artifact_id);
    artifact.parts.iter_mut().for_each(part);
}

/// Protobuf drops content of an unknown kind but keeps the rest of the part.
fn part(part: &mut pb::Part) {
    part.content.get_or_insert(Content::Data(Value { kind: Some(Kind::NullValue(0)) }));
}

fn name(id: &mut String) {
    if id.is_empty() {
        UNNAMED.clone_into(id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply;
    use super::*;
    use sabir_proto::{Role, WireEvent};

    #[test]
    fn what_is_left_out_is_filled_in() {
        let said = pb::Message { parts: vec![pb::Part::default()], ..Default::default() };
        let status = pb::TaskStatus { message: Some(said.clone()), ..Default::default() };
        let artifact = pb::Artifact { parts: vec![pb::Part::default()], ..Default::default() };
        let task = pb::Task {
            id: "t".into(),
            status: Some(status.clone()),
            history: vec![said.clone()],
            artifacts: vec![artifact.clone()],
            ..Default::default()
        };
        let read = reply::read_task(task.clone()).unwrap();
        assert_eq!((read.history[0].message_id.as_str(), read.history[0].role), (UNNAMED, Role::Agent));
        assert_eq!(read.artifacts[0].artifact_id.as_str(), UNNAMED);
        let page =
            pb::ListTasksResponse { tasks: vec![task.clone()], page_size: -1, total_size: -1, ..Default::default() };
        assert!(reply::read_page(page).is_ok());
        assert!(reply::read_sent(pb::SendMessageResponse { payload: Some(Sent::Message(said.clone())) }).is_ok());
        for payload in [
            Payload::Task(task),
            Payload::Message(said),
            Payload::StatusUpdate(pb::TaskStatusUpdateEvent {
                task_id: "t".into(),
                status: Some(status),
                ..Default::default()
            }),
            Payload::ArtifactUpdate(pb::TaskArtifactUpdateEvent {
                task_id: "t".into(),
                artifact: Some(artifact),
                ..Default::default()
            }),
        ] {
            let event: WireEvent = reply::read_event(pb::StreamResponse { payload: Some(payload) }).unwrap();
            assert!(serde_json::to_string(&event).unwrap().contains("null"));
        }
    }
}
