//! The configuration: the file `sabir.toml`, overridden by `SABIR_*` variables, overridden by flags.
//!
//! A variable names its key with two underscores between section and key: `SABIR_STORE__DURABILITY=normal` sets
//! `durability` in `[store]`. Unknown keys are errors, because a misspelt limit must not be ignored.

pub mod agent;
pub mod api;
pub mod booking;
pub mod debug;
pub mod dispatch;
pub mod handoff;
pub mod http;
pub mod listen;
pub mod network;
pub mod network_peers;
pub mod openai;
pub mod payment;
pub mod push;
pub mod registry;
pub mod retention;
pub mod signing;
pub mod tls;
pub mod upstream;
pub mod workspace;

mod aliases;
mod error_text;
mod platform;
mod schema;
mod setting_sources;
mod warnings;

use crate::body::OutgoingBudget;
use agent::AgentConfig;
use api::ApiConfig;
use booking::NetworkConfig;
use debug::DebugConfig;
use network::{IpNetwork, WebOrigin};
pub use platform::Platform;
use push::{EgressConfig, PushConfig};
use registry::RegistryConfig;
use retention::RetentionConfig;
use sabir_gateway::Capacity;
use sabir_guard::authn::{Principal, Scheme};
use sabir_guard::config::AuthConfig;
use sabir_guard::policy::rate::{RateLimit, default_tiers};
use sabir_proto::{Caller, ToolMode};
use sabir_store::{OpenOptions, StoreUrl, WriterMode};
use sabir_wire::card::CardSchema;
use schemars::JsonSchema;
use serde::Deserialize;
pub use setting_sources::SettingSources;
use signing::SigningConfig;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tls::{ServerTls, TlsConfig};
use workspace::WorkspaceConfig;

/// The whole configuration.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The address, the public URL and the TLS of the server.
    pub server: ServerConfig,
    /// Where tasks are stored.
    pub store: StoreConfig,
    /// Which addresses the server may call.
    pub egress: EgressConfig,
    /// How webhooks are delivered and retried.
    pub push: PushConfig,
    /// How changes in the cards of remote agents are handled.
    pub registry: RegistryConfig,
    /// How long tasks are kept.
    pub retention: RetentionConfig,
    /// What is recorded to find faults.
    pub debug: DebugConfig,
    /// Which callers are accepted, and how they authenticate.
    pub auth: AuthConfig,
    /// The API for operators and consoles.
    pub api: ApiConfig,
    /// Limits of the server.
    pub limits: LimitsConfig,
    /// The booking network, if this server has one.
    pub network: Option<NetworkConfig>,
    /// Apps that belong together, each an agent.
    pub workspace: Option<WorkspaceConfig>,
    /// The agents of this server.
    pub agent: Vec<AgentConfig>,
    /// The directory of the file; relative paths start here.
    #[serde(skip)]
    pub base: PathBuf,
    /// The hosting platform that the environment names.
    #[serde(skip)]
    pub platform: Option<&'static Platform>,
    /// Where each setting comes from.
    #[serde(skip)]
    pub sources: SettingSources,
}

/// `[server]`: address, public URL and TLS.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address and port, such as `127.0.0.1:4000`; port 0 picks a free one.
    #[serde(deserialize_with = "listen::deserialize")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The public URL in cards; derived from `listen` when absent.
    pub public_url: Option<String>,
    /// The form of the card for a client that names no version.
    pub card: CardForm,
    /// How long running requests and streams may finish after a stop.
    pub drain_seconds: u64,
    /// Production mode: no agent without authentication, and no plain HTTP beyond this machine.
    pub production: bool,
    /// One log line for each request: method, path, status, duration and the address of the caller.
    pub access_log: bool,
    /// Proxies whose headers about the client are trusted.
    pub proxies: Vec<IpNetwork>,
    /// Web origins whose pages may call this server.
    pub cors: Vec<WebOrigin>,
    /// HTTPS only, on the one port; or `"terminated"` where a proxy terminates TLS for this server.
    pub tls: Option<ServerTls>,
    /// The keys that sign cards.
    pub signing: SigningConfig,
    /// The directory of the admin socket, the journal of running commands and the log of exchanges; by default the
    /// directory of the store's file.
    pub data: Option<PathBuf>,
}

