//! Agents that follow rules: demos, mocks and conformance runs.
//!
//! Rules are compiled into numbered lists of steps. The position (list and step) is the agent's checkpoint, so after a
//! crash a script continues at its step, and a task that asked a question continues with the rules for the answer.

use crate::config::agent::{ArtifactStep, ScriptRule, Step, Then, When};
use base64::Engine as _;
use regex::Regex;
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_proto::{Artifact, ArtifactId, Content, Json, Message, Part};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// A list longer than this is checkpointed at every step even if it never waits: it may be committed in pieces.
const UNCHECKED_STEPS_MAX: usize = 64;

/// An agent that follows a compiled script.
#[derive(Debug)]
pub struct Script {
    lists: Vec<List>,
    menus: Vec<Vec<ScriptChoice>>,
    /// Shows whether a checkpoint was made by this script.
    fingerprint: u64,
}

#[derive(Debug)]
struct List {
    steps: Vec<CompiledStep>,
    then: Option<FollowUp>,
    checked: bool,
}

#[derive(Debug, Clone, Copy)]
enum FollowUp {
    List(usize),
    Menu(usize),
}

#[derive(Debug)]
struct ScriptChoice {
    when: RuleCondition,
    list: usize,
}

#[derive(Debug)]
struct RuleCondition {
    text_contains: Option<String>,
    text_matches: Option<Regex>,
    message_id_prefix: Option<String>,
    skill: Option<String>,
}

#[derive(Debug)]
enum CompiledStep {
    Status(String),
    Wait(Duration),
    Artifact { artifact: Artifact, append: bool, last_chunk: bool },
    Echo,
    End(Ending),
}

/// The position of a task in its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    script: u64,
    turn: u64,
    list: usize,
    step: usize,
}

impl Script {
    /// Compiles rules; the error names the rule that is wrong.
    pub fn compile(rules: &[ScriptRule]) -> Result<Self, String> {
        if rules.is_empty() {
            return Err("a script needs at least one [[agent.rule]]".into());
        }
        let digest = Sha256::digest(format!("{rules:?}"));
        let fingerprint = digest.iter().take(7).fold(0, |n, b| (n << 8) | u64::from(*b));
        let mut script = Self { lists: Vec::new(), menus: vec![Vec::new()], fingerprint };
        let root = script.add_menu(rules, "rule")?;
        script.menus.swap(0, root);
        Ok(script)
    }

    fn add_menu(&mut self, rules: &[ScriptRule], path: &str) -> Result<usize, String> {
        let mut choices = Vec::with_capacity(rules.len());
        for (i, rule) in rules.iter().enumerate() {
            let path = format!("{path} {}", i + 1);
            let list = self.add_list(&rule.steps, &path)?;
            self.lists[list].then = match &rule.then {
                None => None,
                Some(Then::Steps(steps)) => Some(FollowUp::List(self.add_list(steps, &format!("{path}, then"))?)),
                Some(Then::Rules(rules)) => Some(FollowUp::Menu(self.add_menu(rules, &format!("{path}, then"))?)),
            };
            choices.push(ScriptChoice { when: condition(&rule.when).map_err(|e| format!("{path}: {e}"))?, list });
        }
        self.menus.push(choices);
        Ok(self.menus.len() - 1)
    }

    fn add_list(&mut self, steps: &[Step], path: &str) -> Result<usize, String> {
        let mut compiled = Vec::with_capacity(steps.len());
        for (i, step) in steps.iter().enumerate() {
            let place = |problem: &str| format!("{path}, step {}: {problem}", i + 1);
            if matches!(compiled.last(), Some(CompiledStep::End(_))) {
                return Err(place("nothing can follow the end of a turn"));
            }
            if matches!(step, Step::Message(_)) && i > 0 {
                return Err(place("a direct message must be the only step"));
            }
            compiled.extend(compile(step).map_err(|e| place(&e))?);
        }
        let waits = compiled.iter().any(|s| matches!(s, CompiledStep::Wait(_)));
        let checked = waits || compiled.len() > UNCHECKED_STEPS_MAX;
        self.lists.push(List { steps: compiled, then: None, checked });
        Ok(self.lists.len() - 1)
    }

    /// The list and step to begin with.
    fn start(&self, cx: &Context) -> Result<(usize, usize), Failure> {
        let turn = turn_number(cx);
        let position = cx.checkpoint().and_then(|data| serde_json::from_slice::<Position>(data).ok());
        let position = position.filter(|p| p.script == self.fingerprint && p.list < self.lists.len());
        if let Some(position) = position
            && position.turn == turn
        {
            return Ok((position.list, position.step));
        }
        let message = cx.message();
        let followed = position.and_then(|p| match self.lists[p.list].then? {
            FollowUp::List(list) => Some(list),
            FollowUp::Menu(menu) => self.choose(menu, message),
        });
        match followed.or_else(|| self.choose(0, message)) {
            Some(list) => Ok((list, 0)),
            None => Err(Failure("no rule of this script matches the message".into())),
        }
    }

