//! The remote agents of this server, for one that hands over its tasks to another.
//!
//! A caller reaches no agent in this way that it could not call directly. Otherwise every caller whose task is handed
//! over could use the credentials that this server sends to that agent.

use super::{AgentDirectory, ServedAgent};
use sabir_engine::BoxFuture;
use sabir_gateway::{RemoteAgent, RemoteAgentDirectory};
use sabir_proto::{AgentName, Caller};
use std::sync::Arc;
use url::Url;

impl RemoteAgentDirectory for AgentDirectory {
    fn find_at<'a>(&'a self, endpoint: &'a Url, caller: &'a Caller) -> BoxFuture<'a, Option<AgentName>> {
        Box::pin(async move {
            let mut there = Vec::new();
            for served in self.all().values() {
                if let Some(remote) = remote(served)
                    && remote.is_at(endpoint).await
                {
                    there.push(served.hosted.name.clone());
                }
            }
            // If several agents have this endpoint, no one can tell which one is meant.
            let [name] = <[AgentName; 1]>::try_from(there).ok()?;
            self.callable_by(caller, None).await.iter().any(|peer| peer.name == name).then_some(name)
        })
    }

    fn find_named(&self, name: &str) -> Option<Arc<RemoteAgent>> {
        let served = self.get(name)?;
        remote(&served).cloned()
    }
}

fn remote(served: &ServedAgent) -> Option<&Arc<RemoteAgent>> {
    served.remote_card.as_ref().map(|card| card.remote())
}
