//! Problems: how a failure is reported to a person and to a script.
//!
//! An error of the protocol keeps its protocol name (`TaskNotFoundError`). A failure outside a request has one of the
//! codes of the CLI specification, which is a closed list. A failure of something that only this tool does has its own
//! code (`SABIR_ERR_…`). The exit code follows from the code alone.

use crate::exit::Exit;
use crate::output::Format;
use crate::redact::Redactor;
use crate::render::{Fields, Paint, Tone, escape};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// The kind of problem, which also decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    /// Bad argument, flag or combination.
    Usage,
    /// The reference does not lead to a card.
    CardNotFound,
    /// A card was read but is malformed.
    CardInvalid,
    /// Name resolution, connection or TLS failed.
    Unreachable,
    /// A server answered that it cannot serve now: HTTP 503, gRPC `UNAVAILABLE`.
    Unavailable,
    /// The agent requires a credential and the user gave none.
    CredentialsMissing,
    /// The agent refused the credential.
    AuthFailed,
    /// `--timeout` ran out.
    Timeout,
    /// Unexpected, or nothing fits better.
    Internal,
    /// An error of the protocol, by its name.
    Protocol(&'static str),
    /// Something only this tool does.
    Vendor(&'static str),
}

impl ErrorCode {
    /// The word in the envelope.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Usage => "A2ACLI_ERR_USAGE",
            Self::CardNotFound => "A2ACLI_ERR_CARD_NOT_FOUND",
            Self::CardInvalid => "A2ACLI_ERR_CARD_INVALID",
            Self::Unreachable => "A2ACLI_ERR_UNREACHABLE",
            Self::Unavailable => "SABIR_ERR_UNAVAILABLE",
            Self::CredentialsMissing => "A2ACLI_ERR_CREDENTIALS_MISSING",
            Self::AuthFailed => "A2ACLI_ERR_AUTH_FAILED",
            Self::Timeout => "A2ACLI_ERR_TIMEOUT",
            Self::Internal => "A2ACLI_ERR_INTERNAL",
            Self::Protocol(name) | Self::Vendor(name) => name,
        }
    }

    /// The number the process ends with.
    pub(crate) const fn exit(self) -> Exit {
        match self {
            Self::Usage => Exit::Usage,
            Self::CardNotFound | Self::Unreachable | Self::Unavailable => Exit::Unreachable,
            Self::CredentialsMissing | Self::AuthFailed => Exit::Auth,
            Self::Timeout => Exit::Timeout,
            Self::CardInvalid | Self::Internal | Self::Protocol(_) | Self::Vendor(_) => Exit::Failed,
        }
    }
}

/// The code of the transport that carried a protocol error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TransportStatus {
    /// A JSON-RPC error code or an HTTP status.
    Number(i64),
    /// A gRPC status.
    Name(String),
}

impl fmt::Display for TransportStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A failure, as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: ErrorCode,
    /// The sentence that a person reads.
    pub(crate) message: String,
    /// What to do next, best a command.
    pub(crate) hint: Option<String>,
    pub(crate) transport: Option<TransportStatus>,
}

impl Problem {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, transport: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Usage, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// Adds a hint unless there is one: the code closer to the failure knows better.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }

    pub(crate) fn transport(mut self, transport: Option<TransportStatus>) -> Self {
        self.transport = transport;
        self
    }

