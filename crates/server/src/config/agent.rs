//! `[[agent]]`: the configuration of one agent.

use super::dispatch::DispatchConfig;
use super::handoff::HandoffConfig;
use super::http::HttpConfig;
use super::openai::OpenaiConfig;
use super::registry::OnDrift;
use super::retention::AgentRetention;
use super::upstream::{BreakerConfig, CredentialsConfig, ReplicaConfig};
use super::{LegacyForm, ToolModeConfig};
use sabir_guard::config::{AuthConfig, SecretReference};
use sabir_proto::card::{Extension, Provider, SecurityRequirement, Skill, StringList};
use sabir_proto::transfer::HandoffRequest;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// `[[agent]]`: one agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Served at `/agents/{name}`.
    pub name: String,
    /// How the agent is implemented.
    pub kind: Kind,
    /// Whether it is also served at the root.
    #[serde(default)]
    pub default: bool,
    /// The content of its card.
    #[serde(default)]
    pub card: CardConfig,
    /// `script`: the rules, tried in order.
    #[serde(default)]
    pub rule: Vec<ScriptRule>,
    /// `exec`: the command line, run by `sh -c`, once per message.
    #[serde(default)]
    pub command: Option<String>,
    /// `exec`: what the command reads, `text` or `json`.
    #[serde(default)]
    pub stdin: Stdin,
    /// `exec`: names of variables that the command gets besides the few that it always gets.
    #[serde(default)]
    pub env: Vec<String>,
    /// `a2a`, `http`, `openai`: the URL of the agent or the endpoint.
    #[serde(default)]
    pub url: Option<String>,
    /// `a2a`: the profile of its vendor, by name; `sabir agent profiles` lists them.
    #[serde(default)]
    pub profile: Option<String>,
    /// `a2a`, `http`, `openai`: the token to send, as `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub bearer: Option<SecretReference>,
    /// `a2a`: the API key to send in the place that the card names, as `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub api_key: Option<SecretReference>,
    /// `a2a`, `http`, `openai`: it recognises a repeated message, or does no harm by answering it twice.
    #[serde(default)]
    pub idempotent: bool,
    /// `a2a`: how long the server waits for its answer.
    #[serde(default)]
    pub continuation: ContinuationConfig,
    /// `a2a`: what happens when its card changes, in place of `[registry]`.
    #[serde(default)]
    pub on_drift: Option<OnDrift>,
    /// The agents it may hand tasks over to, and whether it accepts tasks from others.
    #[serde(default)]
    pub handoff: Option<HandoffConfig>,
    /// `exec`: how many commands run at the same time.
    #[serde(default)]
    pub exec: Option<ExecConfig>,
    /// `http`: how the endpoint is called.
    #[serde(default)]
    pub http: Option<HttpConfig>,
    /// `openai`: the model, and what it may do.
    #[serde(default)]
    pub openai: Option<OpenaiConfig>,
    /// `dispatch`: which agents it may choose, and when it asks the caller.
    #[serde(default)]
    pub dispatch: Option<DispatchConfig>,
    /// Agents that are asked first if a message mentions them as `@name`: by their own names, or by others.
    #[serde(default)]
    pub mentions: Vec<MentionConfig>,
    /// `exec`, `http`: agents to which the command or the endpoint may delegate work.
    #[serde(default)]
    pub delegates_to: Vec<String>,
    /// `a2a`, `exec`: seconds it gets to end when a task is canceled, in place of the value in `[limits]`.
    #[serde(default)]
    pub cancel_grace_seconds: Option<u64>,
    /// `a2a`: the URLs of the agent in place of `url`, if it has several.
    #[serde(default)]
    pub replicas: Vec<ReplicaConfig>,
    /// `a2a`: the agent of this server that does the work if it cannot begin at this one.
    #[serde(default)]
    pub fallback: Option<String>,
    /// `a2a`: calls to it that may run at the same time; 0 for no limit.
    #[serde(default = "a_thousand")]
    pub bulkhead: usize,
    /// `a2a`: seconds between two health checks; 0 for none.
    #[serde(default = "half_a_minute")]
    pub health_seconds: u64,
    /// `a2a`: the credentials to send besides `bearer` and `api_key`.
    #[serde(default)]
    pub credentials: Option<CredentialsConfig>,
    /// `a2a`: when the circuit breaker stops calls to it.
    #[serde(default)]
    pub breaker: BreakerConfig,
    /// The authentication of its callers, in place of `[auth]`.
    #[serde(default)]
    pub auth: Option<AuthConfig>,
    /// Its own limits, in place of those of `[limits]`.
    #[serde(default)]
    pub limits: AgentLimits,
    /// How long its tasks are kept, in place of `[retention]`.
    #[serde(default)]
    pub retention: AgentRetention,
    /// Its identity on a chain, shown in the card at `/.well-known/agent.json`.
    #[serde(default)]
    pub xpr: Option<XprConfig>,
    /// Whether it is an app of the workspace: served at `/apps/{name}`, and called on behalf of the caller.
    #[serde(skip)]
    pub app: bool,
}

