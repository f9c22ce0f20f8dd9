//! The runaway guard: the limits of a task tree.
//!
//! Agents that call agents can call each other for ever, and each call looks reasonable. So one place counts for the
//! whole tree of a caller's task: how many agents a request has passed (`hops_max`), whether it returns to an agent
//! that waits for it, how many tasks were opened (`calls_per_root_max`), for how long (`tree_time_max`) and at what
//! cost (`spend_per_root_max`). A refusal names the limit and its setting; work that has begun goes on.

use super::lineage::Lineage;
use crate::engine::Core;
use sabir_proto::{AgentName, Fault, TaskId};
use sabir_store::{Effect, Step};
use std::time::Duration;

/// A limit that a call would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    /// Too many agents in a row.
    Hops {
        to: AgentName,
        hops: u32,
        max: u32,
    },
    /// The called agent waits for the answer to this call.
    Loop {
        to: AgentName,
    },
    Calls {
        max: u64,
    },
    Time {
        max: Duration,
    },
    Spend {
        spent: u64,
        max: u64,
    },
}

impl ExceededLimit {
    /// The name of the limit in metrics and configuration.
    pub(crate) const fn limit(&self) -> &'static str {
        match self {
            Self::Hops { .. } => "hops_max",
            Self::Loop { .. } => "loop",
            Self::Calls { .. } => "calls_per_root_max",
            Self::Time { .. } => "tree_seconds_max",
            Self::Spend { .. } => "spend_per_root_max",
        }
    }

    fn message(&self) -> String {
        let raise = format!("raise [limits] {} if this is wanted", self.limit());
        match self {
            Self::Hops { to, hops, max } => {
                format!("the call of agent {to} would be number {hops} in a row, and {max} are allowed; {raise}")
            }
            Self::Loop { to } => {
                format!("agent {to} is waiting for this very answer, so calling it again would go round in a circle")
            }
            Self::Calls { max } => {
                format!("{max} tasks were opened on behalf of one message, and no more are allowed; {raise}")
            }
            Self::Time { max } => {
                format!("the message that all this is for is older than {} s; {raise}", max.as_secs())
            }
            Self::Spend { spent, max } => {
                format!("{spent} millionths were spent on one message, and {max} are allowed; {raise}")
            }
        }
    }
}

impl Core {
    /// Counts and logs a refusal, and makes its fault.
    pub(crate) fn refuse(&self, excess: &ExceededLimit) -> Fault {
        self.metrics.count_refused_call(excess);
        tracing::warn!(limit = excess.limit(), "the runaway guard refused a call: {}", excess.message());
        // Not `Exhausted`, which clients may retry: this refusal stays.
        Fault::UnsupportedOperation(excess.message())
    }

    /// Checks whether an agent may call another. The log counts the tasks when one is opened, since many may be opened
    /// at once.
    pub(super) async fn check_budget(&self, lineage: &Lineage, from: &AgentName, to: &AgentName) -> Result<(), Fault> {
        let fault = |e| self.store_fault("counting what was spent", &e);
        if to == from || self.is_waiting_on_path(lineage.path(), to).await.map_err(fault)? {
            return Err(self.refuse(&ExceededLimit::Loop { to: to.clone() }));
        }
        let max = self.limits.tree_time_max;
        let age = self.host.now().millis().saturating_sub(lineage.root().stamp().time().millis());
        if u128::try_from(age).unwrap_or(0) > max.as_millis() {
            return Err(self.refuse(&ExceededLimit::Time { max }));
        }
        self.check_spend(lineage.root()).await
    }

    async fn check_spend(&self, root: TaskId) -> Result<(), Fault> {
        let max = self.limits.spend_per_root_max;
        if max == 0 {
            return Ok(());
        }
        let toll = self.log.subtask_spend(root).await.map_err(|e| self.store_fault("counting what was spent", &e))?;
        if toll.spent > max {
            return Err(self.refuse(&ExceededLimit::Spend { spent: toll.spent, max }));
        }
        Ok(())
    }

    /// Adds to what a task tree has spent, and fails if that is over the limit.
    pub(super) async fn spend(&self, task: TaskId, root: TaskId, micros: u64) -> Result<(), Fault> {
        let step = Step::effects_only(task, vec![Effect::Spend { root, micros }]);
        self.log.append(step).await.map_err(|e| self.append_fault("counting what was spent", &e))?;
        self.check_spend(root).await
    }
}
