//! Cassettes: recorded exchanges between a client and an agent, in a file that can be replayed and played back.
//!
//! A cassette is lines of JSON. The first says what it is and holds the agent's card; every other line is one exchange: a
//! request and its answer, whole or as the frames of a stream with the time of each. What is JSON on the wire is JSON here,
//! number for number. Credentials are taken out before anything is written; there is no switch for it.
//!
//! | Module | What it contains |
//! |---|---|
//! | this one | the format, reading and writing |
//! | `card` | a card whose addresses lead here |
//! | `compare` | are two answers the same, ids and times aside? |

mod card;
mod compare;
pub(crate) mod mock;
pub(crate) mod record;
pub(crate) mod replay;

use crate::problem::{ErrorCode, Problem};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// The version of the format that is written and read.
const FORMAT: u32 = 1;
/// The longest line that is read, in bytes: files travel inside messages, and a stream is one line.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// The first line of a cassette.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CassetteHead {
    /// The version of the format; that it is there says what the file is.
    pub(super) cassette: u32,
    pub(super) tool: String,
    /// The agent, as it was named.
    pub(super) agent: String,
    /// Which interfaces of the card are recorded, by their places.
    pub(super) interfaces: Vec<usize>,
    /// The card in the form of 1.0.
    pub(super) card: Box<RawValue>,
}

impl CassetteHead {
    pub(super) fn new(agent: String, interfaces: Vec<usize>, card: Box<RawValue>) -> Self {
        let tool = concat!("sabir ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { cassette: FORMAT, tool, agent, interfaces, card }
    }
}

/// One recorded exchange: a request and its answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedExchange {
    /// Its number, in the order in which requests came.
    pub(super) exchange: u64,
    /// Which interface of the card it went to.
    pub(super) interface: usize,
    pub(super) binding: String,
    pub(super) request: RecordedRequest,
    pub(super) response: RecordedResponse,
    /// The number of its line in the file.
    #[serde(skip)]
    pub(super) line: usize,
}

/// The request of a recorded exchange.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedRequest {
    pub(super) method: String,
    /// Below the address of the interface, with its query.
    pub(super) path: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub(super) body: Payload,
}

/// The answer of a recorded exchange.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedResponse {
    pub(super) status: u16,
    /// Milliseconds from the request to the head of the answer.
    pub(super) after: u64,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub(super) body: Payload,
    /// The events of a stream, in place of a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) frames: Option<Vec<RecordedFrame>>,
    /// How the stream of events ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<StreamEnd>,
}

/// One event of a stream.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedFrame {
    /// Milliseconds from the head of the answer.
    pub(super) at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<String>,
    pub(super) data: Payload,
}

/// How a recorded stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StreamEnd {
    /// The agent closed it in good order.
    Closed,
    /// It broke off.
    Broken,
    /// The client left first.
    Left,
}

/// A recorded body: JSON as it stands, or any other text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Payload {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl Payload {
    pub(super) fn of(text: String) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        // Laid out on one line: a cassette has one exchange on each.
        let compact = crate::output::compact(&text);
        match serde_json::from_str::<&RawValue>(&text).and_then(|_| RawValue::from_string(compact)) {
            Ok(json) => Self { json: Some(json), text: None },
            Err(_) => Self { json: None, text: Some(text) },
        }
    }

    fn is_empty(&self) -> bool {
        self.json.is_none() && self.text.is_none()
    }

    pub(super) fn as_str(&self) -> &str {
        match (&self.json, &self.text) {
            (Some(json), _) => json.get(),
            (None, Some(text)) => text,
            (None, None) => "",
        }
    }

    /// As a value; null where it is not JSON.
    pub(super) fn value(&self) -> serde_json::Value {
        self.json.as_ref().and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
    }
}

/// A cassette that was read.
#[derive(Debug)]
pub(super) struct Cassette {
    pub(super) head: CassetteHead,
    /// In the order in which they were asked.
    pub(super) exchanges: Vec<RecordedExchange>,
    /// What is wrong with single lines, for a command that goes on without them.
    pub(super) damage: Vec<String>,
}

/// What to do about lines that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DamagePolicy {
    Refuse,
    Skip,
}

fn damage_problem(path: &Path, words: &str) -> Problem {
    Problem::new(ErrorCode::Vendor("SABIR_ERR_CASSETTE"), format!("{}: {words}", path.display()))
}

impl Cassette {
    pub(super) fn read(path: &Path, damage: DamagePolicy) -> Result<Self, Problem> {
        let file = File::open(path).map_err(|error| damage_problem(path, &format!("cannot be read: {error}")))?;
        let cassette = Self::from_lines(BufReader::new(file)).map_err(|words| damage_problem(path, &words))?;
        match (cassette.damage.as_slice(), damage) {
            ([], _) | (_, DamagePolicy::Skip) => Ok(cassette),
            ([first, more @ ..], DamagePolicy::Refuse) => {
                let more = if more.is_empty() { String::new() } else { format!(", and {} more lines", more.len()) };
                let whole = cassette.exchanges.len();
                Err(damage_problem(path, &format!("{first}{more}; {whole} exchanges are whole"))
                    .hint("go on without the damaged lines: add --skip-damaged"))
            }
        }
    }