/// An agent that messages may mention, in `mentions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MentionConfig {
    /// By its own name only.
    Agent(String),
    /// By other names only.
    Named(NamedMention),
}

impl MentionConfig {
    /// The agent that the names stand for.
    pub(crate) fn agent(&self) -> &str {
        match self {
            Self::Agent(agent) | Self::Named(NamedMention { agent, .. }) => agent,
        }
    }
}

/// The names by which messages mention an agent, in place of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedMention {
    /// The name of the agent.
    pub agent: String,
    /// The names in messages, without the `@`: letters, digits, `-`, `_` and `.`. Case does not count.
    pub names: Vec<String>,
}

/// `[agent.continuation]`: how long the server waits for a remote agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContinuationConfig {
    /// How many attempts in a row may fail.
    pub attempts: u32,
    /// Minutes without news from it; 0 for as long as a turn may take.
    pub minutes: u64,
    /// Milliseconds between two polls; longer while there is no news.
    pub poll_ms: u64,
    /// Seconds until a task fails whose message was never sent because the agent refuses connections or its host name
    /// does not resolve; 0 to use all attempts.
    pub connect_give_up_seconds: u64,
}

impl Default for ContinuationConfig {
    fn default() -> Self {
        Self { attempts: 6, minutes: 10, poll_ms: 2000, connect_give_up_seconds: 15 }
    }
}

/// `[agent.limits]`: the limits of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Requests of one caller within a minute; 0 for no limit.
    pub rate_per_minute: Option<u32>,
    /// What the tools of the agent may do.
    pub tool_mode: Option<ToolModeConfig>,
    /// Milliseconds that its streamed text waits for more text.
    pub chunk_delay_ms: Option<u64>,
    /// Bytes of its streamed text after which it no longer waits.
    pub chunk_bytes: Option<usize>,
}

/// `[agent.xpr]`: the agent's account. A value that is absent comes from the chain, if `[auth.xpr]` names a node.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XprConfig {
    /// The agent's account on the chain.
    pub account: String,
    /// The protocol that it registered.
    #[serde(default)]
    pub protocol: Option<String>,
    /// The owner of the account.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was registered, in seconds since 1970.
    #[serde(default)]
    pub registered_at: Option<u64>,
    /// The trust score, from 0 to 100.
    #[serde(default)]
    pub trust_score: Option<i64>,
    /// The KYC level, from 0 to 3.
    #[serde(default)]
    pub kyc_level: Option<u8>,
}

impl AgentConfig {
    /// An agent with a name and a kind, and defaults for the rest.
    pub fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            default: false,
            card: CardConfig::default(),
            rule: Vec::new(),
            command: None,
            stdin: Stdin::default(),
            env: Vec::new(),
            url: None,
            profile: None,
            bearer: None,
            api_key: None,
            idempotent: false,
            continuation: ContinuationConfig::default(),
            on_drift: None,
            handoff: None,
            exec: None,
            http: None,
            openai: None,
            dispatch: None,
            mentions: Vec::new(),
            delegates_to: Vec::new(),
            cancel_grace_seconds: None,
            credentials: None,
            replicas: Vec::new(),
            fallback: None,
            bulkhead: BULKHEAD,
            health_seconds: half_a_minute(),
            breaker: BreakerConfig::default(),
            auth: None,
            limits: AgentLimits::default(),
            retention: AgentRetention::default(),
            xpr: None,
            app: false,
        }
    }
}

/// How an agent is implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Returns the parts of the message.
    Echo,
    /// Follows rules: for demos, mocks and conformance runs.
    Script,
    /// Runs one command per message.
    Exec,
    /// Forwards calls to a remote agent.
    A2a,
    /// Calls an HTTP endpoint.
    Http,
    /// Calls a language model.
    Openai,
    /// Passes messages on to the agent that fits best.
    Dispatch,
}

