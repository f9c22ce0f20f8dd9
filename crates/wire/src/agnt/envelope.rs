//! Requests to a booking network: the envelope, read strictly and written.

use super::{EnvelopeHop, Intent, NETWORK, NanoTimestamp, PROTOCOL, Problem, ProblemCode, VIA_MAX};
use sabir_proto::{Json, JsonFault, Object};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of characters that an id may have.
pub const ID_CHARS_MAX: usize = 256;
/// The number of characters that an intent may have.
pub const INTENT_CHARS_MAX: usize = 64;
/// The number of bytes that `agent_context` may have; it is only echoed.
pub const CONTEXT_BYTES_MAX: usize = 16 * 1024;
/// The number of levels that an envelope may nest.
pub const DEPTH_MAX: usize = 32;
/// The time an answer may take where the sender does not say, in milliseconds.
pub const TTL_DEFAULT: u64 = 5000;
/// The longest time for an answer, also where the sender allows more.
pub const TTL_MAX: Duration = Duration::from_secs(15);

/// A request: eight members, and a ninth (`via`) between networks that agreed on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The protocol version. The reader accepts any; [`Envelope::check_protocol`] compares it with ours, because a
    /// foreign version is an error of its own.
    pub protocol: String,
    /// The sender by its own account; the envelope does not prove it.
    pub from: String,
    /// The recipient: a network, or the agent of a venue.
    pub to: String,
    /// The name of the operation; [`Envelope::intent`] parses it.
    pub intent: String,
    /// The arguments of the intent, and their signature.
    pub payload: Object,
    /// `agent_context`, which the answer echoes. No claim in it about the sender is believed.
    pub context: Object,
    /// How long the answer may take, in milliseconds.
    pub ttl_ms: u64,
    /// When the sender first sent it; the same on every retry.
    pub timestamp: Option<NanoTimestamp>,
    /// The networks that passed it on, oldest first.
    pub via: Vec<EnvelopeHop>,
}

/// The members of an envelope that its answer repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeHead {
    /// The protocol version of the request.
    pub protocol: String,
    /// The sender, if the envelope names a legal one.
    pub from: Option<String>,
    /// The recipient, if the envelope names a legal one.
    pub to: Option<String>,
    /// The intent, if the envelope names a legal one.
    pub intent: Option<String>,
    /// `agent_context`, which the answer echoes.
    pub context: Object,
    /// The `ttl_ms` of the request, in milliseconds.
    pub ttl_ms: u64,
}

/// Why bytes are not an envelope, and the members that could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeError {
    /// What is wrong with the envelope.
    pub problem: Problem,
    /// What an answer to the envelope needs.
    pub head: Box<EnvelopeHead>,
}

impl Envelope {
    /// An envelope with its required members only.
    pub fn new(from: &str, intent: Intent, payload: Object) -> Self {
        Self {
            protocol: PROTOCOL.into(),
            from: from.into(),
            to: NETWORK.into(),
            intent: intent.name().into(),
            payload,
            context: empty(),
            ttl_ms: TTL_DEFAULT,
            timestamp: None,
            via: Vec::new(),
        }
    }

    /// Reads an envelope, strictly.
    pub fn read(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let mut sketch = EnvelopeHead::default();
        let read = members(bytes).and_then(|members| EnvelopeReader { members, head: &mut sketch }.envelope());
        read.map_err(|problem| EnvelopeError { problem, head: Box::new(sketch) })
    }

