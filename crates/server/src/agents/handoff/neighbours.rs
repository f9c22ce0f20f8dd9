//! The agents to which tasks are handed over: those of this server, called in process, and remote agents.
//!
//! An agent is made before all others exist, so it looks up the target when it hands a task over.

use crate::directory::{Directory, Served};
use crate::route::Route;
use sabir_engine::BoxFuture;
use sabir_gateway::handoff::{Face, Peer, Taken};
use sabir_gateway::{Error, RemoteAgent};
use sabir_proto::{AgentCard, AgentName, Fault, Message, TaskId, TaskRef};
use std::sync::{Arc, OnceLock, Weak};

/// The directory and the route to the engine. Both references are weak: the directory holds the agents, and the route
/// holds the directory.
#[derive(Default)]
pub(crate) struct Neighbours(OnceLock<(Weak<Directory>, Weak<Route>)>);

impl Neighbours {
    /// Sets the directory and the route. Only the first call has an effect.
    pub(crate) fn tell(&self, directory: &Arc<Directory>, route: &Arc<Route>) {
        // A second call would set the same values.
        drop(self.0.set((Arc::downgrade(directory), Arc::downgrade(route))));
    }

    /// The remote agents of this server.
    pub(crate) fn elsewhere(&self) -> Vec<(AgentName, Arc<RemoteAgent>)> {
        let directory = self.0.get().and_then(|(directory, _)| directory.upgrade());
        let all = directory.map(|directory| directory.all()).unwrap_or_default();
        let remote = |served: &Arc<Served>| {
            served.elsewhere.as_ref().map(|elsewhere| (served.resident.name.clone(), elsewhere.remote().clone()))
        };
        all.values().filter_map(remote).collect()
    }

    fn find(&self, name: &str) -> Result<(Arc<Served>, Arc<Route>), Error> {
        let (directory, route) = self.0.get().ok_or_else(|| away("nobody is here yet"))?;
        let (Some(directory), Some(route)) = (directory.upgrade(), route.upgrade()) else {
            return Err(away("the server has stopped"));
        };
        let served = directory.get(name).ok_or_else(|| away("it is not served at the moment"))?;
        Ok((served, route))
    }
}

fn away(words: &str) -> Error {
    Fault::Unavailable(words.into()).into()
}

/// One agent to which tasks are handed over.
pub(super) struct Neighbour {
    pub(super) name: String,
    pub(super) all: Arc<Neighbours>,
}

impl Peer for Neighbour {
    fn face(&self) -> BoxFuture<'_, Result<Face, Error>> {
        Box::pin(async move {
            let (served, _) = self.all.find(&self.name)?;
            match &served.elsewhere {
                Some(elsewhere) => elsewhere.remote().face().await,
                None => Ok(face(&served)),
            }
        })
    }

    fn send(&self, of: TaskId, message: Message) -> BoxFuture<'_, Result<Taken, Error>> {
        Box::pin(async move {
            let (served, route) = self.all.find(&self.name)?;
            match &served.elsewhere {
                Some(elsewhere) => elsewhere.remote().hand(&route.caller_of(of).await?, message).await,
                None => Ok(match route.hand(of, &served.resident, message).await? {
                    Some(task) => Taken::Task(Box::new(task)),
                    None => Taken::Words,
                }),
            }
        })
    }

    fn cancel(&self, of: TaskId, task: TaskRef) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (served, route) = self.all.find(&self.name)?;
            match &served.elsewhere {
                Some(elsewhere) => elsewhere.remote().take_back(&route.caller_of(of).await?, task).await,
                None => Ok(route.take_back(of, &served.resident, task).await?),
            }
        })
    }
}

/// The card properties of an agent of this server. All of them hold tasks, and recognise a repeated handoff.
fn face(served: &Served) -> Face {
    let card = AgentCard { skills: served.skills.clone(), ..served.card.clone() };
    let (endpoint, binding) = match served.card.supported_interfaces.first() {
        Some(interface) => (&*interface.url, &*interface.protocol_binding),
        None => ("", ""),
    };
    // An agent that is sent here reaches this same server.
    Face { holds: true, recognises: true, followed: true, here: true, ..Face::of(&card, endpoint, binding) }
}
