//! Subtasks: tasks that an agent opens with another agent.
//!
//! Every agent that we can reach is hosted by this engine, also proxies of remote ones. So delegating means opening a
//! task of another hosted agent in our own log, as a child of the current task. The child belongs to the same caller.
//! Its parent, the root of the tree and the path of agents are written with the step that opens it and never change.
//! The parent names the child by a key: after a crash, the turn asks again with the same key and finds the same child.
//!
//! | Module | What it decides |
//! |---|---|
//! | `lineage` | which tasks and agents precede a task, here and on other servers |
//! | `outbound_ids` | the ids under which other servers know our work |
//! | `child` | following a child, and answering its questions |
//! | `budget` | the runaway guard: limits of a task tree |
//! | `delegated_scope` | the scope of a child: what was granted, and what its agent can do |
//! | `child_cancellation` | canceling the children of a task that was canceled, failed or was rejected |

mod budget;
mod child;
mod child_cancellation;
mod delegated_scope;
mod lineage;
mod outbound_ids;

pub use child::Child;
pub use lineage::{LINEAGE, Lineage};
pub use outbound_ids::OutboundIdGuard;

pub(crate) use budget::ExceededLimit;
pub(crate) use outbound_ids::OutboundIds;

use crate::agent::Context;
use crate::engine::{Core, Engine, HostedAgent};
use sabir_proto::{AgentName, Fault, Message, MessageId, Object, Part, Role, SendConfiguration, SendMessage};
use sabir_store::{ChildOf, Scope};
use std::sync::Arc;

/// The longest key of a child, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// The agents of this server. The engine asks each time, since agents are added and removed.
pub trait AgentDirectory: Send + Sync + 'static {
    /// Finds an agent by name.
    fn find(&self, name: &AgentName) -> Option<Arc<HostedAgent>>;

    /// The capabilities that an agent may pass on to others; `None` for no limit.
    fn delegation_scope(&self, _agent: &AgentName) -> Option<Vec<String>> {
        None
    }

    /// The part of the granted capabilities that applies to an agent, with a skill if one is named: never more than
    /// `granted`. A fault where that is nothing, or not that skill; then the work is not delegated. A directory that
    /// knows no capabilities returns `granted`.
    fn narrow_scope(&self, _to: &AgentName, granted: Vec<String>, _skill: Option<&str>) -> Result<Vec<String>, Fault> {
        Ok(granted)
    }
}

impl<F: Fn(&AgentName) -> Option<Arc<HostedAgent>> + Send + Sync + 'static> AgentDirectory for F {
    fn find(&self, name: &AgentName) -> Option<Arc<HostedAgent>> {
        self(name)
    }
}

impl Engine {
    /// Gives the engine its directory of agents. Only the first call counts: what changes is behind the trait.
    pub fn set_directory(&self, residents: Arc<dyn AgentDirectory>) {
        // Every call passes the same directory.
        drop(self.core.directory.set(residents));
    }
}

impl Core {
    pub(crate) fn find_agent(&self, name: &AgentName) -> Option<Arc<HostedAgent>> {
        self.directory.get()?.find(name)
    }

    fn find_agent_or_fault(&self, name: &AgentName) -> Result<Arc<HostedAgent>, Fault> {
        self.find_agent(name).ok_or_else(|| Fault::UnsupportedOperation(format!("there is no agent {name} here")))
    }
}

impl Context {
    /// The lineage of this task: its root, its parent, and the agents on the way.
    pub fn lineage(&self) -> &Lineage {
        &self.turn.lineage
    }

    /// The agent whose turn this is.
    pub fn agent(&self) -> &AgentName {
        &self.turn.scope.agent
    }

