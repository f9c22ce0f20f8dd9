//! What the model is told of earlier turns: of this task, and of the earlier tasks of the conversation.
//!
//! What the caller and the model said is in the log. Callers do not see which tools the model used, so the
//! agent keeps those exchanges beside the task ([`Context::keep`]), each with the place in the history where it belongs.
//! Endpoints refuse a use of a tool without its result and a result without its use, so an exchange is told whole or not
//! at all.

use super::chat::{Said, told};
use super::tools::shortened;
use sabir_engine::{Context, ConversationLimits, Failure, PastTask};
use sabir_proto::{Artifact, Message, MessageId, Role, Task};
use serde::{Deserialize, Serialize};

/// Bytes of each result, where all that was said about tools is too much to be kept.
const RESULT_BYTES: usize = 1024;

/// The uses of tools in one turn, with their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolExchange {
    /// How many messages of the task's history came before it.
    after: usize,
    said: Vec<Said>,
}

impl ToolExchange {
    pub(super) const fn new(after: usize, said: Vec<Said>) -> Self {
        Self { after, said }
    }

    /// The exchanges among what an agent kept.
    pub(super) fn read(data: Option<&[u8]>) -> Vec<Self> {
        data.and_then(|data| serde_json::from_slice(data).ok()).unwrap_or_default()
    }
}

/// How many messages of the history there are when a turn begins, the one that it answers included.
pub(super) fn messages_before(cx: &Context) -> usize {
    cx.before().map_or(0, |task| task.history.len() + usize::from(task.status.message.is_some())) + 1
}

/// Keeps the exchange of a turn with its task.
pub(super) async fn keep(cx: &Context, exchange: ToolExchange, limits: ConversationLimits) -> Result<(), Failure> {
    let mut exchanges = ToolExchange::read(cx.kept().await?.as_deref());
    exchanges.push(exchange);
    let mut data = serde_json::to_vec(&exchanges)?;
    if data.len() > limits.bytes_max {
        for said in exchanges.iter_mut().flat_map(|exchange| &mut exchange.said) {
            if let Some(text) = said.content.as_str() {
                said.content = shortened(text.to_owned(), RESULT_BYTES).into();
            }
        }
        data = serde_json::to_vec(&exchanges)?;
    }
    if data.len() <= limits.bytes_max {
        cx.keep(data);
    }
    Ok(())
}

/// What was said in the earlier tasks of the conversation, oldest first.
pub(super) fn conversation(past: &[PastTask], limits: ConversationLimits) -> Vec<Said> {
    let mut room = limits.messages_max.saturating_sub(past.iter().map(|task| task.messages.len()).sum());
    let mut tasks: Vec<Vec<Said>> = Vec::with_capacity(past.len());
    // The newest exchanges are told where not all of them can be.
    for task in past.iter().rev() {
        let mut exchanges = ToolExchange::read(task.data.as_deref());
        let told: usize = exchanges.iter().map(|exchange| exchange.said.len()).sum();
        if told > room {
            exchanges.clear();
        } else {
            room -= told;
        }
        let mut said = interleave(&task.messages, 0, &exchanges);
        // A message without an answer would stand before the next message of the caller, and many endpoints insist that
        // caller and model take turns.
        if task.messages.last().is_some_and(|message| message.role == Role::User) {
            said.push(Said::new("assistant", format!("[no answer: the task was {}]", task.state)));
        }
        tasks.push(said);
    }
    tasks.into_iter().rev().flatten().collect()
}

/// What was said in this task before the message that is answered now.
pub(super) fn history(task: &Task, messages_max: usize, exchanges: &[ToolExchange]) -> Vec<Said> {
    if messages_max == 0 {
        return Vec::new();
    }
    let from = task.history.len().saturating_sub(messages_max);
    let mut messages = task.history[from..].to_vec();
    let made: String = task.artifacts.iter().map(Artifact::joined_text).collect();
    if !made.is_empty() {
        let id = MessageId::parse(&task.id.to_string()).expect("a UUID is a legal id");
        messages.push(Message::text(id, Role::Agent, made));
    }
    // What is being answered now is not history yet.
    messages.extend(task.status.message.clone());
    interleave(&messages, from, exchanges)
}

/// Messages with the exchanges that belong between them; `from` messages of the history were left out before them.
fn interleave(messages: &[Message], from: usize, exchanges: &[ToolExchange]) -> Vec<Said> {
    let mut said = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let here = exchanges.iter().filter(|exchange| exchange.after == from + at && at > 0);
        said.extend(here.flat_map(|exchange| exchange.said.clone()));
        said.push(told(message));
    }
    said
}
