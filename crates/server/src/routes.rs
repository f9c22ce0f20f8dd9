//! The paths of the server: which agent, which binding and which version a path names.

use crate::card::PublicAddress;
use crate::config::agent::AgentConfig;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use hyper::body::Incoming;
use sabir_proto::card::Interface;
use sabir_wire::v1::http::{RouteMatch, route};
use sabir_wire::{EndpointPath, v03};

/// Whether a platform requests this path from inside, in plain HTTP and without a credential.
pub(crate) fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics")
}

/// The path in 0.3, which is below `/v1`. 0.2 had another path for its extended card.
pub(crate) fn v03_path(path: &str) -> Option<&str> {
    match path {
        "/agent/authenticatedExtendedCard" => Some("/v1/card"),
        path if path.starts_with("/v1/") => Some(path),
        _ => None,
    }
}

/// Which endpoint of JSON-RPC a path is.
pub(crate) fn endpoint(path: &str) -> EndpointPath {
    match path.trim_end_matches('/') {
        "/a2a" => EndpointPath::A2a,
        "/_agent-native/a2a" => EndpointPath::Native,
        _ => EndpointPath::Root,
    }
}

/// Whether a path is below `/apps/`.
pub(crate) fn is_app_path(path: &str) -> bool {
    path.starts_with("/apps/")
}

/// The agent that a path names, and the rest of the path.
pub(crate) fn agent_in_path(path: &str) -> Option<(&str, &str)> {
    // Apps of a workspace call each other by `/apps/{name}`; it leads to agents too.
    let below = path.strip_prefix("/agents/").or_else(|| path.strip_prefix("/apps/"))?;
    Some(below.find('/').map_or((below, ""), |slash| (&below[..slash], with_one_slash(&below[slash..]))))
}

/// A path with one slash at its beginning. Clients that append a `/` to a URL that ends in one request `//v1/…`.
pub(crate) fn with_one_slash(path: &str) -> &str {
    match path.strip_prefix("//") {
        None => path,
        Some(rest) => &path[path.len() - rest.trim_start_matches('/').len() - 1..],
    }
}

/// Whether requests to an interface of a card reach the agent. So the start finds a card that promises too much, and
/// not its first client.
pub(crate) fn serves_interface(interface: &Interface, agent: &AgentConfig, address: &PublicAddress) -> bool {
    let (binding, version) = (&*interface.protocol_binding, &*interface.protocol_version);
    if binding == "GRPC" {
        let reached = match version {
            "1.0" => agent.default || interface.tenant.as_deref() == Some(&*agent.name),
            "0.3" => agent.default,
            _ => false,
        };
        return reached && interface.url == address.authority;
    }
    let Some(path) = interface.url.strip_prefix(&*address.url) else { return false };
    let below = match agent_in_path(path) {
        Some((name, below)) if name == agent.name => below,
        Some(_) => return false,
        None if agent.default => path,
        None => return false,
    };
    let operation = format!("{}/message:send", below.trim_end_matches('/'));
    match (binding, version) {
        ("JSONRPC", "1.0" | "0.3") => is_endpoint(below),
        ("HTTP+JSON", "1.0") => matches!(route(&Method::POST, &operation), RouteMatch::Operation(..)),
        ("HTTP+JSON", "0.3") => {
            let operation = format!("/v1{operation}");
            v03_path(&operation).is_some_and(|path| {
                matches!(v03::rest::route(&Method::POST, path), v03::rest::RouteMatch::Operation(..))
            })
        }
        _ => false,
    }
}

/// The paths of JSON-RPC.
pub(crate) fn is_endpoint(path: &str) -> bool {
    matches!(path, "/" | "" | "/a2a" | "/a2a/" | "/_agent-native/a2a" | "/_agent-native/a2a/")
}

pub(crate) fn is_grpc(request: &Request<Incoming>) -> bool {
    request.method() == Method::POST
        && request.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_beginning_count_once() {
        for (path, expected) in [
            ("/", "/"),
            ("", ""),
            ("//", "/"),
            ("//v1/card", "/v1/card"),
            ("///v1//card", "/v1//card"),
            ("/v1/card", "/v1/card"),
        ] {
            assert_eq!(with_one_slash(path), expected, "{path}");
        }
        assert_eq!(agent_in_path("/agents/desk//v1/card"), Some(("desk", "/v1/card")));
        assert_eq!(agent_in_path("/agents/desk/"), Some(("desk", "/")));
        assert_eq!(agent_in_path("/agents/desk"), Some(("desk", "")));
    }
}
