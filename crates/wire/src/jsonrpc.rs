//! The JSON-RPC 2.0 envelope: requests read, results and errors written.

use crate::codes::{self, ErrorDetail};
use sabir_proto::Fault;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A request with unparsed parameters; they are parsed once, into the type of the method.
#[derive(Debug, Deserialize)]
pub struct JsonRpcEnvelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    /// A string or a number, echoed as it came.
    #[serde(borrow, default, deserialize_with = "present")]
    pub id: Option<&'a RawValue>,
    /// The name of the method.
    #[serde(borrow, default)]
    pub method: Cow<'a, str>,
    /// The parameters, not yet parsed.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

/// Deserializes a member whose `null` is not the same as its absence.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// The JSON text of a request's id, which the response echoes; `null` where there is none.
pub type Id = Box<str>;

/// Why a body is not a request, with its id if it has one.
#[derive(Debug)]
pub struct MalformedRequest {
    /// The id that the response echoes.
    pub id: Id,
    /// What is wrong with the body.
    pub fault: Fault,
}

impl<'a> JsonRpcEnvelope<'a> {
    /// Reads the envelope of a request.
    pub fn read(body: &'a [u8]) -> Result<Self, MalformedRequest> {
        let read = match serde_json::from_slice(body) {
            // A derived reader would also accept a list of the members in order.
            Ok(_) if !body.trim_ascii_start().starts_with(b"{") => Err(serde_json::Error::custom("not an object")),
            read => read,
        };
        let envelope: Self = read.map_err(|error| {
            let fault = match error.classify() {
                // Serde met the wrong members before the end of the text, but the text is not JSON.
                Category::Data if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() => {
                    Fault::Parse(error_text(&error))
                }
                Category::Data if body.trim_ascii_start().starts_with(b"[") => {
                    Fault::InvalidRequest("batches are not supported; send one request at a time".into())
                }
                Category::Data if !body.trim_ascii_start().starts_with(b"{") => {
                    Fault::InvalidRequest("a request is a JSON object".into())
                }
                Category::Data => Fault::InvalidRequest(error_text(&error)),
                Category::Syntax | Category::Eof | Category::Io => Fault::Parse(error_text(&error)),
            };
            MalformedRequest { id: "null".into(), fault }
        })?;
        let problem = match envelope.jsonrpc.as_deref() {
            Some("2.0") if !envelope.method.is_empty() => return Ok(envelope),
            Some("2.0") => "method is missing",
            Some(_) => "jsonrpc must be \"2.0\"",
            None => "jsonrpc is missing; it must be \"2.0\"",
        };
        let id = if envelope.id_is_legal() { envelope.id_text() } else { "null".into() };
        Err(MalformedRequest { id, fault: Fault::InvalidRequest(problem.into()) })
    }

    /// The JSON text of the id, which the response echoes.
    pub fn id_text(&self) -> Id {
        self.id.map_or("null", RawValue::get).into()
    }

    /// The id of the response. `None` if the request has none and need not have one; then the response has none either.
    pub(crate) fn answer_id(&self, optional: bool) -> Option<Id> {
        match self.id {
            None if optional => None,
            Some(id) if optional && id.get().len() <= ID_BYTES_MAX => Some(id.get().into()),
            _ if self.id_is_legal() => Some(self.id_text()),
            _ => Some("null".into()),
        }
    }

    /// What is wrong with the id. Where the id is optional it may be any short JSON value.
    pub(crate) fn id_problem(&self, optional: bool) -> Option<Fault> {
        let problem = match self.id {
            None if optional => return None,
            Some(id) if optional && id.get().len() <= ID_BYTES_MAX => return None,
            None => "id is missing; notifications are not supported",
            Some(id) if id.get() == "null" => "id must be a string or a number",
            Some(_) if !self.id_is_legal() => "id must be a string or a number of at most 1024 bytes",
            Some(_) => return None,
        };
        Some(Fault::InvalidRequest(problem.into()))
    }

    /// Whether the id is missing or `null`.
    pub(crate) fn is_without_id(&self) -> bool {
        self.id.is_none_or(|id| id.get() == "null")
    }

    fn id_is_legal(&self) -> bool {
        self.id.is_some_and(|id| {
            matches!(id.get().as_bytes()[0], b'"' | b'-' | b'0'..=b'9') && id.get().len() <= ID_BYTES_MAX
        })
    }

    /// Parses the parameters into the type of the method; absent ones read as an empty object.
    pub fn params<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Fault> {
        read_params(self.params.map_or("{}", RawValue::get))
    }
}

/// Ids are echoed on every event of a stream, so they stay short.
const ID_BYTES_MAX: usize = 1024;