    /// Opens a task of another agent as a child of this one, or finds it again.
    ///
    /// `key` is the child's name within this task: two calls with one key are one call, in this turn, in a later one
    /// and after a crash. The message and the metadata count only the first time. The child belongs to the same caller,
    /// and its tools may do no more than those of this turn. When this task is canceled or fails, so are its children.
    ///
    /// Where this agent or the task has a scope, the child's scope is at most that, and at most what its agent can do;
    /// a [`Fault::Handoff`] where that is nothing. A [`Fault::UnsupportedOperation`] names the limit where the [runaway
    /// guard](crate::Limits::hops_max) refuses.
    pub async fn delegate(
        &self,
        to: &AgentName,
        key: &str,
        message: Vec<Part>,
        metadata: Option<Object>,
    ) -> Result<Child, Fault> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let problem = format!("the key of a child has 1 to {KEY_BYTES_MAX} bytes, not {}", key.len());
            return Err(Fault::UnsupportedOperation(problem));
        }
        let core = &self.turn.core;
        if self.turn.started_before_open {
            // The child must not be in the log before its parent is.
            self.commit().await.map_err(|ended| Fault::UnsupportedOperation(ended.to_string()))?;
        }
        if let Some(child) = self.find_child(to, key).await? {
            return Ok(child);
        }
        let resident = core.find_agent_or_fault(to)?;
        let mut said = Message::text(Engine { core: core.clone() }.new_message_id(), Role::User, "");
        (said.parts, said.metadata) = (message, metadata);
        self.restrict_scope(to, &mut said)?;
        let kin = self.turn.lineage.child(self, to, key)?;
        core.check_budget(&self.turn.lineage, self.agent(), to).await?;
        self.reports.set_delegated();
        let engine = Engine { core: core.clone() };
        let scope = self.scope_for_agent(to);
        let birth = Box::new(ChildOf { parent_link: kin, subtasks_max: core.limits.calls_per_root_max });
        match engine.open_child(&resident, scope.clone(), send_request(said), birth).await {
            Ok(id) => {
                core.metrics.delegations.inc();
                Ok(Child::new(engine, id, scope, self.turn.clone(), key.into()))
            }
            // Two calls raced with one key; the first one has opened the child.
            Err(fault) => self.find_child(to, key).await?.ok_or(fault),
        }
    }

    /// Finds the child of this key, if this task has one.
    pub async fn find_child(&self, of: &AgentName, key: &str) -> Result<Option<Child>, Fault> {
        let core = &self.turn.core;
        let fault = |e| core.store_fault("looking for a child", &e);
        let Some(id) = core.log.child(self.turn.task, key).await.map_err(fault)? else { return Ok(None) };
        let Some(scope) = core.log.owner(id).await.map_err(fault)? else { return Ok(None) };
        if scope.agent != *of {
            let problem = format!("this task has asked {} under the key {key:?}, not {of}", scope.agent);
            return Err(Fault::UnsupportedOperation(problem));
        }
        let engine = Engine { core: core.clone() };
        Ok(Some(Child::new(engine, id, scope, self.turn.clone(), key.into())))
    }

    /// Reports what this turn has spent, in millionths of the unit that the operator counts in. The amount is added to
    /// the account of the root, which survives a crash. Over the limit this fails, though the amount is counted; the
    /// agent should stop then.
    pub async fn spend(&self, micros: u64) -> Result<(), Fault> {
        let core = &self.turn.core;
        if self.turn.started_before_open {
            // The amount is stored beside the task, which must exist first.
            self.commit().await.map_err(|ended| Fault::UnsupportedOperation(ended.to_string()))?;
        }
        core.spend(self.turn.task, self.turn.lineage.root(), micros).await
    }

    fn scope_for_agent(&self, agent: &AgentName) -> Arc<Scope> {
        let Scope { tenant, caller, .. } = &**self.turn.scope();
        Arc::new(Scope { tenant: tenant.clone(), caller: caller.clone(), agent: agent.clone() })
    }
}

pub(crate) fn send_request(message: Message) -> Box<SendMessage> {
    Box::new(SendMessage {
        tenant: sabir_proto::Tenant::none(),
        message,
        configuration: SendConfiguration::default(),
        metadata: None,
        alias: None,
        // Also of an agent that would reply directly: the parent follows a task.
        wants_task: true,
    })
}

fn message_id(text: &str) -> Option<MessageId> {
    MessageId::parse(text).ok()
}
