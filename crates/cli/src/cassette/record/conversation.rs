//! A conversation of our own, over the recorder: each text goes as `sabir send` would send it.

use crate::call::{Session, TrustedCard, send};
use crate::problem::Stop;
use crate::render::{Fields, Node, ids};
use sabir_client::DiscoveredCard;
use sabir_proto::{ContextId, Part, TaskRef, TaskState};

/// Says one text after the other, and says what became of each.
pub(super) async fn converse(session: &Session, card: &str, texts: &[String]) -> Result<(), Stop> {
    let found =
        DiscoveredCard::read(card.as_bytes(), None, "the recorder").map_err(|error| session.problem(error, None))?;
    let agent = session.unobserved_agent(TrustedCard::own_card(found)).await?;
    let first = send::request(session, Vec::new(), None)?.message;
    let (mut context, mut waiting) = (first.context_id, first.task_id);
    for text in texts {
        let mut request = send::request(session, vec![Part::text(text.as_str())], None)?;
        (request.message.context_id, request.message.task_id) = (context.clone(), waiting.clone());
        let json = session.send_and_wait(&agent, request).await?;
        let answer = Node::new(&json);
        let (task, message) = (answer.get("task"), answer.get("message"));
        let named = task.or(message).and_then(|said| said.word("contextId"));
        context = named.as_deref().and_then(|id| ContextId::parse(id).ok()).or(context);
        let state = task.and_then(|task| task.get("status")?.word("state"));
        let waits = state.as_deref().and_then(TaskState::from_name).is_some_and(TaskState::is_interrupted);
        let id = task.and_then(|task| task.word("id"));
        waiting = id.as_deref().filter(|_| waits).and_then(|id| TaskRef::parse(id).ok());
        if !session.out.is_json() {
            let mut fields = Fields::new();
            match &id {
                Some(id) => ids(&mut fields, Some(id), named.as_deref(), state.as_deref()),
                None => fields.field("Context ID", named.as_deref().unwrap_or("-")),
            }
            session.out.fields(fields)?;
        }
    }
    Ok(())
}