    /// Writes the JSON text that is posted.
    pub fn write(&self) -> String {
        #[derive(Serialize)]
        struct EnvelopeOut<'a> {
            protocol: &'a str,
            from: &'a str,
            to: &'a str,
            intent: &'a str,
            payload: &'a Object,
            agent_context: &'a Object,
            ttl_ms: u64,
            timestamp: String,
            #[serde(skip_serializing_if = "<[EnvelopeHop]>::is_empty")]
            via: &'a [EnvelopeHop],
        }
        let out = EnvelopeOut {
            protocol: &self.protocol,
            from: &self.from,
            to: &self.to,
            intent: &self.intent,
            payload: &self.payload,
            agent_context: &self.context,
            ttl_ms: self.ttl_ms,
            timestamp: self.timestamp.map(|moment| moment.to_string()).unwrap_or_default(),
            via: &self.via,
        };
        serde_json::to_string(&out).unwrap_or_default()
    }

    /// The members that the answer repeats.
    pub fn head(&self) -> EnvelopeHead {
        EnvelopeHead {
            protocol: self.protocol.clone(),
            from: Some(self.from.clone()),
            to: Some(self.to.clone()),
            intent: Some(self.intent.clone()),
            context: self.context.clone(),
            ttl_ms: self.ttl_ms,
        }
    }

    /// Checks that the protocol version is ours.
    pub fn check_protocol(&self) -> Result<(), Problem> {
        if self.protocol == PROTOCOL {
            return Ok(());
        }
        let message = format!("protocol {:.64?} is not spoken here; send {PROTOCOL:?}", self.protocol);
        Err(Problem::new(ProblemCode::UnsupportedProtocol, message))
    }

    /// Parses the intent; an unknown one is a problem that lists the known ones.
    pub fn intent(&self) -> Result<Intent, Problem> {
        Intent::parse(&self.intent).ok_or_else(|| {
            let known: Vec<&str> = Intent::ALL.iter().map(|intent| intent.name()).collect();
            let message = format!("unknown intent {:?}; there are {}", self.intent, known.join(", "));
            Problem::new(ProblemCode::UnknownIntent, message)
        })
    }
}

impl Default for EnvelopeHead {
    fn default() -> Self {
        Self { protocol: PROTOCOL.into(), from: None, to: None, intent: None, context: empty(), ttl_ms: TTL_DEFAULT }
    }
}

pub(super) fn empty() -> Object {
    Object::from_map(&serde_json::Map::new()).expect("an empty map is an object")
}

type EnvelopeMembers = BTreeMap<String, Json>;

fn members(bytes: &[u8]) -> Result<EnvelopeMembers, Problem> {
    let malformed = |why: String| Problem::new(ProblemCode::MalformedEnvelope, why);
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("the body is not UTF-8".into()))?;
    let json = Json::parse(text).map_err(|fault| match fault {
        JsonFault::TooDeep => invalid(&too_deep()),
        JsonFault::Duplicate(_) | JsonFault::Syntax(_) | JsonFault::NotAnObject => malformed(fault.to_string()),
    })?;
    if depth(json.as_str()) > DEPTH_MAX {
        return Err(invalid(&too_deep()));
    }
    let object = Object::new(json).map_err(|_| invalid("an envelope is a JSON object"))?;
    Ok(object.members())
}

fn too_deep() -> String {
    format!("nested deeper than {DEPTH_MAX} levels")
}

