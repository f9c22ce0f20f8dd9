//! `@name` inside a message: the server asks that agent first, and puts its answer before the message.
//!
//! It wraps an agent of any kind. That agent gets the message unchanged, with a part before it for each mentioned
//! agent. The configuration lists who may be mentioned, because a mention opens a task of the mentioned agent for every
//! caller that may call this one. A loop of mentions ends, like every loop of tasks, at the budget of the family; the
//! answering agent then reads that the mentioned agent could not be asked.
//!
//! The source of mentions is a trait: names in texts are one source, and others can be added.

use crate::config::agent::MentionConfig;
use sabir_engine::{
    AnyAgent, BoxFuture, CancelOutcome, CanceledTask, Child, Context, Ending, Execution, Failure, TransferredTask,
};
use sabir_proto::{AgentName, Fault, Message, NonText, Object, Part, Task, TaskState};
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;

/// The metadata member in which a part names the agent that gave the answer.
pub(crate) const MENTION: &str = "urn:sabir:ext:mention:v1";
/// Agents that one message may mention.
const MENTIONS_MAX: usize = 8;

/// A mentioned agent, and the message for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The mentioned agent.
    pub agent: AgentName,
    /// The message without the names.
    pub parts: Vec<Part>,
}

/// A source of mentions.
pub trait Mentions: Send + Sync + 'static {
    /// The agents that a message mentions, each once and in order.
    fn of(&self, message: &Message) -> Vec<Mention>;
}

/// Finds `@name` in the text of a message.
#[derive(Debug, Clone)]
pub struct MentionNames {
    /// Each name after the `@`, and the agent it stands for.
    names: Vec<(String, AgentName)>,
}

impl MentionNames {
    /// Reads the list of a configuration. The error says what is wrong with it.
    pub fn new(config: &[MentionConfig]) -> Result<Self, String> {
        let mut names: Vec<(String, AgentName)> = Vec::new();
        for mention in config {
            let (agent, given) = match mention {
                MentionConfig::Agent(agent) => (agent, std::slice::from_ref(agent)),
                MentionConfig::Named(named) => (&named.agent, &*named.names),
            };
            let agent = AgentName::parse(agent).map_err(|e| format!("mentions: {agent:?} {e}"))?;
            if given.is_empty() {
                return Err(format!("mentions: {agent} has no names; give at least one, or only the agent's own name"));
            }
            for name in given {
                // Punctuation at the end of a sentence cannot end a name.
                if name.is_empty() || !name.chars().all(is_name_char) || name.ends_with(['.', '-']) {
                    let what = "letters, digits, -, _ and . in between";
                    return Err(format!("mentions: {name:?} cannot be mentioned; a name has {what}"));
                }
                let taken = names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                if let Some((_, other)) = taken.filter(|(_, other)| *other != agent) {
                    return Err(format!("mentions: {name:?} stands for {other} and for {agent}; give one of them"));
                }
                names.push((name.clone(), agent.clone()));
            }
        }
        Ok(Self { names })
    }
}

/// Whether a character may be part of a name that is mentioned.
fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.')
}

impl Mentions for MentionNames {
    fn of(&self, message: &Message) -> Vec<Mention> {
        let mut named: Vec<AgentName> = Vec::new();
        for part in &message.parts {
            let found = part.as_text().into_iter().flat_map(|text| self.find(text)).map(|(_, _, name)| name);
            for name in found {
                if !named.contains(name) {
                    named.push(name.clone());
                }
            }
        }
        let told: Vec<Part> = message.parts.iter().map(|part| self.without_names(part)).collect();
        named.into_iter().map(|agent| Mention { agent, parts: told.clone() }).collect()
    }
}