    /// The error object of the CLI specification, as one line of JSON.
    fn json(&self, redactor: &Redactor) -> String {
        #[derive(Serialize)]
        struct ErrorEnvelope {
            error: ErrorBody,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ErrorBody {
            code: &'static str,
            message: String,
            hint: Option<String>,
            a2a_code: Value,
        }
        let a2a_code = match &self.transport {
            None => Value::Null,
            Some(TransportStatus::Number(number)) => json!(number),
            Some(TransportStatus::Name(name)) => json!(name),
        };
        let error = ErrorBody {
            code: self.code.name(),
            message: redactor.text(&self.message).into_owned(),
            hint: self.hint.as_deref().map(|hint| redactor.text(hint).into_owned()),
            a2a_code,
        };
        serde_json::to_string(&ErrorEnvelope { error }).expect("strings and numbers are JSON")
    }

    /// The pretty form: the message, the hint, and the code, which the user can search for.
    pub(crate) fn pretty(&self, paint: Paint, redactor: &Redactor) -> String {
        let line = |text: &str| escape(&redactor.text(text));
        let mut text = format!("{} {}\n", paint.tint(Tone::Bad, "error:"), line(self.message.trim_end()));
        if let Some(hint) = &self.hint {
            text += &format!("{}  {}\n", paint.tint(Tone::Accent, "hint:"), line(hint));
        }
        let transport = self.transport.as_ref().map(|code| format!(", {code}")).unwrap_or_default();
        text + &paint.tint(Tone::Dim, &format!("({}{transport})", self.code.name())) + "\n"
    }

    /// The printed text: JSON goes to standard output, text to standard error. JSON is one line even without `--stream`:
    /// it may follow other lines.
    pub(crate) fn printed(&self, format: Format, redactor: &Redactor) -> String {
        match format {
            Format::Json => crate::output::compact(&self.json(redactor)) + "\n",
            Format::Text | Format::Pretty => {
                let mut fields = Fields::new();
                fields.field("Error", self.code.name());
                fields.field("Message", &redactor.text(&self.message));
                if let Some(hint) = &self.hint {
                    fields.field("Hint", &redactor.text(hint));
                }
                if let Some(transport) = &self.transport {
                    fields.field("Transport code", &transport.to_string());
                }
                fields.finish()
            }
        }
    }
}

/// Why a command stopped early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A failure that `main` reports.
    Problem(Box<Problem>),
    /// The reader closed standard output (`| head`): the program ends without a message.
    ReaderGone,
}

/// The result of a command: an exit status, or the reason why it stopped early.
pub(crate) type Outcome = Result<Exit, Stop>;

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_exit_code_of_the_specification() {
        let table = [
            (ErrorCode::Usage, "A2ACLI_ERR_USAGE", 2),
            (ErrorCode::CardNotFound, "A2ACLI_ERR_CARD_NOT_FOUND", 3),
            (ErrorCode::CardInvalid, "A2ACLI_ERR_CARD_INVALID", 1),
            (ErrorCode::Unreachable, "A2ACLI_ERR_UNREACHABLE", 3),
            (ErrorCode::Unavailable, "SABIR_ERR_UNAVAILABLE", 3),
            (ErrorCode::CredentialsMissing, "A2ACLI_ERR_CREDENTIALS_MISSING", 4),
            (ErrorCode::AuthFailed, "A2ACLI_ERR_AUTH_FAILED", 4),
            (ErrorCode::Timeout, "A2ACLI_ERR_TIMEOUT", 5),
            (ErrorCode::Internal, "A2ACLI_ERR_INTERNAL", 1),
            (ErrorCode::Protocol("TaskNotFoundError"), "TaskNotFoundError", 1),
            (ErrorCode::Vendor("SABIR_ERR_EXISTS"), "SABIR_ERR_EXISTS", 1),
        ];
        for (code, name, exit) in table {
            assert_eq!((code.name(), code.exit().number()), (name, exit));
        }
    }

    #[test]
    fn an_envelope_is_one_line_and_hides_what_is_secret() {
        let redactor = Redactor::default();
        redactor.learn("sk-secret-1");
        let problem = Problem::new(ErrorCode::Protocol("TaskNotFoundError"), "no task\nt-1 for sk-secret-1")
            .hint("sabir task list")
            .hint("too late")
            .transport(Some(TransportStatus::Number(-32001)));
        assert_eq!(
            problem.printed(Format::Json, &redactor),
            "{\"error\":{\"code\":\"TaskNotFoundError\",\"message\":\"no task\\nt-1 for [redacted]\",\
             \"hint\":\"sabir task list\",\"a2aCode\":-32001}}\n"
        );
        assert_eq!(
            problem.printed(Format::Text, &redactor),
            "Error: TaskNotFoundError\nMessage:\n  no task\n  t-1 for [redacted]\n\nHint: sabir task list\n\
             Transport code: -32001\n"
        );
    }
}
