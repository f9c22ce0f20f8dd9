//! Handoffs: our task leaves by prepare, create, commit, activate, and each half-way point has its repair.
//!
//! An agent ends its turn with [`Ending::Transfer`]; this module stands between the agent and the engine and carries
//! the handoff out. There is no transaction across servers, so there is a durable intent, a creation that may be
//! repeated, a local commit, and a repetition of what follows from it:
//!
//! ```text
//! A       T1: one step: the intent (PREPARING) is the turn's checkpoint; the task is working
//! A → B   create: messageId = transfer_id, returnImmediately, the context, hold
//! B       makes the task and holds it: submitted, nothing is done
//! A       T2: one step: the task is Transferred, and says where it went
//! A → B   activate, until B has heard it
//! ```
//!
//! | Half-way point | Repair |
//! |---|---|
//! | before T1 | nothing has happened; the turn is begun again, or failed as its agent wants it |
//! | after T1, before B has answered | the turn resumes with the intent and sends the same creation again |
//! | B has made the task, its answer was lost | the same; B knows the transfer and answers with the task it has |
//! | B has made the task, we crashed before T2 | the same, then T2 |
//! | after T2, before the activation | A activates again after a restart; our caller's first look at B activates too |
//! | we never come back | B's hold runs out and B cancels its task: no work is done without a caller |
//! | no caller would follow to B: another machine, no TLS | refused before T1; if that is so only now, aborted |
//! | B refuses, or does not answer for too long | aborted: the task fails and says why; never Transferred |
//! | B knows nothing of holds | created without a hold: B may begin before T2, and is not activated |
//! | the same, and it is not known whether B took it | aborted, unless B recognises repeats: nothing is begun twice |
//! | our caller cancels before T2 | the cancel wins: the task at B is canceled as well |
//! | our caller cancels after T2 | not cancelable here; it is B's task now |
//! | two handoffs of one task | a turn has one ending and a task one turn, so there are none |
//! | T2 meets another ending of the task | the first commit wins; the loser cancels at B |
//! | the card or the scope changed meanwhile | checked again before T2; what is no longer allowed is aborted |
//!
//! After any repair at most one of two things holds: our task is unsettled, or B's is active. And no Transferred status
//! names a task that does not exist.
//!
//! | Module | Contents |
//! |---|---|
//! | `intent` | the checkpoint: what a crash must not lose |
//! | `target` | the agent on the other side |
//! | `protocol` | the protocol above |
//! | `pending_commits` | audit records that wait for the commit |
//! | `relay` | callers that do not follow handoffs |

mod intent;
mod pending_commits;
mod protocol;
mod relay;
mod target;

pub use target::{HandoffReply, HandoffTarget, TargetProfile, accepts_transfers};

use intent::{HandoffCheckpoint, HandoffStage};
use pending_commits::PendingCommits;
use sabir_engine::agent::HandoffRequest;
use sabir_engine::{
    Agent, AnyAgent, CancelOutcome, CanceledTask, Context, Ending, Execution, Failure, Recovery, TransferredTask,
};
use sabir_guard::policy::lattice::Capabilities;
use sabir_proto::{AgentName, Caller, Fault, TaskId, TaskRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What an agent may hand over, to which agents, and where attempts are recorded.
pub struct HandoffPolicy {
    /// The name of our agent.
    pub agent: AgentName,
    /// The URL of our agent, as other servers know it.
    pub endpoint: String,
    /// The capabilities of our agent, which it may pass on.
    pub scope: Capabilities,
    /// The receiving agents, by their names on this server.
    pub targets: BTreeMap<String, Arc<dyn HandoffTarget>>,
    /// How often a task may be handed on.
    pub depth_max: usize,
    /// What becomes of a task whose caller does not follow handoffs.
    pub unaware_callers: UnawareCallers,
    /// How long creating the task on the other side may be retried.
    pub create_time_max: Duration,
    /// Records the attempts for the audit.
    pub audit: Arc<dyn HandoffAudit>,
}

/// What becomes of a task whose caller does not follow handoffs. Never a bare "completed".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnawareCallers {
    /// The task stays, and the other agent's work is shown in it.
    #[default]
    Relay,
    /// The caller is asked to turn to the other agent.
    Ask,
    /// The task fails.
    Fail,
}

/// One attempt to hand a task over, for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffAttempt<'a> {
    /// The id of the handoff on both sides.
    pub transfer_id: &'a str,
    /// The caller that owns the task.
    pub caller: &'a Caller,
    /// The task on this server.
    pub task: TaskId,
    /// The agent that hands the task over.
    pub from: &'a AgentName,
    /// The name of the agent that gets it.
    pub to: &'a str,
    /// The endpoint of that agent, once it is known.
    pub endpoint: Option<&'a str>,
    /// The task there, once there is one.
    pub their_task: Option<&'a TaskRef>,
    /// The number of agents that have had the task, ours included.
    pub hops: usize,
    /// The capabilities that the work requires.
    pub required: &'a [String],
    /// The capabilities that are allowed.
    pub allowed: &'a [String],
    /// The capabilities that are required and not allowed.
    pub missing: &'a [String],
    /// The digest of the other agent's card, and whether it has a signature that holds.
    pub card: Option<(&'a str, bool)>,
    /// The outcome, in one of our own words.
    pub outcome: &'static str,
}

/// Records handoff attempts for the audit. Never waits.
pub trait HandoffAudit: Send + Sync + 'static {
    /// Records one handoff attempt.
    fn record(&self, attempt: &HandoffAttempt<'_>);
}

/// An agent that may hand its tasks over, around the agent that does the work.
pub struct HandoffAgent {
    inner: Arc<dyn AnyAgent>,
    policy: HandoffPolicy,
    pending_commits: PendingCommits,
}