impl MentionNames {
    /// The mentions in a text: start, end and agent.
    fn find<'a>(&'a self, text: &'a str) -> Vec<(usize, usize, &'a AgentName)> {
        let mut found = Vec::new();
        for (at, _) in text.match_indices('@') {
            // After a name character the `@` is part of an address, not a mention.
            if text[..at].chars().next_back().is_some_and(is_name_char) {
                continue;
            }
            let rest = &text[at + 1..];
            let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
            let word = rest[..end].trim_end_matches(['.', '-']);
            if let Some((_, agent)) = self.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
                found.push((at, at + 1 + word.len(), agent));
            }
        }
        found
    }

    /// A part as the mentioned agents get it: without their names.
    fn without_names(&self, part: &Part) -> Part {
        let Some(text) = part.as_text() else { return part.clone() };
        let (mut told, mut from) = (String::with_capacity(text.len()), 0);
        for (at, end, _) in self.find(text) {
            told.push_str(text[from..at].trim_end_matches(' '));
            from = end;
        }
        told.push_str(&text[from..]);
        let told = told.trim_start_matches([' ', ',', ':']).to_owned();
        Part { content: sabir_proto::Content::Text(told), ..part.clone() }
    }
}

/// An agent that gets the answers of the mentioned agents with the message.
pub(crate) struct MentioningAgent {
    inner: Arc<dyn AnyAgent>,
    source: Arc<dyn Mentions>,
}

impl MentioningAgent {
    pub(crate) fn new(inner: Arc<dyn AnyAgent>, source: Arc<dyn Mentions>) -> Self {
        Self { inner, source }
    }

    async fn ask_mentioned(&self, cx: &mut Context) -> Result<(), Failure> {
        let mentions = self.source.of(cx.message());
        if mentions.is_empty() {
            return Ok(());
        }
        if mentions.len() > MENTIONS_MAX {
            return Err(Failure(format!("a message may mention {MENTIONS_MAX} agents, not {}", mentions.len())));
        }
        let names: Vec<&str> = mentions.iter().map(|mention| mention.agent.as_str()).collect();
        cx.status(format!("asking {}", names.join(", "))).await?;
        // All requests are sent before the first answer is awaited.
        let mut asked = Vec::new();
        for Mention { agent, parts } in mentions {
            let key = format!("mention/{}/{agent}", cx.turn_id());
            let child = cx.delegate(&agent, &key, parts, None).await;
            asked.push((agent, child));
        }
        let mut heard = Vec::new();
        for (agent, child) in asked {
            heard.push(match child {
                Ok(child) => read_answer(&agent, &child).await?,
                Err(fault) => part(&agent, None, "could not be asked", &fault.to_string())?,
            });
        }
        cx.prepend_parts(heard);
        Ok(())
    }
}

impl AnyAgent for MentioningAgent {
    fn any_turn<'a>(&'a self, cx: &'a mut Context) -> BoxFuture<'a, Result<Ending, Failure>> {
        Box::pin(async move {
            self.ask_mentioned(cx).await?;
            self.inner.any_turn(cx).await
        })
    }

    fn any_execution(&self) -> Execution {
        // To ask other agents is an effect. A repeated turn finds the same children.
        Execution { instant: false, defer_open: false, ..self.inner.any_execution() }
    }

    fn any_check_admission(&self) -> Result<(), Fault> {
        self.inner.any_check_admission()
    }

    fn any_on_canceled(&self, canceled: CanceledTask) -> BoxFuture<'_, ()> {
        self.inner.any_on_canceled(canceled)
    }

    fn any_on_handed_over(&self, handed_over: TransferredTask) -> BoxFuture<'_, ()> {
        self.inner.any_on_handed_over(handed_over)
    }

    fn any_cancel_grace(&self) -> Duration {
        self.inner.any_cancel_grace()
    }

    fn any_cancel_elsewhere(&self, canceled: CanceledTask) -> BoxFuture<'_, CancelOutcome> {
        self.inner.any_cancel_elsewhere(canceled)
    }

    fn any_repeat_cancel(&self, canceled: CanceledTask) -> BoxFuture<'_, bool> {
        self.inner.any_repeat_cancel(canceled)
    }
}

