//! Letters: deliveries that wait and deliveries that were given up, for operators.
//!
//! The task log belongs to one process. Where a server runs, it is asked through the socket beside its file, and where
//! none does, the file is opened here; the answers are the same. The socket is in the data directory and only its owner
//! may write to it, which is who may read the file as well, so there is nothing to log in to.

use super::AdminError;
use crate::config::{Config, store_path};
use crate::host::TokioHost;
use crate::operator;
use sabir_engine::{Host as _, TaskLog};
use sabir_proto::{TaskId, Timestamp};
use sabir_store::sqlite::{self, SqliteLog};
use sabir_store::{Letters, OpenError, StoreError};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Letters on one page, at most.
pub const LETTERS_MAX: usize = 1000;

/// What an operator wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Order {
    /// Letters by number.
    List {
        /// Dead ones, or those that wait.
        dead: bool,
        /// Only of this task.
        task: Option<String>,
        /// Only with higher numbers.
        after: i64,
        /// At most so many, and never more than [`LETTERS_MAX`].
        limit: usize,
    },
    /// One letter.
    Show {
        /// Its number.
        number: i64,
    },
    /// Try a letter now, with fresh patience.
    Retry {
        /// Its number.
        number: i64,
    },
    /// Forget a letter.
    Drop {
        /// Its number.
        number: i64,
    },
}

/// A letter as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    /// Its number.
    pub number: i64,
    /// The task.
    pub task_id: String,
    /// The registration.
    pub config_id: String,
    /// Where to: scheme, host and port. The rest of a webhook's URL may be secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// The dialect of the registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The oldest event it holds.
    pub first_event: u64,
    /// The last one.
    pub last_event: u64,
    /// When they happened.
    pub at: Timestamp,
    /// When it is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// How often it was tried.
    pub attempts: u32,
    /// The latest attempts, oldest first.
    pub tries: Vec<Try>,
    /// When it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buried: Option<Timestamp>,
    /// Why it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Try {
    /// When it ended.
    pub at: Timestamp,
    /// How long it took.
    pub took_ms: u64,
    /// What the receiver answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong.
    pub problem: String,
}

/// What an order comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Said {
    /// To a list: the letters.
    Letters(Vec<Letter>),
    /// To anything else: the letter, as it stood before; `None` when there is none of that number.
    Letter(Option<Box<Letter>>),
    /// It could not be done.
    Failed(String),
}

/// How long a command waits for a server that has the store and does not listen yet, and how often it asks.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Has an order carried out, by the server if one runs.
pub async fn order(config: &Config, order: Order) -> Result<Said, AdminError> {
    let path = store_path(config).map_err(AdminError::Url)?.ok_or(AdminError::Memory)?;
    if !path.exists() {
        return Err(AdminError::NoStore(path));
    }
    let durability = config.store.durability.into();
    let options = sqlite::Options { durability, writing: sqlite::Writing::Inline, metrics: Default::default() };
    let begun = Instant::now();
    let said = loop {
        match SqliteLog::open(&path, options.clone()) {
            Ok(log) => break carry_out(&log, order).await,
            Err(OpenError::Locked(_)) => {}
            Err(other) => return Err(other.into()),
        }
        let socket = operator::socket_beside(&path);
        match operator::ask(&socket, &order).await {
            Ok(said) => break said,
            // A server that starts has the lock before it listens; another command has it for a moment.
            Err(_) if begun.elapsed() < LOCK_PATIENCE && !operator::answers(&socket).await => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(reason) => return Err(AdminError::Operator { socket, reason }),
        }
    };
    match said {
        Said::Failed(reason) => Err(AdminError::Failed(reason)),
        said => Ok(said),
    }
}

/// Carries out an order on an open log.
pub(crate) async fn carry_out(log: &dyn TaskLog, order: Order) -> Said {
    attempt(log, order).await.unwrap_or_else(|error| Said::Failed(error.to_string()))
}

async fn attempt(log: &dyn TaskLog, order: Order) -> Result<Said, StoreError> {
    let number = match order {
        Order::List { dead, task, after, limit } => {
            let task = match task.map(|text| TaskId::parse(&text).ok_or(text)).transpose() {
                Ok(task) => task,
                Err(text) => return Ok(Said::Failed(format!("{text:?} is not the id of a task"))),
            };
            let wanted = Letters { dead, task, after, limit: limit.clamp(1, LETTERS_MAX) };
            let mut letters = Vec::new();
            for letter in log.letters(wanted).await? {
                letters.push(shown(log, letter).await?);
            }
            return Ok(Said::Letters(letters));
        }
        Order::Show { number } | Order::Retry { number } | Order::Drop { number } => number,
    };
    let Some(letter) = log.letter(number).await? else { return Ok(Said::Letter(None)) };
    let letter = shown(log, letter).await?;
    let done = match order {
        Order::Retry { number } => log.retry(number, TokioHost.now()).await?,
        Order::Drop { number } => log.discard(number).await?,
        Order::List { .. } | Order::Show { .. } => true,
    };
    Ok(Said::Letter(done.then(|| Box::new(letter))))
}

async fn shown(log: &dyn TaskLog, letter: sabir_store::Letter) -> Result<Letter, StoreError> {
    // What cannot be read is shown all the same, so that it can be dropped.
    let receiver = match log.receiver(letter.task, &letter.config).await {
        Err(StoreError::Corrupt(_)) => None,
        read => read?,
    };
    let (buried, reason) = letter.buried.unzip();
    Ok(Letter {
        number: letter.number,
        task_id: letter.task.to_string(),
        receiver: receiver.as_ref().and_then(|receiver| origin(&receiver.config.url)),
        dialect: receiver.map(|receiver| receiver.dialect.to_string()),
        config_id: letter.config,
        first_event: letter.first.0,
        last_event: letter.last.0,
        at: letter.at,
        due: letter.due,
        attempts: letter.attempts,
        tries: letter.tries.into_iter().map(Try::from).collect(),
        buried,
        reason,
    })
}

impl From<sabir_store::Attempt> for Try {
    fn from(tried: sabir_store::Attempt) -> Self {
        let at = Timestamp::from_millis(tried.at_ms);
        Self { at, took_ms: tried.took_ms, status: tried.status, problem: tried.problem }
    }
}

/// Scheme, host and port, without names and passwords.
fn origin(url: &str) -> Option<String> {
    Some(url::Url::parse(url).ok()?.origin().ascii_serialization())
}
