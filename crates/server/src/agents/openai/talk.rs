//! How far a turn has come: what was said, and the uses of tools that are left of this round.
//!
//! An agent that is used as a tool may ask something. The turn then ends with its question, and the next one goes on in the
//! middle of the round, where the answer to the question is the result of the tool. So the whole of it is put aside.

use super::chat::{Heard, Said, ToolCall, Usage};
use super::memory::{ToolExchange, messages_before};
use sabir_engine::{Context, Failure, LINEAGE};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes of a conversation that can be put aside: it is kept with the task, and read again for the next turn.
const ASIDE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Talk {
    pub(super) said: Vec<Said>,
    pub(super) left: Vec<ToolCall>,
    pub(super) round: u32,
    pub(super) spent: Usage,
    /// The turn that it began in, for the keys of children.
    begun: u64,
    /// What the model was told before this turn: everything after it was said in it.
    told: usize,
    /// How many messages of the history came before what is said in this turn.
    after: usize,
}

impl Talk {
    pub(super) fn begin(cx: &Context, said: Vec<Said>) -> Self {
        let (told, after) = (said.len(), messages_before(cx));
        Self { said, left: Vec::new(), round: 0, spent: Usage::default(), begun: number(cx), told, after }
    }

    /// What was put aside, where the caller answers the very question that it was put aside for.
    pub(super) fn paused(cx: &Context) -> Option<Self> {
        let talk: Self = serde_json::from_slice(cx.checkpoint()?).ok()?;
        let key = talk.key(talk.left.first()?);
        let question = cx.before()?.status.message.as_ref()?;
        let mut notes = question.parts.iter().filter_map(|part| part.metadata.as_ref()?.get(LINEAGE));
        notes.any(|note| note["asks"]["key"] == key.as_str()).then_some(talk)
    }

    pub(super) fn put_aside(&self) -> Result<Vec<u8>, Failure> {
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() > ASIDE_BYTES_MAX {
            return Err(Failure("the conversation is too long to be interrupted by a question".into()));
        }
        Ok(bytes)
    }

    /// Takes an answer that wants tools.
    pub(super) fn wants(&mut self, heard: Heard) {
        self.said.push(Said { tool_calls: heard.calls.clone(), ..Said::new("assistant", heard.text) });
        self.left = heard.calls;
    }

    /// The uses of tools in this turn that have all their results, if there were any.
    pub(super) fn exchange(&self) -> Option<ToolExchange> {
        let mut said = &self.said[self.told..];
        if !self.left.is_empty() {
            let open = said.iter().rposition(|said| !said.tool_calls.is_empty())?;
            said = &said[..open];
        }
        (!said.is_empty()).then(|| ToolExchange::new(self.after, said.to_vec()))
    }

    /// Takes what the first tool that is left has found.
    pub(super) fn found(&mut self, call: &ToolCall, result: String) {
        self.said.push(Said::found(call, result));
        self.left.remove(0);
    }

    /// What a use of a tool is called: the same in the next turn, and for the same words after a crash.
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
fn number(cx: &Context) -> u64 {
    cx.turn_id().rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}
