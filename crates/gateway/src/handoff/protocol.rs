//! The handoff protocol: T1, create, T2, activate.

use super::intent::{HandoffCheckpoint, HandoffIntent, HandoffStage, message_parts};
use super::pending_commits::{PendingCommit, PendingCommits};
use super::target::{HandoffReply, HandoffTarget, TargetProfile};
use super::{HandoffAttempt, HandoffPolicy};
use crate::derived_uuid::derived_uuid;
use crate::remote::{asks_for_later, was_not_called};
use sabir_client::Error;
use sabir_engine::agent::HandoffRequest;
use sabir_engine::{Context, Ending, Failure};
use sabir_guard::policy::lattice::{self, Capabilities, ScopeVerdict};
use sabir_proto::transfer::{HandoffActivation, HandoffClaim, HandoffMessage, TransferHop, check_chain};
use sabir_proto::{
    Json, Message, MessageId, Part, Role, TaskId, TaskRef, TaskState, Transfer, TransferContext, WireTask,
};
use serde_json::json;
use std::time::Duration;

/// The first pause before the other side is asked again, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// How often an activation is sent; with the pauses that is longer than any server holds a task.
const ACTIVATIONS_MAX: u32 = 60;
/// How often a task there is canceled; after that its hold ends it.
const CANCELS_MAX: u32 = 4;
/// Why a task is not handed over to such an agent.
const INSECURE: &str = "it is on another machine and called without TLS, where no caller follows a task";

/// Checks whether a task may be handed over, and hands it over.
pub(super) async fn start(
    policy: &HandoffPolicy,
    pending_commits: &PendingCommits,
    peer: &dyn HandoffTarget,
    cx: &mut Context,
    order: HandoffRequest,
) -> Result<Ending, Failure> {
    let inner = cx.checkpoint().map(<[u8]>::to_vec);
    let CheckedHandoff { face, mut context, verdict } = match check_handoff(policy, peer, cx, &order).await {
        Ok(cleared) => cleared,
        Err(ending) => return Ok(ending),
    };
    if !face.accepts_transfers {
        record_attempt(
            policy,
            cx,
            AttemptedHandoff::new(&context.transfer_id, &order.to, Some(&face)),
            &verdict,
            "refused",
        );
        return Ok(Ending::fail(format!("{} takes no tasks that are handed over", order.to)));
    }
    if !face.is_followed {
        record_attempt(
            policy,
            cx,
            AttemptedHandoff::new(&context.transfer_id, &order.to, Some(&face)),
            &verdict,
            "insecure",
        );
        return Ok(Ending::fail(format!("the task was not handed over to {}: {INSECURE}", order.to)));
    }
    let (hold, transfer_id) = (face.holds_tasks, context.transfer_id.clone());
    // On another server the task will be ours; that server gives it to the caller that presents the claim.
    let claim = (hold && !face.is_local).then(|| HandoffClaim::from_bits([cx.random(), cx.random()]));
    context.claim_digest = claim.as_ref().map(HandoffClaim::digest);
    let mut message = Message {
        message_id: MessageId::parse(&transfer_id)?,
        context_id: None,
        task_id: None,
        role: Role::User,
        parts: message_parts(order.text.as_deref(), cx.message()),
        metadata: None,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    };
    HandoffMessage::Create { context, hold }.add_to_message(&mut message);
    let (turn, since) = (cx.turn_id(), cx.now().millis());
    let HandoffRequest { to, required, reason, .. } = order;
    let repeatable = hold || face.recognises_repeats;
    let intent =
        HandoffIntent { turn, transfer_id, to, required, reason, claim, message, hold, repeatable, task: None, since };
    // T1: from here on the other side may have the task.
    cx.status(format!("handing this over to {}", intent.to)).await?;
    let stage = HandoffStage::Preparing(Box::new(intent.clone()));
    cx.set_checkpoint(HandoffCheckpoint { stage, inner: inner.clone() }.encode());
    cx.commit().await?;
    let prepared = PreparedHandoff { intent, inner, is_repeated: false };
    create_and_commit(policy, pending_commits, peer, cx, prepared).await
}

