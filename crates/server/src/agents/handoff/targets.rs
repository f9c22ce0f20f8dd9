//! The agents to which tasks are handed over: those of this server, called in process, and remote agents.
//!
//! An agent is made before all others exist, so it looks up the target when it hands a task over.

use crate::directory::{AgentDirectory, ServedAgent};
use crate::engine_access::EngineAccess;
use sabir_engine::BoxFuture;
use sabir_gateway::Error;
use sabir_gateway::handoff::{HandoffReply, HandoffTarget, TargetProfile};
use sabir_proto::{AgentCard, Fault, Message, TaskId, TaskRef};
use std::sync::{Arc, Weak};

fn unavailable(words: &str) -> Error {
    Fault::Unavailable(words.into()).into()
}

/// One agent to which tasks are handed over.
pub(super) struct NamedTarget {
    pub(super) name: String,
    pub(super) directory: Weak<AgentDirectory>,
    pub(super) engine: Weak<EngineAccess>,
}

/// The target while a call to it lasts.
struct FoundTarget {
    served: Arc<ServedAgent>,
    engine: Arc<EngineAccess>,
}

impl NamedTarget {
    fn find(&self) -> Result<FoundTarget, Error> {
        let (Some(directory), Some(engine)) = (self.directory.upgrade(), self.engine.upgrade()) else {
            return Err(unavailable("the server has stopped"));
        };
        let served = directory.get(&self.name).ok_or_else(|| unavailable("it is not served at the moment"))?;
        Ok(FoundTarget { served, engine })
    }
}

impl HandoffTarget for NamedTarget {
    fn profile(&self) -> BoxFuture<'_, Result<TargetProfile, Error>> {
        Box::pin(async move {
            let FoundTarget { served, .. } = self.find()?;
            match &served.remote_card {
                Some(elsewhere) => elsewhere.remote().handoff_profile().await,
                None => Ok(local_face(&served)),
            }
        })
    }

    fn send(&self, of: TaskId, message: Message) -> BoxFuture<'_, Result<HandoffReply, Error>> {
        Box::pin(async move {
            let FoundTarget { served, engine } = self.find()?;
            match &served.remote_card {
                Some(elsewhere) => elsewhere.remote().send_handoff(&engine.caller_of(of).await?, message).await,
                None => Ok(match engine.hand_over(of, &served.hosted, message).await? {
                    Some(task) => HandoffReply::Task(Box::new(task)),
                    None => HandoffReply::Message,
                }),
            }
        })
    }

    fn cancel(&self, of: TaskId, task: TaskRef) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let FoundTarget { served, engine } = self.find()?;
            match &served.remote_card {
                Some(elsewhere) => elsewhere.remote().cancel_handoff(&engine.caller_of(of).await?, task).await,
                None => Ok(engine.cancel_handed_over(of, &served.hosted, task).await?),
            }
        })
    }
}

/// The card properties of an agent of this server. All of them hold tasks, and recognise a repeated handoff.
fn local_face(served: &ServedAgent) -> TargetProfile {
    let card = AgentCard { skills: served.skills.clone(), ..served.card.clone() };
    let (endpoint, binding) = match served.card.supported_interfaces.first() {
        Some(interface) => (&*interface.url, &*interface.protocol_binding),
        None => ("", ""),
    };
    // An agent that is sent here reaches this same server.
    TargetProfile {
        holds_tasks: true,
        recognises_repeats: true,
        is_followed: true,
        is_local: true,
        ..TargetProfile::of_card(&card, endpoint, binding)
    }
}
