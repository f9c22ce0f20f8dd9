//! Following a task that is handed from one server to the next.
//!
//! Whoever is told that its task went elsewhere goes there itself, with what it can show *there*: what it showed to the
//! first server is nobody else's business. Where to go is that server's word, so it is checked: over TLS or on this
//! machine, an interface of the card that is found there, never the same task twice, and not for ever.

use crate::{Agent, Client, Credentials, Error, Found, Reference, is_loopback};
use sabir_proto::transfer::{DEPTH_DEFAULT, DEPTH_MAX, same_agent};
use sabir_proto::{TaskRef, Transfer};
use url::Url;

/// The way a task has come so far.
#[derive(Debug, Clone)]
pub struct Trail {
    seen: Vec<(String, TaskRef)>,
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
        Self { seen: Vec::new(), hops_max: hops_max.min(DEPTH_MAX) }
    }

    /// Where a task went, if it may be followed there.
    pub fn next(&mut self, transfer: &Transfer) -> Result<Reference, Error> {
        let endpoint = &transfer.agent_endpoint;
        let not = |why: String| Error::Usage(format!("the task is not followed to {endpoint}: {why}"));
        let url = Url::parse(endpoint).map_err(|error| not(error.to_string()))?;
        if !is_followed(&url) {
            return Err(not("only https is followed".into()));
        }
        let again = |(agent, task): &(String, TaskRef)| same_agent(agent, endpoint) && *task == transfer.task_id;
        if self.seen.iter().any(again) {
            return Err(not("it has been there, so it goes round in a circle".into()));
        }
        if self.seen.len() >= self.hops_max {
            return Err(not(format!("it was handed on {} times, which is the limit", self.hops_max)));
        }
        self.seen.push((endpoint.clone(), transfer.task_id.clone()));
        Reference::parse(endpoint)
    }
}

/// Whether a task is followed to such an address: over TLS, or on this machine.
pub fn is_followed(endpoint: &Url) -> bool {
    endpoint.scheme() == "https" || (endpoint.scheme() == "http" && is_loopback(endpoint))
}

/// Whether a card is that of the agent a task went to.
pub fn is_interface_of(transfer: &Transfer, found: &Found) -> bool {
    found.card.supported_interfaces.iter().any(|interface| same_agent(&interface.url, &transfer.agent_endpoint))
}

impl Client {
    /// A line to the agent that has a task now, with what it is to be shown there. That is never what was for the server
    /// that names it: whoever hands a task over chooses where the next line leads.
    pub async fn successor(
        &self,
        transfer: &Transfer,
        trail: &mut Trail,
        credentials: &Credentials,
    ) -> Result<Agent, Error> {
        let reference = trail.next(transfer)?;
        let found = self.believe(self.card(&reference).await?).await?;
        if !is_interface_of(transfer, &found) {
            let words = format!("the card found there does not offer {}", transfer.agent_endpoint);
            return Err(Error::Usage(words));
        }
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
}
