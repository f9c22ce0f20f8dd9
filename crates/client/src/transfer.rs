//! Following a task that is handed from one server to the next.
//!
//! Whoever is told that its task went elsewhere goes there itself, with what it can show *there*: what it showed to the
//! first server is nobody else's business. Where to go is that server's word, so it is checked: over TLS or on this
//! machine, an interface of the card that is found there, never the same task twice, and not for ever.

use crate::{Agent, Client, Credentials, Error, Found, Reference, is_loopback};
use sabir_proto::transfer::{DEPTH_DEFAULT, DEPTH_MAX, same_agent};
use sabir_proto::{TaskRef, Transfer};
use serde::{Deserialize, Serialize};
use url::Url;

/// The way a task has come so far. Can be written down by whoever follows for longer than a process lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trail {
    /// Where it has been: each agent, and the task there.
    seen: Vec<(String, TaskRef)>,
    hops: usize,
    hops_max: usize,
}

impl Default for Trail {
    fn default() -> Self {
        Self::new(DEPTH_DEFAULT)
    }
}

impl Trail {
    /// Follows at most this often.
    pub fn new(hops_max: usize) -> Self {
        Self { seen: Vec::new(), hops: 0, hops_max: hops_max.min(DEPTH_MAX) }
    }

    /// Notes where the task was at first, so that it is not followed back there.
    pub fn set_out(&mut self, agent: &str, task: &TaskRef) {
        self.seen.push((agent.to_owned(), task.clone()));
    }

    /// Where a task went, if it may be followed there.
    pub fn next(&mut self, transfer: &Transfer) -> Result<Reference, Error> {
        let endpoint = &transfer.agent_endpoint;
        let not = |why: String| Error::Usage(format!("the task is not followed to {endpoint}: {why}"));
        let url = Url::parse(endpoint).map_err(|error| not(error.to_string()))?;
        if !is_confidential(&url) {
            return Err(not("only https is followed".into()));
        }
        self.advance(transfer).map_err(not)?;
        Reference::parse(endpoint)
    }

    /// Goes one step on, unless it has been there or has gone far enough; says why not. Whether anybody there may be
    /// called is for others to judge.
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

/// Whether nobody on the way reads along: by TLS, or on this machine.
pub fn is_confidential(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// A card without other interfaces than the one that a task went to: nobody else is shown the claim to it. `None` for
/// the card of somebody else, who does not offer it.
pub fn offering(transfer: &Transfer, mut found: Found) -> Option<Found> {
    let interfaces = &mut found.card.supported_interfaces;
    interfaces.retain(|interface| same_agent(&interface.url, &transfer.agent_endpoint));
    (!interfaces.is_empty()).then_some(found)
}

impl Client {
    /// A line to the agent that has a task now, with what it is to be shown there. That is never what was for the
    /// server that names it: whoever hands a task over chooses where the next line leads.
    pub async fn successor(
        &self,
        transfer: &Transfer,
        trail: &mut Trail,
        credentials: &Credentials,
    ) -> Result<Agent, Error> {
        let reference = trail.next(transfer)?;
        let found = self.believe(self.card(&reference).await?).await?;
        let strange = || Error::Usage(format!("the card found there does not offer {}", transfer.agent_endpoint));
        let found = offering(transfer, found).ok_or_else(strange)?;
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
        let mut trail = Trail::new(2);
        assert!(trail.next(&transfer("http://b.example", "1")).is_err());
        assert!(trail.next(&transfer("not a url", "1")).is_err());
        assert!(trail.next(&transfer("https://b.example/", "1")).is_ok());
        assert!(trail.next(&transfer("https://B.example", "1")).is_err(), "the same task again");
        assert!(trail.next(&transfer("http://127.0.0.1:4000/", "2")).is_ok(), "on this machine");
        assert!(trail.next(&transfer("https://c.example", "3")).is_err(), "too often");
    }

    #[test]
    fn where_it_set_out_is_no_step_and_no_place_to_go_back_to() {
        let mut trail = Trail::new(1);
        trail.set_out("https://a.example/rpc", &TaskRef::parse("1").unwrap());
        assert!(trail.next(&transfer("https://a.example/rpc/", "1")).is_err());
        assert!(trail.next(&transfer("https://b.example", "1")).is_ok());
        let written = serde_json::to_string(&trail).unwrap();
        assert_eq!(serde_json::from_str::<Trail>(&written).unwrap(), trail);
        assert!(trail.next(&transfer("https://c.example", "1")).is_err());
    }
}
