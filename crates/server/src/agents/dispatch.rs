//! An agent that passes each message to the agent that fits it best, and returns that agent's answer.
//!
//! The skill that a message names decides; else the store's full-text search ranks the agents' descriptions. Where the
//! configuration lists no agents, the candidates are the agents that the caller may call. The status shows the scores
//! and their sources. If two agents score nearly the same, the agent asks the caller to choose. The chosen agent's task
//! is a child of this one: its reports become ours, its questions go to the caller, and later messages go to it.

mod choice;
#[cfg(test)]
mod tests;

pub(crate) use self::choice::{DispatchCandidates, DispatchVerdict};
use super::AgentEnvironment;
use crate::config::agent::AgentConfig;
use crate::config::dispatch::DispatchConfig;
use crate::directory::AgentDirectory;
use crate::directory::peers::{PeerAgent, names};
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_gateway::{MirrorSettings, delegate};
use sabir_proto::{AgentName, Message, Object, Part};
use sabir_store::RankingMatch;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Weak;

/// The metadata member in which a status lists the candidates and their scores.
pub(crate) const RANKING: &str = "urn:sabir:ext:ranking:v1";
/// The key of the only child.
const KEY: &str = "dispatch";
/// The number of agents that a status lists.
const LISTED_MAX: usize = 5;

/// Passes each message on to the agent that fits it best.
pub struct Dispatch {
    own: AgentName,
    agents: Vec<AgentName>,
    fallback: Option<AgentName>,
    config: DispatchConfig,
    directory: Weak<AgentDirectory>,
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch").field("agents", &self.agents).finish_non_exhaustive()
    }
}

/// How far a task has come, as its checkpoint stores it.
#[derive(Debug, Serialize, Deserialize)]
enum DispatchStage {
    /// The caller was asked to choose among these agents.
    Asked(Vec<String>),
    /// This agent has the task.
    Passed(String),
}

impl Dispatch {
    /// Reads the agent's configuration. The error says what is wrong with it.
    pub(crate) fn new(config: &AgentConfig, ground: &AgentEnvironment<'_>) -> Result<Self, String> {
        let own = AgentName::parse(&config.name).map_err(|e| e.to_string())?;
        let dispatch = config.dispatch.clone().unwrap_or_default();
        dispatch.check()?;
        let agents = names("dispatch.agents", &dispatch.agents)?;
        let fallback = names("dispatch.fallback", dispatch.fallback.as_slice())?.pop();
        if agents.contains(&own) || fallback.as_ref() == Some(&own) {
            return Err("dispatch: an agent that passes on to itself never ends".into());
        }
        Ok(Self { own, agents, fallback, config: dispatch, directory: ground.directory.clone() })
    }

    /// The agents that may be chosen now: those that the configuration lists, or else those that the caller may call.
    async fn candidates(&self, cx: &Context) -> DispatchCandidates {
        let all = match self.directory.upgrade() {
            Some(directory) if self.agents.is_empty() => {
                directory.callable_by(cx.caller(), first(cx).skill().as_deref()).await
            }
            Some(directory) => directory.peers(),
            None => Vec::new(),
        };
        DispatchCandidates::new(all, Some(&self.own), &self.agents)
    }

    /// Picks the agent that fits and passes the message on, or asks the caller to choose.
    async fn begin(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let candidates = self.candidates(cx).await;
        let message = cx.message().clone();
        let (config, skill, text) = (self.config.clone(), message.skill(), message.joined_text());
        // The search is quick but it is synchronous, so it does not run on a thread of the async runtime.
        let ranked = tokio::task::spawn_blocking(move || {
            let verdict = candidates.choose(skill.as_deref(), &text, &config);
            (verdict, candidates)
        });
        let (verdict, candidates) = ranked.await?;
        match verdict? {
            DispatchVerdict::Sure { agent, fits } => {
                cx.progress(vec![with_scores(format!("passing this on to {agent}"), &fits)?]).await?;
                self.pass(cx, agent, message).await
            }
            DispatchVerdict::Unsure { agents, fits } => {
                let question = question("More than one agent could do this. Which one?", &agents, &candidates);
                self.ask(cx, &agents, with_scores(question, &fits)?)
            }
            DispatchVerdict::NoAgent { fits } => match &self.fallback {
                Some(fallback) => {
                    let words = format!("no agent fits; passing this on to {fallback}");
                    cx.progress(vec![with_scores(words, &fits)?]).await?;
                    self.pass(cx, fallback.clone(), message).await
                }
                None if candidates.is_empty() => Ok(Ending::reject("there is no agent to pass this on to")),
                None => {
                    let agents = candidates.first(self.config.choices_max);
                    let question = question("No agent seems to fit. Which one do you mean?", &agents, &candidates);
                    self.ask(cx, &agents, with_scores(question, &fits)?)
                }
            },
        }
    }

