//! What XPR Network stores about an agent, for commands that show it: its owner, its registration and its trust score.
//!
//! It uses the same rows and the same calculation as the cards and the authentication of a server.

use crate::card::chain;
use crate::tokio_host::TokioHost;
use sabir_engine::Host as _;
use sabir_gateway::{DocumentFetcher, Egress, FETCH_TIME_MAX, Tls};
use sabir_guard::authn::chain::{ChainClient, ChainFault};
use url::Url;

/// The agents of a chain, read through one of its nodes.
pub struct XprRegistry {
    chain: ChainClient<DocumentFetcher>,
}

/// The registration of one agent on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XprRegistration {
    /// The account of the owner, if one is named.
    pub owner: Option<String>,
    /// When it was registered, in seconds since 1970; 0 if unknown.
    pub registered_at: u64,
    /// Its score, 0 to 100; absent if the chain has none.
    pub trust_score: Option<i64>,
    /// The KYC level of its owner, 0 to 3; absent if the chain has none.
    pub kyc_level: Option<u8>,
}

impl std::fmt::Debug for XprRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("XprRegistry")
    }
}

impl XprRegistry {
    /// Opens a node of the chain. Its address is not restricted, because the operator configured it.
    pub fn new(node: &Url, tls: &Tls) -> Result<Self, String> {
        let outbound =
            DocumentFetcher::with_timeout(Egress::anywhere(), tls, FETCH_TIME_MAX).map_err(|e| e.to_string())?;
        Ok(Self { chain: ChainClient::new(node, outbound).map_err(|e| e.to_string())? })
    }

    /// Reads the registration of an account.
    pub async fn registration(&self, account: &str) -> Result<XprRegistration, String> {
        let news = chain::fetch_record(&self.chain, account, TokioHost.now()).await.map_err(|fault| match fault {
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
