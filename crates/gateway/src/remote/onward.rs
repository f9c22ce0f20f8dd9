//! Where tasks that an agent elsewhere hands over may be followed, and which agent is there.
//!
//! The address of a transfer is the word of another server. The agent there is shown nothing that was meant for the
//! first agent: it is an agent of ours that this caller may use, called as it is otherwise called, or a foreign agent
//! that is shown nothing at all. A foreign agent is called over TLS or on this machine, at addresses that the policy
//! allows, by a card that offers exactly the named interface, and never where that leads back to us.

use super::known::Moved;
use super::replica::Replica;
use super::{Place, RemoteAgent, Upstream};
use crate::destination::destination;
use crate::keeper::{Keeper, May};
use crate::scout::{Voucher, address, is_ours};
use sabir_client::{Credentials, Egress, Error, Found, Tls, is_confidential};
use sabir_engine::BoxFuture;
use sabir_proto::transfer::same_agent;
use sabir_proto::{AgentName, Caller, Transfer};
use std::sync::{Arc, Mutex, PoisonError};
use url::Url;

/// The maximum number of foreign agents with cards and connections; the least recently used one is dropped first.
const STRANGERS_MAX: usize = 64;

/// Where tasks that were handed over may be followed.
#[derive(Debug, Clone)]
pub struct Onward {
    /// The address policy for foreign agents. That the agent's own address is configured says nothing about others.
    pub egress: Egress,
    /// Where this server is, as `host:port`: no task is followed to ourselves.
    pub ours: Arc<[String]>,
    /// The upstream agents of this server, which may be the receivers; `None` without any.
    pub acquaintances: Option<Arc<dyn Acquaintances>>,
}

/// The upstream agents of this server.
pub trait Acquaintances: std::fmt::Debug + Send + Sync + 'static {
    /// The one at an endpoint, if this caller may use it.
    fn at<'a>(&'a self, endpoint: &'a Url, caller: &'a Caller) -> BoxFuture<'a, Option<AgentName>>;

    /// The one with a name, as long as it is served.
    fn named(&self, name: &str) -> Option<Arc<RemoteAgent>>;
}

/// Foreign agents that were called lately, the last one at the end.
#[derive(Default)]
pub(super) struct Strangers(Mutex<Vec<Arc<Replica>>>);

impl RemoteAgent {
    /// Whether an endpoint is one of this agent's. Only the agent itself is asked.
    pub async fn is_at(&self, endpoint: &Url) -> bool {
        self.replica_at(endpoint).await.is_some()
    }

    async fn replica_at(&self, endpoint: &Url) -> Option<&Arc<Replica>> {
        for replica in &self.replicas {
            if replica.is_at(endpoint).await {
                return Some(replica);
            }
        }
        None
    }

    /// The agent of ours that stands for the receiver of a task; `None` for a foreign one. The error says why neither
    /// may be called.
    pub(super) async fn admit(&self, transfer: &Transfer, caller: &str) -> Result<Option<AgentName>, String> {
        let onward = &self.upstream.onward;
        let unfit = || "that is no address that is called".to_owned();
        destination(&transfer.agent_endpoint).map_err(|_| unfit())?;
        let url = Url::parse(&transfer.agent_endpoint).map_err(|_| unfit())?;
        if is_ours(&url, &onward.ours) {
            return Err("that is this server, so it goes round in a circle".into());
        }
        if let Some(acquaintances) = &onward.acquaintances
            && let Some(name) = acquaintances.at(&url, &Caller::named(caller)).await
        {
            return Ok(Some(name));
        }
        if is_confidential(&url) { Ok(None) } else { Err("only https is followed".into()) }
    }

    /// The replica that has a task which was handed over.
    pub(super) async fn successor(&self, moved: &Moved) -> Result<Arc<Replica>, Error> {
        let Some(name) = &moved.by else { return self.stranger(&moved.endpoint) };
        let gone = || Error::Usage(format!("agent {name}, by whom it was followed, is no longer served here"));
        let remote = self.upstream.onward.acquaintances.as_ref().and_then(|all| all.named(name)).ok_or_else(gone)?;
        let endpoint = Url::parse(&moved.endpoint).map_err(|_| gone())?;
        remote.replica_at(&endpoint).await.cloned().ok_or_else(gone)
    }

    fn stranger(&self, endpoint: &str) -> Result<Arc<Replica>, Error> {
        let mut kept = self.strangers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|replica| replica.place.url == endpoint).map(|at| kept.remove(at));
        let replica = match known {
            Some(replica) => replica,
            None => Arc::new(self.introduce(endpoint)?),
        };
        if kept.len() >= STRANGERS_MAX {
            kept.remove(0);
        }
        kept.push(replica.clone());
        Ok(replica)
    }

    /// A foreign agent is called within the bounds of the agent that named it, and its failures count against that
    /// agent.
    fn introduce(&self, endpoint: &str) -> Result<Replica, Error> {
        let onward = &self.upstream.onward;
        let threshold = Threshold { endpoint: endpoint.to_owned(), ours: onward.ours.clone(), kept: Mutex::default() };
        let place = Place::only(endpoint);
        let stranger = Upstream {
            places: vec![place.clone()],
            fallback: None,
            profile: None,
            credentials: Credentials::default(),
            origins: Vec::new(),
            tls: Tls::default(),
            egress: onward.egress.clone(),
            idempotent: false,
            keeper: Some(Arc::new(threshold)),
            on_behalf: None,
            ..self.upstream.clone()
        };
        let name = format!("{}@handed-over", self.upstream.name);
        let stranger =
            Replica::named(&name, &stranger, &place, &self.hub, (self.bulkhead.clone(), self.answers.clone()))?;
        Ok(stranger.or_at_its_origin().unattended())
    }
}

/// Decides about the cards of a foreign agent: one that offers the named endpoint is taken.
#[derive(Debug)]
struct Threshold {
    endpoint: String,
    ours: Arc<[String]>,
    kept: Mutex<Option<Found>>,
}

impl Threshold {
    /// The card, with the interfaces that may be called.
    fn weigh(&self, mut found: Found, voucher: &Voucher) -> Result<Found, String> {
        if voucher.wrong {
            return Err(format!("the signature of the card there {}", voucher.words));
        }
        let at = found.url.clone();
        let leads = |interface: &_| address(interface, at.as_ref());
        if found.card.supported_interfaces.iter().filter_map(leads).any(|url| is_ours(&url, &self.ours)) {
            return Err("the card there leads back to this server".into());
        }
        // Only the named interface is called, and no other of the card.
        let is_named = |url: Url| is_confidential(&url) && same_agent(url.as_str(), &self.endpoint);
        found.card.supported_interfaces.retain(|interface| leads(interface).is_some_and(is_named));
        if found.card.supported_interfaces.is_empty() {
            return Err("the card there does not offer it".into());
        }
        Ok(found)
    }
}

impl Keeper for Threshold {
    fn settle<'a>(&'a self, found: Found, voucher: Voucher, may: May<'a>) -> BoxFuture<'a, Result<Found, Error>> {
        Box::pin(async move {
            let found = self.weigh(found, &voucher).and_then(|found| may(&found).map(|()| found));
            let found = found.map_err(Error::Usage)?;
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
            Ok(found)
        })
    }

    fn kept(&self) -> Option<Found> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