    fn ask(&self, cx: &mut Context, agents: &[AgentName], question: Part) -> Result<Ending, Failure> {
        let asked = DispatchStage::Asked(agents.iter().map(ToString::to_string).collect());
        cx.set_checkpoint(serde_json::to_vec(&asked)?);
        Ok(Ending::AskInput(vec![question]))
    }

    /// Reads the caller's answer to the question which agent is meant.
    async fn choose(&self, cx: &mut Context, asked: &[String]) -> Result<Ending, Failure> {
        let asked = names("the choice", asked).map_err(Failure)?;
        let candidates = self.candidates(cx).await;
        match choice::read_choice(&cx.message().joined_text(), &asked) {
            // An agent that was offered then may be gone now.
            Some(agent) if candidates.find(&agent).is_none() => {
                Ok(Ending::reject(format!("{agent} is no longer there for this")))
            }
            Some(agent) => {
                let message = first(cx);
                self.pass(cx, agent, message).await
            }
            None => {
                let question = question("That is none of them. Which one?", &asked, &candidates);
                self.ask(cx, &asked, Part::text(question))
            }
        }
    }

    /// Passes the first message of the task to an agent, or the caller's answer to that agent's question.
    async fn pass(&self, cx: &mut Context, agent: AgentName, message: Message) -> Result<Ending, Failure> {
        cx.set_checkpoint(serde_json::to_vec(&DispatchStage::Passed(agent.to_string()))?);
        let answer = delegate(cx, &agent, KEY, message.parts, message.metadata, &MirrorSettings::EVERYTHING).await?;
        Ok(answer.into_ending())
    }
}

/// The message that began the task: later messages are between the caller and the chosen agent.
fn first(cx: &Context) -> Message {
    cx.before().and_then(|task| task.history.first()).unwrap_or_else(|| cx.message()).clone()
}

impl Agent for Dispatch {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let stage: Option<DispatchStage> = cx.checkpoint().map(serde_json::from_slice).transpose()?;
        match stage {
            None => self.begin(cx).await,
            Some(DispatchStage::Asked(agents)) => self.choose(cx, &agents).await,
            Some(DispatchStage::Passed(agent)) => {
                let message = first(cx);
                self.pass(cx, AgentName::parse(&agent)?, message).await
            }
        }
    }

    fn execution(&self) -> Execution {
        Execution { recovery: Recovery::Resume, ..Execution::default() }
    }
}

fn question(words: &str, agents: &[AgentName], candidates: &DispatchCandidates) -> String {
    let lines = agents.iter().enumerate().map(|(at, name)| {
        let line = candidates.find(name).map_or_else(|| name.to_string(), PeerAgent::summary_line);
        format!("\n{}. {line}", at + 1)
    });
    words.to_owned() + &lines.collect::<String>()
}

/// A text part whose metadata has the scores.
fn with_scores(words: String, fits: &[RankingMatch]) -> Result<Part, Failure> {
    let round = |score: f64| (score * 100.0).round() / 100.0;
    let told = fits.iter().take(LISTED_MAX).map(|fit| {
        let because: Map<String, Value> =
            fit.field_scores.iter().map(|(field, score)| ((*field).to_owned(), json!(round(*score)))).collect();
        json!({"agent": fit.key, "score": round(fit.score), "because": because})
    });
    let members = Map::from_iter([(RANKING.to_owned(), told.collect())]);
    Ok(Part { metadata: Some(Object::from_map(&members)?), ..Part::text(words) })
}
