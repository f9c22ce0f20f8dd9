//! The requirements that are looked at: ids, levels and titles of the official kit, and a few of our own.

use std::str::FromStr;

/// How binding a requirement is, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequirementLevel {
    Must,
    Should,
    May,
}

impl RequirementLevel {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::May => "MAY",
        }
    }
}

impl FromStr for RequirementLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "must" => Ok(Self::Must),
            "should" => Ok(Self::Should),
            "may" => Ok(Self::May),
            _ => Err("the levels are must, should and may".into()),
        }
    }
}

/// What a requirement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequirementScope {
    Card,
    /// Every binding alike.
    Operations,
    JsonRpc,
    HttpJson,
    Grpc,
}

/// One requirement of the specification.
#[derive(Debug)]
pub(super) struct Requirement {
    pub(super) id: &'static str,
    pub(super) level: RequirementLevel,
    pub(super) scope: RequirementScope,
    pub(super) title: &'static str,
}

/// A requirement by its id; every id that is recorded is in the table.
pub(super) fn find(id: &str) -> Option<&'static Requirement> {
    REQUIREMENTS.iter().find(|requirement| requirement.id == id)
}

macro_rules! requirements {
    ($($scope:ident { $($id:literal $level:ident $title:literal)* })*) => {
        /// Every requirement, in the order of reports.
        pub(super) const REQUIREMENTS: &[Requirement] = &[$($(
            Requirement { id: $id, level: RequirementLevel::$level, scope: RequirementScope::$scope, title: $title },
        )*)*];
    };
}

requirements! {
    Card {
        "CARD-DISC-001" Must "an agent card is available"
        "CARD-STRUCT-001" Must "the card contains all required fields"
        "CARD-PROTO-001" Must "the card declares the protocols it supports"
        "CARD-PROTO-002" Must "each interface declares its binding, version and URL"
        "SABIR-CARD-001" Must "the card offers an interface of A2A 1.0 in a known binding"
        "CARD-CACHE-001" Should "the card is served with Cache-Control and max-age"
        "CARD-CACHE-002" Should "the card is served with an ETag"
        "CARD-CACHE-003" May "the card is served with Last-Modified"
    }
    Operations {
        "CORE-SEND-001" Must "SendMessage returns a task or a message"
        "CORE-SEND-002" Must "a message to a settled task is UnsupportedOperationError"
        "CORE-EXECUTION-MODE-001" Must "SendMessage waits until the task is settled or interrupted"
        "CORE-EXECUTION-MODE-002" Must "with returnImmediately, SendMessage does not wait"
        "CORE-MULTI-001a" Must "a context that the agent makes is in the answer"
        "CORE-MULTI-002" May "a context that the client names is kept"
        "CORE-MULTI-003" Must "every new task has an id of its own"
        "CORE-MULTI-004" Must "a message to an unknown task is TaskNotFoundError"
        "CORE-MULTI-006" Must "a message whose context is not its task's is refused"
        "CORE-GET-001" Must "GetTask returns the task as it is"
        "CORE-GET-002" Must "GetTask of an unknown task is TaskNotFoundError"
        "CORE-HIST-001" Should "historyLength 0 leaves the history out"
        "CORE-HIST-002" Must "no more history than historyLength asks for"
        "CORE-LIST-002" Must "ListTasks pages by cursor"
        "CORE-LIST-003" Must "ListTasks returns the latest status first"
        "CORE-LIST-004" Must "nextPageToken is always there, and empty on the last page"
        "CORE-LIST-005" Must "ListTasks leaves artifacts out unless they are asked for"
        "CORE-CANCEL-001" Must "CancelTask returns the task as it is then"
        "CORE-CANCEL-002" Must "CancelTask of a settled task is TaskNotCancelableError"
        "CORE-CANCEL-003" Must "CancelTask of an unknown task is TaskNotFoundError"
        "CORE-ERR-002" Must "a message without parts is refused"
        "VER-SERVER-002" Must "a version that is not spoken is VersionNotSupportedError"
        "CORE-CAP-001" Must "push operations are PushNotificationNotSupportedError where they are not offered"
        "CORE-CAP-002" Must "streaming is UnsupportedOperationError where it is not offered"
        "CORE-CAP-003" Must "the extended card is UnsupportedOperationError where it is not offered"
        "CORE-STREAM-001" Must "SendStreamingMessage opens a stream of events"
        "CORE-STREAM-002" Must "a stream with a message holds nothing else and closes"
        "CORE-STREAM-003" Must "a stream of a task begins with the task and closes when it is settled"
        "STREAM-SUB-001" Must "SubscribeToTask begins with the task"
        "STREAM-SUB-002" Must "a subscription closes when the task is settled"
        "STREAM-SUB-003" Must "a subscription to a settled task is UnsupportedOperationError"
        "STREAM-SUB-004" Must "a subscription to an unknown task is TaskNotFoundError"
    }
    JsonRpc {
        "JSONRPC-FMT-002" Must "answers are application/json"
        "JSONRPC-ERR-001" Must "errors are JSON-RPC error objects"
        "JSONRPC-ERR-002" Must "errors of A2A have codes from -32001 to -32099"
        "JSONRPC-SSE-001" Must "streams are text/event-stream with JSON-RPC responses"
        "JSONRPC-SSE-002" Must "TaskNotFoundError has the code -32001"
        "SABIR-JSONRPC-001" Must "an answer has the id of its request"
        "SABIR-JSONRPC-002" Must "an unknown method is -32601"
        "SABIR-JSONRPC-003" Must "what is not JSON is -32700"
    }
    HttpJson {
        "HTTP_JSON-SVC-001" Should "answers are application/a2a+json"
        "HTTP_JSON-ERR-001" Must "errors are objects with code, status and message (AIP-193)"
        "HTTP_JSON-ERR-002" Must "errors of A2A hold an ErrorInfo with reason and domain"
        "HTTP_JSON-STATUS-001" Must "TaskNotFoundError has the status 404"
        "HTTP_JSON-SSE-001" Must "streams are text/event-stream with StreamResponse objects"
    }
    Grpc {
        "GRPC-ERR-002" Must "TaskNotFoundError has the status NOT_FOUND"
        "GRPC-ERR-003" Must "streams are server-streaming calls"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_id_is_there_once_and_has_the_form_of_the_kit() {
        let mut seen = HashSet::new();
        for Requirement { id, title, .. } in REQUIREMENTS {
            assert!(seen.insert(id), "{id} twice");
            assert!(!title.is_empty() && id.contains('-'), "{id}");
        }
        assert!(find("CORE-SEND-001").is_some() && find("CORE-SEND-999").is_none());
    }

    #[test]
    fn levels_are_read_and_ordered() {
        assert!(RequirementLevel::Must < RequirementLevel::Should && RequirementLevel::Should < RequirementLevel::May);
        assert_eq!("SHOULD".parse(), Ok(RequirementLevel::Should));
        assert!("could".parse::<RequirementLevel>().is_err());
    }
}