/// Parses a JSON object into a type. An error names the member it is about. Finding its path is slow, so it is only
/// searched after the fast parser has failed.
pub fn read_params<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Fault> {
    // Derived readers would also accept an array of the members in order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Fault::invalid("", "must be an object"));
    }
    serde_json::from_str(text).map_err(|_| {
        let mut slow = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut slow) {
            Err(error) => {
                let path = error.path().to_string();
                let field = if path == "." { String::new() } else { path };
                Fault::invalid(field, text_without_position(&error.into_inner()))
            }
            Ok(_) => Fault::invalid("", "not valid"),
        }
    })
}

/// Longest error text of the JSON parser, in bytes. It quotes what was not expected, which may be a megabyte.
const ERROR_TEXT_BYTES_MAX: usize = 512;

/// The error text of the JSON parser, without the middle of a long quotation.
pub(crate) fn error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.len() <= ERROR_TEXT_BYTES_MAX {
        return text;
    }
    let head = text.floor_char_boundary(ERROR_TEXT_BYTES_MAX / 2);
    let tail = text.ceil_char_boundary(text.len() - ERROR_TEXT_BYTES_MAX / 2);
    format!("{} … {}", &text[..head], &text[tail..])
}

/// The error text without serde's position, which is counted within the parameters and means nothing to the caller.
fn text_without_position(error: &serde_json::Error) -> String {
    let text = error_text(error);
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

/// Writes the text before a result: `{"jsonrpc":"2.0","id":…,"result":`. A `}` closes it.
pub fn open_result(id: Option<&str>, out: &mut Vec<u8>) {
    open(id, out);
    out.extend_from_slice(b",\"result\":");
}

/// Writes the text before an error. A `}` closes it.
pub(crate) fn open_error(id: Option<&str>, out: &mut Vec<u8>) {
    open(id, out);
    out.extend_from_slice(b",\"error\":");
}

fn open(id: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.as_bytes());
    }
}

/// Writes the error response of 1.0.
pub fn write_error(id: Option<&str>, fault: &Fault, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct JsonRpcErrorOut<'a> {
        code: i32,
        message: String,
        data: Vec<ErrorDetail<'a>>,
    }
    let code = codes::numbers(fault.code()).json_rpc;
    let error = JsonRpcErrorOut { code, message: fault.to_string(), data: codes::details(fault) };
    open_error(id, out);
    serde_json::to_writer(&mut *out, &error).expect("strings and numbers serialise");
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::numbers;

    #[track_caller]
    fn refused(body: &[u8], code: i32, id: &str) {
        let malformed = match JsonRpcEnvelope::read(body) {
            Err(malformed) => malformed,
            Ok(envelope) => {
                let fault = envelope.id_problem(false).unwrap();
                MalformedRequest { id: envelope.answer_id(false).unwrap(), fault }
            }
        };
        assert_eq!((numbers(malformed.fault.code()).json_rpc, &*malformed.id), (code, id), "{}", malformed.fault);
    }

    #[test]
    fn a_malformed_envelope_gets_the_code_the_standard_gives_it() {
        refused(b"", -32700, "null");
        refused(b"{", -32700, "null");
        refused(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\xff\"}", -32700, "null");
        refused(br#"{"jsonrpc":"2.0","id":1,"method":"x"}trailing"#, -32700, "null");
        refused(b"[]", -32600, "null");
        refused(b"3", -32600, "null");
        refused(br#"["2.0",1,"x",{}]"#, -32600, "null");
        refused(br#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":1}"#, -32600, "1");
        refused(br#"{"jsonrpc":"1.0","id":"a","method":"x"}"#, -32600, "\"a\"");
        refused(br#"{"id":7,"method":"x"}"#, -32600, "7");
        refused(br#"{"jsonrpc":"2.0","method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, "null");
    }

    #[test]
    fn what_is_refused_is_not_quoted_in_full() {
        let long = "é".repeat(1 << 19);
        let text =
            read_params::<sabir_proto::SendMessage>(&format!("{{\"message\":\"{long}\"}}")).unwrap_err().to_string();
        assert!(text.starts_with("invalid parameters: message: invalid type: string \"éé"), "{text}");
        assert!(text.len() < 1024 && text.contains(" … ") && text.ends_with("expected an object"), "{text}");
    }

    #[test]
    fn ids_are_echoed_as_they_came() {
        for id in ["1", "-7", "1.50", "\"a\\u0041\"", "12345678901234567890123"] {
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}");
            assert_eq!(&*JsonRpcEnvelope::read(body.as_bytes()).unwrap().id_text(), id);
        }
    }
}
