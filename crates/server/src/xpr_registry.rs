//! What XPR Network knows of an agent, for commands that show it: its owner, since when it is registered, its trust score.
//!
//! The same rows and the same arithmetic as for the cards that a server shows and for the callers that it lets in.

use crate::card::chain;
use crate::host::TokioHost;
use sabir_engine::Host as _;
use sabir_gateway::{Egress, Outbound, PATIENCE, Tls};
use sabir_guard::authn::chain::{Chain, ChainFault};
use url::Url;

/// The agents of a chain, behind one of its nodes.
pub struct XprRegistry {
    chain: Chain<Outbound>,
}

/// What the chain says of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XprRegistration {
    /// The account of the person behind it, where one is named.
    pub owner: Option<String>,
    /// Since when, in seconds since 1970; 0 while it is unknown.
    pub registered_at: u64,
    /// Its score, 0 to 100; absent where the chain could not tell.
    pub trust_score: Option<i64>,
    /// How well its owner is known, 0 to 3; absent where the chain could not tell.
    pub kyc_level: Option<u8>,
}

impl std::fmt::Debug for XprRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("XprRegistry")
    }
}

impl XprRegistry {
    /// The operator named the node, so it may be anywhere.
    pub fn new(node: &Url, tls: &Tls) -> Result<Self, String> {
        let outbound = Outbound::with(Egress::anywhere(), tls, PATIENCE).map_err(|e| e.to_string())?;
        Ok(Self { chain: Chain::new(node, outbound).map_err(|e| e.to_string())? })
    }

    /// What the chain says of the agent of an account.
    pub async fn registration(&self, account: &str) -> Result<XprRegistration, String> {
        let news = chain::ask(&self.chain, account, TokioHost.now()).await.map_err(|fault| match fault {
            ChainFault::Absent | ChainFault::NoPermission => format!("agent '{account}' is not registered"),
            ChainFault::Unavailable(why) => format!("the chain cannot be asked: {why}"),
        })?;
        Ok(XprRegistration {
            owner: news.agent.owner.clone(),
            registered_at: news.registered_at(),
            trust_score: news.trust_score(),
            kyc_level: news.kyc_level(),
        })
    }
}