/// The form of a card for a client that names no version: clients of 0.3 and strict readers of 1.0 cannot be told
/// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
pub enum CardForm {
    /// 1.0 with the additional members of 0.3.
    #[default]
    #[serde(rename = "hybrid")]
    Hybrid,
    /// 1.0 without additional members.
    #[serde(rename = "1.0")]
    Pure,
}

/// The dialect before 1.0 that an agent serves: the form of its card for clients that name no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum LegacyForm {
    /// The form of the dialect 0.3.
    #[serde(rename = "0.3")]
    V03,
    /// The form of the dialect 0.1.
    #[serde(rename = "0.1")]
    V01,
    /// The form of agent-native, whose clients read `agent-card.json`.
    #[serde(rename = "agent-native")]
    Native,
    /// The form of the XPR network.
    #[serde(rename = "xpr")]
    Xpr,
}

impl LegacyForm {
    /// The card form of the dialect.
    pub(crate) const fn form(self) -> CardSchema {
        match self {
            Self::V03 => CardSchema::V03,
            Self::V01 => CardSchema::V01,
            Self::Native => CardSchema::Native,
            Self::Xpr => CardSchema::Xpr,
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 4000)),
            public_url: None,
            card: CardForm::default(),
            drain_seconds: 10,
            production: false,
            access_log: false,
            proxies: Vec::new(),
            cors: Vec::new(),
            tls: None,
            signing: SigningConfig::default(),
            data: None,
        }
    }
}

impl ServerConfig {
    /// The TLS files, if this server terminates TLS itself.
    pub const fn own_tls(&self) -> Option<&TlsConfig> {
        match &self.tls {
            Some(ServerTls::Own(own)) => Some(own),
            Some(ServerTls::Terminated) | None => None,
        }
    }

    /// Whether a proxy terminates TLS for this server.
    pub const fn is_tls_terminated(&self) -> bool {
        matches!(self.tls, Some(ServerTls::Terminated))
    }
}

/// `[store]`: where tasks are stored.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `sqlite:PATH`, or `memory:` for tasks that need not survive a restart.
    pub url: String,
    /// `full`: synced to the disk before it is acknowledged. `normal`: handed to the operating system.
    pub durability: Durability,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { url: StoreUrl::text_in_directory(Path::new("sabir-data")), durability: Durability::Full }
    }
}

/// When a step counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// After it is on the disk: it survives a power failure.
    Full,
    /// After the operating system has it: it survives a crash of the process, not of the machine.
    Normal,
}

impl From<Durability> for sabir_store::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Full => Self::Full,
            Durability::Normal => Self::Normal,
        }
    }
}

/// The smallest budget for all answers, in bytes: the largest card alone has a mebibyte.
const ANSWERS_BYTES_MIN: usize = 2 << 20;