/// The number of levels that a JSON text nests. Texts with at most [`DEPTH_MAX`] brackets are not walked, so the number
/// is then only an upper bound.
fn depth(text: &str) -> usize {
    // Most envelopes have only a few brackets in all.
    let brackets = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if brackets <= DEPTH_MAX {
        return brackets;
    }
    let (mut now, mut most, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

fn invalid(why: &str) -> Problem {
    Problem::new(ProblemCode::InvalidEnvelope, why)
}

/// Reads an envelope member by member. The members that an answer needs are stored first, so that a sender with one
/// wrong member is still answered by name.
struct EnvelopeReader<'a> {
    members: EnvelopeMembers,
    head: &'a mut EnvelopeHead,
}

impl EnvelopeReader<'_> {
    fn envelope(mut self) -> Result<Envelope, Problem> {
        let protocol = self.text("protocol");
        let from = self.from();
        let to = self.text("to").and_then(|to| match to {
            None => Ok(NETWORK.to_owned()),
            Some(to) => checked_id("to", to),
        });
        let intent = self.intent();
        let context = self.object("agent_context");
        let ttl_ms = self.ttl();
        if let Ok(Some(protocol)) = &protocol {
            self.head.protocol.clone_from(protocol);
        }
        (self.head.from, self.head.to) = (from.clone().ok(), to.clone().ok());
        self.head.intent = intent.clone().ok();
        if let Ok(context) = &context
            && context.as_str().len() <= CONTEXT_BYTES_MAX
        {
            self.head.context = context.clone();
        }
        if let Ok(ttl_ms) = ttl_ms {
            self.head.ttl_ms = ttl_ms;
        }
        let context = context?;
        if context.as_str().len() > CONTEXT_BYTES_MAX {
            let message = format!("agent_context has more than {CONTEXT_BYTES_MAX} bytes");
            return Err(Problem::new(ProblemCode::PayloadTooLarge, message));
        }
        let envelope = Envelope {
            protocol: protocol?.unwrap_or_else(|| PROTOCOL.into()),
            from: from?,
            to: to?,
            intent: intent?,
            payload: self.object("payload")?,
            context,
            ttl_ms: ttl_ms?,
            timestamp: self.timestamp()?,
            via: self.via()?,
        };
        match self.members.keys().next() {
            None => Ok(envelope),
            Some(name) => Err(invalid(&format!("unknown member {:?}", name.chars().take(64).collect::<String>()))),
        }
    }

    /// The published model also accepts its internal name, `from_agent`.
    fn from(&mut self) -> Result<String, Problem> {
        match (self.text("from")?, self.text("from_agent")?) {
            (Some(_), Some(_)) => Err(invalid("from and from_agent are the same member; send from")),
            (None, None) => Err(invalid("from is missing: the id of the sending agent")),
            (Some(from), None) | (None, Some(from)) => checked_id("from", from),
        }
    }

    fn intent(&mut self) -> Result<String, Problem> {
        let intent = self.text("intent")?.ok_or_else(|| invalid("intent is missing"))?;
        let word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        let named = intent.len() <= INTENT_CHARS_MAX && intent.contains('.') && intent.split('.').all(word);
        if named { Ok(intent) } else { Err(invalid("intent has the form area.verb, in lower case")) }
    }

    fn ttl(&mut self) -> Result<u64, Problem> {
        let Some(json) = self.members.remove("ttl_ms") else { return Ok(TTL_DEFAULT) };
        // Parsed from the text, because 5000.0 is not an integer here.
        match json.as_str().parse() {
            Ok(ttl_ms @ 1..) => Ok(ttl_ms),
            _ => Err(invalid("ttl_ms is a whole number of milliseconds above 0")),
        }
    }

    fn timestamp(&mut self) -> Result<Option<NanoTimestamp>, Problem> {
        match self.text("timestamp")?.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => NanoTimestamp::parse(text).map(Some).ok_or_else(|| {
                invalid("timestamp is ISO 8601 in UTC, with Z or +00:00 and up to nine digits of fraction")
            }),
        }
    }

    fn via(&mut self) -> Result<Vec<EnvelopeHop>, Problem> {
        let Some(json) = self.members.remove("via") else { return Ok(Vec::new()) };
        let hops: Vec<EnvelopeHop> =
            json.read().map_err(|_| invalid("via is a list of {agent, at, kid, ttl_ms, sig}, oldest first"))?;
        if hops.len() > VIA_MAX {
            return Err(Problem::new(ProblemCode::HopLimitExceeded, format!("more than {VIA_MAX} hops")));
        }
        for hop in &hops {
            checked_id("via.agent", hop.agent.clone())?;
        }
        Ok(hops)
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let Some(json) = self.members.remove(name) else { return Ok(None) };
        json.read().map(Some).map_err(|_| invalid(&format!("{name} is a string")))
    }

    fn object(&mut self, name: &str) -> Result<Object, Problem> {
        let Some(json) = self.members.remove(name) else { return Ok(empty()) };
        Object::new(json).map_err(|_| invalid(&format!("{name} is an object")))
    }
}

fn checked_id(name: &str, id: String) -> Result<String, Problem> {
    let length = id.chars().count();
    if (1..=ID_CHARS_MAX).contains(&length) && !id.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Ok(id);
    }
    Err(invalid(&format!("{name} has 1 to {ID_CHARS_MAX} characters, none of them white space")))
}

#[cfg(test)]
mod tests;
