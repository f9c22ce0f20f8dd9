//! The messages of earlier turns for the model: of this task, and of the earlier tasks of the conversation.
//!
//! The messages of the caller and the model are in the log. Callers do not see which tools the model used, so the agent
//! keeps those exchanges beside the task ([`Context::keep`]), each with its place in the history. Endpoints refuse a
//! use of a tool without its result and a result without its use, so the model gets an exchange whole or not at all.

use super::chat::{ChatMessage, chat_message};
use super::tools::shortened;
use sabir_engine::{Context, ConversationLimits, Failure, PastTask};
use sabir_proto::{Artifact, Message, MessageId, Role, Task};
use serde::{Deserialize, Serialize};

/// Bytes of each result, where the whole exchange is too large to be kept.
const RESULT_BYTES: usize = 1024;

/// The uses of tools in one turn, with their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolExchange {
    /// The number of messages in the task's history before it.
    after: usize,
    said: Vec<ChatMessage>,
}

impl ToolExchange {
    pub(super) const fn new(after: usize, said: Vec<ChatMessage>) -> Self {
        Self { after, said }
    }

    /// The exchanges in the data that an agent kept.
    pub(super) fn read(data: Option<&[u8]>) -> Vec<Self> {
        data.and_then(|data| serde_json::from_slice(data).ok()).unwrap_or_default()
    }
}

/// The number of messages in the history when a turn begins, with the one that it answers.
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

/// The messages of the earlier tasks of the conversation, oldest first.
pub(super) fn conversation(past: &[PastTask], limits: ConversationLimits) -> Vec<ChatMessage> {
    let mut room = limits.messages_max.saturating_sub(past.iter().map(|task| task.messages.len()).sum());
    let mut tasks: Vec<Vec<ChatMessage>> = Vec::with_capacity(past.len());
    // If not all exchanges fit, the newest are sent.
    for task in past.iter().rev() {
        let mut exchanges = ToolExchange::read(task.data.as_deref());
        let told: usize = exchanges.iter().map(|exchange| exchange.said.len()).sum();
        if told > room {
            exchanges.clear();
        } else {
            room -= told;
        }
        let mut said = interleave(&task.messages, 0, &exchanges);
        // A message without an answer would stand before the next message of the caller, but many endpoints demand that
        // caller and model alternate.
        if task.messages.last().is_some_and(|message| message.role == Role::User) {
            said.push(ChatMessage::new("assistant", format!("[no answer: the task was {}]", task.state)));
        }
        tasks.push(said);
    }
    tasks.into_iter().rev().flatten().collect()
}

/// The messages of this task before the one that is answered now.
pub(super) fn history(task: &Task, messages_max: usize, exchanges: &[ToolExchange]) -> Vec<ChatMessage> {
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
    // The message that is answered now is not history yet.
    messages.extend(task.status.message.clone());
    interleave(&messages, from, exchanges)
}

/// Messages with the exchanges between them; `from` messages of the history were left out at the beginning.
fn interleave(messages: &[Message], from: usize, exchanges: &[ToolExchange]) -> Vec<ChatMessage> {
    let mut said = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let here = exchanges.iter().filter(|exchange| exchange.after == from + at && at > 0);
        said.extend(here.flat_map(|exchange| exchange.said.clone()));
        said.push(chat_message(message));
    }
    said
}
