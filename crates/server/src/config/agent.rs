//! `[[agent]]`: one agent each.

use super::dispatch::DispatchConfig;
use super::handoff::HandoffConfig;
use super::http::HttpConfig;
use super::openai::OpenaiConfig;
use super::registry::OnDrift;
use super::retention::AgentRetention;
use super::upstream::{BreakerConfig, CredentialsConfig, ReplicaConfig};
use super::{LegacyForm, ToolModeConfig};
use sabir_guard::config::{AuthConfig, Reference};
use sabir_proto::card::{Extension, Provider, SecurityRequirement, Skill, StringList};
use sabir_proto::transfer::Handover;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Served at `/agents/{name}`.
    pub name: String,
    /// What stands behind it.
    pub kind: Kind,
    /// Also served at the root.
    #[serde(default)]
    pub default: bool,
    /// What its card says.
    #[serde(default)]
    pub card: CardConfig,
    /// `script`: what to say to what.
    #[serde(default)]
    pub rule: Vec<Rule>,
    /// `exec`: the command line, run by `sh -c`, once per message.
    #[serde(default)]
    pub command: Option<String>,
    /// `exec`: what the command reads, `text` or `json`.
    #[serde(default)]
    pub stdin: Stdin,
    /// `exec`: names of variables the command may see besides the few it always sees.
    #[serde(default)]
    pub env: Vec<String>,
    /// `a2a`, `http`, `openai`: where the agent or the endpoint is.
    #[serde(default)]
    pub url: Option<String>,
    /// `a2a`: the habits of its vendor, by name; `sabir agent profiles` lists them.
    #[serde(default)]
    pub profile: Option<String>,
    /// `a2a`, `http`, `openai`: a token to show it, as `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub bearer: Option<Reference>,
    /// `a2a`: a key to show it where its card says, given likewise.
    #[serde(default)]
    pub api_key: Option<Reference>,
    /// `a2a`, `http`, `openai`: it recognises a message that it has seen, or does no harm by answering it twice.
    #[serde(default)]
    pub idempotent: bool,
    /// `a2a`: how long it is waited for.
    #[serde(default)]
    pub continuation: ContinuationConfig,
    /// `a2a`: what happens when its card changes, in place of `[registry]`.
    #[serde(default)]
    pub on_drift: Option<OnDrift>,
    /// To whom it may hand tasks, and whether it takes those of others.
    #[serde(default)]
    pub handoff: Option<HandoffConfig>,
    /// `exec`: how many commands run.
    #[serde(default)]
    pub exec: Option<ExecConfig>,
    /// `http`: how the endpoint is asked.
    #[serde(default)]
    pub http: Option<HttpConfig>,
    /// `openai`: which model, and what it may do.
    #[serde(default)]
    pub openai: Option<OpenaiConfig>,
    /// `dispatch`: whom it may choose, and when it asks.
    #[serde(default)]
    pub dispatch: Option<DispatchConfig>,
    /// Agents that are asked first where a message mentions them as `@name`: by their own names, or by others.
    #[serde(default)]
    pub mentions: Vec<MentionConfig>,
    /// `exec`, `http`: agents that the command or the endpoint may have do something while it works.
    #[serde(default)]
    pub delegates_to: Vec<String>,
    /// `a2a`, `exec`: seconds it gets to end when a task is canceled, in place of those of `[limits]`.
    #[serde(default)]
    pub cancel_grace_seconds: Option<u64>,
    /// `a2a`: where the agent is, in place of `url`, if it is in several places.
    #[serde(default)]
    pub replicas: Vec<ReplicaConfig>,
    /// `a2a`: the name of an agent here that does the work where it cannot begin there.
    #[serde(default)]
    pub fallback: Option<String>,
    /// `a2a`: calls to it that may be under way at the same time; 0 for any number.
    #[serde(default = "a_thousand")]
    pub bulkhead: usize,
    /// `a2a`: seconds between two looks at how it is doing; 0 for none.
    #[serde(default = "half_a_minute")]
    pub health_seconds: u64,
    /// `a2a`: what it is shown besides `bearer` and `api_key`.
    #[serde(default)]
    pub credentials: Option<CredentialsConfig>,
    /// `a2a`: when it is left alone.
    #[serde(default)]
    pub breaker: BreakerConfig,
    /// What it asks of callers, in place of `[auth]`.
    #[serde(default)]
    pub auth: Option<AuthConfig>,
    /// Limits of its own, in place of those of `[limits]`.
    #[serde(default)]
    pub limits: AgentLimits,
    /// How long its tasks are kept, in place of `[retention]`.
    #[serde(default)]
    pub retention: AgentRetention,
    /// Its identity on a chain, shown in the card at `/.well-known/agent.json`.
    #[serde(default)]
    pub xpr: Option<XprConfig>,
    /// It is an app of the workspace: served at `/apps/{name}`, and called on behalf of whoever calls.
    #[serde(skip)]
    pub app: bool,
}

