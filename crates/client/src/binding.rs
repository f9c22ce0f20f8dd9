//! The bindings of A2A: the protocols below it.

use std::fmt;
use std::str::FromStr;

/// How requests are sent to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Binding {
    /// JSON-RPC over HTTP.
    JsonRpc,
    /// Paths and methods of HTTP.
    HttpJson,
    /// gRPC.
    Grpc,
    /// The envelope of a booking network, which is not A2A's.
    Envelope,
}

impl Binding {
    /// Every binding of A2A.
    pub const ALL: [Self; 3] = [Self::JsonRpc, Self::HttpJson, Self::Grpc];

    /// The value of `protocolBinding` on cards.
    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
            Self::Envelope => "AGNT",
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No binding of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no binding; there are JSONRPC, HTTP+JSON and GRPC")]
pub struct UnknownBinding(pub String);

impl FromStr for Binding {
    type Err = UnknownBinding;

    /// Accepts the spelling of cards and the usual spellings of people.
    fn from_str(text: &str) -> Result<Self, UnknownBinding> {
        let plain: String = text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        match plain.as_str() {
            "jsonrpc" => Ok(Self::JsonRpc),
            "httpjson" | "rest" | "http" => Ok(Self::HttpJson),
            "grpc" => Ok(Self::Grpc),
            "agnt" => Ok(Self::Envelope),
            _ => Err(UnknownBinding(text.into())),
        }
    }
}
