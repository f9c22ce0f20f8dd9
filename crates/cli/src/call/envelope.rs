//! `sabir envelope send`: one envelope to a booking network, sent until it is answered.

use super::{InterruptHandling, Session, run_session};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::input::read_text;
use crate::problem::{ErrorCode, Outcome, Problem, TransportStatus};
use clap::{Args, ValueEnum};
use sabir_client::Secret;
use sabir_client::envelope::{EnvelopeError, EnvelopeKey, EnvelopeSender, EnvelopeTransport, KeyDerivation};
use sabir_proto::{Json, Object};
use sabir_wire::agnt::{Envelope, Intent, NanoTimestamp, NetworkAnswer, PATH, ProblemCode};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// The largest payload, in bytes: as much as a network takes.
const PAYLOAD_BYTES_MAX: u64 = 256 << 10;

/// Send an envelope to a booking network, and print the result.
///
/// The payload is read from standard input, or given with --data; network.ping has none. An envelope is stamped once and
/// sent again after passing failures with the same timestamp, so nothing is booked twice. If it still fails, the timestamp
/// is shown: --timestamp repeats that very envelope within five minutes.
#[derive(Debug, Args)]
#[command(after_help = "Intents and their payloads:\n  \
    network.ping         none\n  \
    venue.list           {\"category\": \"restaurant\", \"location\": \"Canggu\", \"limit\": 50}\n  \
    booking.search       {\"query\": \"seafood sunset\", \"location\": \"Canggu\", \"limit\": 10}\n  \
    booking.confirm      {\"venue_id\": \"la-brisa\", \"slot_id\": \"…\", \"party_size\": 2, \"user_note\": \"…\"}\n  \
    payment.authorize    {\"amount\": {\"amount\": 2500, \"currency\": \"USD\"}, \"token\": {…}, \"booking\": {…}}\n\
    Only venue_id, amount and token must be there.\n\n\
    Secrets are named, not typed: env:NAME is a variable, file:PATH a file. The key is also taken from A2ACLI_BEARER.\n\n\
    Exit status: 0 for a result, 1 for a refusal, 3 if no server answers, 4 if the key or the signature is not accepted.\n\n\
    Examples:\n  \
    sabir envelope send network.ping -a https://api.agntdot.com --key env:AGNT_KEY --from my_agent_001\n  \
    echo '{\"query\": \"sunset\"}' | sabir envelope send booking.search -a http://127.0.0.1:4000 --key env:AGNT_KEY\n  \
    sabir envelope send booking.confirm --to venue:la-brisa --sign-key file:a2a.key < payload.json")]
pub(crate) struct EnvelopeSend {
    /// What is wanted: network.ping, venue.list, booking.search, booking.confirm, booking.status or payment.authorize.
    #[arg(value_name = "INTENT")]
    intent: String,
    /// The recipient: a network such as network:agnt, or the agent of a venue.
    #[arg(long, value_name = "ID", default_value = "network:agnt")]
    to: String,
    /// Who sends: the id of your agent. A key may be bound to one.
    #[arg(long, value_name = "ID", default_value = "sabir")]
    from: String,
    /// The API key: env:NAME or file:PATH.
    #[arg(long, value_name = "env:NAME|file:PATH")]
    key: Option<String>,
    /// The network's signing key, to sign the payload with: env:NAME or file:PATH.
    #[arg(long, value_name = "env:NAME|file:PATH")]
    sign_key: Option<String>,
    /// How the signing key is made of that value.
    #[arg(long, value_enum, default_value = "raw")]
    derivation: KeyForm,
    /// The payload: JSON, a file after @, or - for standard input.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    data: Option<String>,
    /// A JSON object that is echoed with the answer.
    #[arg(long, value_name = "JSON")]
    agent_context: Option<String>,
    /// How long an answer may take, in milliseconds; networks allow 15000 at most.
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = clap::value_parser!(u64).range(1..))]
    ttl_ms: u64,
    /// Repeat the envelope that was sent with this timestamp.
    #[arg(long, value_name = "TIME")]
    timestamp: Option<String>,
}

/// How a value becomes a signing key.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyForm {
    /// Its bytes.
    Raw,
    /// The bytes it spells in hex.
    Hex,
    /// HKDF-SHA-256 over its bytes.
    Hkdf,
}