impl Kind {
    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Script => "script",
            Self::Exec => "exec",
            Self::A2a => "a2a",
            Self::Http => "http",
            Self::Openai => "openai",
            Self::Dispatch => "dispatch",
        }
    }
}

/// `[agent.exec]`: how many commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecConfig {
    /// Commands of this agent that run at the same time; further messages wait. Processes that a command starts are not
    /// counted.
    pub processes_max: usize,
}

impl Default for ExecConfig {
    fn default() -> Self {
        Self { processes_max: 64 }
    }
}

/// The standard input of an `exec` command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// The text of the message.
    #[default]
    Text,
    /// The whole message as JSON.
    Json,
}

/// `[agent.card]`: the content of the agent's card.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CardConfig {
    /// The display name; the agent's own name when absent.
    pub name: Option<String>,
    /// What the agent does.
    pub description: Option<String>,
    /// The version of the agent.
    pub version: Option<String>,
    /// The organisation that runs it.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub provider: Option<Provider>,
    /// The URL of its documentation.
    pub documentation_url: Option<String>,
    /// The URL of its icon.
    pub icon_url: Option<String>,
    /// The skills of the agent; one skill with the agent's name when absent.
    pub skills: Vec<SkillConfig>,
    /// Media types it accepts; `*/*` and `text/*` work.
    pub input_modes: Vec<String>,
    /// Media types it produces.
    pub output_modes: Vec<String>,
    /// Optional features that it offers.
    pub capabilities: CapabilitiesConfig,
    /// Extensions that it supports.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub extensions: Vec<Extension>,
    /// The dialect before 1.0 that it serves: the form of its card for clients that name no version. When absent, `xpr`
    /// with `[agent.xpr]`, and otherwise a card that clients of 0.1 to 0.3 can read.
    pub legacy_form: Option<LegacyForm>,
}

/// `[agent.card.capabilities]`: optional features.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CapabilitiesConfig {
    /// Whether the agent streams.
    pub streaming: bool,
    /// Push notifications; see docs/guides/push.md.
    pub push_notifications: bool,
    /// A card for authenticated callers, with every skill that they may use.
    pub extended_card: bool,
}

impl Default for CapabilitiesConfig {
    fn default() -> Self {
        Self { streaming: true, push_notifications: false, extended_card: false }
    }
}

/// `[[agent.card.skills]]`: one skill.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillConfig {
    /// The id, unique within the agent.
    pub id: String,
    /// The display name of the skill.
    pub name: String,
    /// What the skill does, for people and for the choice of an agent.
    pub description: String,
    /// Words by which a search finds it.
    pub tags: Vec<String>,
    /// Examples of messages.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Media types it accepts, where they differ from the agent's.
    #[serde(default, alias = "inputModes")]
    pub input_modes: Vec<String>,
    /// Media types it produces, where they differ from the agent's.
    #[serde(default, alias = "outputModes")]
    pub output_modes: Vec<String>,
    /// The security schemes that this skill needs, each with its scopes: a table if all are needed, or a list of tables
    /// if one of them is enough.
    #[serde(default, alias = "securityRequirements")]
    pub security_requirements: Requirements,
    /// Whether it is in the public card; otherwise it is only in the extended card.
    #[serde(default = "yes")]
    pub public: bool,
    /// Only authenticated callers see and use it.
    #[serde(default, alias = "requiresAuth")]
    pub requires_auth: bool,
}

/// Names of security schemes with their scopes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Requirements {
    /// No more than the agent needs.
    #[default]
    None,
    /// All of these schemes.
    All(BTreeMap<String, Vec<String>>),
    /// Any one of these sets.
    Any(Vec<BTreeMap<String, Vec<String>>>),
}

/// The default limit of concurrent calls to one remote agent. An undetected loop of agents ends here.
pub(crate) const BULKHEAD: usize = 1000;

const fn a_thousand() -> usize {
    BULKHEAD
}

const fn half_a_minute() -> u64 {
    30
}

const fn yes() -> bool {
    true
}

impl From<Skill> for SkillConfig {
    fn from(skill: Skill) -> Self {
        let Skill { id, name, description, tags, examples, input_modes, output_modes, security_requirements } = skill;
        let plain =
            |one: SecurityRequirement| one.schemes.into_iter().map(|(name, scopes)| (name, scopes.list)).collect();
        let security_requirements = Requirements::Any(security_requirements.into_iter().map(plain).collect());
        let (public, requires_auth) = (true, false);
        Self {
            id,
            name,
            description,
            tags,
            examples,
            input_modes,
            output_modes,
            security_requirements,
            public,
            requires_auth,
        }
    }
}