    fn choose(&self, menu: usize, message: &Message) -> Option<usize> {
        let text = message.joined_text();
        self.menus[menu].iter().find(|choice| choice.when.holds(message, &text)).map(|choice| choice.list)
    }
}

/// The number of a turn is that of the event it began after; the engine's turn id ends with it.
fn turn_number(cx: &Context) -> u64 {
    cx.turn_id().rsplit_once('/').and_then(|(_, n)| n.parse().ok()).unwrap_or(0)
}

impl Agent for Script {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let (number, mut at) = self.start(cx)?;
        let list = &self.lists[number];
        let turn = turn_number(cx);
        let position = |step| Position { script: self.fingerprint, turn, list: number, step };
        while let Some(step) = list.steps.get(at) {
            match step {
                CompiledStep::Status(text) => cx.status(text.clone()).await?,
                CompiledStep::Wait(time) => cx.sleep(*time).await,
                CompiledStep::Artifact { artifact, append, last_chunk } => {
                    cx.chunk(artifact.clone(), *append, *last_chunk).await?;
                }
                CompiledStep::Echo => cx.artifact("echo", cx.message().parts.clone()).await?,
                CompiledStep::End(ending) => {
                    // Only an open question needs a checkpoint; a settled task takes no more messages.
                    if matches!(ending, Ending::AskInput(_) | Ending::AskAuth(_)) {
                        cx.set_checkpoint(serde_json::to_vec(&position(at))?);
                    }
                    return Ok(ending.clone());
                }
            }
            at += 1;
            if list.checked {
                cx.set_checkpoint(serde_json::to_vec(&position(at))?);
            }
        }
        Ok(Ending::complete())
    }

    fn execution(&self) -> Execution {
        // A script has no outside effects, waits included.
        Execution { instant: true, recovery: Recovery::Resume, ..Execution::default() }
    }
}

impl RuleCondition {
    fn holds(&self, message: &Message, text: &str) -> bool {
        self.text_contains.as_ref().is_none_or(|part| text.contains(part))
            && self.text_matches.as_ref().is_none_or(|pattern| pattern.is_match(text))
            && self.message_id_prefix.as_ref().is_none_or(|prefix| message.message_id.as_str().starts_with(prefix))
            && self.skill.as_ref().is_none_or(|skill| message.skill().as_deref() == Some(skill))
    }
}

fn condition(when: &When) -> Result<RuleCondition, String> {
    let text_matches = when.text_matches.as_deref().map(Regex::new).transpose().map_err(|e| e.to_string())?;
    Ok(RuleCondition {
        text_contains: when.text_contains.clone(),
        text_matches,
        message_id_prefix: when.message_id_prefix.clone(),
        skill: when.skill.clone(),
    })
}

fn compile(step: &Step) -> Result<Option<CompiledStep>, String> {
    Ok(Some(match step {
        Step::Message(text) if text.is_empty() => return Err("a direct message needs a text".into()),
        Step::Message(text) => CompiledStep::End(Ending::reply(text)),
        Step::Status(text) => CompiledStep::Status(text.clone()),
        Step::WaitMs(ms) => CompiledStep::Wait(Duration::from_millis(*ms)),
        Step::Echo(true) => CompiledStep::Echo,
        Step::Echo(false) => return Ok(None),
        Step::AskInput(text) => CompiledStep::End(Ending::ask_input(text)),
        Step::AskAuth(text) => CompiledStep::End(Ending::ask_auth(text)),
        Step::Complete(text) => CompiledStep::End(Ending::complete_with(text)),
        Step::Fail(text) => CompiledStep::End(Ending::fail(text)),
        Step::Reject(text) => CompiledStep::End(Ending::reject(text)),
        Step::Transfer(order) => CompiledStep::End(Ending::Transfer(Box::new(order.clone()))),
        Step::Artifact(step) => {
            let artifact_id = ArtifactId::parse(&step.id).map_err(|e| format!("artifact id {e}"))?;
            let mut artifact = Artifact::new(artifact_id, vec![part(step)?]);
            artifact.name.clone_from(&step.name);
            CompiledStep::Artifact { artifact, append: step.append, last_chunk: step.last_chunk }
        }
    }))
}

fn part(step: &ArtifactStep) -> Result<Part, String> {
    let content = match (&step.text, &step.data, &step.url, &step.raw) {
        (Some(text), None, None, None) => Content::Text(text.clone()),
        (None, Some(data), None, None) => Content::Data(Json::of(data).map_err(|e| e.to_string())?),
        (None, None, Some(url), None) => Content::Url(url.clone()),
        (None, None, None, Some(raw)) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(raw);
            Content::Raw(bytes.map_err(|e| format!("raw is not base64: {e}"))?)
        }
        _ => return Err("an artifact has exactly one of text, data, url, raw".into()),
    };
    let (media_type, filename) = (step.media_type.clone(), step.filename.clone());
    Ok(Part { content, metadata: None, filename, media_type })
}
