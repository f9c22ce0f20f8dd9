//! What a child of the task at hand may be used for: the meet of what was granted to us and what its agent can do.
//!
//! Two lists limit it. One came with the task: of a handoff, or of the delegation by which it came to our agent. The other
//! is the agent's own, as it is configured. A child carries what is left of both, so that a chain of children only ever
//! narrows it. How capabilities are read from cards is for the directory of agents to say.

use crate::agent::Context;
use crate::hold;
use sabir_proto::transfer::{self, Incoming};
use sabir_proto::{AgentName, Fault, Message, SCOPE};
use serde_json::json;

/// Names of capabilities that a message may list. A longer list is not read.
const NAMES_MAX: usize = 256;

impl Context {
    /// Puts into a message to another agent what it may do with the task at hand, where that is limited.
    pub(super) fn narrow(&self, to: &AgentName, said: &mut Message) -> Result<(), Fault> {
        let came = self.transfer_context();
        let residents = self.turn.core.residents.get();
        let own = residents.and_then(|residents| residents.scope_of(self.agent()));
        let limits = [came.as_ref().and_then(|came| came.scope.clone()), self.scope_of_task(), own];
        let Some(granted) = limits.into_iter().flatten().reduce(meet) else { return Ok(()) };
        // The agent that sends it may have narrowed it already.
        let sent = match hold::read(said)? {
            Some(Incoming::Create { context, .. }) => Some(*context),
            Some(Incoming::Activate(_)) | None => None,
        };
        let granted = match sent.as_ref().and_then(|sent| sent.scope.clone()) {
            Some(narrower) => meet(granted, narrower),
            None => granted,
        };
        let skill = said.skill();
        let granted = match residents {
            Some(residents) => residents.narrow(to, granted, skill.as_deref())?,
            None => granted,
        };
        said.metadata = Some(transfer::with_member(said.metadata.as_ref(), SCOPE, json!(granted)));
        if let Some(mut context) = sent.or(came) {
            context.scope = Some(granted);
            // What shows whose the task is, is about that task alone.
            context.claim_digest = None;
            Incoming::Create { context: Box::new(context), hold: false }.stamp(said);
        }
        Ok(())
    }

    /// What the message that opened this task says that our agent may do.
    fn scope_of_task(&self) -> Option<Vec<String>> {
        let first = self.turn.before.as_ref().and_then(|task| task.history.first());
        let metadata = first.unwrap_or(&self.turn.message).metadata.as_ref()?;
        let names: Vec<String> = serde_json::from_value(metadata.get(SCOPE)?).ok()?;
        (names.len() <= NAMES_MAX).then_some(names)
    }
}

fn meet(mut one: Vec<String>, other: Vec<String>) -> Vec<String> {
    one.retain(|name| other.contains(name));
    one
}
