//! The dialects by name, and the table of the features of each.

use crate::EndpointPath;
use std::fmt;
use std::str::FromStr;

/// A dialect of A2A, by version or by product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// A2A 1.0: the canonical dialect.
    V1,
    /// A2A 0.3, in all its bindings.
    V03,
    /// A2A 0.2.x: a part of the payloads of 0.3.
    V02,
    /// A2A 0.1, the original: `tasks/send`, task ids chosen by the client.
    V01,
    /// agent-native: parts by `type`, events that are whole tasks.
    Native,
    /// XPR agents: on-chain accounts, escrow jobs.
    Xpr,
}

/// The features that a dialect has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
pub struct DialectFeatures {
    /// It has event streams.
    pub streams: bool,
    /// A client can resume a stream.
    pub resubscribes: bool,
    /// A client can register webhooks.
    pub push: bool,
    /// A client can list and delete webhooks.
    pub push_lists: bool,
    /// A client can list tasks.
    pub lists_tasks: bool,
    /// An agent can answer with a message and no task.
    pub direct_replies: bool,
    /// A client can continue a task by another message.
    pub continues: bool,
    /// The client chooses the ids of its tasks.
    pub client_names_tasks: bool,
    /// It has the states `rejected` and `auth-required`.
    pub all_states: bool,
    /// Messages have ids, and name their task and context.
    pub message_ids: bool,
    /// It has a card for authenticated callers.
    pub extended_card: bool,
    /// A request without an id is served and answered without one, not refused.
    pub optional_ids: bool,
    /// Events of a stream are numbered, so that a client can resume it where it broke off.
    pub numbered_events: bool,
    /// A body that is no request is refused as such before the caller is authenticated.
    pub envelope_first: bool,
    /// Its JSON is that of the canonical types, so received JSON is passed on as it is.
    pub canonical_json: bool,
    /// The number of newer versions of A2A; `None` for the dialect of a product.
    pub newer_versions: Option<u8>,
    /// The value of the header `A2A-Version`, if requests have one.
    pub version_header: Option<&'static str>,
    /// The header that activates extensions. Before 1.0 it had another name, and the Python SDK of 0.3 reads only that.
    pub extensions_header: &'static str,
    /// Cards name the version.
    pub named_on_cards: bool,
    /// The older dialect that a server may speak if its card names no version.
    pub unnamed_fallback: Option<Dialect>,
    /// It has the binding HTTP+JSON.
    pub http_json: bool,
    /// The protobuf package of its gRPC binding, if it has one.
    pub grpc: Option<GrpcPackage>,
    /// Booking networks are called in it, by envelopes.
    pub envelopes: bool,
    /// The name of its JSON-RPC binding in metrics.
    pub json_rpc_metric: &'static str,
    /// The path of its endpoint; `Root` where the card has the whole address.
    pub endpoint: EndpointPath,
    /// The media type of the bodies of HTTP+JSON requests.
    pub json_media_type: &'static str,
    /// An empty list of webhooks, as the result of a JSON-RPC request.
    pub empty_push_list: &'static str,
    /// A webhook's id is a part of its name in HTTP+JSON and gRPC, so the client must choose one.
    pub push_ids_in_names: bool,
    /// The specification leaves open how HTTP+JSON and gRPC encode the bytes of a file.
    pub open_file_encoding: bool,
    /// An event stream has its media type, and every event the id of the request.
    pub marked_streams: bool,
    /// A stream reports as much as polling does.
    pub complete_streams: bool,
    /// A request has a field for a retry key.
    pub retry_keys: bool,
    /// The message of a task's status is the answer, and artifacts are intermediate results.
    pub status_is_answer: bool,
    /// The metadata of a request names the caller.
    pub caller_metadata: bool,
    /// Callers sign requests in `X-XPR-*` headers, which no card can declare.
    pub signed_by_headers: bool,
    /// Tasks have the state names of the protobuf definition.
    pub proto_state_names: bool,
    /// Tasks have state names in small letters.
    pub small_state_names: bool,
    /// The specification says when a *send* is answered, and with which number an unknown task is.
    pub answers_specified: bool,
    /// The specification says what errors of HTTP+JSON look like.
    pub http_errors_specified: bool,
    /// The specification says what the first event of a stream is.
    pub first_event_specified: bool,
    /// A server refuses a request whose version it does not speak.
    pub refuses_other_versions: bool,
}

/// The protobuf package of a gRPC binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrpcPackage {
    /// `lf.a2a.v1`, of 1.0.
    V1,
    /// `a2a.v1`, of 0.3.
    V03,
}

impl GrpcPackage {
    /// The name of the package.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "lf.a2a.v1",
            Self::V03 => "a2a.v1",
        }
    }
}

impl Dialect {
    /// Every dialect, newest A2A version first.
    pub const ALL: [Self; 6] = [Self::V1, Self::V03, Self::V02, Self::V01, Self::Native, Self::Xpr];

    /// The newest version of A2A, which is used where no version is named.
    pub const NEWEST: Self = Self::V1;

    /// The versions of A2A that a server's answers tell apart: 0.2 answers like 0.3.
    pub const DISTINCT_VERSIONS: [Self; 3] = [Self::V1, Self::V03, Self::V01];