/// The answer of a mentioned agent, as the answering agent reads it. A question counts as an answer: no caller is there
/// to answer it.
async fn read_answer(agent: &AgentName, child: &Child) -> Result<Part, Failure> {
    let task = match child.wait_until_rest().await {
        Ok(task) => task.thaw().ok_or_else(|| Failure("the record of a task cannot be read".into()))?,
        Err(fault) => return part(agent, None, "could not be heard", &fault.to_string()),
    };
    let how = match task.status.state {
        TaskState::Completed | TaskState::Transferred => "says",
        TaskState::InputRequired | TaskState::AuthRequired => {
            // The question becomes a part of the message; no caller will answer it. If it stays open, it is only one
            // more row in the list of open questions.
            if let Err(fault) = child.cancel().await {
                tracing::warn!(%agent, task = %child.id(), %fault, "a question that no caller can answer could not be canceled");
            }
            "asks"
        }
        _ => "could not answer",
    };
    part(agent, Some(&task), how, &task.answer_text(NonText::Describe))
}

fn part(agent: &AgentName, task: Option<&Task>, how: &str, words: &str) -> Result<Part, Failure> {
    let mut members = json!({"agent": agent.as_str()});
    if let Some(task) = task {
        members["taskId"] = json!(task.id.to_string());
        members["state"] = json!(task.status.state.name());
    }
    let metadata = Object::from_map(&Map::from_iter([(MENTION.to_owned(), members)]))?;
    Ok(Part { metadata: Some(metadata), ..Part::text(format!("@{agent} {how}: {words}")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{MessageId, Role};

    fn mentions(text: &str) -> Vec<(String, String)> {
        let config = ["ledger", "travel-desk"].map(|name| MentionConfig::Agent(name.into()));
        let message = Message::text(MessageId::parse("m").unwrap(), Role::User, text);
        let told = |mention: Mention| (mention.agent.to_string(), mention.parts[0].as_text().unwrap().to_owned());
        MentionNames::new(&config).unwrap().of(&message).into_iter().map(told).collect()
    }

    #[test]
    fn names_are_found_where_they_are_mentioned() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let expected: Vec<_> = expected.iter().map(|(a, t)| ((*a).to_owned(), (*t).to_owned())).collect();
            assert_eq!(mentions(text), expected, "{text}");
        };
        check("@ledger what is due?", &[("ledger", "what is due?")]);
        check("Ask @ledger, what is due", &[("ledger", "Ask, what is due")]);
        check("So, @Travel-Desk.", &[("travel-desk", "So,.")]);
        check("@ledger and @travel-desk and @ledger", &[("ledger", "and and"), ("travel-desk", "and and")]);
        check("mail me@ledger", &[]);
        check("@ledgers @stranger @", &[]);
        check("ärger@ledger (@ledger)", &[("ledger", "ärger@ledger ()")]);
    }

    #[test]
    fn an_agent_is_mentioned_by_the_names_that_are_listed_for_it() {
        let config = |text: &str| {
            #[derive(serde::Deserialize)]
            struct MentionsFile {
                mentions: Vec<MentionConfig>,
            }
            MentionNames::new(&toml::from_str::<MentionsFile>(text).map_err(|e| e.to_string())?.mentions)
        };
        let named = config(r#"mentions = ["travel", { agent = "ledger-eu", names = ["ledger", "Buch.haltung"] }]"#);
        let named = named.unwrap();
        let asked = |text: &str| {
            let message = Message::text(MessageId::parse("m").unwrap(), Role::User, text);
            named.of(&message).into_iter().map(|mention| mention.agent.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(asked("@Ledger and @buch.haltung. Both!"), ["ledger-eu"], "each agent once");
        assert_eq!(asked("@ledger-eu"), [""; 0], "not by a name that is not listed");
        assert_eq!(asked("@travel, @ledger"), ["travel", "ledger-eu"]);
        for (wrong, says) in [
            (r#"mentions = [{ agent = "ledger", names = [] }]"#, "no names"),
            (r#"mentions = [{ agent = "ledger", names = ["a b"] }]"#, "cannot be mentioned"),
            (r#"mentions = ["a", { agent = "b", names = ["A"] }]"#, "stands for a and for b"),
            (r#"mentions = ["not a name"]"#, "not a name"),
        ] {
            let problem = config(wrong).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
