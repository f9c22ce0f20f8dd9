//! Remote agents, from configuration.

mod credentials;

use crate::config::agent::{AgentConfig, Kind};
use crate::config::push::EgressConfig;
use crate::config::upstream::read_replicas;
use crate::directory::AgentDirectory;
use crate::tokio_host::ServerTasks;
use sabir_gateway::{
    CardPolicy, Egress, FollowPolicy, Hub, RemoteAgent, Upstream, UserTokens, VendorProfile, WaitLimits,
};
use sabir_guard::authenticator::SecretResolver;
use sabir_proto::AgentName;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What a remote agent is made from besides its section.
pub(crate) struct RemoteAgentParts<'a> {
    pub(crate) secrets: &'a dyn SecretResolver,
    /// Which addresses agents may call.
    pub(crate) egress: &'a EgressConfig,
    /// How long an upstream gets to end a canceled task.
    pub(crate) cancel_grace: Duration,
    /// The connections that all remote agents share.
    pub(crate) hub: &'a Arc<Hub>,
    pub(crate) card_policy: Arc<dyn CardPolicy>,
    /// How an app of a workspace is called on behalf of the caller.
    pub(crate) user_tokens: Option<UserTokens>,
    /// The addresses of this server, as `host:port`.
    pub(crate) own_addresses: Arc<[String]>,
    /// The other agents of this server, to which a task may be followed.
    pub(crate) directory: Weak<AgentDirectory>,
    /// Runs the health checks.
    pub(crate) tasks: &'a ServerTasks,
}

/// Makes the remote agent that a configuration describes; `None` for an agent of another kind.
pub(crate) fn make_remote(
    config: &AgentConfig,
    parts: RemoteAgentParts<'_>,
) -> Result<Option<Arc<RemoteAgent>>, String> {
    if config.kind != Kind::A2a {
        return Ok(None);
    }
    let places = read_replicas(config.url.as_ref(), &config.replicas)?;
    let follow_policy = FollowPolicy {
        egress: parts.egress.policy(),
        own_addresses: parts.own_addresses,
        remote_agents: Some(parts.directory),
    };
    let egress = places.iter().fold(parts.egress.policy(), |policy, place| allow_configured(policy, &place.url));
    let profile =
        config.profile.as_deref().map(VendorProfile::by_name).transpose().map_err(|e| format!("profile: {e}"))?;
    let shown = credentials::resolve(config, parts.secrets, &egress)?;
    let fallback = config.fallback.as_deref().map(AgentName::parse).transpose();
    let fallback = fallback.map_err(|e| format!("fallback: the name {e}"))?;
    if fallback.as_ref().is_some_and(|name| name.as_str() == config.name) {
        return Err("fallback: another agent than this one".into());
    }
    let waits = config.continuation;
    if waits.attempts == 0 || waits.poll_ms == 0 {
        return Err("continuation: attempts and poll_ms are at least 1".into());
    }
    let patience = WaitLimits {
        attempts_max: waits.attempts,
        silence_max: (waits.minutes > 0).then(|| Duration::from_secs(waits.minutes.saturating_mul(60))),
        pause_min: Duration::from_millis(waits.poll_ms),
        connect_time_max: (waits.connect_give_up_seconds > 0)
            .then(|| Duration::from_secs(waits.connect_give_up_seconds)),
    };
    let upstream = Upstream {
        name: config.name.clone(),
        replicas: places,
        fallback,
        calls_max: (config.bulkhead > 0).then_some(config.bulkhead),
        profile,
        credentials: shown.credentials,
        origins: shown.origins,
        tls: shown.tls,
        egress,
        wait_limits: patience,
        idempotent: config.idempotent,
        card_policy: Some(parts.card_policy),
        user_tokens: parts.user_tokens,
        breaker_rules: config.breaker.rules()?,
        cancel_grace: parts.cancel_grace,
        follow_policy,
    };
    let remote = RemoteAgent::new(upstream, parts.hub).map(Arc::new).map_err(|e| format!("url: {e}"))?;
    if config.health_seconds > 0 {
        let every = Duration::from_secs(config.health_seconds);
        parts.tasks.spawn_loop(check_health(Arc::downgrade(&remote), every));
    }
    Ok(Some(remote))
}

/// Checks the health of an agent at intervals, for as long as it is served.
async fn check_health(remote: Weak<RemoteAgent>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(remote) = remote.upgrade() else { return };
        remote.check().await;
    }
}

/// Allows the address in a configured URL, whatever it is. Host names and the addresses in cards stay under the policy,
/// because the operator did not write those addresses.
pub(crate) fn allow_configured(policy: Egress, url: &str) -> Egress {
    match url::Url::parse(url).ok().as_ref().and_then(url::Url::host) {
        Some(url::Host::Ipv4(address)) => policy.and_network(IpAddr::from(address).into()),
        Some(url::Host::Ipv6(address)) => policy.and_network(IpAddr::from(address).into()),
        Some(url::Host::Domain("localhost")) => policy.and_loopback(),
        Some(url::Host::Domain(_)) | None => policy,
    }
}