    /// The name in configuration, metrics and `sabir convert`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
            Self::V02 => "0.2",
            Self::V01 => "0.1",
            Self::Native => "agent-native",
            Self::Xpr => "xpr",
        }
    }

    /// The features of a dialect: its row of the table.
    pub const fn features(self) -> &'static DialectFeatures {
        match self {
            Self::V1 => &V1,
            Self::V03 => &V03,
            Self::V02 => &V02,
            Self::V01 => &V01,
            Self::Native => &NATIVE,
            Self::Xpr => &XPR,
        }
    }
}

/// The row of 1.0, from which the others differ.
const V1: DialectFeatures = DialectFeatures {
    streams: true,
    resubscribes: true,
    push: true,
    push_lists: true,
    lists_tasks: true,
    direct_replies: true,
    continues: true,
    client_names_tasks: false,
    all_states: true,
    message_ids: true,
    extended_card: true,
    optional_ids: false,
    numbered_events: true,
    envelope_first: false,
    canonical_json: true,
    newer_versions: Some(0),
    version_header: Some("1.0"),
    extensions_header: "a2a-extensions",
    named_on_cards: true,
    unnamed_fallback: None,
    http_json: true,
    grpc: Some(GrpcPackage::V1),
    envelopes: true,
    json_rpc_metric: "1.0 JSONRPC",
    endpoint: EndpointPath::Root,
    json_media_type: "application/a2a+json",
    empty_push_list: r#"{"configs":[]}"#,
    push_ids_in_names: false,
    open_file_encoding: false,
    marked_streams: true,
    complete_streams: true,
    retry_keys: false,
    status_is_answer: false,
    caller_metadata: false,
    signed_by_headers: false,
    proto_state_names: true,
    small_state_names: false,
    answers_specified: true,
    http_errors_specified: true,
    first_event_specified: true,
    refuses_other_versions: true,
};

/// What all other dialects have in common.
const OLDER: DialectFeatures = DialectFeatures {
    lists_tasks: false,
    canonical_json: false,
    newer_versions: None,
    version_header: None,
    extensions_header: "x-a2a-extensions",
    named_on_cards: false,
    http_json: false,
    grpc: None,
    envelopes: false,
    json_media_type: "application/json",
    empty_push_list: "[]",
    proto_state_names: false,
    answers_specified: false,
    http_errors_specified: false,
    first_event_specified: false,
    refuses_other_versions: false,
    ..V1
};

const V03: DialectFeatures = DialectFeatures {
    newer_versions: Some(1),
    version_header: Some("0.3"),
    named_on_cards: true,
    unnamed_fallback: Some(Dialect::V01),
    http_json: true,
    grpc: Some(GrpcPackage::V03),
    json_rpc_metric: "0.3 JSONRPC",
    push_ids_in_names: true,
    open_file_encoding: true,
    // Its REST and gRPC have the names of the protobuf definition.
    proto_state_names: true,
    small_state_names: true,
    answers_specified: true,
    ..OLDER
};

const V02: DialectFeatures = DialectFeatures {
    newer_versions: Some(2),
    unnamed_fallback: Some(Dialect::V01),
    json_rpc_metric: "0.2 JSONRPC",
    small_state_names: true,
    ..OLDER
};

const V01: DialectFeatures = DialectFeatures {
    newer_versions: Some(3),
    json_rpc_metric: "0.1 JSONRPC",
    push_lists: false,
    direct_replies: false,
    client_names_tasks: true,
    all_states: false,
    message_ids: false,
    extended_card: false,
    optional_ids: true,
    numbered_events: false,
    ..OLDER
};

const NATIVE: DialectFeatures = DialectFeatures {
    json_rpc_metric: "agent-native",
    endpoint: EndpointPath::Native,
    // Some servers of @agent-native/core send no content type, and all of them the id 0.
    marked_streams: false,
    // Its streams name their task late, and report a question as if it were the answer.
    complete_streams: false,
    retry_keys: true,
    status_is_answer: true,
    caller_metadata: true,
    resubscribes: false,
    push: false,
    push_lists: false,
    direct_replies: false,
    // On its own servers, a user continues a task that asks for input on a web page, not by a message.
    continues: false,
    all_states: false,
    message_ids: false,
    extended_card: false,
    optional_ids: true,
    numbered_events: false,
    ..OLDER
};

const XPR: DialectFeatures = DialectFeatures {
    json_rpc_metric: "xpr",
    endpoint: EndpointPath::A2a,
    signed_by_headers: true,
    streams: false,
    resubscribes: false,
    push: false,
    push_lists: false,
    direct_replies: false,
    client_names_tasks: true,
    all_states: false,
    message_ids: false,
    extended_card: false,
    optional_ids: true,
    numbered_events: false,
    envelope_first: true,
    ..OLDER
};

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that is not the name of a dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect {0:?}; there are 1.0, 0.3, 0.2, 0.1, agent-native and xpr")]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        let name = text.strip_prefix('v').unwrap_or(text);
        Self::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| UnknownDialect(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_found_by_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.name().parse(), Ok(dialect));
        }
        assert_eq!("v0.3".parse(), Ok(Dialect::V03));
        assert!("0.4".parse::<Dialect>().is_err());
    }
}
