//! The progress of a turn: its messages, and the tool calls of this round that have no result yet.
//!
//! An agent that is used as a tool may ask a question. The turn then ends with that question, and the next turn goes on
//! in the middle of the round: the answer to the question is the result of the tool. So the progress is stored as a
//! checkpoint.

use super::chat::{ChatMessage, ModelAnswer, ToolCall, Usage};
use super::conversation_history::{ToolExchange, messages_before};
use sabir_engine::{Context, Failure, LINEAGE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes of a checkpoint: it is stored with the task, and read again for the next turn.
const CHECKPOINT_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ModelTurn {
    pub(super) said: Vec<ChatMessage>,
    pub(super) left: Vec<ToolCall>,
    pub(super) round: u32,
    pub(super) spent: Usage,
    /// The number of the turn in which it began, for the keys of children.
    begun: u64,
    /// The number of messages before this turn; all later ones belong to it.
    told: usize,
    /// The number of messages in the task's history before this turn.
    after: usize,
}

impl ModelTurn {
    pub(super) fn begin(cx: &Context, said: Vec<ChatMessage>) -> Self {
        let (told, after) = (said.len(), messages_before(cx));
        Self { said, left: Vec::new(), round: 0, spent: Usage::default(), begun: turn_number(cx), told, after }
    }

    /// The stored progress, if the caller answers the question for which it was stored.
    pub(super) fn resume(cx: &Context) -> Option<Self> {
        let talk: Self = serde_json::from_slice(cx.checkpoint()?).ok()?;
        let key = talk.key(talk.left.first()?);
        let question = cx.before()?.status.message.as_ref()?;
        let mut notes = question.parts.iter().filter_map(|part| part.metadata.as_ref()?.get(LINEAGE));
        notes.any(|note| note["asks"]["key"] == key.as_str()).then_some(talk)
    }

    pub(super) fn to_checkpoint(&self) -> Result<Vec<u8>, Failure> {
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() > CHECKPOINT_BYTES_MAX {
            return Err(Failure("the conversation is too long to be interrupted by a question".into()));
        }
        Ok(bytes)
    }

    /// Adds an answer that asks for tools.
    pub(super) fn add_tool_calls(&mut self, answer: ModelAnswer) {
        self.said.push(ChatMessage { tool_calls: answer.calls.clone(), ..ChatMessage::new("assistant", answer.text) });
        self.left = answer.calls;
    }

    /// The tool calls of this turn that have all their results, if there are any.
    pub(super) fn finished_exchange(&self) -> Option<ToolExchange> {
        let mut said = &self.said[self.told..];
        if !self.left.is_empty() {
            let open = said.iter().rposition(|said| !said.tool_calls.is_empty())?;
            said = &said[..open];
        }
        (!said.is_empty()).then(|| ToolExchange::new(self.after, said.to_vec()))
    }

    /// Adds the result of the first tool call that is left.
    pub(super) fn add_result(&mut self, call: &ToolCall, result: String) {
        self.said.push(ChatMessage::tool_result(call, result));
        self.left.remove(0);
    }

    /// The key of a tool call: the same in the next turn, and for the same arguments after a crash.
    pub(super) fn key(&self, call: &ToolCall) -> String {
        let digest = Sha256::digest(format!("{}\n{}", call.function.name, call.function.arguments));
        let mut key = format!("tool/{}/{}.{}/", self.begun, self.round, self.left.len());
        for byte in digest.iter().take(8) {
            // Writing to a string cannot fail.
            _ = write!(key, "{byte:02x}");
        }
        key
    }
}

/// The number of a turn within its task.
fn turn_number(cx: &Context) -> u64 {
    cx.turn_id().rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}
