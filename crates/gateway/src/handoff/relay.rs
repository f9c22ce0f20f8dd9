//! Callers that do not follow handoffs: the other agent's work is shown in our task, or they are told where to turn.
//!
//! Work that goes to the other agent must meet the same rules as a task that leaves, and what that agent may pass on in
//! turn is sent with it. The rest is delegation.

use super::intent::{HandoffCheckpoint, HandoffStage, message_parts};
use super::protocol::{AttemptedHandoff, CheckedHandoff, check_handoff, record_attempt};
use super::target::HandoffTarget;
use super::{HandoffPolicy, UnawareCallers};
use crate::delegation::{MirrorSettings, delegate};
use sabir_engine::agent::HandoffRequest;
use sabir_engine::{Context, Ending, Failure};
use sabir_proto::transfer::HandoffMessage;
use sabir_proto::{AgentName, Message, MessageId, Object, Role, TransferContext};

/// The key of the child that does the work.
const CHILD_KEY: &str = "handoff";

/// Shows the other agent's work in our task, if that is wanted and allowed.
pub(super) async fn start(
    policy: &HandoffPolicy,
    to: &str,
    peer: &dyn HandoffTarget,
    cx: &mut Context,
    order: HandoffRequest,
) -> Result<Ending, Failure> {
    let CheckedHandoff { face, context, verdict } = match check_handoff(policy, peer, cx, &order).await {
        Ok(cleared) => cleared,
        Err(ending) => return Ok(ending),
    };
    let why = order.reason.as_deref().map(|reason| format!("{reason}. ")).unwrap_or_default();
    let words = format!("{why}Please turn to {to} at {}.", face.endpoint);
    match policy.unaware_callers {
        UnawareCallers::Ask => Ok(Ending::ask_input(words)),
        UnawareCallers::Fail => Ok(Ending::fail(words)),
        UnawareCallers::Relay => {
            record_attempt(
                policy,
                cx,
                AttemptedHandoff::new(&context.transfer_id, to, Some(&face)),
                &verdict,
                "relayed",
            );
            let past = transfer_metadata(*context)?;
            let stage = HandoffStage::Relaying { to: to.to_owned(), text: order.text.clone(), past: past.clone() };
            let inner = cx.checkpoint().map(<[u8]>::to_vec);
            cx.set_checkpoint(HandoffCheckpoint { stage, inner }.encode());
            cx.commit().await?;
            relay_turn(to, order.text.as_deref(), past, cx).await
        }
    }
}

/// Runs the first turn, the next one, or either after a crash: the child is the same in all of them.
pub(super) async fn relay_turn(to: &str, text: Option<&str>, past: Object, cx: &Context) -> Result<Ending, Failure> {
    let words = message_parts(text, cx.message());
    Ok(delegate(cx, &AgentName::parse(to)?, CHILD_KEY, words, Some(past), &MirrorSettings::EVERYTHING)
        .await?
        .into_ending())
}

/// The metadata about where the work comes from and what it may be used for, for an agent that begins at once.
fn transfer_metadata(context: TransferContext) -> Result<Object, Failure> {
    let mut message = Message::text(MessageId::parse(&context.transfer_id)?, Role::User, "");
    HandoffMessage::Create { context: Box::new(context), hold: false }.add_to_message(&mut message);
    message.metadata.ok_or_else(|| Failure("what a task comes from cannot be written down".into()))
}