/// A handoff that passed its checks: the receiver, and what is sent to it.
pub(super) struct CheckedHandoff {
    pub(super) face: TargetProfile,
    pub(super) context: Box<TransferContext>,
    pub(super) verdict: ScopeVerdict,
}

/// Checks whether work may go to another agent: the same for tasks that leave and for those whose caller stays. A
/// refusal is recorded for the audit; the error is how the turn ends then.
pub(super) async fn check_handoff(
    policy: &HandoffPolicy,
    peer: &dyn HandoffTarget,
    cx: &Context,
    order: &HandoffRequest,
) -> Result<CheckedHandoff, Ending> {
    let transfer_id = derived_uuid(&["handoff", &cx.turn_id()]);
    let face = match peer.profile().await {
        Ok(face) => face,
        Err(error) => {
            let verdict = ScopeVerdict { required: order.required.clone(), allowed: Vec::new(), missing: Vec::new() };
            record_attempt(policy, cx, AttemptedHandoff::new(&transfer_id, &order.to, None), &verdict, "unreachable");
            tracing::warn!(task = %cx.task_id(), to = order.to, %error, "an agent to hand over to cannot be asked");
            return Err(Ending::fail(format!("{} cannot be reached, so the task was not handed over", order.to)));
        }
    };
    let came = cx.transfer_context();
    let scope = delegable_scope(policy, came.as_ref());
    let verdict = lattice::check(order.required.iter().map(String::as_str), &face.caps, &scope);
    let refuse = |outcome: &'static str, ending: Ending| {
        record_attempt(policy, cx, AttemptedHandoff::new(&transfer_id, &order.to, Some(&face)), &verdict, outcome);
        Err(ending)
    };
    if !verdict.passes() {
        return refuse(ScopeVerdict::CODE, scope_exceeded(&order.to, &verdict));
    }
    let mut chain = came.as_ref().map(|came| came.chain.clone()).unwrap_or_default();
    let skills = came.map(|came| came.required).unwrap_or_default();
    let (task_id, at) = (cx.task_id().to_string(), cx.now());
    chain.push(TransferHop { agent: policy.endpoint.clone(), task_id: task_id.clone(), at, skills });
    if let Err(fault) = check_chain(&chain, &face.endpoint, &order.required, policy.depth_max) {
        return refuse(fault.code(), failure_with_code(fault.code(), &fault.to_string()));
    }
    let context = TransferContext {
        originating_task_id: task_id,
        originating_agent: policy.endpoint.clone(),
        state: order.state.clone(),
        output_keys: order.output_keys.clone(),
        transfer_id: transfer_id.clone(),
        chain,
        scope: Some(verdict.allowed.clone()),
        required: order.required.clone(),
        context_id: Some(cx.context_id().clone()),
        summary: order.summary.clone(),
        ..TransferContext::default()
    };
    if let Err(fault) = context.check() {
        return refuse(
            "TRANSFER_INVALID",
            failure_with_code("TRANSFER_INVALID", &format!("what was to be handed over {fault}")),
        );
    }
    Ok(CheckedHandoff { face, context: Box::new(context), verdict })
}

/// A handoff whose intent is in the log.
pub(super) struct PreparedHandoff {
    pub(super) intent: HandoffIntent,
    /// The checkpoint of the agent that hands over.
    pub(super) inner: Option<Vec<u8>>,
    /// Whether an attempt before a crash may have created the task.
    pub(super) is_repeated: bool,
}