/// An agent that may be mentioned, in `mentions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MentionConfig {
    /// Under its own name.
    Agent(String),
    /// Under other names.
    Named(NamedMention),
}

impl MentionConfig {
    /// The agent that is mentioned.
    pub(crate) fn agent(&self) -> &str {
        match self {
            Self::Agent(agent) | Self::Named(NamedMention { agent, .. }) => agent,
        }
    }
}

/// The names under which an agent is mentioned, in place of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedMention {
    /// The agent.
    pub agent: String,
    /// What it is called in messages, without the `@`: letters, digits, `-`, `_` and `.`. Case does not count.
    pub names: Vec<String>,
}

/// `[agent.continuation]`: how long an agent elsewhere is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContinuationConfig {
    /// How often it may fail to answer in a row.
    pub attempts: u32,
    /// Minutes without any news from it; 0 for as long as a turn may take.
    pub minutes: u64,
    /// Milliseconds before it is asked again; more while there is no news.
    pub poll_ms: u64,
    /// Seconds until a task fails whose message never left, while the agent refuses connections or its host name does not
    /// resolve; 0 for as long as its attempts last.
    pub connect_give_up_seconds: u64,
}

impl Default for ContinuationConfig {
    fn default() -> Self {
        Self { attempts: 6, minutes: 10, poll_ms: 2000, connect_give_up_seconds: 15 }
    }
}

/// `[agent.limits]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Requests of one caller within a minute; 0 for no limit.
    pub rate_per_minute: Option<u32>,
    /// What its tools may do.
    pub tool_mode: Option<ToolModeConfig>,
    /// Milliseconds that its streamed text waits for more of it.
    pub chunk_delay_ms: Option<u64>,
    /// Bytes of its streamed text that do not wait any longer.
    pub chunk_bytes: Option<usize>,
}

/// `[agent.xpr]`: what is not said here is asked of the chain, where `[auth.xpr]` names a node.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct XprConfig {
    /// The agent's account.
    pub account: String,
    /// The protocol it registered.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Who owns the account.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was registered, in seconds since 1970.
    #[serde(default)]
    pub registered_at: Option<u64>,
    /// 0 to 100.
    #[serde(default)]
    pub trust_score: Option<i64>,
    /// 0 to 3.
    #[serde(default)]
    pub kyc_level: Option<u8>,
}

impl AgentConfig {
    /// An agent with nothing but a name and a kind.
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

/// What stands behind an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Says back what it hears.
    Echo,
    /// Follows rules: demos, mocks, conformance runs.
    Script,
    /// Runs a command per message.
    Exec,
    /// Stands for an agent elsewhere.
    A2a,
    /// Asks an HTTP endpoint.
    Http,
    /// Asks a model.
    Openai,
    /// Passes messages on to whoever fits.
    Dispatch,
}

impl Kind {
    /// The word in configurations.
    pub const fn word(self) -> &'static str {
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

/// `[agent.exec]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecConfig {
    /// Commands of this agent that run at the same time; further messages wait. What a command starts by itself is not
    /// counted.
    pub processes_max: usize,
}

impl Default for ExecConfig {
    fn default() -> Self {
        Self { processes_max: 64 }
    }
}

/// What an `exec` command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// The message's text.
    #[default]
    Text,
    /// The whole message as JSON.
    Json,
}

/// `[agent.card]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CardConfig {
    /// A name for people; the agent's own when absent.
    pub name: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// Who runs it.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub provider: Option<Provider>,
    /// Where its documentation is.
    pub documentation_url: Option<String>,
    /// A picture.
    pub icon_url: Option<String>,
    /// What it is good at; one skill named like the agent when absent.
    pub skills: Vec<SkillConfig>,
    /// Media types it takes; `*/*` and `text/*` work.
    pub input_modes: Vec<String>,
    /// Media types it gives.
    pub output_modes: Vec<String>,
    /// What it offers.
    pub capabilities: CapabilitiesConfig,
    /// Extensions it knows.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub extensions: Vec<Extension>,
    /// The dialect before 1.0 that it stands in for: the form of its card for clients that name no version. When absent,
    /// `xpr` with `[agent.xpr]`, and otherwise a card that clients of 0.1 to 0.3 can read.
    pub legacy_form: Option<LegacyForm>,
}

