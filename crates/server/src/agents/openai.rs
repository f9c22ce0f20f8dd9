//! A model as an agent: any endpoint that speaks OpenAI's chat completions.
//!
//! One message is one turn, and a turn has a few rounds: the model answers, or it wants tools; then it gets their
//! results and is asked again. Its text streams into one artifact. Text before a use of tools is thinking, and the next
//! round replaces it. Earlier messages are in the log, in this task and in the earlier tasks of the conversation, and a
//! later turn sends them to the model.
//!
//! | Module | What is there |
//! |---|---|
//! | `chat` | the JSON of chat completions |
//! | `conversation_history` | the messages of earlier turns, for the model |
//! | `model_turn` | the progress of a turn, also of one that waits for an answer to an agent's question |
//! | `tools` | what the model may use on this turn, and the result of using it |
//! | `mcp` | servers that offer tools |
//!
//! The endpoint reports the number of tokens. The server does not count them itself.

mod chat;
mod conversation_history;
mod mcp;
mod model_turn;
#[cfg(test)]
mod tests;
mod tools;

use self::chat::{ChatMessage, ModelAnswer, Usage};
use self::conversation_history::ToolExchange;
use self::model_turn::ModelTurn;
use self::tools::{OfferedTool, ToolOutcome, Tools};
use super::chunks::{ChunkLimits, TextChunks};
use super::http::{EndpointCall, RepeatAfter, answer_id, endpoint_url};
use super::remote::allow_configured;
use super::{AgentEnvironment, reveal};
use crate::config::agent::AgentConfig;
use crate::config::openai::OpenaiConfig;
use http::{HeaderValue, header};
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_gateway::{EndpointClient, EndpointRequest, EndpointResponse, Timeouts, Tls};
use sabir_proto::{Object, Secret};
use serde_json::{Map, Value, json};
use std::time::Duration;
use url::Url;

/// Maximum number of requests in one round while the model cannot be reached or is busy.
const ATTEMPTS_MAX: u32 = 3;

/// The metadata member in which an artifact states its cost.
pub(crate) const USAGE: &str = "urn:sabir:ext:usage:v1";

/// A model that answers messages.
pub struct Openai {
    endpoint: EndpointClient,
    url: Url,
    api_key: Option<Secret>,
    idempotent: bool,
    parameters: Map<String, Value>,
    tools: Tools,
    chunks: ChunkLimits,
    config: OpenaiConfig,
}

impl std::fmt::Debug for Openai {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Openai").field("model", &self.config.model).finish_non_exhaustive()
    }
}

impl Openai {
    /// Reads the agent's configuration. The error says what is wrong with it.
    pub(crate) fn new(config: &AgentConfig, ground: &AgentEnvironment<'_>) -> Result<Self, String> {
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
        let policy = allow_configured(ground.egress.policy(), url.as_str());
        let endpoint = EndpointClient::new(policy, &Tls::default(), timeouts).map_err(|e| e.to_string())?;
        let endpoint = endpoint.with_capacity(ground.answers.part());
        let tools = Tools::new(&openai, ground)?;
        let (idempotent, chunks) = (config.idempotent, ground.chunks);
        Ok(Self { endpoint, url, api_key: key, idempotent, parameters, tools, chunks, config: openai })
    }

    /// The messages that the model gets at the beginning of a turn.
    async fn conversation(&self, cx: &Context) -> Result<Vec<ChatMessage>, Failure> {
        let mut said: Vec<ChatMessage> =
            self.config.system.iter().map(|text| ChatMessage::new("system", text.as_str())).collect();
        let limits = self.config.limits.conversation();
        said.extend(conversation_history::conversation(&cx.conversation_within(limits).await?, limits));
        if let Some(task) = cx.before() {
            let exchanges = ToolExchange::read(cx.kept().await?.as_deref());
            said.extend(conversation_history::history(task, self.config.limits.history_messages_max, &exchanges));
        }
        said.push(chat::chat_message(cx.message()));
        Ok(said)
    }

    fn call<'a>(&'a self, cx: &'a Context) -> EndpointCall<'a> {
        let bytes_max = self.config.limits.answer_bytes_max;
        EndpointCall { cx, endpoint: &self.endpoint, url: &self.url, bytes_max, attempts_max: ATTEMPTS_MAX }
    }

