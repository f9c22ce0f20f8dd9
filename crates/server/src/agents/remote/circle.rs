//! The remote agents of this server, for one that hands over its tasks to another.
//!
//! A caller reaches no agent in this way that it could not call directly. Otherwise every caller whose task is handed
//! over could use the credentials that this server sends to that agent.

use crate::agents::Neighbours;
use crate::agents::peers::Roster;
use sabir_engine::BoxFuture;
use sabir_gateway::{Acquaintances, RemoteAgent};
use sabir_proto::{AgentName, Caller};
use std::sync::Arc;
use url::Url;

/// The remote agents, and the check of who may call them.
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
            // If several agents have this endpoint, no one can tell which one is meant.
            let [name] = <[AgentName; 1]>::try_from(there).ok()?;
            let open = self.roster.open_to(caller, None).await;
            open.iter().any(|peer| peer.name == name).then_some(name)
        })
    }

    fn named(&self, name: &str) -> Option<Arc<RemoteAgent>> {
        self.neighbours.elsewhere().into_iter().find(|(known, _)| known.as_str() == name).map(|(_, remote)| remote)
    }
}
