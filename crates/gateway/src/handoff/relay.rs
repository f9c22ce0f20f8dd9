//! Callers that do not follow handoffs: the other agent's work is shown in our task, or they are told whom to turn to.

use super::intent::{Left, Stage, parts};
use super::peer::Peer;
use super::{Desk, Unaware};
use sabir_engine::agent::Handover;
use sabir_engine::{Child, Context, Ending, Failure};
use sabir_guard::policy::lattice;
use sabir_proto::{AgentName, Event, TaskState};

/// The child of a task whose work goes on elsewhere.
const KEY: &str = "handoff";

/// Shows the other agent's work in our task, if that is wanted and allowed.
pub(super) async fn begin(
    desk: &Desk,
    to: &str,
    peer: &dyn Peer,
    cx: &mut Context,
    order: Handover,
) -> Result<Ending, Failure> {
    let face = peer.face().await.map_err(|error| Failure(format!("{to} cannot be reached: {error}")))?;
    let verdict = lattice::check(order.required.iter().map(String::as_str), &face.caps, &desk.scope);
    if order.required.is_empty() || !verdict.passes() {
        let missing = verdict.missing.join(", ");
        return Ok(Ending::fail(format!("{to} was not asked: {missing} is not allowed there")));
    }
    let why = order.reason.as_deref().map(|reason| format!("{reason}. ")).unwrap_or_default();
    let words = format!("{why}Please turn to {to} at {}.", face.endpoint);
    match desk.unaware {
        Unaware::Ask => Ok(Ending::ask_input(words)),
        Unaware::Fail => Ok(Ending::fail(words)),
        Unaware::Relay => {
            let child = cx.delegate(&AgentName::parse(to)?, KEY, parts(&order, cx.message()), None).await;
            let child = child.map_err(|fault| Failure(fault.to_string()))?;
            let stage = Stage::Relaying { to: to.to_owned() };
            let inner = cx.checkpoint().map(<[u8]>::to_vec);
            cx.set_checkpoint(Left { stage, inner }.write());
            cx.commit().await?;
            show(child, cx).await
        }
    }
}

/// The next turn, or the same one after a crash.
pub(super) async fn go_on(to: &str, cx: &mut Context) -> Result<Ending, Failure> {
    let to = AgentName::parse(to)?;
    let child = cx.find_child(&to, KEY).await.map_err(|fault| Failure(fault.to_string()))?;
    let mut child = child.ok_or_else(|| Failure(format!("the task at {to} is no longer there")))?;
    let asked = cx.before().is_some_and(|before| before.status.state.is_interrupted());
    if asked {
        child.answer(cx.message().parts.clone()).await.map_err(|fault| Failure(fault.to_string()))?;
    }
    show(child, cx).await
}

/// Tells in our task what the child tells in its own.
async fn show(mut child: Child, cx: &mut Context) -> Result<Ending, Failure> {
    while let Some(event) = child.next().await {
        let event = event.map_err(|fault| Failure(fault.to_string()))?;
        match event.thaw() {
            Some(Event::StatusUpdate(update)) if update.status.state == TaskState::Working => {
                if let Some(message) = update.status.message {
                    cx.progress(message.parts).await?;
                }
            }
            Some(Event::ArtifactUpdate(update)) => {
                cx.chunk(update.artifact, update.append, update.last_chunk).await?;
            }
            Some(Event::Task(task)) => {
                for artifact in task.artifacts {
                    cx.chunk(artifact, false, true).await?;
                }
            }
            _ => {}
        }
    }
    let rest = child.rest().await.map_err(|fault| Failure(fault.to_string()))?;
    let task = rest.thaw().ok_or_else(|| Failure("the task of the other agent is damaged".into()))?;
    let parts = task.status.message.map(|message| message.parts).unwrap_or_default();
    Ok(match task.status.state {
        TaskState::InputRequired => Ending::AskInput(parts),
        TaskState::AuthRequired => Ending::AskAuth(parts),
        TaskState::Failed => Ending::Fail(parts),
        TaskState::Rejected => Ending::Reject(parts),
        TaskState::Canceled => Ending::Cancel(parts),
        _ => Ending::Complete(parts),
    })
}