/// Creates the task there and commits the transfer of ours; the first time, and after every crash since.
pub(super) async fn create_and_commit(
    policy: &HandoffPolicy,
    pending_commits: &PendingCommits,
    peer: &dyn HandoffTarget,
    cx: &mut Context,
    prepared: PreparedHandoff,
) -> Result<Ending, Failure> {
    let PreparedHandoff { mut intent, inner, is_repeated } = prepared;
    if is_repeated && !intent.repeatable {
        let why = "the server stopped meanwhile, and it is not known whether it was taken there";
        let reason = HandoffAbort { task: intent.task.as_ref(), outcome: "unknown", why };
        return Ok(abort(policy, peer, cx, &intent, inner, reason).await);
    }
    let task = match create(policy, peer, cx, &intent).await {
        Ok(task) => task,
        Err(why) => {
            let reason = HandoffAbort { task: None, outcome: "refused", why: &why };
            return Ok(abort(policy, peer, cx, &intent, inner, reason).await);
        }
    };
    // From here on a cancel knows the task there.
    intent.task = Some(task.id.clone());
    let stage = HandoffStage::Preparing(Box::new(intent.clone()));
    cx.set_checkpoint(HandoffCheckpoint { stage, inner: inner.clone() }.encode());
    // Checked again: the card or what we may pass on can have changed since.
    let scope = delegable_scope(policy, cx.transfer_context().as_ref());
    let face = match peer.profile().await {
        Ok(face) => face,
        Err(error) => {
            tracing::warn!(transfer = intent.transfer_id, to = intent.to, %error, "its card can no longer be read");
            let why = "its card can no longer be read";
            let reason = HandoffAbort { task: Some(&task.id), outcome: "unreachable", why };
            return Ok(abort(policy, peer, cx, &intent, inner, reason).await);
        }
    };
    let verdict = lattice::check(intent.required.iter().map(String::as_str), &face.caps, &scope);
    if !verdict.passes() {
        let why = format!("{} is no longer allowed", verdict.missing.join(", "));
        let reason = HandoffAbort { task: Some(&task.id), outcome: ScopeVerdict::CODE, why: &why };
        abort(policy, peer, cx, &intent, inner, reason).await;
        return Ok(scope_exceeded(&intent.to, &verdict));
    }
    if !face.is_followed {
        let reason = HandoffAbort { task: Some(&task.id), outcome: "insecure", why: INSECURE };
        return Ok(abort(policy, peer, cx, &intent, inner, reason).await);
    }
    // T2: the engine commits the state, the transfer and the webhook deliveries in one step.
    cx.set_waiting_for(None);
    let transfer = transfer(cx, &intent, &face, &task);
    let (HandoffIntent { transfer_id, to, .. }, their_task) = (intent, task.id);
    pending_commits.insert(cx, PendingCommit { transfer_id, to, face, their_task, verdict });
    Ok(Ending::Transferred(Box::new(transfer)))
}

fn transfer(cx: &Context, intent: &HandoffIntent, face: &TargetProfile, task: &WireTask) -> Transfer {
    let chain = match HandoffMessage::of(&intent.message) {
        Some(Ok(HandoffMessage::Create { context, .. })) => context.chain,
        _ => Vec::new(),
    };
    Transfer {
        agent_endpoint: face.endpoint.clone(),
        task_id: task.id.clone(),
        agent_name: Some(intent.to.clone()),
        reason: intent.reason.clone(),
        context_id: task.context_id.clone(),
        card_url: None,
        protocol_binding: Some(face.binding.clone()),
        transfer_id: intent.transfer_id.clone(),
        chain,
        transferred_at: Some(cx.now()),
        claim_secret: intent.claim.clone(),
        begun: !intent.hold,
    }
}

