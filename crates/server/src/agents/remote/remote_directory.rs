//! The remote agents of this server, for one that hands over its tasks to another.
//!
//! A caller reaches no agent in this way that it could not call directly. Otherwise every caller whose task is handed
//! over could use the credentials that this server sends to that agent.

use crate::agents::HandoffTargets;
use crate::agents::peers::PeerAgents;
use sabir_engine::BoxFuture;
use sabir_gateway::{RemoteAgent, RemoteAgentDirectory};
use sabir_proto::{AgentName, Caller};
use std::sync::Arc;
use url::Url;

/// The remote agents, and the check of who may call them.
#[derive(Clone)]
pub(crate) struct RemoteDirectory {
    pub(crate) targets: Arc<HandoffTargets>,
    pub(crate) peers: Arc<PeerAgents>,
}

impl std::fmt::Debug for RemoteDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Circle").field(&self.peers).finish()
    }
}

impl RemoteAgentDirectory for RemoteDirectory {
    fn find_at<'a>(&'a self, endpoint: &'a Url, caller: &'a Caller) -> BoxFuture<'a, Option<AgentName>> {
        Box::pin(async move {
            let mut there = Vec::new();
            for (name, remote) in self.targets.remote_agents() {
                if remote.is_at(endpoint).await {
                    there.push(name);
                }
            }
            // If several agents have this endpoint, no one can tell which one is meant.
            let [name] = <[AgentName; 1]>::try_from(there).ok()?;
            let open = self.peers.callable_by(caller, None).await;
            open.iter().any(|peer| peer.name == name).then_some(name)
        })
    }

    fn find_named(&self, name: &str) -> Option<Arc<RemoteAgent>> {
        self.targets.remote_agents().into_iter().find(|(known, _)| known.as_str() == name).map(|(_, remote)| remote)
    }
}
