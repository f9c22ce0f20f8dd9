//! Agents that may hand tasks over, from configuration, and what their cards say about it.

mod targets;

use crate::config::Config;
use crate::config::agent::AgentConfig;
use crate::directory::AgentDirectory;
use crate::engine_access::EngineAccess;
use crate::metrics::Metrics;
use crate::tokio_host::TokioHost;
use sabir_engine::{AnyAgent, Host as _};
use sabir_gateway::handoff::{HandoffAgent, HandoffAttempt, HandoffAudit, HandoffPolicy, HandoffTarget};
use sabir_guard::Guard;
use sabir_guard::policy::lattice::{Capabilities, expand};
use sabir_proto::card::Extension;
use sabir_proto::{AgentCard, AgentName, HANDOFF, HANDOFF_LITERAL, Object};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use targets::NamedTarget;

/// Adds the handoff extensions of an agent to its card.
pub(crate) fn advertise_handoffs(entry: &AgentConfig, card: &mut AgentCard) {
    let Some(handoff) = &entry.handoff else { return };
    let params = json!({
        "maxDepth": handoff.depth_max,
        "acceptsTransfers": handoff.accept,
        "initiatesTransfers": !handoff.targets.is_empty(),
    });
    let params = params.as_object().and_then(|params| Object::from_map(params).ok());
    let known = |uri: &str, card: &AgentCard| card.capabilities.extensions.iter().any(|known| known.uri == uri);
    for (uri, words, params) in [
        (HANDOFF, "Tasks may be handed over between agents", params),
        (HANDOFF_LITERAL, "The same, with the state TRANSFERRED and status.transfer", None),
    ] {
        if !known(uri, card) {
            let extension = Extension { uri: uri.into(), description: Some(words.into()), required: false, params };
            card.capabilities.extensions.push(extension);
        }
    }
}

/// The capabilities that an agent may pass on by handoff and delegation, where its configuration limits them: the
/// granted part of its own capabilities.
pub(crate) fn handoff_scope(entry: &AgentConfig, card: &AgentCard) -> Result<Option<Capabilities>, String> {
    let Some(grants) = entry.handoff.as_ref().and_then(|handoff| handoff.scope.as_ref()) else { return Ok(None) };
    let own = Capabilities::of_card(card);
    let known = own.names().map(str::to_owned).collect();
    let granted = expand(grants.iter().map(String::as_str), &known);
    let granted = granted.map_err(|fault| format!("handoff.scope: {fault}"))?;
    Ok(Some(own.meet(&Capabilities::named(granted))))
}

/// What the server needs to make agents that may hand tasks over.
pub(crate) struct HandoffSetup<'a> {
    pub(crate) config: &'a Config,
    /// Where the targets are looked up when a task is handed over.
    pub(crate) directory: &'a Weak<AgentDirectory>,
    /// How tasks reach the agents of this server.
    pub(crate) engine: &'a Weak<EngineAccess>,
    pub(crate) audit: &'a Arc<dyn HandoffAudit>,
}

impl HandoffSetup<'_> {
    /// The agent with its handoff policy; the agent itself if it hands nothing over.
    pub(crate) fn wrap(
        &self,
        entry: &AgentConfig,
        card: &AgentCard,
        agent: Arc<dyn AnyAgent>,
    ) -> Result<Arc<dyn AnyAgent>, String> {
        let Some(handoff) = entry.handoff.as_ref().filter(|handoff| !handoff.targets.is_empty()) else {
            return Ok(agent);
        };
        handoff.check()?;
        let scope = handoff_scope(entry, card)?.unwrap_or_else(|| Capabilities::of_card(card));
        let mut targets: BTreeMap<String, Arc<dyn HandoffTarget>> = BTreeMap::new();
        for name in &handoff.targets {
            let wrong = |what: String| format!("handoff.targets: {name:?}: {what}");
            targets.insert(name.clone(), Arc::new(self.target(entry, name).map_err(wrong)?));
        }
        let policy = HandoffPolicy {
            agent: AgentName::parse(&entry.name).map_err(|e| e.to_string())?,
            endpoint: card.supported_interfaces.first().map(|i| i.url.clone()).unwrap_or_default(),
            scope,
            targets,
            depth_max: handoff.depth_max,
            unaware_callers: handoff.unaware.into(),
            create_time_max: handoff.patience(),
            audit: self.audit.clone(),
        };
        Ok(Arc::new(HandoffAgent::new(agent, policy)))
    }

    /// A target of handoffs. An error if no other agent has this name.
    fn target(&self, from: &AgentConfig, name: &str) -> Result<NamedTarget, String> {
        let known = self.config.agent.iter().any(|agent| agent.name == name && agent.name != from.name);
        let (directory, engine) = (self.directory.clone(), self.engine.clone());
        let one = || NamedTarget { name: name.to_owned(), directory, engine };
        known.then(one).ok_or_else(|| "no other agent of the configuration has this name".into())
    }
}

/// Writes attempts to the audit, and to the log the details for which the audit has no room.
#[derive(Debug, Clone)]
pub(crate) struct GuardHandoffAudit {
    pub(crate) guard: Guard,
    pub(crate) metrics: Metrics,
}

/// For commands that only inspect agents: they hand nothing over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoHandoffAudit;

impl HandoffAudit for NoHandoffAudit {
    fn record(&self, _: &HandoffAttempt<'_>) {}
}

impl HandoffAudit for GuardHandoffAudit {
    fn record(&self, attempt: &HandoffAttempt<'_>) {
        let HandoffAttempt { transfer_id, caller, task, from, to, endpoint, their_task, hops, .. } = attempt;
        let (required, allowed) = (attempt.required.join(" "), attempt.allowed.join(" "));
        let (missing, outcome) = (attempt.missing.join(" "), attempt.outcome);
        let (digest, signed) = attempt.card.unwrap_or_default();
        tracing::info!(
            transfer_id, %task, %from, to, endpoint, ?their_task, hops, required, allowed, missing, digest, signed,
            outcome, "a handoff was attempted"
        );
        self.metrics.handoff(outcome);
        self.guard.record_handoff(TokioHost.now(), caller, from, *task, outcome);
    }
}
