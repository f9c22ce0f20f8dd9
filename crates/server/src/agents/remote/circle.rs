//! The agents elsewhere of this server, for one of them that hands its tasks over.
//!
//! Nobody is reached in this way by a caller who could not reach them directly: what an agent of ours is shown there would
//! otherwise be anybody's to use who gets a task handed over.

use crate::agents::Neighbours;
use crate::agents::peers::Roster;
use sabir_engine::BoxFuture;
use sabir_gateway::{Acquaintances, RemoteAgent};
use sabir_proto::{AgentName, Caller};
use std::sync::Arc;
use url::Url;

/// Who is here, and who may call them.
#[derive(Clone)]
pub(crate) struct Circle {
    pub(crate) neighbours: Arc<Neighbours>,
    pub(crate) roster: Arc<Roster>,
}

impl std::fmt::Debug for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Circle").field(&self.roster).finish()
    }
}

impl Acquaintances for Circle {
    fn at<'a>(&'a self, endpoint: &'a Url, caller: &'a Caller) -> BoxFuture<'a, Option<AgentName>> {
        Box::pin(async move {
            let mut there = Vec::new();
            for (name, remote) in self.neighbours.elsewhere() {
                if remote.is_at(endpoint).await {
                    there.push(name);
                }
            }
            // Where there are several, nobody knows whom it was handed to.
            let [name] = <[AgentName; 1]>::try_from(there).ok()?;
            let open = self.roster.open_to(caller, None).await;
            open.iter().any(|peer| peer.name == name).then_some(name)
        })
    }

    fn named(&self, name: &str) -> Option<Arc<RemoteAgent>> {
        self.neighbours.elsewhere().into_iter().find(|(known, _)| known.as_str() == name).map(|(_, remote)| remote)
    }
}
