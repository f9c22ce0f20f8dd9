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
//! | `peer` | the agent on the other side |
//! | `carry` | the protocol above |
//! | `booked` | audit records that wait for the commit |
//! | `relay` | callers that do not follow handoffs |

mod booked;
mod carry;
mod intent;
mod peer;
mod relay;

pub use peer::{Face, Peer, Taken, accepts};

use booked::Bookings;
use intent::{Left, Stage};
use sabir_engine::agent::Handover;
use sabir_engine::{Agent, AnyAgent, CalledOff, Canceled, Context, Ending, Failure, HandedOver, Nature, Recovery};
use sabir_guard::policy::lattice::Capabilities;
use sabir_proto::{AgentName, Caller, Fault, TaskId, TaskRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What an agent may hand over, to which agents, and where attempts are recorded.
pub struct Desk {
    /// The name of our agent.
    pub agent: AgentName,
    /// The URL of our agent, as other servers know it.
    pub endpoint: String,
    /// The capabilities of our agent, which it may pass on.
    pub scope: Capabilities,
    /// The receiving agents, by their names on this server.
    pub targets: BTreeMap<String, Arc<dyn Peer>>,
    /// How often a task may be handed on.
    pub depth_max: usize,
    /// What becomes of a task whose caller does not follow handoffs.
    pub unaware: Unaware,
    /// How long creating the task on the other side may be retried.
    pub patience: Duration,
    /// Records the attempts for the audit.
    pub ledger: Arc<dyn Ledger>,
}

/// What becomes of a task whose caller does not follow handoffs. Never a bare "completed".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unaware {
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
pub struct Attempt<'a> {
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
pub trait Ledger: Send + Sync + 'static {
    /// Records one handoff attempt.
    fn record(&self, attempt: &Attempt<'_>);
}

/// An agent that may hand its tasks over, around the agent that does the work.
pub struct Handing {
    inner: Arc<dyn AnyAgent>,
    desk: Desk,
    bookings: Bookings,
}

/// The work that was in progress on a canceled task.
enum Whose {
    /// The inner agent's, with the checkpoint that it left.
    Agents(Canceled),
    /// A handoff, at this stage.
    Desks(Stage),
}

impl Handing {
    /// Lets an agent hand over what the policy allows.
    pub const fn new(inner: Arc<dyn AnyAgent>, desk: Desk) -> Self {
        Self { inner, desk, bookings: Bookings::new() }
    }

    /// The work that was in progress on a canceled task.
    fn left(&self, canceled: Canceled) -> Whose {
        match canceled.checkpoint.as_deref().and_then(Left::read) {
            None => Whose::Agents(canceled),
            Some(Left { stage: Stage::Over, inner }) => {
                Whose::Agents(Canceled { checkpoint: inner.map(Into::into), ..canceled })
            }
            Some(Left { stage, .. }) => Whose::Desks(stage),
        }
    }

    /// Cancels what the handoff has created on the other side.
    async fn drop_off(&self, task: TaskId, stage: Stage) {
        self.bookings.forget(task);
        match stage {
            Stage::Preparing(intent) => {
                if let Some(peer) = self.desk.targets.get(intent.to.as_str()) {
                    carry::call_off(&**peer, task, &intent).await;
                }
            }
            // The engine cancels the child.
            Stage::Relaying { .. } | Stage::Over => {}
        }
    }

    async fn inner_turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        // The engine sees every turn here as resumable; whether this one is, the inner agent decides.
        if cx.attempt() > 1 && self.inner.any_nature().recovery == Recovery::Fail {
            return Ok(Ending::fail("the server stopped while the agent was at work; send the message again"));
        }
        match self.inner.any_turn(cx).await? {
            Ending::Transfer(order) => self.hand_over(cx, *order).await,
            ending => Ok(ending),
        }
    }

    async fn hand_over(&self, cx: &mut Context, order: Handover) -> Result<Ending, Failure> {
        let Some((name, peer)) = self.desk.targets.get_key_value(order.to.as_str()) else {
            return Ok(Ending::fail(format!("{} is none of the agents that this one may hand tasks to", order.to)));
        };
        if cx.follows_handoffs() {
            return carry::begin((&self.desk, &self.bookings), &**peer, cx, order).await;
        }
        relay::begin(&self.desk, name, &**peer, cx, order).await
    }
}

impl Agent for Handing {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let left = cx.checkpoint().and_then(Left::read);
        match left {
            Some(Left { stage: Stage::Preparing(intent), inner }) if intent.turn == cx.turn_id() => {
                match self.desk.targets.get(intent.to.as_str()) {
                    Some(peer) => {
                        carry::carry_out((&self.desk, &self.bookings), &**peer, cx, *intent, inner, false).await
                    }
                    None => Ok(Ending::fail(format!("{} is no longer an agent to hand tasks to", intent.to))),
                }
            }
            Some(Left { stage: Stage::Relaying { to, text, past }, .. }) => {
                relay::show(&to, text.as_deref(), past, cx).await
            }
            Some(Left { inner, .. }) => {
                cx.set_checkpoint(inner.unwrap_or_default());
                self.inner_turn(cx).await
            }
            None => self.inner_turn(cx).await,
        }
    }

    fn nature(&self) -> Nature {
        Nature { brief: false, recovery: Recovery::Resume, ..self.inner.any_nature() }
    }

    fn admits(&self) -> Result<(), Fault> {
        self.inner.any_admits()
    }

    fn grace(&self) -> Duration {
        self.inner.any_grace()
    }

    async fn call_off(&self, canceled: Canceled) -> CalledOff {
        let task = canceled.task;
        match self.left(canceled) {
            Whose::Agents(canceled) => self.inner.any_call_off(canceled).await,
            Whose::Desks(stage) => {
                self.drop_off(task, stage).await;
                CalledOff::default()
            }
        }
    }

    async fn remind(&self, canceled: Canceled) -> bool {
        match self.left(canceled) {
            Whose::Agents(canceled) => self.inner.any_remind(canceled).await,
            Whose::Desks(_) => true,
        }
    }

    async fn canceled(&self, canceled: Canceled) {
        let task = canceled.task;
        match self.left(canceled) {
            Whose::Agents(canceled) => self.inner.any_canceled(canceled).await,
            Whose::Desks(stage) => self.drop_off(task, stage).await,
        }
    }

    async fn handed_over(&self, handed_over: HandedOver) {
        let HandedOver { transfer, task } = handed_over;
        self.bookings.settle(&self.desk, task);
        let name = transfer.agent_name.as_deref().unwrap_or_default();
        match self.desk.targets.get(name) {
            Some(peer) => carry::activate(&**peer, task, &transfer).await,
            None => tracing::warn!(transfer = transfer.transfer_id, name, "nobody knows how to activate this any more"),
        }
    }
}
