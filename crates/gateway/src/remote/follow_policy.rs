//! Where tasks that an agent elsewhere hands over may be followed, and which agent is there.
//!
//! The address of a transfer is the word of another server. The agent there is shown nothing that was meant for the
//! first agent: it is an agent of ours that this caller may use, called as it is otherwise called, or a foreign agent
//! that is shown nothing at all. A foreign agent is called over TLS or on this machine, at addresses that the policy
//! allows, by a card that offers exactly the named interface, and never where that leads back to us.

use super::checkpoint::FollowedTransfer;
use super::replica::{Replica, UpstreamShares};
use super::{RemoteAgent, Upstream, UpstreamReplica};
use crate::agent_probe::{SignatureCheck, interface_url, is_own_address};
use crate::card_policy::{CardCheck, CardPolicy};
use crate::outbound_url::parse_outbound_url;
use sabir_client::{Credentials, DiscoveredCard, Egress, Error, Tls, is_confidential};
use sabir_engine::BoxFuture;
use sabir_proto::transfer::same_agent;
use sabir_proto::{AgentName, Caller, Transfer};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use url::Url;

/// The maximum number of foreign agents with cards and connections; the least recently used one is dropped first.
const FOREIGN_REPLICAS_MAX: usize = 64;

/// Where tasks that were handed over may be followed.
#[derive(Debug, Clone)]
pub struct FollowPolicy {
    /// The address policy for foreign agents. That the agent's own address is configured says nothing about others.
    pub egress: Egress,
    /// Where this server is, as `host:port`: no task is followed to ourselves.
    pub own_addresses: Arc<[String]>,
    /// The upstream agents of this server, which may be the receivers; `None` without any. Weak, because the directory
    /// holds the agents.
    pub remote_agents: Option<Weak<dyn RemoteAgentDirectory>>,
}

/// The upstream agents of this server.
pub trait RemoteAgentDirectory: std::fmt::Debug + Send + Sync + 'static {
    /// The one at an endpoint, if this caller may use it.
    fn find_at<'a>(&'a self, endpoint: &'a Url, caller: &'a Caller) -> BoxFuture<'a, Option<AgentName>>;

    /// The one with a name, as long as it is served.
    fn find_named(&self, name: &str) -> Option<Arc<RemoteAgent>>;
}

/// Foreign agents that were called lately, the last one at the end.
#[derive(Default)]
pub(super) struct ForeignReplicas(Mutex<Vec<Arc<Replica>>>);

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
    pub(super) async fn resolve_transfer_target(
        &self,
        transfer: &Transfer,
        caller: &str,
    ) -> Result<Option<AgentName>, String> {
        let onward = &self.upstream.follow_policy;
        let unfit = || "that is no address that is called".to_owned();
        parse_outbound_url(&transfer.agent_endpoint).map_err(|_| unfit())?;
        let url = Url::parse(&transfer.agent_endpoint).map_err(|_| unfit())?;
        if is_own_address(&url, &onward.own_addresses) {
            return Err("that is this server, so it goes round in a circle".into());
        }
        if let Some(directory) = onward.remote_agents.as_ref().and_then(Weak::upgrade)
            && let Some(name) = directory.find_at(&url, &Caller::named(caller)).await
        {
            return Ok(Some(name));
        }
        if is_confidential(&url) { Ok(None) } else { Err("only https is followed".into()) }
    }

    /// The replica that has a task which was handed over.
    pub(super) async fn replica_of_holder(&self, moved: &FollowedTransfer) -> Result<Arc<Replica>, Error> {
        let Some(name) = &moved.by else { return self.foreign_replica(&moved.endpoint) };
        let gone = || Error::Usage(format!("agent {name}, by whom it was followed, is no longer served here"));
        let directory = self.upstream.follow_policy.remote_agents.as_ref().and_then(Weak::upgrade);
        let remote = directory.and_then(|directory| directory.find_named(name)).ok_or_else(gone)?;
        let endpoint = Url::parse(&moved.endpoint).map_err(|_| gone())?;
        remote.replica_at(&endpoint).await.cloned().ok_or_else(gone)
    }

    fn foreign_replica(&self, endpoint: &str) -> Result<Arc<Replica>, Error> {
        let mut kept = self.foreign_replicas.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|replica| replica.config.url == endpoint).map(|at| kept.remove(at));
        let replica = match known {
            Some(replica) => replica,
            None => Arc::new(self.new_foreign_replica(endpoint)?),
        };
        if kept.len() >= FOREIGN_REPLICAS_MAX {
            kept.remove(0);
        }
        kept.push(replica.clone());
        Ok(replica)
    }

    /// A foreign agent is called within the bounds of the agent that named it, and its failures count against that
    /// agent.
    fn new_foreign_replica(&self, endpoint: &str) -> Result<Replica, Error> {
        let onward = &self.upstream.follow_policy;
        let threshold = ForeignCardPolicy {
            endpoint: endpoint.to_owned(),
            own_addresses: onward.own_addresses.clone(),
            kept: Mutex::default(),
        };
        let place = UpstreamReplica::only(endpoint);
        let stranger = Upstream {
            replicas: vec![place.clone()],
            fallback: None,
            profile: None,
            credentials: Credentials::default(),
            origins: Vec::new(),
            tls: Tls::default(),
            egress: onward.egress.clone(),
            idempotent: false,
            card_policy: Some(Arc::new(threshold)),
            user_tokens: None,
            ..self.upstream.clone()
        };
        let name = format!("{}@handed-over", self.upstream.name);
        let stranger = Replica::with_metric_name(
            &name,
            &stranger,
            &place,
            &self.hub,
            UpstreamShares { bulkhead: self.bulkhead.clone(), answers: self.answer_capacity.clone() },
        )?;
        Ok(stranger.with_origin_fallback().fetching_own_card())
    }
}

/// Decides about the cards of a foreign agent: one that offers the named endpoint is taken.
#[derive(Debug)]
struct ForeignCardPolicy {
    endpoint: String,
    own_addresses: Arc<[String]>,
    kept: Mutex<Option<DiscoveredCard>>,
}

impl ForeignCardPolicy {
    /// The card, with the interfaces that may be called.
    fn check_card(&self, mut found: DiscoveredCard, voucher: &SignatureCheck) -> Result<DiscoveredCard, String> {
        if voucher.is_invalid {
            return Err(format!("the signature of the card there {}", voucher.summary));
        }
        let at = found.url.clone();
        let leads = |interface: &_| interface_url(interface, at.as_ref());
        if found.card.supported_interfaces.iter().filter_map(leads).any(|url| is_own_address(&url, &self.own_addresses))
        {
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

impl CardPolicy for ForeignCardPolicy {
    fn accept<'a>(
        &'a self,
        found: DiscoveredCard,
        voucher: SignatureCheck,
        may: CardCheck<'a>,
    ) -> BoxFuture<'a, Result<DiscoveredCard, Error>> {
        Box::pin(async move {
            let found = self.check_card(found, &voucher).and_then(|found| may(&found).map(|()| found));
            let found = found.map_err(Error::Usage)?;
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
            Ok(found)
        })
    }

    fn stored_card(&self) -> Option<DiscoveredCard> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