/// Has the task created there. The message is the same each time, so a server that holds or recognises tasks creates it
/// once; to any other server only a request that cannot have arrived is sent again.
async fn create(
    policy: &HandoffPolicy,
    peer: &dyn HandoffTarget,
    cx: &mut Context,
    intent: &HandoffIntent,
) -> Result<WireTask, String> {
    let mut pause = PAUSE_MIN;
    loop {
        let error = match peer.send(cx.task_id(), intent.message.clone()).await {
            Ok(HandoffReply::Task(task)) => match task.status.state {
                TaskState::Failed | TaskState::Rejected | TaskState::Canceled => {
                    return Err(format!("it is {} there", task.status.state));
                }
                _ => return Ok(*task),
            },
            Ok(HandoffReply::Message) => return Err("it answered, and made no task".into()),
            Err(error) => error,
        };
        let waited = cx.now().millis().saturating_sub(intent.since);
        let patient = u128::try_from(waited).unwrap_or(0) < policy.create_time_max.as_millis();
        let again = may_succeed_later(&error) && (intent.repeatable || has_not_arrived(&error));
        if !(again && patient) {
            tracing::warn!(transfer = intent.transfer_id, to = intent.to, %error, "a handoff was not taken");
            return Err(match error {
                error if may_succeed_later(&error) && !again => "it is not known whether it was taken there".into(),
                Error::Fault { fault, .. } => fault.to_string(),
                _ => "it could not be reached".into(),
            });
        }
        cx.sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Whether the other side cannot know of it: it never left, or the other side has put it off.
fn has_not_arrived(error: &Error) -> bool {
    error.cannot_have_arrived() || was_not_called(error) || asks_for_later(error)
}

/// Whether a later attempt may succeed.
fn may_succeed_later(error: &Error) -> bool {
    error.is_transient() || error.cannot_have_arrived()
}

/// Why a handoff is given up.
#[derive(Clone, Copy)]
struct HandoffAbort<'a> {
    /// The task that was created there, if its id is known.
    task: Option<&'a TaskRef>,
    /// The outcome in the audit.
    outcome: &'static str,
    /// The reason, for the caller.
    why: &'a str,
}

/// Gives the handoff up: the task stays ours, and fails.
async fn abort(
    policy: &HandoffPolicy,
    peer: &dyn HandoffTarget,
    cx: &mut Context,
    intent: &HandoffIntent,
    inner: Option<Vec<u8>>,
    reason: HandoffAbort<'_>,
) -> Ending {
    let HandoffAbort { task, outcome, why } = reason;
    let verdict = ScopeVerdict { required: intent.required.clone(), allowed: Vec::new(), missing: Vec::new() };
    let attempt = AttemptedHandoff { transfer_id: &intent.transfer_id, to: &intent.to, face: None, their_task: task };
    record_attempt(policy, cx, attempt, &verdict, outcome);
    if let Some(task) = task {
        cancel(peer, cx.task_id(), task, &intent.transfer_id).await;
    }
    cx.set_checkpoint(HandoffCheckpoint { stage: HandoffStage::Over, inner }.encode());
    Ending::fail(format!("the task was not handed over to {}: {why}", intent.to))
}

/// Our caller canceled before T2: the task there must be canceled as well. If its id is not known, it is found out by
/// creating it once more, where that does no harm.
pub(super) async fn cancel_created(peer: &dyn HandoffTarget, of: TaskId, intent: &HandoffIntent) {
    if let Some(task) = &intent.task {
        return cancel(peer, of, task, &intent.transfer_id).await;
    }
    if !intent.repeatable {
        tracing::warn!(transfer = intent.transfer_id, "canceled while it was handed over; the other side may go on");
        return;
    }
    match peer.send(of, intent.message.clone()).await {
        Ok(HandoffReply::Task(task)) => cancel(peer, of, &task.id, &intent.transfer_id).await,
        Ok(HandoffReply::Message) => {}
        Err(error) => {
            tracing::warn!(transfer = intent.transfer_id, %error, "not called off there; its hold will run out");
        }
    }
}

async fn cancel(peer: &dyn HandoffTarget, of: TaskId, task: &TaskRef, transfer: &str) {
    let mut pause = PAUSE_MIN;
    for _ in 0..CANCELS_MAX {
        match peer.cancel(of, task.clone()).await {
            Ok(()) => return,
            Err(error) if may_succeed_later(&error) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => {
                tracing::warn!(transfer, %error, "not canceled there; its hold will run out");
                return;
            }
        }
    }
}

/// Tells the other side that we have let go, until it acknowledges. A server that holds nothing is told nothing: it
/// would take this for its caller's next message.
pub(super) async fn activate(peer: &dyn HandoffTarget, of: TaskId, transfer: &Transfer) {
    if transfer.begun {
        return;
    }
    let id = derived_uuid(&["activate", &transfer.transfer_id]);
    let Ok(message_id) = MessageId::parse(&id) else { return };
    let mut message = Message::text(message_id, Role::User, "The task is yours.");
    message.task_id = Some(transfer.task_id.clone());
    message.context_id = transfer.context_id.clone();
    HandoffMessage::Activate(HandoffActivation { transfer_id: transfer.transfer_id.clone(), activate: true })
        .add_to_message(&mut message);
    let mut pause = PAUSE_MIN;
    for _ in 0..ACTIVATIONS_MAX {
        match peer.send(of, message.clone()).await {
            Ok(_) => {
                tracing::info!(transfer = transfer.transfer_id, task = %transfer.task_id, "a handoff is complete");
                return;
            }
            Err(error) if may_succeed_later(&error) => {
                tracing::warn!(transfer = transfer.transfer_id, %error, "not activated yet; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => {
                // The task has begun or ended without us, or nothing is held: either way there is nothing to activate.
                tracing::info!(transfer = transfer.transfer_id, %error, "nothing to activate there");
                return;
            }
        }
    }
}

/// What we may pass on: our own scope, and of a task that was handed to us no more than came with it.
fn delegable_scope(policy: &HandoffPolicy, came: Option<&TransferContext>) -> Capabilities {
    match came.and_then(|came| came.scope.clone()) {
        Some(granted) => policy.scope.meet(&Capabilities::named(granted)),
        None => policy.scope.clone(),
    }
}

fn scope_exceeded(to: &str, verdict: &ScopeVerdict) -> Ending {
    let words = format!("the task was not handed over to {to}: {} is not allowed there", verdict.missing.join(", "));
    let body = json!({
        "code": ScopeVerdict::CODE,
        "required": verdict.required,
        "allowed": verdict.allowed,
        "missing": verdict.missing,
    });
    failure_with_data(words, &body)
}

fn failure_with_code(code: &str, words: &str) -> Ending {
    failure_with_data(words.to_owned(), &json!({ "code": code }))
}

/// A failure as text, and as data for programs.
fn failure_with_data(words: String, body: &serde_json::Value) -> Ending {
    let mut parts = vec![Part::text(words)];
    parts.extend(Json::of(body).ok().map(Part::data));
    Ending::Fail(parts)
}

/// A handoff as the audit names it.
#[derive(Clone, Copy)]
pub(super) struct AttemptedHandoff<'a> {
    transfer_id: &'a str,
    to: &'a str,
    /// What the card of the receiver says, if it was read.
    face: Option<&'a TargetProfile>,
    their_task: Option<&'a TaskRef>,
}

impl<'a> AttemptedHandoff<'a> {
    /// A handoff that has created no task there.
    pub(super) const fn new(transfer_id: &'a str, to: &'a str, face: Option<&'a TargetProfile>) -> Self {
        Self { transfer_id, to, face, their_task: None }
    }
}

pub(super) fn record_attempt(
    policy: &HandoffPolicy,
    cx: &Context,
    attempted: AttemptedHandoff<'_>,
    verdict: &ScopeVerdict,
    outcome: &'static str,
) {
    let AttemptedHandoff { transfer_id, to, face, their_task } = attempted;
    let hops = cx.transfer_context().map_or(0, |came| came.chain.len()) + 1;
    policy.audit.record(&HandoffAttempt {
        transfer_id,
        caller: cx.caller(),
        task: cx.task_id(),
        from: &policy.agent,
        to,
        endpoint: face.map(|face| &*face.endpoint),
        their_task,
        hops,
        required: &verdict.required,
        allowed: &verdict.allowed,
        missing: &verdict.missing,
        card: face.map(|face| (&*face.digest, face.signed)),
        outcome,
    });
}
