//! Remote agents, from configuration.

mod credentials;
mod remote_directory;

pub(crate) use remote_directory::RemoteDirectory;

use crate::config::agent::{AgentConfig, Kind};
use crate::config::push::EgressConfig;
use crate::config::upstream::read_replicas;
use crate::tokio_host::TokioHost;
use sabir_engine::Host as _;
use sabir_gateway::{
    CardPolicy, Egress, FollowPolicy, Hub, RemoteAgent, Upstream, UserTokens, VendorProfile, WaitLimits,
};
use sabir_guard::authenticator::SecretResolver;
use sabir_proto::AgentName;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Makes the remote agent that a configuration describes; `None` for an agent of another kind.
pub(crate) fn make_remote(
    config: &AgentConfig,
    secrets: &dyn SecretResolver,
    egress: &EgressConfig,
    cancel_grace: Duration,
    hub: &Arc<Hub>,
    (card_policy, on_behalf): (Arc<dyn CardPolicy>, Option<UserTokens>),
    (ours, circle): (Arc<[String]>, RemoteDirectory),
) -> Result<Option<Arc<RemoteAgent>>, String> {
    if config.kind != Kind::A2a {
        return Ok(None);
    }
    let places = read_replicas(config.url.as_ref(), &config.replicas)?;
    let onward = FollowPolicy { egress: egress.policy(), own_addresses: ours, remote_agents: Some(Arc::new(circle)) };
    let egress = places.iter().fold(egress.policy(), |policy, place| allow_configured(policy, &place.url));
    let profile =
        config.profile.as_deref().map(VendorProfile::by_name).transpose().map_err(|e| format!("profile: {e}"))?;
    let shown = credentials::resolve(config, secrets, &egress)?;
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
        card_policy: Some(card_policy),
        user_tokens: on_behalf,
        breaker_rules: config.breaker.rules()?,
        cancel_grace,
        follow_policy: onward,
    };
    let remote = RemoteAgent::new(upstream, hub).map(Arc::new).map_err(|e| format!("url: {e}"))?;
    if config.health_seconds > 0 {
        let every = Duration::from_secs(config.health_seconds);
        TokioHost.spawn(Box::pin(check_health(Arc::downgrade(&remote), every)));
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
