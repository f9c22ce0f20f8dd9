//! Which names callers without a credential may choose.
//!
//! The engine sees all callers without a credential as one owner. If one of them chose a name that another can guess,
//! such as the task `order-1`, the conversation `s-1` or the idempotency key `1`, the other would reach what belongs to
//! the first. So only names that cannot be guessed are kept for such callers: UUIDs and ULIDs. Any other name is
//! removed from the call:
//!
//! | The caller names | Then |
//! |---|---|
//! | the task of a send (0.1, XPR) | a new task gets a UUID in place of the name; the caller finds it by that |
//! | the conversation | the server chooses its name, and the answer shows it |
//! | an idempotency key | the send counts as no repeat |
//! | a task to get, cancel, follow or continue | the task is not found |
//!
//! The guard decides whose names are kept: see [`Identity::keeps_guessable_names`]. Such a name is not even looked up,
//! because the store may hold names from a time when the server demanded credentials, or had only one caller.

use crate::tokio_host::TokioHost;
use sabir_engine::Host;
use sabir_guard::Identity;
use sabir_proto::{Call, Fault, ServiceParameters, TaskRef, is_uuid_or_ulid};
use std::sync::Arc;

/// Whether a task of this caller may have this name.
pub(crate) fn may_name(identity: &Identity, task: &TaskRef) -> bool {
    identity.keeps_guessable_names()
        || match task {
            TaskRef::Id(_) => true,
            TaskRef::Alias(name) => is_uuid_or_ulid(name),
        }
}

/// Replaces a guessable name of a new task by a random one, if the caller may not keep it: clients of dialects in which
/// callers name their tasks find the task by the name in the answer.
pub(crate) fn replace_task_name(identity: &Identity, call: &mut Call) -> Option<TaskRef> {
    let (Call::Send(request) | Call::Stream(request)) = call else { return None };
    let name = TaskRef::Alias(request.alias.clone()?);
    if may_name(identity, &name) {
        return None;
    }
    let new: Arc<str> = random_uuid().into();
    request.alias = Some(new.clone());
    Some(TaskRef::Alias(new))
}

/// A UUID of version 4, because version 7 would be taken for the id of a task.
fn random_uuid() -> String {
    let (high, low) = (TokioHost.random(), TokioHost.random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

/// Removes from a call the names that its caller may not keep.
pub(crate) fn remove(identity: &Identity, call: &mut Call, terms: &mut ServiceParameters) -> Result<(), Fault> {
    if identity.keeps_guessable_names() {
        return Ok(());
    }
    if let Some(task) = task_of(call).filter(|task| !may_name(identity, task)) {
        return Err(Fault::TaskNotFound(task.clone()));
    }
    terms.idempotency_key.take_if(|key| !is_uuid_or_ulid(key));
    if let Call::Send(request) | Call::Stream(request) = call {
        request.alias.take_if(|name| !is_uuid_or_ulid(name));
        request.message.context_id.take_if(|context| !is_uuid_or_ulid(&context.to_string()));
    }
    Ok(())
}

/// The task that a call names.
fn task_of(call: &Call) -> Option<&TaskRef> {
    Some(match call {
        Call::Send(request) | Call::Stream(request) => return request.message.task_id.as_ref(),
        Call::Get(call) => &call.id,
        Call::Cancel(call) => &call.id,
        Call::Subscribe(call) => &call.id,
        Call::CreatePush { task, .. } => task,
        Call::GetPush(call) => &call.task_id,
        Call::ListPush(call) => &call.task_id,
        Call::DeletePush(call) => &call.task_id,
        Call::List(_) | Call::ExtendedCard { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_place_of_another_is_unique_and_no_id_of_ours() {
        let (one, other) = (random_uuid(), random_uuid());
        assert!(is_uuid_or_ulid(&one) && one != other, "{one}");
        assert!(matches!(TaskRef::parse(&one), Ok(TaskRef::Alias(_))), "{one}");
    }
}
