//! Tasks that agents open with other agents.
//!
//! Every agent we can reach is a resident of this engine, also those elsewhere: so delegating is opening a task of another
//! resident in our own log, as a child of the task at hand. The child belongs to the same caller. Its parent, the root of
//! the family and the agents on the way are written with the step that opens it and never change, and the parent knows it
//! by a key: a turn that a crash interrupted asks under the same key and finds the same child.
//!
//! | Room | What is decided there |
//! |---|---|
//! | `lineage` | what came before a task, here and on other servers |
//! | `abroad` | the names that our work goes by elsewhere |
//! | `child` | following a child, and answering it |
//! | `budget` | when a family has had enough: the runaway guard |
//! | `grant` | what a child may be used for: what was granted, and what its agent can do |
//! | `calling_off` | what happens to children whose parent has ended without them |

mod abroad;
mod budget;
mod calling_off;
mod child;
mod grant;
mod lineage;

pub use abroad::KnownAs;
pub use child::Child;
pub use lineage::{LINEAGE, Lineage};

pub(crate) use abroad::Abroad;
pub(crate) use budget::Excess;

use crate::agent::Context;
use crate::engine::{Core, Engine, Resident};
use sabir_proto::{AgentName, Fault, Message, MessageId, Object, Part, Role, SendConfiguration, SendMessage};
use sabir_store::{Birth, Scope};
use std::sync::Arc;

/// Bytes of a child's key.
const KEY_BYTES_MAX: usize = 256;

/// Who lives here. Asked each time, since agents come and go.
pub trait Residents: Send + Sync + 'static {
    /// The agent of this name.
    fn find(&self, name: &AgentName) -> Option<Arc<Resident>>;

    /// What an agent may pass on to others, by the names of capabilities, where that is limited.
    fn scope_of(&self, _agent: &AgentName) -> Option<Vec<String>> {
        None
    }

    /// What an agent may do with work for which this was granted, with a skill if one is named: no more than was granted.
    /// Where that is nothing, or not that skill, the work does not go there. Whoever knows no capabilities passes on what
    /// came.
    fn narrow(&self, _to: &AgentName, granted: Vec<String>, _skill: Option<&str>) -> Result<Vec<String>, Fault> {
        Ok(granted)
    }
}

impl<F: Fn(&AgentName) -> Option<Arc<Resident>> + Send + Sync + 'static> Residents for F {
    fn find(&self, name: &AgentName) -> Option<Arc<Resident>> {
        self(name)
    }
}

impl Engine {
    /// Tells the engine who else lives here. Only the first telling counts: what may change is behind the trait.
    pub fn know(&self, residents: Arc<dyn Residents>) {
        // Whoever tells it twice tells it the same.
        drop(self.core.residents.set(residents));
    }
}

impl Core {
    pub(crate) fn resident(&self, name: &AgentName) -> Option<Arc<Resident>> {
        self.residents.get()?.find(name)
    }

    fn resident_or_fault(&self, name: &AgentName) -> Result<Arc<Resident>, Fault> {
        self.resident(name).ok_or_else(|| Fault::UnsupportedOperation(format!("there is no agent {name} here")))
    }
}

impl Context {
    /// What came before this task: its root, its parent, and the agents on the way.
    pub fn lineage(&self) -> &Lineage {
        &self.turn.lineage
    }

    /// The agent this turn is of.
    pub fn agent(&self) -> &AgentName {
        &self.turn.scope.agent
    }

    /// Opens a task of another agent as a child of this one, or finds it again.
    ///
    /// `key` is the child's name within this task: asking twice under one key is asking once, in this turn, in the next
    /// one and after a crash. The message and the metadata count only the first time. The child is the same caller's and
    /// its tools may do no more than those of this turn. When this task is canceled or fails, so are its children.
    ///
    /// Where this agent has a scope, or the task came with one, the child has no more than that, and no more than its agent
    /// can do: refused with [`Fault::Handoff`] where that is nothing. Refused with [`Fault::UnsupportedOperation`], saying which
    /// limit it was, when the [runaway guard](crate::Limits::hops_max) has seen enough.
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
        if self.turn.early {
            // The child must not be in the log before its parent is.
            self.commit().await.map_err(|ended| Fault::UnsupportedOperation(ended.to_string()))?;
        }
        if let Some(child) = self.find_child(to, key).await? {
            return Ok(child);
        }
        let resident = core.resident_or_fault(to)?;
        let mut said = Message::text(Engine { core: core.clone() }.mint(), Role::User, "");
        (said.parts, said.metadata) = (message, metadata);
        self.narrow(to, &mut said)?;
        let kin = self.turn.lineage.child(self, to, key)?;
        core.within_budget(&self.turn.lineage, self.agent(), to).await?;
        self.outlet.set_delegated();
        let engine = Engine { core: core.clone() };
        let scope = self.scope_at(to);
        let birth = Box::new(Birth { kin, family_max: core.limits.calls_per_root_max });
        match engine.bear(&resident, scope.clone(), request(said), birth).await {
            Ok(id) => {
                core.metrics.delegations.inc();
                Ok(Child::new(engine, id, scope, self.turn.clone(), key.into()))
            }
            // Two asked at once under one key; the first has it.
            Err(fault) => self.find_child(to, key).await?.ok_or(fault),
        }
    }

    /// The child of this key, if this task has one.
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

    /// Reports what this turn has spent, in millionths of whatever is counted in. It is added to the account of the root,
    /// which survives a crash, and refused once that is overdrawn: what was spent is counted all
    /// the same, and the agent should stop.
    pub async fn spend(&self, micros: u64) -> Result<(), Fault> {
        let core = &self.turn.core;
        if self.turn.early {
            // What is spent is written beside the task, which has to be there.
            self.commit().await.map_err(|ended| Fault::UnsupportedOperation(ended.to_string()))?;
        }
        core.spend(self.turn.task, self.turn.lineage.root(), micros).await
    }

    fn scope_at(&self, agent: &AgentName) -> Arc<Scope> {
        let Scope { tenant, caller, .. } = &**self.turn.scope();
        Arc::new(Scope { tenant: tenant.clone(), caller: caller.clone(), agent: agent.clone() })
    }
}

pub(crate) fn request(message: Message) -> Box<SendMessage> {
    Box::new(SendMessage {
        tenant: sabir_proto::Tenant::none(),
        message,
        configuration: SendConfiguration::default(),
        metadata: None,
        alias: None,
        // Also of an agent that would only say something: it is the task that is followed.
        wants_task: true,
    })
}

fn message_id(text: &str) -> Option<MessageId> {
    MessageId::parse(text).ok()
}
