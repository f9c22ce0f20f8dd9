//! What a task that was handed to us may be used for, passed on.
//!
//! Whoever hands a task over says what it may be used for. That holds for everybody whom our agent lets work on it: a child
//! carries what is left of it, so that a chain of children only ever narrows it. How capabilities are read from cards is
//! for whoever knows cards to say.

use crate::agent::Context;
use crate::hold;
use sabir_proto::transfer::Incoming;
use sabir_proto::{AgentName, Fault, Message};

impl Context {
    /// Puts into a message to another agent what it may do with the task at hand, where that is limited.
    pub(super) fn narrow(&self, to: &AgentName, said: &mut Message) -> Result<(), Fault> {
        let Some(came) = self.transfer_context() else { return Ok(()) };
        let Some(mut granted) = came.scope.clone() else { return Ok(()) };
        // Whoever sends it may have narrowed it already.
        let own = match hold::read(said)? {
            Some(Incoming::Create { context, .. }) => Some(*context),
            Some(Incoming::Activate(_)) | None => None,
        };
        if let Some(narrower) = own.as_ref().and_then(|own| own.scope.as_ref()) {
            granted.retain(|name| narrower.contains(name));
        }
        let skill = said.skill();
        let granted = match self.turn.core.residents.get() {
            Some(residents) => residents.narrow(to, granted, skill.as_deref())?,
            None => granted,
        };
        let mut context = own.unwrap_or(came);
        context.scope = Some(granted);
        // What shows whose the task is, is about that task alone.
        context.claim_digest = None;
        Incoming::Create { context: Box::new(context), hold: false }.stamp(said);
        Ok(())
    }
}
