//! The agents to which tasks are handed over: those of this server, called in process, and remote agents.
//!
//! An agent is made before all others exist, so it looks up the target when it hands a task over.

use crate::directory::{Directory, ServedAgent};
use crate::engine_access::EngineAccess;
use sabir_engine::BoxFuture;
use sabir_gateway::handoff::{HandoffReply, HandoffTarget, TargetProfile};
use sabir_gateway::{Error, RemoteAgent};
use sabir_proto::{AgentCard, AgentName, Fault, Message, TaskId, TaskRef};
use std::sync::{Arc, OnceLock, Weak};

/// The directory and the route to the engine. Both references are weak: the directory holds the agents, and the route
/// holds the directory.
#[derive(Default)]
pub(crate) struct HandoffTargets(OnceLock<(Weak<Directory>, Weak<EngineAccess>)>);

impl HandoffTargets {
    /// Sets the directory and the route. Only the first call has an effect.
    pub(crate) fn connect(&self, directory: &Arc<Directory>, route: &Arc<EngineAccess>) {
        // A second call would set the same values.
        drop(self.0.set((Arc::downgrade(directory), Arc::downgrade(route))));
    }

    /// The remote agents of this server.
    pub(crate) fn remote_agents(&self) -> Vec<(AgentName, Arc<RemoteAgent>)> {
        let directory = self.0.get().and_then(|(directory, _)| directory.upgrade());
        let all = directory.map(|directory| directory.all()).unwrap_or_default();
        let remote = |served: &Arc<ServedAgent>| {
            served.remote_card.as_ref().map(|elsewhere| (served.hosted.name.clone(), elsewhere.remote().clone()))
        };
        all.values().filter_map(remote).collect()
    }

    fn find(&self, name: &str) -> Result<(Arc<ServedAgent>, Arc<EngineAccess>), Error> {
        let (directory, route) = self.0.get().ok_or_else(|| unavailable("no agent is here yet"))?;
        let (Some(directory), Some(route)) = (directory.upgrade(), route.upgrade()) else {
            return Err(unavailable("the server has stopped"));
        };
        let served = directory.get(name).ok_or_else(|| unavailable("it is not served at the moment"))?;
        Ok((served, route))
    }
}

fn unavailable(words: &str) -> Error {
    Fault::Unavailable(words.into()).into()
}

/// One agent to which tasks are handed over.
pub(super) struct NamedTarget {
    pub(super) name: String,
    pub(super) targets: Arc<HandoffTargets>,
}

impl HandoffTarget for NamedTarget {
    fn profile(&self) -> BoxFuture<'_, Result<TargetProfile, Error>> {
        Box::pin(async move {
            let (served, _) = self.targets.find(&self.name)?;
            match &served.remote_card {
                Some(elsewhere) => elsewhere.remote().handoff_profile().await,
                None => Ok(local_face(&served)),
            }
        })
    }

    fn send(&self, of: TaskId, message: Message) -> BoxFuture<'_, Result<HandoffReply, Error>> {
        Box::pin(async move {
            let (served, route) = self.targets.find(&self.name)?;
            match &served.remote_card {
                Some(elsewhere) => elsewhere.remote().send_handoff(&route.caller_of(of).await?, message).await,
                None => Ok(match route.hand_over(of, &served.hosted, message).await? {
                    Some(task) => HandoffReply::Task(Box::new(task)),
                    None => HandoffReply::Message,
                }),
            }
        })
    }

    fn cancel(&self, of: TaskId, task: TaskRef) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (served, route) = self.targets.find(&self.name)?;
            match &served.remote_card {
                Some(elsewhere) => elsewhere.remote().cancel_handoff(&route.caller_of(of).await?, task).await,
                None => Ok(route.cancel_handed_over(of, &served.hosted, task).await?),
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
