//! Fills the members of a card that the configuration leaves open with what a chain says about the agent.
//!
//! The server asks the chain in the background: a reader gets the last answer, or the configured card if there is none
//! yet. Only the first reader waits, for a second at most. An answer is refreshed when it is a minute old. If the chain
//! does not answer, the card stays as it is.

use super::CardContent;
use super::build::agent_url;
use crate::card::PublicAddress;
use crate::config::Config;
use crate::config::agent::AgentConfig;
use crate::tokio_host::ServerTasks;
use sabir_engine::BoxFuture;
use sabir_guard::authn::chain::{ChainClient, ChainFault};
use sabir_guard::authn::trust_score::{AgentRegistration, ScoreKind, TrustRecord};
use sabir_guard::fetch::Fetch;
use sabir_proto::Timestamp;
use sabir_proto::card::Skill;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use url::Url;

/// How long an answer is used before the chain is asked again; the network's own server caches cards for the same time.
const FRESH: Duration = Duration::from_secs(60);
/// How old a row may be before the chain is asked again. Below [`FRESH`], or every second refresh would have no effect.
const ROW_FRESH: Duration = Duration::from_secs(30);
/// How long the first reader of a card waits for the chain.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(1);
/// How many capabilities become skills, and how long the name of each may be.
const SKILLS_MAX: usize = 100;
const SKILL_CHARS_MAX: usize = 128;

/// An answer of the chain: the registration, and the standing of the agent where it is known.
#[derive(Debug, Clone)]
pub(crate) struct ChainRecord {
    pub(crate) agent: AgentRegistration,
    pub(crate) standing: Option<TrustRecord>,
}

impl ChainRecord {
    /// Its score, if the chain has one.
    pub(crate) fn trust_score(&self) -> Option<i64> {
        self.standing.as_ref().map(|standing| standing.score.total())
    }

    /// The KYC level of its owner, if the chain has one.
    pub(crate) fn kyc_level(&self) -> Option<u8> {
        self.standing.as_ref().and_then(|standing| u8::try_from(standing.score.kyc.div_euclid(10)).ok())
    }

    /// When it was registered, in seconds since 1970.
    pub(crate) fn registered_at(&self) -> u64 {
        u64::try_from(self.agent.registered_at).unwrap_or(0)
    }
}

/// Asks a chain about an agent.
pub(crate) async fn fetch_record<F: Fetch>(
    chain: &ChainClient<F>,
    account: &str,
    now: Timestamp,
) -> Result<ChainRecord, ChainFault> {
    let agent = chain.agent(account, now).await?;
    let standing = chain.trust_record(account, ScoreKind::Full, now).await.ok();
    Ok(ChainRecord { agent, standing })
}

type FetchRecord = dyn Fn(Timestamp) -> BoxFuture<'static, Result<ChainRecord, ChainFault>> + Send + Sync;

/// The registration of one agent on a chain, and the state of its refreshes.
pub(crate) struct Registration {
    fetch: Arc<FetchRecord>,
    /// The configured card, and which of its members are open.
    open_members: OpenMembers,
    refresh_state: Mutex<RefreshState>,
    refreshed: Notify,
    tasks: ServerTasks,
}

#[derive(Debug, Default)]
struct RefreshState {
    /// When the last refresh began.
    begun: Option<Timestamp>,
    /// Whether any refresh has ended.
    ended: bool,
}

/// The configuration that decides which members are open.
#[derive(Debug, Clone)]
struct OpenMembers {
    config: AgentConfig,
    /// The default URL of the agent, if no public URL is configured.
    replaceable: Option<String>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("rounds", &self.refresh_state).finish_non_exhaustive()
    }
}

