//! Where an agent is made as it is served: what stands behind it, its card, its rules.

use crate::agents::{self, Ledger};
use crate::card::{self, Cards, Face, PublicAddress, Registration, Signer};
use crate::config::Config;
use crate::config::agent::AgentConfig;
use crate::front::Front;
use crate::gate::{Gate, Rules};
use crate::host::TokioHost;
use crate::stack;
use sabir_engine::{AnyAgent, Host as _, Resident};
use sabir_gateway::Hub;
use sabir_guard::entrance::Posture;
use sabir_proto::card::Skill;
use sabir_proto::{AgentCard, AgentName, Caller, Tenant};
use sabir_store::Scope;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// An agent as it is served.
pub(crate) struct Served {
    pub(crate) resident: Arc<Resident>,
    pub(crate) card: AgentCard,
    /// All of them, also those that not everybody may know of.
    pub(crate) skills: Vec<Skill>,
    pub(crate) extended: Option<Arc<AgentCard>>,
    pub(crate) cards: Arc<Cards>,
    pub(crate) plain_scope: Arc<Scope>,
    pub(crate) rules: Rules,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").field("name", &self.resident.name).finish_non_exhaustive()
    }
}

/// What agents are made from besides their own configuration.
pub(crate) struct Workshop {
    gate: Gate,
    public: PublicAddress,
    signer: Option<Arc<Signer>>,
    ledger: Option<Arc<Ledger>>,
    /// What the agents elsewhere share.
    hub: Arc<Hub>,
    /// Agents written in Rust, by name.
    own: HashMap<String, Arc<dyn AnyAgent>>,
    front: Option<Arc<dyn Front>>,
}

impl Workshop {
    pub(crate) fn new(
        gate: Gate,
        public: PublicAddress,
        signer: Option<Arc<Signer>>,
        ledger: Option<Arc<Ledger>>,
        hub: Arc<Hub>,
        (own, front): (HashMap<String, Arc<dyn AnyAgent>>, Option<Arc<dyn Front>>),
    ) -> Self {
        Self { gate, public, signer, ledger, hub, own, front }
    }

    pub(crate) fn config(&self) -> &Config {
        self.gate.config()
    }

    /// Makes the agent that a section describes. The error says what is wrong with it.
    pub(crate) fn make(&self, entry: &AgentConfig) -> Result<Arc<Served>, String> {
        let Self { gate, public, .. } = self;
        let config = gate.config();
        let name = AgentName::parse(&entry.name).map_err(|e| format!("its name {e}"))?;
        let own = self.own.get(&entry.name);
        let grace = Duration::from_secs(entry.cancel_grace_seconds.unwrap_or(config.limits.cancel_grace_seconds));
        let elsewhere = match own {
            Some(_) => None,
            None => agents::remote(entry, gate.secrets(), &config.egress, grace, &self.hub)?,
        };
        let agent = match own {
            Some(agent) => agent.clone(),
            None => agents::make(entry, grace, self.ledger.as_ref(), elsewhere.as_ref())?,
        };
        let push = entry.card.capabilities.push_notifications;
        let (mut card, skills) = card::build(entry, public);
        let rules = gate.rules(entry, &name, &skills)?;
        if rules.entrance.wants_body_signatures() {
            card.supported_interfaces.retain(|interface| interface.protocol_binding == "JSONRPC");
        }
        rules.entrance.describe(&mut card, &skills)?;
        if entry.card.capabilities.extended_card && rules.entrance.posture() == Posture::Open {
            return Err("extended_card = true is for callers who say who they are; name them in [auth]".into());
        }
        let extended = self.front.as_deref().and_then(|front| front.introduce(&mut card)).map(Arc::new);
        if let Some(idle) = card.supported_interfaces.iter().find(|i| !stack::offers(i, entry, public)) {
            let (binding, version) = (&idle.protocol_binding, &idle.protocol_version);
            return Err(format!("its card offers {binding} {version} at {}, which is not served", idle.url));
        }
        let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: name.clone() };
        let xpr = entry.xpr.as_ref().map(card::identity);
        let face = Face { public: card.clone(), skills: skills.clone(), xpr, moved: None };
        let chain = Registration::open(config, entry, public, gate.outbound())?;
        // Where a chain speaks for an agent, nobody else does.
        let told = elsewhere.filter(|_| chain.is_none()).map(|remote| (remote, face.clone()));
        let (form, signer) = (config.server.card, self.signer.clone());
        let cards = Arc::new(Cards::new(face, form, SystemTime::now(), signer, chain)?);
        if let Some((remote, face)) = told {
            TokioHost.spawn(Box::pin(card::follow(remote, Arc::downgrade(&cards), face, entry.card.clone())));
        }
        Ok(Arc::new(Served {
            cards,
            card,
            skills,
            extended,
            plain_scope: Arc::new(scope),
            resident: Arc::new(Resident { name, agent, push, tools: rules.tools }),
            rules,
        }))
    }
}