/// `[limits]`: every limit of the server, with its unit in its name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Bytes of the body of one request.
    pub body_bytes_max: usize,
    /// Bytes of all request bodies that are being received and not decoded yet.
    pub inflight_bytes_max: usize,
    /// Bytes of all answers of remote agents that are being received and not decoded yet.
    pub answers_bytes_max: usize,
    /// Bytes of all responses that are built and not written yet.
    pub outgoing_bytes_max: usize,
    /// Bytes of the tasks on one page of a list; a page has at least one task.
    pub list_bytes_max: usize,
    /// Bytes of the head of one request.
    pub header_bytes_max: usize,
    /// Open connections at the same time.
    pub connections_max: usize,
    /// Open connections from one address; 0 for no limit. Behind a proxy all connections have its address.
    pub connections_per_address_max: usize,
    /// Requests at the same time on one HTTP/2 connection.
    pub http2_streams_max: u32,
    /// Seconds for a request's head to arrive.
    pub header_seconds_max: u64,
    /// Seconds after which an HTTP/2 connection without requests ends.
    pub idle_seconds_max: u64,
    /// Seconds for a request's body to arrive.
    pub body_seconds_max: u64,
    /// Seconds within which a client must read some of the bytes that are written to it.
    pub write_seconds_max: u64,
    /// Seconds of silence after which a stream gets a comment, so that proxies do not close it.
    pub keep_alive_seconds: u64,
    /// Parts in one message.
    pub parts_max: usize,
    /// Entries of lists and members of objects in one gRPC message, parts included.
    pub grpc_members_max: usize,
    /// Tasks with a running agent at the same time.
    pub live_tasks_max: usize,
    /// Commands of all `exec` agents that run at the same time; further messages wait.
    pub processes_max: usize,
    /// Events of one task in the log.
    pub task_events_max: u64,
    /// Bytes of one task in the log.
    pub task_bytes_max: usize,
    /// Bytes that the tasks of one caller may have in the store before it can send no more; 0 for no limit.
    pub stored_bytes_max: u64,
    /// Messages in one task's history.
    pub history_messages_max: usize,
    /// Push configurations of one task.
    pub push_configs_max: u32,
    /// Seconds an agent may work on one message.
    pub turn_seconds_max: u64,
    /// Seconds that an agent gets to end after a cancel.
    pub cancel_grace_seconds: u64,
    /// Agents that a request may pass through, here and elsewhere, before the next is refused.
    pub hops_max: u32,
    /// Subtasks that agents may open for one task of a caller.
    pub calls_per_root_max: u64,
    /// Seconds after the caller's message during which agents may open subtasks.
    pub tree_seconds_max: u64,
    /// The cost that agents may report for one such task, in millionths; 0 for no limit.
    pub spend_per_root_max: u64,
    /// Seconds for which a task that was handed over to this server waits for its sender to release it.
    pub hold_seconds_max: u64,
    /// Milliseconds that a stream waits for the first news of a remote agent before it shows a task, because that agent
    /// may answer with a message instead.
    pub direct_reply_wait_ms: u64,
    /// Requests of one caller to one agent within a minute; 0 for no limit.
    pub rate_per_minute: u32,
    /// Requests within a minute of callers without a credential, from one address, where credentials are optional.
    pub anonymous_per_minute: u32,
    /// Milliseconds that streamed text waits for more text; the first chunk of an answer does not wait.
    pub chunk_delay_ms: u64,
    /// Bytes of streamed text after which it no longer waits.
    pub chunk_bytes: usize,
    /// What the tools of agents may do.
    pub tool_mode: ToolModeConfig,
    /// Request limits by the tier of a key.
    pub tier: BTreeMap<String, RateLimit>,
    /// Request limits by the name of a caller, such as `key:…` or `xpr:…`.
    pub caller: Vec<CallerPace>,
}

/// The tools that agents may use: `full` or `readonly`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolModeConfig {
    /// All tools, also those that change something.
    #[default]
    Full,
    /// Only tools that change nothing.
    ReadOnly,
}

impl From<ToolModeConfig> for ToolMode {
    fn from(config: ToolModeConfig) -> Self {
        match config {
            ToolModeConfig::Full => Self::Full,
            ToolModeConfig::ReadOnly => Self::ReadOnly,
        }
    }
}

/// `[[limits.caller]]`: the request limits of one caller.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallerPace {
    /// The name of the caller.
    pub name: String,
    /// Requests within a minute; 0 for no limit.
    #[serde(default)]
    pub per_minute: Option<u32>,
    /// Requests on a UTC day, for keys; 0 for no limit.
    #[serde(default)]
    pub per_day: Option<u64>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let engine = sabir_engine::Limits::default();
        Self {
            body_bytes_max: 16 << 20,
            inflight_bytes_max: 256 << 20,
            answers_bytes_max: 256 << 20,
            outgoing_bytes_max: 256 << 20,
            list_bytes_max: engine.list_bytes_max,
            header_bytes_max: 64 << 10,
            connections_max: 10_000,
            connections_per_address_max: 1000,
            http2_streams_max: 200,
            header_seconds_max: 15,
            idle_seconds_max: 60,
            body_seconds_max: 60,
            write_seconds_max: 30,
            // The HTTP client of the Python SDK gives up after five seconds of silence.
            keep_alive_seconds: 3,
            parts_max: engine.parts_max,
            grpc_members_max: 100_000,
            live_tasks_max: engine.live_tasks_max,
            // Each takes about five descriptors, and the usual limit of a process is 1,024.
            processes_max: 128,
            task_events_max: engine.task_events_max,
            task_bytes_max: engine.task_bytes_max,
            stored_bytes_max: engine.stored_bytes_max,
            history_messages_max: engine.history_messages_max,
            push_configs_max: engine.push_configs_max,
            turn_seconds_max: engine.turn_time_max.as_secs(),
            cancel_grace_seconds: engine.cancel_grace.as_secs(),
            hops_max: engine.hops_max,
            calls_per_root_max: engine.calls_per_root_max,
            tree_seconds_max: engine.tree_time_max.as_secs(),
            spend_per_root_max: engine.spend_per_root_max,
            hold_seconds_max: engine.hold_time_max.as_secs(),
            direct_reply_wait_ms: u64::try_from(engine.direct_reply_wait.as_millis()).unwrap_or(u64::MAX),
            rate_per_minute: 0,
            anonymous_per_minute: 20,
            chunk_delay_ms: 50,
            chunk_bytes: 512,
            tool_mode: ToolModeConfig::default(),
            tier: BTreeMap::new(),
            caller: Vec::new(),
        }
    }
}

