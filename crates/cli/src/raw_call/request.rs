//! The request that the arguments describe.

use crate::input::read_text;
use crate::problem::Problem;
use http::{HeaderValue, Method, header};
use sabir_client::{Agent, Binding, Error, RequestPreview, message_id};
use sabir_proto::{Call, GetTask, TaskRef, Tenant};
use sabir_wire::{Dialect, Facts, decode_request};
use std::path::Path;

/// The largest request, in bytes: as much as our own server takes.
const DATA_BYTES_MAX: u64 = 16 << 20;

/// A request that was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RawRequest {
    /// A method and its parameters, as JSON.
    Method { name: String, params: String },
    /// A request of HTTP.
    Http { verb: Method, path: String, body: Option<String> },
}

impl RawRequest {
    pub(super) fn read(words: Vec<&str>, data: Option<&str>) -> Result<Self, Problem> {
        let usage = |message: String| Problem::usage(message).hint("sabir call list, or sabir call --help");
        let data = data.map(read_data).transpose()?;
        // `POST /path` as one word or as two.
        let split: Vec<&str> = match words.as_slice() {
            [one] => one.split_whitespace().collect(),
            _ => words.clone(),
        };
        match split.as_slice() {
            [name] => {
                let params = data.unwrap_or_else(|| "{}".into());
                if name.chars().any(|c| c.is_control() || "\"\\".contains(c)) {
                    return Err(usage(format!("{name:?} is no method")));
                }
                Ok(Self::Method { name: (*name).to_owned(), params })
            }
            [verb, path] if path.starts_with('/') => {
                let verb = verb.to_ascii_uppercase().parse().map_err(|_| usage(format!("{verb} is no HTTP method")))?;
                Ok(Self::Http { verb, path: (*path).to_owned(), body: data })
            }
            _ => Err(usage(format!("{:?} is neither a method nor a request of HTTP", words.join(" ")))),
        }
    }

    /// The HTTP request that is sent.
    pub(super) fn written(&self, agent: &Agent) -> Result<RequestPreview, Error> {
        // The version, the extensions and the credentials are those of any other request.
        let id = TaskRef::parse("any").map_err(|error| Error::Usage(error.to_string()))?;
        let any = Call::Get(GetTask { tenant: Tenant::none(), id, history_length: None });
        let mut written = match (self, agent.binding()) {
            (Self::Method { .. }, Binding::HttpJson) => return agent.preview(self.call(agent.dialect())?),
            _ => agent.preview(any)?,
        };
        match (self, agent.binding()) {
            (Self::Method { name, params }, _) => {
                let id = message_id();
                written.body = Some(format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{name}","params":{params}}}"#));
            }
            (Self::Http { verb, path, body }, Binding::HttpJson) => {
                written.method = verb.clone();
                written.url = format!("{}{path}", agent.chosen_interface().url.as_str().trim_end_matches('/'));
                written.body.clone_from(body);
                let kind = agent.dialect().features().json_media_type;
                if body.is_some() {
                    written.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
                }
            }
            (Self::Http { .. }, _) => {
                return Err(Error::Usage("a path is called over HTTP+JSON; add --transport HTTP+JSON".into()));
            }
        }
        // What comes back decides whether it is a stream.
        let accept = HeaderValue::from_static("application/json, application/a2a+json, text/event-stream");
        written.headers.insert(header::ACCEPT, accept);
        Ok(written)
    }

    /// The operation of the request, for a binding that has no methods.
    pub(super) fn call(&self, dialect: Dialect) -> Result<Call, Error> {
        let Self::Method { name, params } = self else {
            return Err(Error::Usage("a path is called over HTTP+JSON; add --transport HTTP+JSON".into()));
        };
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":{params}}}"#);
        let features = dialect.features();
        let (endpoint, xpr_headers) = (features.endpoint, features.signed_by_headers);
        let facts = Facts { endpoint, version: Some(dialect.name()), xpr_headers };
        let heard = decode_request(&facts, request.as_bytes(), &mut message_id);
        heard.map(|heard| heard.call).map_err(|unheard| Error::Usage(unheard.fault.to_string()))
    }
}

/// The text that `-d` stands for, which must be JSON.
fn read_data(data: &str) -> Result<String, Problem> {
    let read = |path: &str| read_text(Path::new(path), DATA_BYTES_MAX).map_err(Problem::usage);
    let (name, text) = match data.strip_prefix('@') {
        _ if data == "-" => ("standard input", read("-")?),
        Some(path) => (path, read(path)?),
        None => ("--data", data.to_owned()),
    };
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(Problem::usage(format!("{name} is not JSON: {error}")).hint("sabir call describe METHOD")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_paths_are_told_apart() {
        let read = |words: &[&str], data| RawRequest::read(words.to_vec(), data);
        let method = read(&["SendMessage"], Some("{\"a\":1}")).unwrap();
        assert_eq!(method, RawRequest::Method { name: "SendMessage".into(), params: "{\"a\":1}".into() });
        let path = RawRequest::Http { verb: Method::GET, path: "/tasks".into(), body: None };
        assert_eq!(read(&["GET /tasks"], None).unwrap(), path);
        assert_eq!(read(&["get", "/tasks"], None).unwrap(), path);
        for (words, data) in [(&["a", "b"][..], None), (&["Send\"Message"], None), (&["X"], Some("{"))] {
            assert!(read(words, data).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_method_is_understood_where_there_are_none() {
        let request = RawRequest::Method { name: "GetTask".into(), params: r#"{"id":"t"}"#.into() };
        assert_eq!(request.call(Dialect::V1).unwrap().operation(), "GetTask");
        let old = RawRequest::Method { name: "tasks/get".into(), params: r#"{"id":"t"}"#.into() };
        assert_eq!(old.call(Dialect::V03).unwrap().operation(), "GetTask");
        assert!(old.call(Dialect::V1).is_err());
    }
}
