//! Follows a task that servers hand over to one another.
//!
//! A client that learns of a handoff calls the new server itself, with credentials for *that* server: the credentials
//! for the first server must not reach it. The first server names the target, so the target is checked: it uses TLS or
//! is on this machine, its card lists the interface, the task has not been there, and the number of handoffs is
//! limited.

use crate::{Agent, AgentReference, Client, Credentials, DiscoveredCard, Error, is_loopback};
use sabir_proto::transfer::{DEPTH_DEFAULT, DEPTH_MAX, same_agent};
use sabir_proto::{TaskRef, Transfer};
use serde::{Deserialize, Serialize};
use url::Url;

/// The servers that a task has passed so far. It can be stored by a client that follows the task across restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffTrail {
    /// The agents so far, each with the id of the task there.
    seen: Vec<(String, TaskRef)>,
    hops: usize,
    hops_max: usize,
}

impl Default for HandoffTrail {
    fn default() -> Self {
        Self::new(DEPTH_DEFAULT)
    }
}

impl HandoffTrail {
    /// A trail with at most this many handoffs.
    pub fn new(hops_max: usize) -> Self {
        Self { seen: Vec::new(), hops: 0, hops_max: hops_max.min(DEPTH_MAX) }
    }

    /// Adds the first server, so that the task is not followed back to it.
    pub fn start_at(&mut self, agent: &str, task: &TaskRef) {
        self.seen.push((agent.to_owned(), task.clone()));
    }

    /// The reference of the target, if the task may be followed there.
    pub fn next(&mut self, transfer: &Transfer) -> Result<AgentReference, Error> {
        let endpoint = &transfer.agent_endpoint;
        let not = |why: String| Error::Usage(format!("the task is not followed to {endpoint}: {why}"));
        let url = Url::parse(endpoint).map_err(|error| not(error.to_string()))?;
        if !is_confidential(&url) {
            return Err(not("only https is followed".into()));
        }
        self.advance(transfer).map_err(not)?;
        AgentReference::parse(endpoint)
    }

    /// Adds one handoff, or says why the trail ends. The address policy decides separately whether the target may be
    /// called.
    pub fn advance(&mut self, transfer: &Transfer) -> Result<(), String> {
        let endpoint = &transfer.agent_endpoint;
        let again = |(agent, task): &(String, TaskRef)| same_agent(agent, endpoint) && *task == transfer.task_id;
        if self.seen.iter().any(again) {
            return Err("it has been there, so it goes round in a circle".into());
        }
        if self.hops >= self.hops_max {
            return Err(format!("it was handed on {} times, which is the limit", self.hops_max));
        }
        self.hops += 1;
        self.seen.push((endpoint.clone(), transfer.task_id.clone()));
        Ok(())
    }
}

/// Whether requests to a URL cannot be read on the way: they use TLS or stay on this machine.
pub fn is_confidential(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// The card with only the interface of the handoff's target, so that no other server gets the claim. `None` if the card
/// does not list that interface.
pub fn with_only_target(transfer: &Transfer, mut found: DiscoveredCard) -> Option<DiscoveredCard> {
    let interfaces = &mut found.card.supported_interfaces;
    interfaces.retain(|interface| same_agent(&interface.url, &transfer.agent_endpoint));
    (!interfaces.is_empty()).then_some(found)
}

impl Client {
    /// Connects to the agent that has the task now, with the credentials for that agent. Never pass credentials for the
    /// server that handed the task over: that server chooses the target.
    pub async fn connect_to_target(
        &self,
        transfer: &Transfer,
        trail: &mut HandoffTrail,
        credentials: &Credentials,
    ) -> Result<Agent, Error> {
        let reference = trail.next(transfer)?;
        let found = self.apply_trust(self.card(&reference).await?).await?;
        let strange = || Error::Usage(format!("the card found there does not offer {}", transfer.agent_endpoint));
        let found = with_only_target(transfer, found).ok_or_else(strange)?;
        let claim = transfer.claim_secret.clone();
        self.agent_with(found, &Credentials { claim, ..credentials.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(endpoint: &str, task: &str) -> Transfer {
        let text = format!(r#"{{"agent_endpoint":"{endpoint}","task_id":"{task}"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_trail_ends_at_circles_at_its_length_and_at_plain_http() {
        let mut trail = HandoffTrail::new(2);
        assert!(trail.next(&transfer("http://b.example", "1")).is_err());
        assert!(trail.next(&transfer("not a url", "1")).is_err());
        assert!(trail.next(&transfer("https://b.example/", "1")).is_ok());
        assert!(trail.next(&transfer("https://B.example", "1")).is_err(), "the same task again");
        assert!(trail.next(&transfer("http://127.0.0.1:4000/", "2")).is_ok(), "on this machine");
        assert!(trail.next(&transfer("https://c.example", "3")).is_err(), "too often");
    }

    #[test]
    fn where_it_set_out_is_no_step_and_no_place_to_go_back_to() {
        let mut trail = HandoffTrail::new(1);
        trail.start_at("https://a.example/rpc", &TaskRef::parse("1").unwrap());
        assert!(trail.next(&transfer("https://a.example/rpc/", "1")).is_err());
        assert!(trail.next(&transfer("https://b.example", "1")).is_ok());
        let written = serde_json::to_string(&trail).unwrap();
        assert_eq!(serde_json::from_str::<HandoffTrail>(&written).unwrap(), trail);
        assert!(trail.next(&transfer("https://c.example", "1")).is_err());
    }
}
