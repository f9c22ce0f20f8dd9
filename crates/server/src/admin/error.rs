//! Why an administrative request failed: a stable code, a sentence, and what to do next.

use super::agents::AgentError;
use sabir_proto::{Fault, FaultCode};
use sabir_store::{ChangeError, CopyError, OpenError, StoreError};
use serde::{Deserialize, Serialize};

/// The kind of an [`AdminError`]. Programs branch on it, so its names do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminErrorCode {
    /// A parameter is missing, misspelt or out of bounds.
    Invalid,
    /// The request has no valid credential.
    Unauthenticated,
    /// The credential lacks the scope, or the operation is not for this transport.
    Forbidden,
    /// The API has no such path.
    UnknownPath,
    /// The path of the API takes other methods.
    WrongMethod,
    /// The caller asks too often.
    TooOften,
    /// The request took too long; a change may have been made.
    Timeout,
    NoStore,
    Exists,
    InUse,
    Damaged,
    Store,
    /// A server has the store and does not answer.
    Operator,
    Secret,
    UnknownAgent,
    NameTaken,
    Name,
    NotElsewhere,
    NoCard,
    Unfit,
    Settings,
    NothingHeld,
    UnknownKey,
    KeyRevoked,
    TooMany,
    UnknownOrganisation,
    UnknownTask,
    NoDelivery,
    NoVenue,
    NoBooking,
    NoWebhook,
    /// The state of the thing does not allow the change.
    Refused,
    /// The page token is of another query or of another store.
    PageToken,
}

impl AdminErrorCode {
    /// The code, as commands print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "SABIR_ERR_INVALID",
            Self::Unauthenticated => "SABIR_ERR_UNAUTHENTICATED",
            Self::Forbidden => "SABIR_ERR_FORBIDDEN",
            Self::UnknownPath => "SABIR_ERR_UNKNOWN_PATH",
            Self::WrongMethod => "SABIR_ERR_WRONG_METHOD",
            Self::TooOften => "SABIR_ERR_TOO_OFTEN",
            Self::Timeout => "SABIR_ERR_TIMEOUT",
            Self::NoStore => "SABIR_ERR_NO_STORE",
            Self::Exists => "SABIR_ERR_EXISTS",
            Self::InUse => "SABIR_ERR_IN_USE",
            Self::Damaged => "SABIR_ERR_DAMAGED",
            Self::Store => "SABIR_ERR_STORE",
            Self::Operator => "SABIR_ERR_OPERATOR",
            Self::Secret => "SABIR_ERR_SECRET",
            Self::UnknownAgent => "SABIR_ERR_UNKNOWN_AGENT",
            Self::NameTaken => "SABIR_ERR_NAME_TAKEN",
            Self::Name => "SABIR_ERR_NAME",
            Self::NotElsewhere => "SABIR_ERR_NOT_ELSEWHERE",
            Self::NoCard => "SABIR_ERR_NO_CARD",
            Self::Unfit => "SABIR_ERR_UNFIT",
            Self::Settings => "SABIR_ERR_SETTINGS",
            Self::NothingHeld => "SABIR_ERR_NOTHING_HELD",
            Self::UnknownKey => "SABIR_ERR_UNKNOWN_KEY",
            Self::KeyRevoked => "SABIR_ERR_REVOKED",
            Self::TooMany => "SABIR_ERR_TOO_MANY",
            Self::UnknownOrganisation => "SABIR_ERR_UNKNOWN_ORGANISATION",
            // What commands have always printed here.
            Self::UnknownTask => "SABIR_ERR_REFUSED",
            Self::NoDelivery => "SABIR_ERR_NO_DELIVERY",
            Self::NoVenue => "SABIR_ERR_NO_VENUE",
            Self::NoBooking => "SABIR_ERR_NO_BOOKING",
            Self::NoWebhook => "SABIR_ERR_NO_WEBHOOK",
            Self::Refused => "SABIR_ERR_REFUSED",
            Self::PageToken => "SABIR_ERR_PAGE_TOKEN",
        }
    }

    /// The HTTP status with which the API answers.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Invalid | Self::PageToken | Self::Name | Self::Settings => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::WrongMethod => 405,
            Self::UnknownPath
            | Self::UnknownAgent
            | Self::UnknownKey
            | Self::UnknownOrganisation
            | Self::UnknownTask
            | Self::NoDelivery
            | Self::NoVenue
            | Self::NoBooking
            | Self::NoWebhook => 404,
            Self::Exists
            | Self::InUse
            | Self::NameTaken
            | Self::NothingHeld
            | Self::KeyRevoked
            | Self::TooMany
            | Self::Refused => 409,
            Self::Secret | Self::NotElsewhere | Self::NoCard | Self::Unfit => 422,
            Self::TooOften => 429,
            Self::NoStore | Self::Damaged | Self::Operator => 500,
            Self::Store => 503,
            Self::Timeout => 504,
        }
    }

    /// What to do next; nothing where the sentence says it already.
    const fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::NoStore => {
                "name the server's files with --server-config FILE or --data DIR; sabir serve makes them when it starts"
            }
            Self::Exists => "a copy gets a name of its own; sabir restore --replace puts what is there aside",
            Self::InUse => "stop the server that has it; this needs a store that no other process uses",
            Self::Damaged => "bring it back from a copy: sabir restore",
            Self::Store => {
                "is the disk full, or does the file belong to another user? sabir audit verify checks all of it"
            }
            Self::Operator => "run this as the user whose server it is, on its machine; or stop the server first",
            Self::Secret => "set the variable where the server starts and restart it, or use --secret file:PATH",
            Self::UnknownAgent => "sabir agent list shows all of them",
            Self::NameTaken => "give it another name with --name; sabir agent list shows all of them",
            Self::Name => "take letters, digits, - and _: sabir agent add URL --name my-agent",
            Self::NotElsewhere => "sabir agent list shows which agents are elsewhere",
            Self::NoCard => "sabir doctor URL looks at every place where a card may be",
            Self::Unfit => {
                "sabir doctor URL looks further; [egress] allow = [...] names private addresses that may be called, and \
                 --untried adds an agent that is asleep"
            }
            Self::Settings => "sabir agent add --help",
            Self::NothingHeld => "sabir agent history NAME shows its cards",
            Self::UnknownKey => "sabir key list shows all of them",
            Self::KeyRevoked => "sabir key create makes a new one",
            Self::TooMany => "wait until the texts before it have ended, or take --grace 0",
            Self::UnknownOrganisation => "sabir org list shows all of them",
            Self::UnknownTask => "sabir inbox list shows the tasks that wait for a person",
            Self::NoDelivery => "sabir push list shows the numbers",
            Self::NoVenue => "sabir venue list shows all of them",
            Self::NoBooking => "sabir booking list shows the latest",
            Self::NoWebhook => "sabir webhook list shows all of them",
            Self::PageToken => "begin again without the token of a page",
            Self::Timeout => "look whether the change was made before you repeat it",
            Self::Unauthenticated => "send a key with the scope admin or admin.read as Authorization: Bearer KEY",
            Self::Forbidden => {
                "sabir key create --scope admin makes a key that may change, --scope admin.read one that may look"
            }
            Self::UnknownPath | Self::WrongMethod => "GET /api/v1/openapi.json names the paths and their methods",
            Self::Invalid | Self::TooOften | Self::Refused => return None,
        })
    }
}