    /// Sends a request to the model, and waits until the answer begins.
    async fn ask(
        &self,
        cx: &Context,
        said: &[ChatMessage],
        offers: &[OfferedTool],
    ) -> Result<EndpointResponse, Failure> {
        let mut body = self.parameters.clone();
        body.insert("model".into(), json!(self.config.model));
        body.insert("messages".into(), serde_json::to_value(said)?);
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
        if !offers.is_empty() {
            body.insert("tools".into(), offers.iter().map(OfferedTool::definition).collect());
        }
        let mut asking = EndpointRequest::post_json(self.url.clone(), serde_json::to_vec(&body)?.into());
        asking = asking.header(header::ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if let Some(key) = &self.api_key {
            asking = asking.bearer(key)?;
        }
        // A second request changes nothing, and a busy model is most often free after a moment.
        self.call(cx).send(asking, RepeatAfter::Busy).await
    }

    /// One round: the model's answer from its first word to its last.
    async fn round(
        &self,
        cx: &Context,
        said: &[ChatMessage],
        offers: &[OfferedTool],
        spent: &mut Usage,
    ) -> Result<Result<ModelAnswer, Ending>, Failure> {
        let (call, answer) = (self.call(cx), self.ask(cx, said, offers).await?);
        let media_type = answer.media_type();
        if !answer.status().is_success() {
            return Ok(Err(call.refused(answer).await));
        }
        let mut model_answer = ModelAnswer::default();
        let mut chunks = TextChunks::new(cx, answer_id(), self.chunks);
        if media_type != "text/event-stream" {
            let body = answer.body().await.map_err(|error| call.failed(&error))?;
            chunks.hold(&model_answer.read_chunk(&String::from_utf8_lossy(&body)).map_err(Failure)?);
        } else if let Err(failure) = relay_stream(call, answer, &mut model_answer, &mut chunks).await {
            // The caller keeps what the model said before it broke off.
            chunks.flush().await?;
            return Err(failure);
        }
        if model_answer.finish.is_none() && model_answer.calls.is_empty() && model_answer.text.is_empty() {
            return Err(Failure("the model said nothing".into()));
        }
        spent.prompt_tokens = spent.prompt_tokens.saturating_add(model_answer.usage.prompt_tokens);
        spent.completion_tokens = spent.completion_tokens.saturating_add(model_answer.usage.completion_tokens);
        if model_answer.calls.is_empty() {
            chunks.finish(Some(self.metadata(&model_answer, *spent)?)).await?;
        } else {
            chunks.flush().await?;
        }
        Ok(Ok(model_answer))
    }

    /// Charges the cost of a round to the conversation. Fails the turn if the conversation has spent too much.
    async fn charge(&self, cx: &Context, before: Usage, after: Usage) -> Result<(), Failure> {
        let price = self.config.price;
        let micros = |tokens: u64, price: u64| tokens.saturating_mul(price) / 1000;
        let read = micros(after.prompt_tokens - before.prompt_tokens, price.input_micros);
        let cost = read.saturating_add(micros(after.completion_tokens - before.completion_tokens, price.output_micros));
        if cost > 0 {
            cx.spend(cost).await?;
        }
        Ok(())
    }

    /// Ends a turn, and keeps its uses of tools for later turns of the conversation.
    async fn end(&self, cx: &Context, talk: &ModelTurn, ending: Ending) -> Result<Ending, Failure> {
        let limits = self.config.limits.conversation();
        if let Some(exchange) = talk.finished_exchange().filter(|_| limits.messages_max > 0) {
            conversation_history::keep(cx, exchange, limits).await?;
        }
        Ok(ending)
    }

    /// The metadata of an answer: model, tokens and reason of the end.
    fn metadata(&self, model_answer: &ModelAnswer, spent: Usage) -> Result<Object, Failure> {
        let Usage { prompt_tokens, completion_tokens } = spent;
        let mut usage = json!({
            "model": self.config.model,
            "inputTokens": prompt_tokens,
            "outputTokens": completion_tokens,
        });
        if let Some(reason) = &model_answer.finish {
            usage["finishReason"] = json!(reason);
        }
        let members: Map<String, Value> = [(USAGE.to_owned(), usage)].into_iter().collect();
        Ok(Object::from_map(&members)?)
    }
}

impl Agent for Openai {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let mut talk = match ModelTurn::resume(cx) {
            Some(talk) => talk,
            None => ModelTurn::begin(cx, self.conversation(cx).await?),
        };
        let offers = self.tools.offered(cx.tool_mode()).await.map_err(Failure)?;
        loop {
            while let Some(call) = talk.left.first().cloned() {
                match self.tools.use_one(cx, &offers, &call, &talk.key(&call)).await? {
                    ToolOutcome::Found(result) => talk.add_result(&call, result),
                    ToolOutcome::Asks(ending) => return self.end(cx, &talk, ending).await,
                    ToolOutcome::Waits(ending) => {
                        cx.set_checkpoint(talk.to_checkpoint()?);
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
            let model_answer = match self.round(cx, &talk.said, &offers, &mut talk.spent).await? {
                Ok(model_answer) => model_answer,
                Err(ending) => return Ok(ending),
            };
            self.charge(cx, before, talk.spent).await?;
            if model_answer.calls.is_empty() {
                let ending = match model_answer.finish.as_deref() {
                    Some("content_filter") => Ending::reject("the model's operator does not let it answer this"),
                    _ => Ending::complete(),
                };
                return self.end(cx, &talk, ending).await;
            }
            if model_answer.calls.len() > self.config.limits.calls_max {
                let (wanted, most) = (model_answer.calls.len(), self.config.limits.calls_max);
                return Ok(Ending::fail(format!("the model wanted {wanted} tools at once, and may use {most}")));
            }
            talk.add_tool_calls(model_answer);
        }
    }

    fn execution(&self) -> Execution {
        let recovery = if self.idempotent { Recovery::Restart } else { Recovery::Fail };
        Execution { recovery, ..Execution::default() }
    }
}

/// Reports the model's text as it arrives.
async fn relay_stream(
    call: EndpointCall<'_>,
    mut answer: EndpointResponse,
    model_answer: &mut ModelAnswer,
    chunks: &mut TextChunks<'_>,
) -> Result<(), Failure> {
    loop {
        let frame = chunks.next_frame(&mut answer).await?.map_err(|error| call.failed(&error))?;
        match frame.as_ref().map(|frame| frame.data.trim()) {
            Some("") => {}
            Some("[DONE]") => return Ok(()),
            Some(data) => chunks.push(&model_answer.read_chunk(data).map_err(Failure)?).await?,
            None if model_answer.is_cut_off() => {
                return Err(Failure("the model broke off while it asked for a tool".into()));
            }
            None => return Ok(()),
        }
    }
}