impl From<&SkillConfig> for Skill {
    fn from(config: &SkillConfig) -> Self {
        let requirement = |one: &BTreeMap<String, Vec<String>>| SecurityRequirement {
            schemes: one.iter().map(|(name, list)| (name.clone(), StringList { list: list.clone() })).collect(),
        };
        Self {
            id: config.id.clone(),
            name: config.name.clone(),
            description: config.description.clone(),
            tags: config.tags.clone(),
            examples: config.examples.clone(),
            input_modes: config.input_modes.clone(),
            output_modes: config.output_modes.clone(),
            security_requirements: match &config.security_requirements {
                Requirements::None => Vec::new(),
                Requirements::All(all) => vec![requirement(all)],
                Requirements::Any(any) => any.iter().map(requirement).collect(),
            },
        }
    }
}

/// `[[agent.rule]]`: steps for the messages that match.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptRule {
    /// All given conditions must hold; without any the rule always matches.
    #[serde(default)]
    pub when: When,
    /// The steps to run, in order.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
    /// What follows with the next message of the task.
    #[serde(default)]
    pub then: Option<Then>,
}

/// Conditions on a message.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// The text contains this.
    pub text_contains: Option<String>,
    /// The text matches this regular expression.
    pub text_matches: Option<String>,
    /// The message id begins with this.
    pub message_id_prefix: Option<String>,
    /// The message asks for this skill.
    pub skill: Option<String>,
}

/// What follows an answer: steps, or rules of its own.
#[derive(Debug, Clone)]
pub enum Then {
    /// Steps that run whatever the answer is.
    Steps(Vec<Step>),
    /// Rules that are tried in order.
    Rules(Vec<ScriptRule>),
}

impl JsonSchema for Then {
    fn schema_name() -> Cow<'static, str> {
        "Then".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (steps, rules) = (generator.subschema_for::<Vec<Step>>(), generator.subschema_for::<Vec<ScriptRule>>());
        json_schema!({"anyOf": [rules, steps]})
    }
}

impl<'de> Deserialize<'de> for Then {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // Written by hand, because the only error of an untagged enum is that nothing matched.
        let items = Vec::<toml::Table>::deserialize(d)?;
        let rules = items.iter().any(|item| item.contains_key("do"));
        let values = items.into_iter().map(toml::Value::Table);
        if rules {
            let rules = values.map(toml::Value::try_into).collect::<Result<_, _>>();
            rules.map(Self::Rules).map_err(serde::de::Error::custom)
        } else {
            let steps = values.map(toml::Value::try_into).collect::<Result<_, _>>();
            steps.map(Self::Steps).map_err(serde::de::Error::custom)
        }
    }
}

/// One step of a script. An empty text means a status without words.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A direct reply, without a task.
    Message(String),
    /// A report of progress.
    Status(String),
    /// A pause, in milliseconds.
    WaitMs(u64),
    /// An artifact, or one chunk of it.
    Artifact(ArtifactStep),
    /// The parts of the message as an artifact.
    Echo(bool),
    /// A question to the caller.
    AskInput(String),
    /// A request for credentials.
    AskAuth(String),
    /// Completes the task with this text.
    Complete(String),
    /// Fails the task with this text.
    Fail(String),
    /// Rejects the task with this text.
    Reject(String),
    /// Hands the task over to another agent; see `[agent.handoff]`.
    Transfer(#[schemars(with = "serde_json::Map<String, serde_json::Value>")] HandoffRequest),
}

/// The artifact of a step: exactly one of `text`, `data`, `url`, `raw`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactStep {
    /// The id of the artifact.
    pub id: String,
    /// The display name of the artifact.
    #[serde(default)]
    pub name: Option<String>,
    /// The text of the part.
    #[serde(default)]
    pub text: Option<String>,
    /// The data of the part.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Value>")]
    pub data: Option<toml::Value>,
    /// The URL of the part.
    #[serde(default)]
    pub url: Option<String>,
    /// The bytes of the part, in base64.
    #[serde(default)]
    pub raw: Option<String>,
    /// The media type of the part.
    #[serde(default)]
    pub media_type: Option<String>,
    /// The file name of the part.
    #[serde(default)]
    pub filename: Option<String>,
    /// Whether it extends the artifact.
    #[serde(default)]
    pub append: bool,
    /// Whether this is the last chunk.
    #[serde(default)]
    pub last_chunk: bool,
}
