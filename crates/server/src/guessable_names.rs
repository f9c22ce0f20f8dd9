//! Names that callers without a credential choose.
//!
//! All callers without a credential are one owner to the engine. A name that one of them chose and another can guess, such as
//! the task `order-1`, the conversation `s-1` or the idempotency key `1`, would lead the other to what belongs to the first.
//! So of such callers only names that cannot be guessed are kept: UUIDs and ULIDs. Any other name is left out of the call:
//!
//! | The caller names | Then |
//! |---|---|
//! | the task of a send (0.1, XPR) | a new task is opened under a UUID in place of the name, which the answer shows and by which it is found and continued |
//! | the conversation | the server names it, and the answer shows that name |
//! | an idempotency key | the send is no repeat of another one |
//! | a task to look at, to cancel, to follow or to continue | there is no such task |
//!
//! Whose names are kept is the guard's decision: see [`Identity::keeps_guessable_names`]. Nothing is looked up either, since the
//! store may hold names from when the server asked for credentials, or was reached by one person alone.

use crate::host::TokioHost;
use sabir_engine::Host;
use sabir_guard::Identity;
use sabir_proto::{Call, Fault, TaskRef, Terms, is_unique_by_form};
use std::sync::Arc;

/// Whether a task's name is one that this caller's task may have.
pub(crate) fn may_name(identity: &Identity, task: &TaskRef) -> bool {
    identity.keeps_guessable_names()
        || match task {
            TaskRef::Id(_) => true,
            TaskRef::Alias(name) => is_unique_by_form(name),
        }
}

/// Gives the task of a send a name that cannot be guessed in place of one that can, where that is not kept for its caller:
/// clients of dialects in which callers name their tasks find it by the name that the answer shows.
pub(crate) fn replace(identity: &Identity, call: &mut Call) -> Option<TaskRef> {
    let (Call::Send(request) | Call::Stream(request)) = call else { return None };
    let name = TaskRef::Alias(request.alias.clone()?);
    if may_name(identity, &name) {
        return None;
    }
    let new: Arc<str> = random_uuid().into();
    request.alias = Some(new.clone());
    Some(TaskRef::Alias(new))
}

/// A UUID of version 4: one of version 7 would be taken for the id of a task.
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

/// Leaves out of a call the names that are not kept for its caller.
pub(crate) fn leave_out(identity: &Identity, call: &mut Call, terms: &mut Terms) -> Result<(), Fault> {
    if identity.keeps_guessable_names() {
        return Ok(());
    }
    if let Some(task) = task_of(call).filter(|task| !may_name(identity, task)) {
        return Err(Fault::TaskNotFound(task.clone()));
    }
    terms.idempotency_key.take_if(|key| !is_unique_by_form(key));
    if let Call::Send(request) | Call::Stream(request) = call {
        request.alias.take_if(|name| !is_unique_by_form(name));
        request.message.context_id.take_if(|context| !is_unique_by_form(&context.to_string()));
    }
    Ok(())
}

/// The task that a call is about, where it says so.
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
        assert!(is_unique_by_form(&one) && one != other, "{one}");
        assert!(matches!(TaskRef::parse(&one), Ok(TaskRef::Alias(_))), "{one}");
    }
}