impl Registration {
    /// The registration of an agent with an account, if a node of the chain is configured.
    pub(crate) fn open<F: Fetch + Clone + 'static>(
        config: &Config,
        entry: &AgentConfig,
        address: &PublicAddress,
        fetch: &F,
        tasks: &ServerTasks,
    ) -> Result<Option<Self>, String> {
        let auth = entry.auth.as_ref().unwrap_or(&config.auth);
        let node = auth.xpr.as_ref().map(|xpr| xpr.rpc_url.clone());
        let (Some(xpr), Some(node)) = (&entry.xpr, node) else { return Ok(None) };
        let wrong = |e: url::ParseError| format!("auth.xpr.rpc_url: {e}");
        let node = Url::parse(&node).map_err(wrong)?;
        let chain = ChainClient::new(&node, fetch.clone()).map_err(wrong)?.fresh_for(ROW_FRESH);
        // An address from the chain is not signed with our key, so it is used only without signing keys.
        let unsigned = config.server.signing.keys.is_empty();
        let replaceable = (config.server.public_url.is_none() && unsigned).then(|| agent_url(entry, address));
        let open_members = OpenMembers { config: entry.clone(), replaceable };
        Ok(Some(Self::new(Arc::new(chain), xpr.account.clone(), open_members, tasks.clone())))
    }

    fn new<F: Fetch + 'static>(
        chain: Arc<ChainClient<F>>,
        account: String,
        open_members: OpenMembers,
        tasks: ServerTasks,
    ) -> Self {
        let ask = move |now: Timestamp| -> BoxFuture<'static, Result<ChainRecord, ChainFault>> {
            let (chain, account) = (chain.clone(), account.clone());
            Box::pin(async move { fetch_record(&chain, &account, now).await })
        };
        Self { fetch: Arc::new(ask), open_members, refresh_state: Mutex::default(), refreshed: Notify::new(), tasks }
    }

    /// Refreshes an old answer: `show` gets what the chain says, `None` if it does not know the agent. Waits only until
    /// the first answer.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        now: Timestamp,
        show: impl FnOnce(Option<ChainRecord>) + Send + 'static,
    ) {
        // Before the check, so that a notification in between is not missed.
        let heard = self.refreshed.notified();
        let first = {
            let mut rounds = self.refresh_state();
            if rounds.is_due(now) {
                rounds.begun = Some(now);
                let this = self.clone();
                self.tasks.spawn_work(async move { this.fetch_once(now, show).await });
            }
            !rounds.ended
        };
        if first {
            // A reader whose wait times out gets the configured card.
            _ = tokio::time::timeout(FIRST_WAIT_MAX, heard).await;
        }
    }

    async fn fetch_once(&self, now: Timestamp, show: impl FnOnce(Option<ChainRecord>)) {
        match (self.fetch)(now).await {
            Ok(news) => show(Some(news)),
            Err(ChainFault::Absent | ChainFault::NoPermission) => show(None),
            Err(ChainFault::Unavailable(why)) => {
                tracing::warn!(%why, "the chain cannot be asked about an agent; its card stays as it is");
            }
        }
        self.refresh_state().ended = true;
        self.refreshed.notify_waiters();
    }

    fn refresh_state(&self) -> MutexGuard<'_, RefreshState> {
        self.refresh_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A card with the chain's values in the members that the configuration leaves open.
    pub(super) fn apply(&self, face: &CardContent, news: Option<&ChainRecord>) -> CardContent {
        let mut face = face.clone();
        if let Some(news) = news {
            self.open_members.fill(&mut face, news);
        }
        face
    }
}

impl RefreshState {
    fn is_due(&self, now: Timestamp) -> bool {
        let age = |begun: Timestamp| now.millis().saturating_sub(begun.millis());
        self.begun.is_none_or(|begun| u128::try_from(age(begun)).is_ok_and(|age| age >= FRESH.as_millis()))
    }
}

impl OpenMembers {
    fn fill(&self, face: &mut CardContent, news: &ChainRecord) {
        let (card, agent) = (&self.config.card, &news.agent);
        if card.name.is_none() && !agent.name.is_empty() {
            face.public.name.clone_from(&agent.name);
        }
        if card.description.is_none() && !agent.description.is_empty() {
            face.public.description.clone_from(&agent.description);
        }
        let skills = skills(&agent.capabilities);
        if card.skills.is_empty() && !skills.is_empty() {
            face.public.skills.clone_from(&skills);
            face.skills = skills;
        }
        if let (Some(xpr), Some(shown)) = (&self.config.xpr, &mut face.xpr) {
            if xpr.protocol.is_none() && !agent.protocol.is_empty() {
                shown.protocol.clone_from(&agent.protocol);
            }
            if xpr.owner.is_none() {
                shown.owner.clone_from(&agent.owner);
            }
            if xpr.registered_at.is_none() {
                shown.registered_at = news.registered_at();
            }
            if xpr.trust_score.is_none() {
                shown.trust_score = news.trust_score();
            }
            if xpr.kyc_level.is_none() {
                shown.kyc_level = news.kyc_level();
            }
        }
        if let (Some(old), Some(new)) = (&self.replaceable, endpoint(&agent.endpoint)) {
            face.replaced_url = Some((old.trim_end_matches('/').to_owned(), new));
        }
    }
}

/// The URL of the agent according to the chain.
fn endpoint(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    (matches!(url.scheme(), "https" | "http") && url.has_host()).then(|| text.trim_end_matches('/').to_owned())
}

/// A skill for each capability, in the form of the network's own server.
fn skills(capabilities: &[String]) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    for capability in capabilities.iter().take(SKILLS_MAX) {
        let fits = !capability.is_empty() && capability.chars().count() <= SKILL_CHARS_MAX;
        if fits && !skills.iter().any(|known| known.id == *capability) {
            skills.push(Skill {
                id: capability.clone(),
                name: capability.clone(),
                description: format!("{capability} capability"),
                tags: vec![capability.clone()],
                examples: Vec::new(),
                input_modes: Vec::new(),
                output_modes: Vec::new(),
                security_requirements: Vec::new(),
            });
        }
    }
    skills
}

#[cfg(test)]
mod tests;