/// Why an administrative request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct AdminError {
    pub code: AdminErrorCode,
    /// The sentence that a person reads.
    pub message: String,
    /// What to do next, best a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl AdminError {
    pub(crate) fn new(code: AdminErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: code.hint().map(str::to_owned) }
    }

    pub(crate) fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A parameter that is wrong.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(AdminErrorCode::Invalid, message)
    }

    /// A change that the state of the thing does not allow.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(AdminErrorCode::Refused, message)
    }
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        let code =
            if matches!(error, StoreError::PageToken) { AdminErrorCode::PageToken } else { AdminErrorCode::Store };
        Self::new(code, error.to_string())
    }
}

impl From<ChangeError> for AdminError {
    fn from(error: ChangeError) -> Self {
        let code = match &error {
            ChangeError::NoSuchKey(_) => AdminErrorCode::UnknownKey,
            ChangeError::NoSuchAgent(_) => AdminErrorCode::UnknownAgent,
            ChangeError::AgentTaken(_) => AdminErrorCode::NameTaken,
            ChangeError::Revoked(_) => AdminErrorCode::KeyRevoked,
            ChangeError::TooMany { .. } => AdminErrorCode::TooMany,
            ChangeError::KeyTaken | ChangeError::Store(_) => AdminErrorCode::Store,
        };
        Self::new(code, error.to_string())
    }
}

impl From<OpenError> for AdminError {
    fn from(error: OpenError) -> Self {
        let code = match &error {
            OpenError::Missing(_) | OpenError::InMemory => AdminErrorCode::NoStore,
            OpenError::Locked(_) => AdminErrorCode::InUse,
            OpenError::Damaged { .. } => AdminErrorCode::Damaged,
            _ => AdminErrorCode::Store,
        };
        Self::new(code, error.to_string())
    }
}

impl From<CopyError> for AdminError {
    fn from(error: CopyError) -> Self {
        let wrong = |code| Self::new(code, error.to_string());
        match error {
            CopyError::Open(error) => error.into(),
            CopyError::Exists(_) => wrong(AdminErrorCode::Exists),
            CopyError::Damaged { .. } => wrong(AdminErrorCode::Damaged)
                .with_hint("sabir db check tells all that is wrong; take another copy, or an older one"),
            CopyError::Write { .. } => {
                wrong(AdminErrorCode::Store).with_hint("is there room, and may this user write there?")
            }
        }
    }
}

impl From<AgentError> for AdminError {
    fn from(error: AgentError) -> Self {
        let code = match &error {
            AgentError::Unknown(_) => AdminErrorCode::UnknownAgent,
            AgentError::InFile { .. } => AdminErrorCode::NameTaken,
            AgentError::Name(..) => AdminErrorCode::Name,
            AgentError::NotElsewhere(_) => AdminErrorCode::NotElsewhere,
            AgentError::NoCard(_) => AdminErrorCode::NoCard,
            AgentError::Unfit(_) => AdminErrorCode::Unfit,
            AgentError::Settings(_) => AdminErrorCode::Settings,
            AgentError::NothingHeld(_) => AdminErrorCode::NothingHeld,
        };
        let wrong = Self::new(code, error.to_string());
        match error {
            AgentError::InFile { .. } => {
                wrong.with_hint("agents of the file come and go with it; edit the file, or take another --name")
            }
            _ => wrong,
        }
    }
}

/// A refusal of the engine.
impl From<Fault> for AdminError {
    fn from(fault: Fault) -> Self {
        match fault.code() {
            FaultCode::TaskNotFound => Self::new(AdminErrorCode::UnknownTask, fault.to_string()),
            _ => Self::refused(fault.to_string()).with_hint("sabir inbox list shows the tasks that wait for a person"),
        }
    }
}
