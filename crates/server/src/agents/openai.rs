//! A model as an agent: any endpoint that speaks OpenAI's chat completions.
//!
//! One message is one turn, and a turn is a few rounds: the model answers, or it wants tools; then it is told what they
//! found and asked again. Its words stream into one artifact. Words before a use of tools are thoughts, and the next round
//! replaces them. What a conversation has come to is in the task, so a later turn tells the model what was said before.
//!
//! | Room | What is there |
//! |---|---|
//! | `chat` | the words of chat completions |
//! | `talk` | how far a turn has come, also one that waits for an answer to an agent's question |
//! | `tools` | what the model may use on this turn, and the result of using it |
//! | `mcp` | servers that offer tools |
//!
//! Tokens are what the endpoint says they are. Nothing is counted that it does not report.

mod chat;
mod mcp;
mod talk;
#[cfg(test)]
mod tests;
mod tools;

pub(super) use self::chat::as_text;
use self::chat::{Heard, Said, Usage};
use self::talk::Talk;
use self::tools::{Offer, Outcome, Tools};
use super::http::{answer_id, endpoint_url, is_busy, refused, unheard};
use super::remote::written_down;
use super::{Ground, reveal};
use crate::config::agent::AgentConfig;
use crate::config::openai::OpenaiConfig;
use http::{HeaderValue, header};
use sabir_engine::{Agent, Context, Ending, Failure, Nature, Recovery};
use sabir_gateway::{Arriving, Asking, Endpoint, Timeouts, Tls};
use sabir_proto::{Artifact, Object, Part, Secret};
use serde_json::{Map, Value, json};
use std::time::Duration;
use url::Url;

/// Where an artifact says what it cost.
pub(crate) const USAGE: &str = "urn:sabir:ext:usage:v1";
/// How long words wait for company. Each chunk is an event and a commit, and a person does not notice this long.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// Bytes that wait at most.
const GATHER_BYTES_MAX: usize = 8 << 10;

/// A model that answers messages.
pub struct Openai {
    endpoint: Endpoint,
    url: Url,
    key: Option<Secret>,
    idempotent: bool,
    parameters: Map<String, Value>,
    tools: Tools,
    config: OpenaiConfig,
}

impl std::fmt::Debug for Openai {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Openai").field("model", &self.config.model).finish_non_exhaustive()
    }
}

/// The answer as it becomes an artifact.
struct Telling<'a> {
    cx: &'a Context,
    /// Words that have not been reported.
    held: String,
    /// Whether the artifact has words of this round, so that more are added to them.
    begun: bool,
}