impl Verb for EnvelopeSend {
    fn run(self, invocation: Invocation) -> Outcome {
        let envelope = self.envelope()?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            let sender = self.sender(session)?;
            // Stamped here, so that the timestamp is known if no answer arrives.
            let moment = envelope.timestamp.unwrap_or_else(|| sender.next_timestamp());
            let envelope = Envelope { timestamp: Some(moment), ..envelope };
            let has_effect = envelope.intent().is_ok_and(Intent::has_effect);
            if session.out.verbose {
                session.out.note(&format!("Timestamp: {moment}"));
            }
            match sender.send(envelope).await {
                Ok(answered) => print(session, &answered),
                Err(unserved) => Err(self.problem(session, unserved, has_effect.then_some(moment)).into()),
            }
        })
    }
}

impl EnvelopeSend {
    /// Builds the envelope from the arguments.
    fn envelope(&self) -> Result<Envelope, Problem> {
        let wrong = |message: String| Problem::usage(message).hint("sabir envelope send --help");
        let intent = Intent::parse(&self.intent).ok_or_else(|| {
            let known: Vec<&str> = Intent::ALL.iter().map(|intent| intent.name()).collect();
            wrong(format!("there is no intent {:?}; there are {}", self.intent, known.join(", ")))
        })?;
        let object = |name: &str, text: &str| {
            let read = Json::parse(text).and_then(Object::new);
            read.map_err(|fault| wrong(format!("{name} is not a JSON object: {fault}")))
        };
        let payload = object("the payload", &self.payload(intent)?)?;
        let timestamp = self.timestamp.as_deref().map(|text| {
            NanoTimestamp::parse(text)
                .ok_or_else(|| wrong(format!("{text:?} is no timestamp such as 2026-04-02T10:22:03Z")))
        });
        let mut envelope = Envelope::new(self.from.as_str(), intent, payload);
        envelope.to.clone_from(&self.to);
        envelope.ttl_ms = self.ttl_ms;
        envelope.timestamp = timestamp.transpose()?;
        if let Some(text) = &self.agent_context {
            envelope.context = object("--agent-context", text)?;
        }
        // An envelope that our own server would refuse is not sent.
        let checked = Envelope::read(envelope.write().as_bytes());
        checked.map_err(|misread| wrong(misread.problem.message))
    }

    fn payload(&self, intent: Intent) -> Result<String, Problem> {
        let whole = |path: &str| {
            let read = read_text(Path::new(path), PAYLOAD_BYTES_MAX);
            read.map_err(|what| Problem::usage(what).hint("sabir envelope send --help"))
        };
        let given = match self.data.as_deref() {
            Some("-") => whole("-")?,
            Some(data) => match data.strip_prefix('@') {
                Some(path) => whole(path)?,
                None => data.to_owned(),
            },
            // A ping needs no payload, and a person at a terminal is not made to type one.
            None if intent == Intent::NetworkPing || std::io::stdin().is_terminal() => String::new(),
            None => whole("-")?,
        };
        Ok(if given.trim().is_empty() { "{}".into() } else { given })
    }

    fn sender(&self, session: &Session) -> Result<EnvelopeSender, Problem> {
        let hint = "sabir envelope send --help";
        let Some(text) = session.settings.agent_card.text() else {
            let problem = Problem::usage("no network was given");
            return Err(problem.hint("sabir envelope send … -a https://api.agntdot.com, or set A2ACLI_AGENT_CARD"));
        };
        let at = endpoint(text).ok_or_else(|| Problem::usage(format!("{text:?} is no URL of a network")).hint(hint))?;
        let mut sender = EnvelopeSender::new(EnvelopeTransport::from_client(&session.client), at, self.from.as_str());
        let key = match &self.key {
            Some(reference) => Some(read_secret(session, "--key", reference)?),
            None => session.settings.bearer.text().map(Secret::new),
        };
        if let Some(key) = key {
            sender = sender.with_key(key);
        }
        if let Some(reference) = &self.sign_key {
            let derivation = match self.derivation {
                KeyForm::Raw => KeyDerivation::Raw,
                KeyForm::Hex => KeyDerivation::Hex,
                KeyForm::Hkdf => KeyDerivation::Hkdf,
            };
            let key = EnvelopeKey::new(&read_secret(session, "--sign-key", reference)?, derivation);
            let key = key.map_err(|error| Problem::usage(format!("--sign-key: {error}")).hint(hint))?;
            sender = sender.with_signing(Arc::new(key));
        }
        Ok(sender)
    }