/// `[agent.card.capabilities]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CapabilitiesConfig {
    /// Streams.
    pub streaming: bool,
    /// Push notifications: docs/guides/push.md.
    pub push_notifications: bool,
    /// A richer card for authenticated callers, with every skill that they may use.
    pub extended_card: bool,
}

impl Default for CapabilitiesConfig {
    fn default() -> Self {
        Self { streaming: true, push_notifications: false, extended_card: false }
    }
}

/// `[[agent.card.skills]]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillConfig {
    /// Unique within the agent.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people and for choosing.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Things to say to it.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Media types, where they differ from the agent's.
    #[serde(default, alias = "inputModes")]
    pub input_modes: Vec<String>,
    /// Media types, where they differ from the agent's.
    #[serde(default, alias = "outputModes")]
    pub output_modes: Vec<String>,
    /// Schemes that this skill needs, each with its scopes: a table where all of them are needed, or a list of tables
    /// of which one is enough.
    #[serde(default, alias = "securityRequirements")]
    pub security_requirements: Requirements,
    /// Shown to everybody; otherwise only in the extended card.
    #[serde(default = "yes")]
    pub public: bool,
    /// Only for callers who said who they are, and shown to no others.
    #[serde(default, alias = "requiresAuth")]
    pub requires_auth: bool,
}

/// Scheme names with their scopes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Requirements {
    /// Nothing beyond what the agent needs.
    #[default]
    None,
    /// All of these.
    All(BTreeMap<String, Vec<String>>),
    /// Any of these.
    Any(Vec<BTreeMap<String, Vec<String>>>),
}

/// Calls to one agent elsewhere that may be under way at the same time, unless somebody says otherwise. A circle of agents
/// that nobody can see through ends here.
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

/// `[[agent.rule]]`: what to do when a message fits.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// All given conditions must hold; none means always.
    #[serde(default)]
    pub when: When,
    /// What to do.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
    /// What to do with the next message of the task.
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

/// What follows an answer: steps, or rules of their own.
#[derive(Debug, Clone)]
pub enum Then {
    /// Done whatever the answer says.
    Steps(Vec<Step>),
    /// Tried in order.
    Rules(Vec<Rule>),
}

impl JsonSchema for Then {
    fn schema_name() -> Cow<'static, str> {
        "Then".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (steps, rules) = (generator.subschema_for::<Vec<Step>>(), generator.subschema_for::<Vec<Rule>>());
        json_schema!({"anyOf": [rules, steps]})
    }
}

impl<'de> Deserialize<'de> for Then {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // By hand instead of an untagged enum, whose only message is that nothing matched.
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
    /// Progress.
    Status(String),
    /// A pause.
    WaitMs(u64),
    /// An artifact, or a chunk of one.
    Artifact(ArtifactStep),
    /// The message's own parts as an artifact.
    Echo(bool),
    /// A question.
    AskInput(String),
    /// A request for credentials.
    AskAuth(String),
    /// Done.
    Complete(String),
    /// Not done.
    Fail(String),
    /// Not wanted.
    Reject(String),
    /// Another agent should have the task; see `[agent.handoff]`.
    Transfer(#[schemars(with = "serde_json::Map<String, serde_json::Value>")] Handover),
}

/// The artifact of a step: exactly one of `text`, `data`, `url`, `raw`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactStep {
    /// Its id.
    pub id: String,
    /// A name for people.
    #[serde(default)]
    pub name: Option<String>,
    /// Text.
    #[serde(default)]
    pub text: Option<String>,
    /// Data.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Value>")]
    pub data: Option<toml::Value>,
    /// A link.
    #[serde(default)]
    pub url: Option<String>,
    /// Bytes, in base64.
    #[serde(default)]
    pub raw: Option<String>,
    /// Media type of the part.
    #[serde(default)]
    pub media_type: Option<String>,
    /// File name of the part.
    #[serde(default)]
    pub filename: Option<String>,
    /// Follows what the artifact has already.
    #[serde(default)]
    pub append: bool,
    /// Nothing follows.
    #[serde(default)]
    pub last_chunk: bool,
}