impl LimitsConfig {
    /// All tiers: the default ones, with the configured values.
    pub fn tiers(&self) -> BTreeMap<String, RateLimit> {
        let mut tiers = default_tiers();
        for (name, pace) in &self.tier {
            let usual = tiers.remove(name).unwrap_or_default();
            tiers.insert(name.clone(), pace.or_general(usual));
        }
        tiers
    }

    /// Checks that each limit names a possible caller, because a limit that never applies is a mistake.
    pub(crate) fn check_callers(&self) -> Result<(), String> {
        for one in &self.caller {
            let who = Principal::parse(&one.name);
            let known = who.is_some() || one.name == Caller::anonymous().name();
            let is_key = who.is_some_and(|who| who.scheme == Scheme::ApiKey);
            if !known {
                return Err(format!(
                    "limits.caller: {:?} names no caller; write key:ID, xpr:ACCOUNT, jwt:ISSUER#SUBJECT, anonymous …",
                    one.name
                ));
            }
            if one.per_day.is_some() && !is_key {
                return Err(format!("limits.caller: {:?} is no key, and only keys are counted by the day", one.name));
            }
        }
        Ok(())
    }

    pub(crate) fn callers(&self) -> BTreeMap<String, RateLimit> {
        let pace = |one: &CallerPace| RateLimit { per_minute: one.per_minute, per_day: one.per_day };
        self.caller.iter().map(|one| (one.name.clone(), pace(one))).collect()
    }

    /// Checks that an allowed body fits its budget, that an answer fits, and that a command may run.
    pub(crate) fn check_bytes(&self) -> Result<(), String> {
        if self.processes_max == 0 {
            return Err("limits.processes_max = 0 would run no command; make it at least 1".into());
        }
        let (most, one) = (self.inflight_bytes_max, self.body_bytes_max);
        if Capacity::for_large(most) < one {
            return Err(format!(
                "limits.inflight_bytes_max = {most} leaves no room for one body of limits.body_bytes_max = {one}; make \
                 it at least twice as much"
            ));
        }
        if self.answers_bytes_max < ANSWERS_BYTES_MIN {
            return Err(format!(
                "limits.answers_bytes_max = {} leaves no room for answers; make it at least {ANSWERS_BYTES_MIN}",
                self.answers_bytes_max
            ));
        }
        if self.write_seconds_max == 0 {
            return Err(
                "limits.write_seconds_max = 0 ends every connection that waits for its peer; make it at least 1".into(),
            );
        }
        let (most, one) = (self.outgoing_bytes_max, self.task_bytes_max);
        if OutgoingBudget::for_one_answer(most) < one {
            return Err(format!(
                "limits.outgoing_bytes_max = {most} leaves no room for an answer with one task of limits.task_bytes_max \
                 = {one}, for one address has half of it; make it at least three times as much"
            ));
        }
        Ok(())
    }

