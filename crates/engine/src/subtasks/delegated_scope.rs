//! The scope of a child: the intersection of what was granted to this task and what its agents can do.
//!
//! Two lists limit it. One came with the task, by a handoff or by the delegation that opened it. The other is
//! configured for the agent. A child carries the names that are in both, so a chain of children only ever narrows the
//! scope. How capabilities are read from cards is the agent directory's part.

use crate::agent::Context;
use crate::held_tasks;
use sabir_proto::transfer::{self, HandoffMessage};
use sabir_proto::{AgentName, Fault, Message, SCOPE};
use serde_json::json;

/// The most capability names read from a message. A longer list is ignored.
const NAMES_MAX: usize = 256;

impl Context {
    /// Writes the scope of a child into the message that opens it, where the scope is limited.
    pub(super) fn restrict_scope(&self, to: &AgentName, said: &mut Message) -> Result<(), Fault> {
        let came = self.transfer_context();
        let residents = self.turn.core.directory.get();
        let own = residents.and_then(|residents| residents.delegation_scope(self.agent()));
        let limits = [came.as_ref().and_then(|came| came.scope.clone()), self.task_scope(), own];
        let Some(granted) = limits.into_iter().flatten().reduce(intersection) else { return Ok(()) };
        // The sending agent may have narrowed the scope itself.
        let sent = match held_tasks::read_handoff(said)? {
            Some(HandoffMessage::Create { context, .. }) => Some(*context),
            Some(HandoffMessage::Activate(_)) | None => None,
        };
        let granted = match sent.as_ref().and_then(|sent| sent.scope.clone()) {
            Some(narrower) => intersection(granted, narrower),
            None => granted,
        };
        let skill = said.skill();
        let granted = match residents {
            Some(residents) => residents.narrow_scope(to, granted, skill.as_deref())?,
            None => granted,
        };
        said.metadata = Some(transfer::with_member(said.metadata.as_ref(), SCOPE, json!(granted)));
        if let Some(mut context) = sent.or(came) {
            context.scope = Some(granted);
            // The claim digest proves the ownership of the parent task alone.
            context.claim_digest = None;
            HandoffMessage::Create { context: Box::new(context), hold: false }.add_to_message(said);
        }
        Ok(())
    }

    /// The scope in the message that opened this task.
    fn task_scope(&self) -> Option<Vec<String>> {
        let first = self.turn.task_before.as_ref().and_then(|task| task.history.first());
        let metadata = first.unwrap_or(&self.turn.message).metadata.as_ref()?;
        let names: Vec<String> = serde_json::from_value(metadata.get(SCOPE)?).ok()?;
        (names.len() <= NAMES_MAX).then_some(names)
    }
}

fn intersection(mut one: Vec<String>, other: Vec<String>) -> Vec<String> {
    one.retain(|name| other.contains(name));
    one
}
