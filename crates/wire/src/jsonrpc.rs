//! The JSON-RPC 2.0 envelope.

use crate::codes::{self, Detail};
use sabir_proto::Fault;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A request with its parameters left as they came; they are parsed once, into what the method asks for.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    /// A string or a number, echoed as it came.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    /// The method's name.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// The parameters.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

/// The text of a request's id, to be echoed; `null` where there is none.
pub type Id = Box<str>;

/// Why an envelope is not one, with the id if it had one.
#[derive(Debug)]
pub struct Malformed {
    /// To be echoed.
    pub id: Id,
    /// What to say.
    pub fault: Fault,
}

impl<'a> Envelope<'a> {
    /// Reads an envelope.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let envelope: Self = serde_json::from_slice(body).map_err(|error| {
            let fault = match error.classify() {
                // The wrong members were met before the text broke off; it is not JSON all the same.
                Category::Data if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() => {
                    Fault::Parse(error.to_string())
                }
                Category::Data if body.trim_ascii_start().starts_with(b"[") => {
                    Fault::InvalidRequest("batches are not supported; send one request at a time".into())
                }
                Category::Data => Fault::InvalidRequest(error.to_string()),
                Category::Syntax | Category::Eof | Category::Io => Fault::Parse(error.to_string()),
            };
            Malformed { id: "null".into(), fault }
        })?;
        envelope.check().map_err(|problem| Malformed {
            id: if envelope.id_is_legal() { envelope.id_text() } else { "null".into() },
            fault: Fault::InvalidRequest(problem.into()),
        })?;
        Ok(envelope)
    }

    /// The id, to be echoed.
    pub fn id_text(&self) -> Id {
        self.id.map_or("null", RawValue::get).into()
    }

    fn id_is_legal(&self) -> bool {
        self.id.is_some_and(|id| {
            matches!(id.get().as_bytes()[0], b'"' | b'-' | b'0'..=b'9') && id.get().len() <= ID_BYTES_MAX
        })
    }

    fn check(&self) -> Result<(), &'static str> {
        match self.jsonrpc.as_deref() {
            Some("2.0") => {}
            Some(_) => return Err("jsonrpc must be \"2.0\""),
            None => return Err("jsonrpc is missing; it must be \"2.0\""),
        }
        match self.id {
            None => Err("id is missing; notifications are not supported"),
            Some(id) if id.get() == "null" => Err("id must be a string or a number"),
            Some(_) if !self.id_is_legal() => Err("id must be a string or a number of at most 1024 bytes"),
            Some(_) => Ok(()),
        }
    }

    /// Parses the parameters into what a method asks for; absent ones read as an empty object.
    pub fn params<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Fault> {
        read_params(self.params.map_or("{}", RawValue::get))
    }
}

/// Ids are echoed on every event of a stream, so they stay short.
const ID_BYTES_MAX: usize = 1024;

/// Parses a JSON text into a type; a failure names the member it is about. The path costs time, so it is only looked
/// for once the quick way has failed.
pub fn read_params<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Fault> {
    // Derived readers would take an array of the members in order, too.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Fault::invalid("", "must be an object"));
    }
    serde_json::from_str(text).map_err(|_| {
        let mut slow = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut slow) {
            Err(error) => {
                let path = error.path().to_string();
                let field = if path == "." { String::new() } else { path };
                Fault::invalid(field, brief(&error.into_inner()))
            }
            Ok(_) => Fault::invalid("", "not valid"),
        }
    })
}

/// The message without serde's position, which means nothing to the caller: it is counted within the parameters.
fn brief(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

/// Writes what comes before a result: `{"jsonrpc":"2.0","id":…,"result":`. A `}` closes it.
pub fn open_result(id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
}

/// Writes an error.
pub fn write_error(id: &str, fault: &Fault, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Error<'a> {
        code: i32,
        message: String,
        data: Vec<Detail<'a>>,
    }
    let code = codes::numbers(fault.code()).json_rpc;
    let error = Error { code, message: fault.to_string(), data: codes::details(fault) };
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"error\":");
    serde_json::to_writer(&mut *out, &error).expect("strings and numbers serialise");
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::numbers;

    #[track_caller]
    fn refused(body: &[u8], code: i32, id: &str) {
        let malformed = Envelope::read(body).unwrap_err();
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
        refused(br#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":1}"#, -32600, "null");
        refused(br#"{"jsonrpc":"1.0","id":"a","method":"x"}"#, -32600, "\"a\"");
        refused(br#"{"id":7,"method":"x"}"#, -32600, "7");
        refused(br#"{"jsonrpc":"2.0","method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, -32600, "null");
        refused(br#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, "null");
    }

    #[test]
    fn ids_are_echoed_as_they_came() {
        for id in ["1", "-7", "1.50", "\"a\\u0041\"", "12345678901234567890123"] {
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}");
            assert_eq!(&*Envelope::read(body.as_bytes()).unwrap().id_text(), id);
        }
    }
}