    /// Why there is no result, and how to go on. `moment` is the timestamp of what may have been done.
    fn problem(&self, session: &Session, unserved: EnvelopeError, moment: Option<NanoTimestamp>) -> Problem {
        let passing = unserved.is_transient();
        let message = unserved.to_string();
        let (code, status) = match &unserved {
            EnvelopeError::Refused(problem) => {
                (code_of(problem.code, session, self.key.is_some()), Some(problem.code.http()))
            }
            EnvelopeError::Unknown { http, .. } | EnvelopeError::Malformed { http, .. } => {
                (ErrorCode::Protocol("InvalidAgentResponseError"), Some(*http))
            }
            EnvelopeError::Transport(error) => return with_hint(super::problem_of(error), passing, moment),
            _ => (ErrorCode::Internal, None),
        };
        let problem =
            Problem::new(code, message).transport(status.map(|status| TransportStatus::Number(status.into())));
        let problem = match (&unserved, code) {
            (_, ErrorCode::CredentialsMissing) => problem.hint("give the network's API key: --key env:AGNT_KEY"),
            (EnvelopeError::Refused(refused), _) => match refused.code {
                ProblemCode::TierRequired => problem.hint("booking needs a key of the tier pro or enterprise"),
                ProblemCode::AgentMismatch => problem.hint("--from must be the agent that the key is bound to"),
                ProblemCode::InvalidSignature => problem.hint("check --sign-key and --derivation"),
                _ => problem,
            },
            _ => problem,
        };
        with_hint(problem, passing, moment)
    }
}

/// Adds a hint on how to find out whether the envelope took effect, without repeating it.
fn with_hint(problem: Problem, passing: bool, moment: Option<NanoTimestamp>) -> Problem {
    match moment {
        Some(moment) if passing => problem.hint(format!("repeat it within five minutes: --timestamp {moment}")),
        _ if passing => problem.hint("try again later"),
        _ => problem,
    }
}

fn code_of(code: ProblemCode, session: &Session, keyed: bool) -> ErrorCode {
    match code {
        ProblemCode::Unauthorized if !keyed && session.settings.bearer.text().is_none() => {
            ErrorCode::CredentialsMissing
        }
        ProblemCode::Unauthorized | ProblemCode::InvalidSignature => ErrorCode::AuthFailed,
        other => ErrorCode::Protocol(other.name()),
    }
}

fn print(session: &Session, answered: &NetworkAnswer) -> Outcome {
    if session.out.verbose {
        session.out.note(&format!("From: {}", answered.from));
        session.out.note(&format!("Context: {}", answered.context.as_str()));
    }
    session.out.document(answered.payload.as_str())?;
    Ok(Exit::Done)
}

/// Where envelopes are posted: at the given path, or at the usual one where none is given.
fn endpoint(text: &str) -> Option<Url> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let mut url = Url::parse(&whole).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    if url.path() == "/" {
        url.set_path(PATH);
    }
    Some(url)
}

/// Reads a secret by its reference, and tells it to the redactor.
fn read_secret(session: &Session, flag: &str, reference: &str) -> Result<Secret, Problem> {
    let wrong = |message: String| Problem::usage(message).hint("name a variable, env:NAME, or a file, file:PATH");
    let value = match reference.split_once(':') {
        Some(("env", name)) => std::env::var(name).map_err(|_| wrong(format!("{flag}: {name} is not set")))?,
        Some(("file", path)) => {
            std::fs::read_to_string(path).map_err(|error| wrong(format!("{flag}: cannot read {path}: {error}")))?
        }
        // What was typed may be the secret itself.
        _ => return Err(wrong(format!("{flag} names where the secret is and does not hold it"))),
    };
    let value = value.trim();
    if value.is_empty() {
        return Err(wrong(format!("{flag}: there is nothing at {reference}")));
    }
    session.out.redactor.learn(value);
    Ok(Secret::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_posted_to_at_its_usual_path() {
        for (given, at) in [
            ("http://127.0.0.1:4000", "http://127.0.0.1:4000/a2a/v1"),
            ("https://api.agntdot.com/", "https://api.agntdot.com/a2a/v1"),
            ("api.agntdot.com", "https://api.agntdot.com/a2a/v1"),
            ("http://x/net/a2a/v1", "http://x/net/a2a/v1"),
        ] {
            assert_eq!(endpoint(given).unwrap().as_str(), at);
        }
        assert!(endpoint("ftp://x").is_none());
    }
}
