//! Callers that do not follow handoffs: the other agent's work is shown in our task, or they are told where to turn.
//!
//! Work that goes to the other agent must meet the same rules as a task that leaves, and what that agent may pass on in
//! turn is sent with it. The rest is delegation.

use super::carry::{Cleared, book, clear};
use super::intent::{Left, Stage, parts};
use super::peer::Peer;
use super::{Desk, Unaware};
use crate::delegate::{Mirror, delegate};
use sabir_engine::agent::Handover;
use sabir_engine::{Context, Ending, Failure};
use sabir_proto::transfer::Incoming;
use sabir_proto::{AgentName, Message, MessageId, Object, Role, TransferContext};

/// The key of the child that does the work.
const KEY: &str = "handoff";

/// Shows the other agent's work in our task, if that is wanted and allowed.
pub(super) async fn begin(
    desk: &Desk,
    to: &str,
    peer: &dyn Peer,
    cx: &mut Context,
    order: Handover,
) -> Result<Ending, Failure> {
    let Cleared { face, context, verdict } = match clear(desk, peer, cx, &order).await {
        Ok(cleared) => cleared,
        Err(ending) => return Ok(ending),
    };
    let why = order.reason.as_deref().map(|reason| format!("{reason}. ")).unwrap_or_default();
    let words = format!("{why}Please turn to {to} at {}.", face.endpoint);
    match desk.unaware {
        Unaware::Ask => Ok(Ending::ask_input(words)),
        Unaware::Fail => Ok(Ending::fail(words)),
        Unaware::Relay => {
            book(desk, cx, (&context.transfer_id, to), Some(&face), &verdict, None, "relayed");
            let past = past(*context)?;
            let stage = Stage::Relaying { to: to.to_owned(), text: order.text.clone(), past: past.clone() };
            let inner = cx.checkpoint().map(<[u8]>::to_vec);
            cx.set_checkpoint(Left { stage, inner }.write());
            cx.commit().await?;
            show(to, order.text.as_deref(), past, cx).await
        }
    }
}

/// Runs the first turn, the next one, or either after a crash: the child is the same in all of them.
pub(super) async fn show(to: &str, text: Option<&str>, past: Object, cx: &Context) -> Result<Ending, Failure> {
    let words = parts(text, cx.message());
    Ok(delegate(cx, &AgentName::parse(to)?, KEY, words, Some(past), &Mirror::WHOLE).await?.into_ending())
}

/// The metadata about where the work comes from and what it may be used for, for an agent that begins at once.
fn past(context: TransferContext) -> Result<Object, Failure> {
    let mut message = Message::text(MessageId::parse(&context.transfer_id)?, Role::User, "");
    Incoming::Create { context: Box::new(context), hold: false }.stamp(&mut message);
    message.metadata.ok_or_else(|| Failure("what a task comes from cannot be written down".into()))
}