    fn from_lines(mut input: impl BufRead) -> Result<Self, String> {
        let mut head = None;
        let (mut exchanges, mut damage) = (Vec::new(), Vec::new());
        for number in 1.. {
            let mut line = Vec::new();
            let read = (&mut input).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
            read.map_err(|error| format!("line {number} cannot be read: {error}"))?;
            if line.is_empty() {
                break;
            }
            if line.len() as u64 > LINE_BYTES_MAX {
                return Err(format!("line {number} is longer than {LINE_BYTES_MAX} bytes"));
            }
            let whole = line.ends_with(b"\n");
            if head.is_none() {
                head = Some(parse_head(&line)?);
                continue;
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice::<RecordedExchange>(&line) {
                Ok(exchange) => exchanges.push(RecordedExchange { line: number, ..exchange }),
                Err(_) if !whole => damage.push(format!("line {number} is cut short: the recording ended in it")),
                Err(error) => damage.push(format!("line {number} is no exchange: {error}")),
            }
        }
        exchanges.sort_by_key(|exchange| exchange.exchange);
        let head = head.ok_or("it is empty")?;
        Ok(Self { head, exchanges, damage })
    }
}

fn parse_head(line: &[u8]) -> Result<CassetteHead, String> {
    #[derive(Deserialize)]
    struct FormatVersion {
        cassette: u32,
    }
    let version: FormatVersion =
        serde_json::from_slice(line).map_err(|_| "line 1 is not the head of a cassette; is it one?".to_owned())?;
    if version.cassette != FORMAT {
        return Err(format!("it is of format {}, and this tool reads format {FORMAT}", version.cassette));
    }
    serde_json::from_slice(line).map_err(|error| format!("line 1, the head, is damaged: {error}"))
}

/// A cassette that is being written. Every line is in the file before the next is begun.
#[derive(Debug)]
pub(super) struct CassetteWriter {
    file: File,
}

impl CassetteWriter {
    /// Begins a cassette. What exists is overwritten only where that was asked for.
    pub(super) fn create(path: &Path, force: bool, head: &CassetteHead) -> Result<Self, Problem> {
        let mut options = File::options();
        options.write(true).create_new(!force).create(force).truncate(force);
        // Only the owner may read the file: messages may be confidential.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Problem::new(ErrorCode::Vendor("SABIR_ERR_EXISTS"), format!("{} exists", path.display()))
                    .hint("choose another name, or overwrite it with --force")
            }
            _ => damage_problem(path, &format!("cannot be written: {error}")),
        })?;
        let mut writer = Self { file };
        writer.line(head).map_err(|error| damage_problem(path, &format!("cannot be written: {error}")))?;
        Ok(writer)
    }

    pub(super) fn line(&mut self, line: &impl Serialize) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"cassette":1,"tool":"t","agent":"a","interfaces":[0],"card":{"name":"x","n":1.50}}"#;
    const EXCHANGE: &str = r#"{"exchange":2,"interface":0,"binding":"JSONRPC","request":{"method":"POST","path":""},"response":{"status":200,"after":3,"body":{"json":{"big":12345678901234567890.10}}}}"#;

    fn read(text: &str) -> Result<Cassette, String> {
        Cassette::from_lines(text.as_bytes())
    }

    #[test]
    fn exchanges_are_read_in_the_order_of_their_requests() {
        let earlier = EXCHANGE.replace("\"exchange\":2", "\"exchange\":1");
        let cassette = read(&format!("{HEAD}\n{EXCHANGE}\n\n{earlier}\n")).unwrap();
        assert_eq!(cassette.exchanges.iter().map(|e| (e.exchange, e.line)).collect::<Vec<_>>(), [(1, 4), (2, 2)]);
        assert_eq!(cassette.exchanges[0].response.body.as_str(), "{\"big\":12345678901234567890.10}");
        assert_eq!(cassette.head.card.get(), "{\"name\":\"x\",\"n\":1.50}");
        assert!(cassette.damage.is_empty());
    }

    #[test]
    fn damage_is_named_by_its_line_and_the_rest_is_kept() {
        let cassette =
            read(&format!("{HEAD}\n{EXCHANGE}\n{{\"exchange\":x}}\n{EXCHANGE}\n{}", &EXCHANGE[..40])).unwrap();
        assert_eq!(cassette.exchanges.len(), 2);
        assert!(cassette.damage[0].starts_with("line 3 is no exchange"), "{:?}", cassette.damage);
        assert!(cassette.damage[1].starts_with("line 5 is cut short"), "{:?}", cassette.damage);
    }

    #[test]
    fn what_is_no_cassette_is_not_taken_for_one() {
        for (text, words) in [
            ("", "empty"),
            ("hello\n", "line 1"),
            ("{\"cassette\":2}\n", "format 2"),
            ("{\"cassette\":1,\"tool\":3}\n", "line 1, the head"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn json_is_kept_as_json_on_one_line_and_other_text_as_text() {
        assert_eq!(
            serde_json::to_string(&Payload::of("{\n \"a\" : 1.10\n}".into())).unwrap(),
            r#"{"json":{"a":1.10}}"#
        );
        assert_eq!(serde_json::to_string(&Payload::of("<html>\n".into())).unwrap(), r#"{"text":"<html>\n"}"#);
        assert!(Payload::of(String::new()).is_empty());
    }
}