impl Openai {
    /// Reads what the configuration says; the error says what is wrong with it.
    pub(crate) fn new(config: &AgentConfig, ground: &Ground<'_>) -> Result<Self, String> {
        let openai = config.openai.clone().ok_or("kind = \"openai\" needs an [agent.openai] with a model")?;
        openai.check()?;
        let mut url = endpoint_url(config.url.as_deref(), "openai")?;
        if !url.path().trim_end_matches('/').ends_with("/chat/completions") {
            let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        let key = config.bearer.as_ref().map(|reference| reveal(ground.secrets, "bearer", reference)).transpose()?;
        let Value::Object(parameters) = serde_json::to_value(&openai.parameters).map_err(|e| e.to_string())? else {
            return Err("openai.parameters is a table".into());
        };
        let timeouts = Timeouts {
            answer: Duration::from_secs(openai.limits.answer_seconds_max),
            idle: Duration::from_secs(openai.limits.silence_seconds_max),
            ..Timeouts::default()
        };
        let policy = written_down(ground.egress.policy(), url.as_str());
        let endpoint = Endpoint::new(policy, &Tls::default(), timeouts).map_err(|e| e.to_string())?;
        let endpoint = endpoint.room(ground.answers.part());
        let tools = Tools::new(&openai, ground)?;
        Ok(Self { endpoint, url, key, idempotent: config.idempotent, parameters, tools, config: openai })
    }

    /// What the model is told at the beginning of a turn.
    fn conversation(&self, cx: &Context) -> Vec<Said> {
        let mut said: Vec<Said> = self.config.system.iter().map(|text| Said::new("system", text.as_str())).collect();
        said.extend(cx.before().iter().flat_map(|task| chat::history(task, self.config.limits.history_messages_max)));
        said.push(chat::told(cx.message()));
        said
    }

    /// Asks the model, and waits until it has begun to answer.
    async fn ask(&self, said: &[Said], offers: &[Offer]) -> Result<Arriving, Failure> {
        let mut body = self.parameters.clone();
        body.insert("model".into(), json!(self.config.model));
        body.insert("messages".into(), serde_json::to_value(said)?);
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
        if !offers.is_empty() {
            body.insert("tools".into(), offers.iter().map(Offer::definition).collect());
        }
        let mut asking = Asking::post_json(self.url.clone(), serde_json::to_vec(&body)?.into());
        asking = asking.header(header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if let Some(key) = &self.key {
            asking = asking.bearer(key)?;
        }
        self.endpoint.send(asking, self.config.limits.answer_bytes_max).await.map_err(|error| unheard(&error))
    }

    /// One round: the model's answer from its first word to its last.
    async fn round(
        &self,
        cx: &Context,
        said: &[Said],
        offers: &[Offer],
        spent: &mut Usage,
    ) -> Result<Result<Heard, Ending>, Failure> {
        let mut answer = self.ask(said, offers).await?;
        // A model is asked, not told: asking twice changes nothing, and a busy one most often is not after a moment.
        if is_busy(answer.status()) {
            cx.sleep(answer.retry_after().unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(30))).await;
            answer = self.ask(said, offers).await?;
        }
        let (status, media_type) = (answer.status(), answer.media_type());
        if !status.is_success() {
            return Ok(Err(refused(status, answer).await));
        }
        let mut heard = Heard::default();
        let mut telling = Telling { cx, held: String::new(), begun: false };
        if media_type != "text/event-stream" {
            let body = answer.body().await.map_err(|error| unheard(&error))?;
            telling.held = heard.take(&String::from_utf8_lossy(&body)).map_err(Failure)?;
        } else {
            telling.follow(answer, &mut heard).await?;
        }
        if heard.finish.is_none() && heard.calls.is_empty() && heard.text.is_empty() {
            return Err(Failure("the model said nothing".into()));
        }
        spent.prompt_tokens = spent.prompt_tokens.saturating_add(heard.usage.prompt_tokens);
        spent.completion_tokens = spent.completion_tokens.saturating_add(heard.usage.completion_tokens);
        let metadata = heard.calls.is_empty().then(|| self.metadata(&heard, *spent)).transpose()?;
        telling.end(metadata).await?;
        Ok(Ok(heard))
    }

    /// Books what a round has cost on the conversation, which ends where that is too much.
    async fn book(&self, cx: &Context, before: Usage, after: Usage) -> Result<(), Failure> {
        let price = self.config.price;
        let micros = |tokens: u64, price: u64| tokens.saturating_mul(price) / 1000;
        let read = micros(after.prompt_tokens - before.prompt_tokens, price.input_micros);
        let cost = read.saturating_add(micros(after.completion_tokens - before.completion_tokens, price.output_micros));
        if cost > 0 {
            cx.spend(cost).await?;
        }
        Ok(())
    }

    /// What is known of how an answer was made.
    fn metadata(&self, heard: &Heard, spent: Usage) -> Result<Object, Failure> {
        let Usage { prompt_tokens, completion_tokens } = spent;
        let mut usage = json!({
            "model": self.config.model,
            "inputTokens": prompt_tokens,
            "outputTokens": completion_tokens,
        });
        if let Some(reason) = &heard.finish {
            usage["finishReason"] = json!(reason);
        }
        let members: Map<String, Value> = [(USAGE.to_owned(), usage)].into_iter().collect();
        Ok(Object::from_map(&members)?)
    }
}

impl Agent for Openai {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let mut talk = match Talk::paused(cx) {
            Some(talk) => talk,
            None => Talk::begin(cx, self.conversation(cx)),
        };
        let offers = self.tools.offered(cx.tools()).await.map_err(Failure)?;
        loop {
            while let Some(call) = talk.left.first().cloned() {
                match self.tools.use_one(cx, &offers, &call, &talk.key(&call)).await? {
                    Outcome::Found(result) => talk.found(&call, result),
                    Outcome::Asks(ending) => return Ok(ending),
                    Outcome::Waits(ending) => {
                        cx.set_checkpoint(talk.put_aside()?);
                        return Ok(ending);
                    }
                }
            }
            if talk.round == self.config.limits.rounds_max {
                let most = talk.round;
                return Ok(Ending::fail(format!("the model was asked {most} times and did not come to an end")));
            }
            talk.round += 1;
            let before = talk.spent;
            let heard = match self.round(cx, &talk.said, &offers, &mut talk.spent).await? {
                Ok(heard) => heard,
                Err(ending) => return Ok(ending),
            };
            self.book(cx, before, talk.spent).await?;
            if heard.calls.is_empty() {
                return Ok(match heard.finish.as_deref() {
                    Some("content_filter") => Ending::reject("the model's operator does not let it answer this"),
                    _ => Ending::complete(),
                });
            }
            if heard.calls.len() > self.config.limits.calls_max {
                let (wanted, most) = (heard.calls.len(), self.config.limits.calls_max);
                return Ok(Ending::fail(format!("the model wanted {wanted} tools at once, and may use {most}")));
            }
            talk.wants(heard);
        }
    }

    fn nature(&self) -> Nature {
        let recovery = if self.idempotent { Recovery::Restart } else { Recovery::Fail };
        Nature { recovery, ..Nature::default() }
    }
}

impl Telling<'_> {
    /// Reports words as they come, a few at a time.
    async fn follow(&mut self, mut answer: Arriving, heard: &mut Heard) -> Result<(), Failure> {
        loop {
            let frame = if self.held.is_empty() {
                answer.frame().await
            } else {
                match tokio::time::timeout(GATHER_TIME, answer.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => {
                        self.report(None, false).await?;
                        continue;
                    }
                }
            };
            let Some(frame) = frame.map_err(|error| unheard(&error))? else { return Ok(()) };
            match frame.data.trim() {
                "" => {}
                "[DONE]" => return Ok(()),
                data => self.held.push_str(&heard.take(data).map_err(Failure)?),
            }
            if self.held.len() >= GATHER_BYTES_MAX {
                self.report(None, false).await?;
            }
        }
    }

    /// Reports what is left, as the last of it where there is `metadata` to go with it.
    async fn end(&mut self, metadata: Option<Object>) -> Result<(), Failure> {
        let is_last = metadata.is_some();
        if !self.held.is_empty() || is_last && self.begun {
            self.report(metadata, is_last).await?;
        }
        Ok(())
    }

    async fn report(&mut self, metadata: Option<Object>, is_last: bool) -> Result<(), Failure> {
        let words = std::mem::take(&mut self.held);
        let artifact = Artifact { metadata, ..Artifact::new(answer_id(), vec![Part::text(words)]) };
        self.cx.chunk(artifact, self.begun, is_last).await?;
        self.begun = true;
        Ok(())
    }
}