    /// The limits that the engine applies.
    pub(crate) fn engine(&self) -> sabir_engine::Limits {
        sabir_engine::Limits {
            parts_max: self.parts_max,
            list_bytes_max: self.list_bytes_max,
            live_tasks_max: self.live_tasks_max,
            task_events_max: self.task_events_max,
            task_bytes_max: self.task_bytes_max,
            stored_bytes_max: self.stored_bytes_max,
            history_messages_max: self.history_messages_max,
            push_configs_max: self.push_configs_max,
            turn_time_max: Duration::from_secs(self.turn_seconds_max),
            cancel_grace: Duration::from_secs(self.cancel_grace_seconds),
            hops_max: self.hops_max,
            calls_per_root_max: self.calls_per_root_max,
            tree_time_max: Duration::from_secs(self.tree_seconds_max),
            spend_per_root_max: self.spend_per_root_max,
            hold_time_max: Duration::from_secs(self.hold_seconds_max),
            direct_reply_wait: Duration::from_millis(self.direct_reply_wait_ms),
            ..sabir_engine::Limits::default()
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// The file, or a variable, has an invalid key or value.
    #[error("{origin}: {problem}")]
    Invalid {
        /// The file or variable that has the mistake.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Config {
    /// Reads a file, if one is given, and applies `SABIR_*` variables.
    pub fn load(path: Option<&Path>, variables: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let (text, origin, base) = match path {
            None => (String::new(), "defaults".to_owned(), PathBuf::new()),
            Some(path) => {
                let unreadable =
                    |e: std::io::Error| ConfigError::Unreadable { path: path.into(), reason: e.to_string() };
                let text = std::fs::read_to_string(path).map_err(unreadable)?;
                (text, path.display().to_string(), path.parent().map(Path::to_path_buf).unwrap_or_default())
            }
        };
        let mut config = Self::parse(&text, &origin, variables)?;
        config.base = base;
        config.with_apps().map_err(|problem| ConfigError::Invalid { origin, problem })
    }

    /// The variables of this process that may set keys. Those that the program reads for itself are left out.
    pub fn variables() -> impl Iterator<Item = (String, String)> {
        std::env::vars().filter(|(name, _)| {
            !matches!(
                &**name,
                "SABIR_LOG" | "SABIR_LOG_FORMAT" | "SABIR_BIN" | "SABIR_ADMIN_SERVER" | "SABIR_ADMIN_KEY"
            )
        })
    }

    /// Parses a text, without variables.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text, "text", std::iter::empty())
    }

    fn parse(text: &str, origin: &str, variables: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let invalid = |origin: &str, problem: String| ConfigError::Invalid { origin: origin.into(), problem };
        let variables: Vec<(String, String)> = variables.collect();
        let mut overrides: Vec<&(String, String)> =
            variables.iter().filter(|(name, _)| name.starts_with("SABIR_")).collect();
        overrides.sort();
        // Parsed alone first, so that a mistake in the file names its line, also if a variable overrides that key.
        let alone: Self = toml::from_str(text).map_err(|e| invalid(origin, with_location(text, &e)))?;
        alone.store_url().map_err(|problem| invalid(origin, problem))?;
        let mut table: toml::Table = toml::from_str(text).map_err(|e| invalid(origin, with_location(text, &e)))?;
        let mut origins = SettingSources::of_file(&table, origin);
        // One variable at a time, so that the message can name it.
        let check = |name: &str, table: &toml::Table| {
            toml::Value::Table(table.clone())
                .try_into::<Self>()
                .map(drop)
                .map_err(|e| invalid(name, error_text::in_plain_words(e.message())))
        };
        let mut before = table.clone();
        aliases::apply(&mut table, &variables, |name, applied| {
            let table = applied.map_err(|problem| invalid(name, problem))?;
            origins.change(&before, table, name);
            before.clone_from(table);
            check(name, table)
        })?;
        for (name, value) in overrides {
            let path = name["SABIR_".len()..].to_lowercase();
            set(&mut table, &path, scalar(value)).map_err(|problem| invalid(name, problem))?;
            check(name, &table)?;
            origins.change(&before, &table, name);
            before.clone_from(&table);
        }
        platform::apply(&mut table, &variables, &mut origins).map_err(|(name, problem)| invalid(name, problem))?;
        let config: Self = toml::Value::Table(table)
            .try_into()
            .map_err(|e: toml::de::Error| invalid(origin, error_text::in_plain_words(e.message())))?;
        config.store_url().map_err(|problem| invalid(origins.of("store.url").unwrap_or(origin), problem))?;
        Ok(Self { platform: platform::detect(&variables), sources: origins, ..config })
    }

    /// A path of the configuration. Relative paths start at the file's directory.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    /// The URL of the store.
    pub fn store_url(&self) -> Result<StoreUrl, String> {
        StoreUrl::parse(&self.store.url, &self.base).map_err(|problem| format!("store.url = {problem}"))
    }

    /// The path beside which the server keeps its own files: that of the store, in `server.data` if that is set. `None`
    /// for a store in memory, whose server leaves nothing on disk.
    pub(crate) fn data_file(&self) -> Result<Option<PathBuf>, String> {
        let url = self.store_url()?;
        Ok(url.file().map(|file| match (&self.server.data, file.file_name()) {
            (Some(data), Some(name)) => self.resolve(data).join(name),
            _ => file.to_owned(),
        }))
    }

    /// The options with which the store is opened.
    pub(crate) fn open_options(&self, writer_mode: WriterMode) -> OpenOptions {
        OpenOptions { durability: self.store.durability.into(), writer_mode, ..OpenOptions::default() }
    }
}

/// The text of a mistake with its line and the part before `=`. The part behind it may be a secret.
fn with_location(text: &str, error: &toml::de::Error) -> String {
    let Some(span) = error.span() else { return error_text::in_plain_words(error.message()) };
    let before = &text[..span.start.min(text.len())];
    let number = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
    let line = text.lines().nth(number - 1).unwrap_or("");
    let key = line.split('=').next().unwrap_or("").trim();
    format!("line {number}, {key:?}: {}", error_text::in_plain_words(error.message()))
}

/// Sets a value at a path of tables, such as `auth__jwt__secret`.
fn set(table: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), String> {
    let path: Vec<&str> = path.split("__").collect();
    let [sections @ .., key] = &*path else { return Ok(()) };
    if sections.is_empty() {
        return Err("variables are named SABIR_SECTION__KEY, such as SABIR_STORE__DURABILITY".into());
    }
    aliases::section(table, sections)?.insert((*key).to_owned(), value);
    Ok(())
}

/// Numbers and booleans become such values, any other text a string.
fn scalar(text: &str) -> toml::Value {
    if let Ok(number) = text.parse::<i64>() {
        return toml::Value::Integer(number);
    }
    match text {
        "true" => toml::Value::Boolean(true),
        "false" => toml::Value::Boolean(false),
        _ => toml::Value::String(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let variables = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        Config::parse(text, "test.toml", variables)
    }

    #[test]
    fn variables_override_the_file() {
        let file = "[store]\ndurability = \"full\"\n[limits]\nparts_max = 5";
        let config =
            parse(file, &[("SABIR_STORE__DURABILITY", "normal"), ("SABIR_LIMITS__PARTS_MAX", "7"), ("OTHER", "x")]);
        let config = config.unwrap();
        assert_eq!((config.store.durability, config.limits.parts_max), (Durability::Normal, 7));
    }

    #[test]
    fn variables_of_those_we_stand_in_for_keep_their_meaning() {
        let config = |text: &str, variables: &[(&str, &str)]| parse(text, variables).unwrap();
        let accepts = |config: &Config| {
            config.auth.accepted().into_iter().map(sabir_guard::config::AcceptedCredential::name).collect::<Vec<_>>()
        };
        assert!(config("", &[]).auth.is_open());
        assert_eq!(accepts(&config("", &[("A2A_SECRET", "s")])), ["jwt"]);
        assert_eq!(accepts(&config("", &[("A2A_API_KEY", "k")])), ["legacy_key"]);
        assert!(config("", &[("A2A_SECRET", " ")]).auth.is_open(), "set to nothing is not set");
        // An authentication method that the file does not list is not enabled.
        assert_eq!(accepts(&config("[auth]\naccept = [\"api_key\"]", &[("A2A_SECRET", "s")])), ["api_key"]);
        let issuer = "[auth.jwt]\nissuer = \"https://i\"\naudience = \"a\"";
        assert!(config(issuer, &[("A2A_SECRET", "s")]).auth.jwt.unwrap().secret.is_none());
        let xpr = "[auth.xpr]\nrpc_url = \"http://127.0.0.1:1\"\nmin_kyc = 0";
        let strict = config(xpr, &[("A2A_MIN_KYC_LEVEL", "2"), ("A2A_MIN_TRUST_SCORE", "30"), ("A2A_RATE_LIMIT", "5")]);
        let demands = strict.auth.xpr.as_ref().map(|xpr| (xpr.min_kyc, xpr.min_trust, xpr.rate_per_minute));
        assert_eq!((demands, strict.limits.rate_per_minute), (Some((2, 30, 5)), 5));
        assert_eq!(strict.limits.anonymous_per_minute, 5);
        assert!(config("", &[("A2A_MIN_KYC_LEVEL", "2")]).auth.xpr.is_none());
        assert_eq!(config(xpr, &[("A2A_AUTH_REQUIRED", "false")]).auth.required, Some(false));
        assert_eq!(config(xpr, &[("A2A_AUTH_REQUIRED", "no")]).auth.required, Some(true));
        assert_eq!(config("", &[("A2A_TOOL_MODE", "readonly")]).limits.tool_mode, ToolModeConfig::ReadOnly);
        let signing = |text: &str| config(text, &[("A2A_SIGNING_KEY", "k")]).network.map(|n| n.signing_key.is_some());
        assert_eq!((signing(""), signing("[network]")), (None, Some(true)));
        assert_eq!(signing("[network]\n[auth.agnt]\nsigning_key = \"env:OTHER\""), Some(false));
        let misspelt = parse("", &[("A2A_TOOL_MODE", "read-only")]).unwrap_err().to_string();
        assert!(misspelt.starts_with("A2A_TOOL_MODE"), "{misspelt}");
        assert_eq!(accepts(&config("", &[("SABIR_AUTH__JWT__SECRET", "env:X")])), ["jwt"]);
    }

    #[test]
    fn a_store_that_cannot_be_had_is_refused_where_it_stands_and_without_its_password() {
        let url = "postgres://sabir:hunter2@db.example/tasks?password=hunter2";
        let refused = |text: &str, variables: &[(&str, &str)]| parse(text, variables).unwrap_err().to_string();
        let in_file = refused(&format!("[store]\nurl = \"{url}\""), &[]);
        assert!(in_file.starts_with("test.toml: store.url = \"postgres://…@db.example/tasks\""), "{in_file}");
        let in_variable = refused("[store]\nurl = \"memory:\"", &[("SABIR_STORE__URL", url)]);
        assert!(in_variable.starts_with("SABIR_STORE__URL: store.url"), "{in_variable}");
        for message in [in_file, in_variable] {
            assert!(message.contains("sqlite:PATH") && !message.contains("hunter2"), "{message}");
        }
        let replaced = refused(&format!("[store]\nurl = \"{url}\""), &[("SABIR_STORE__URL", "memory:")]);
        assert!(replaced.starts_with("test.toml: store.url"), "what was meant is not dropped: {replaced}");
    }

    #[test]
    fn mistakes_are_named_where_they_were_made() {
        let message = |text, variables| parse(text, variables).unwrap_err().to_string();
        assert!(message("[stroe]\n", &[]).contains("stroe"));
        assert!(message("[limits]\nbody_byte_max = 1", &[]).contains("line 2"));
        let misspelt = message("[auth.jwt]\nsercet = \"hunter2hunter2\"\n", &[]);
        assert!(misspelt.contains("line 2, \"sercet\"") && !misspelt.contains("hunter2"), "{misspelt}");
        assert!(message("", &[("SABIR_STORE__DURABILITY", "some")]).starts_with("SABIR_STORE__DURABILITY"));
        assert!(message("", &[("SABIR_LISTEN", "1")]).contains("SABIR_SECTION__KEY"));
    }

    #[test]
    fn the_example_file_is_valid_and_says_the_defaults() {
        let text = include_str!("../../../sabir.example.toml");
        let config = parse(text, &[]).unwrap();
        let defaults = Config::default();
        assert_eq!(format!("{:?}", config.limits), format!("{:?}", defaults.limits));
        assert_eq!(format!("{:?}", config.server), format!("{:?}", defaults.server));
        assert_eq!(format!("{:?}", config.store), format!("{:?}", defaults.store));
        assert_eq!(format!("{:?}", config.push), format!("{:?}", defaults.push));
        assert_eq!(format!("{:?}", config.egress), format!("{:?}", defaults.egress));
        for key in [
            "body_bytes_max",
            "drain_seconds",
            "public_url",
            "durability",
            "production",
            "proxies",
            "cors",
            "[server.tls]",
            "open",
            "cancel_grace_seconds",
        ] {
            assert!(text.contains(key), "{key} is not in the example");
        }
    }
}