/// The work that was in progress on a canceled task.
enum CanceledWork {
    /// The inner agent's, with the checkpoint that it left.
    InnerAgent(CanceledTask),
    /// A handoff, at this stage.
    Handoff(HandoffStage),
}

impl HandoffAgent {
    /// Lets an agent hand over what the policy allows.
    pub const fn new(inner: Arc<dyn AnyAgent>, policy: HandoffPolicy) -> Self {
        Self { inner, policy, pending_commits: PendingCommits::new() }
    }

    /// The work that was in progress on a canceled task.
    fn canceled_work(&self, canceled: CanceledTask) -> CanceledWork {
        match canceled.checkpoint.as_deref().and_then(HandoffCheckpoint::decode) {
            None => CanceledWork::InnerAgent(canceled),
            Some(HandoffCheckpoint { stage: HandoffStage::Over, inner }) => {
                CanceledWork::InnerAgent(CanceledTask { checkpoint: inner.map(Into::into), ..canceled })
            }
            Some(HandoffCheckpoint { stage, .. }) => CanceledWork::Handoff(stage),
        }
    }

    /// Cancels what the handoff has created on the other side.
    async fn cancel_handoff(&self, task: TaskId, stage: HandoffStage) {
        self.pending_commits.remove(task);
        match stage {
            HandoffStage::Preparing(intent) => {
                if let Some(peer) = self.policy.targets.get(intent.to.as_str()) {
                    protocol::cancel_created(&**peer, task, &intent).await;
                }
            }
            // The engine cancels the child.
            HandoffStage::Relaying { .. } | HandoffStage::Over => {}
        }
    }

    async fn run_inner_turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        // The engine sees every turn here as resumable; whether this one is, the inner agent decides.
        if cx.attempt() > 1 && self.inner.any_execution().recovery == Recovery::Fail {
            return Ok(Ending::fail("the server stopped while the agent was at work; send the message again"));
        }
        match self.inner.any_turn(cx).await? {
            Ending::Transfer(order) => self.hand_over(cx, *order).await,
            ending => Ok(ending),
        }
    }

    async fn hand_over(&self, cx: &mut Context, order: HandoffRequest) -> Result<Ending, Failure> {
        let Some((name, peer)) = self.policy.targets.get_key_value(order.to.as_str()) else {
            return Ok(Ending::fail(format!("{} is none of the agents that this one may hand tasks to", order.to)));
        };
        if cx.follows_handoffs() {
            return protocol::start(&self.policy, &self.pending_commits, &**peer, cx, order).await;
        }
        relay::start(&self.policy, name, &**peer, cx, order).await
    }
}

impl Agent for HandoffAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let left = cx.checkpoint().and_then(HandoffCheckpoint::decode);
        match left {
            Some(HandoffCheckpoint { stage: HandoffStage::Preparing(intent), inner })
                if intent.turn == cx.turn_id() =>
            {
                match self.policy.targets.get(intent.to.as_str()) {
                    Some(peer) => {
                        let prepared = protocol::PreparedHandoff { intent: *intent, inner, is_repeated: true };
                        protocol::create_and_commit(&self.policy, &self.pending_commits, &**peer, cx, prepared).await
                    }
                    None => Ok(Ending::fail(format!("{} is no longer an agent to hand tasks to", intent.to))),
                }
            }
            Some(HandoffCheckpoint { stage: HandoffStage::Relaying { to, text, past }, .. }) => {
                relay::relay_turn(&to, text.as_deref(), past, cx).await
            }
            Some(HandoffCheckpoint { inner, .. }) => {
                cx.set_checkpoint(inner.unwrap_or_default());
                self.run_inner_turn(cx).await
            }
            None => self.run_inner_turn(cx).await,
        }
    }

    fn execution(&self) -> Execution {
        Execution { defer_open: false, recovery: Recovery::Resume, ..self.inner.any_execution() }
    }

    fn check_admission(&self) -> Result<(), Fault> {
        self.inner.any_check_admission()
    }

    fn cancel_grace(&self) -> Duration {
        self.inner.any_cancel_grace()
    }

    async fn cancel_elsewhere(&self, canceled: CanceledTask) -> CancelOutcome {
        let task = canceled.task;
        match self.canceled_work(canceled) {
            CanceledWork::InnerAgent(canceled) => self.inner.any_cancel_elsewhere(canceled).await,
            CanceledWork::Handoff(stage) => {
                self.cancel_handoff(task, stage).await;
                CancelOutcome::default()
            }
        }
    }

    async fn repeat_cancel(&self, canceled: CanceledTask) -> bool {
        match self.canceled_work(canceled) {
            CanceledWork::InnerAgent(canceled) => self.inner.any_repeat_cancel(canceled).await,
            CanceledWork::Handoff(_) => true,
        }
    }

    async fn on_canceled(&self, canceled: CanceledTask) {
        let task = canceled.task;
        match self.canceled_work(canceled) {
            CanceledWork::InnerAgent(canceled) => self.inner.any_on_canceled(canceled).await,
            CanceledWork::Handoff(stage) => self.cancel_handoff(task, stage).await,
        }
    }

    async fn on_handed_over(&self, handed_over: TransferredTask) {
        let TransferredTask { transfer, task } = handed_over;
        self.pending_commits.record_committed(&self.policy, task);
        let name = transfer.agent_name.as_deref().unwrap_or_default();
        match self.policy.targets.get(name) {
            Some(peer) => protocol::activate(&**peer, task, &transfer).await,
            None => {
                tracing::warn!(transfer = transfer.transfer_id, name, "no process knows how to activate this any more")
            }
        }
    }
}
