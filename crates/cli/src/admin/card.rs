//! `sabir card sign` and `sabir card keys`: signs cards, and makes and prints the keys for it.

use super::ServerFiles;
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::input::read_text;
use crate::problem::{ErrorCode, Outcome, Problem};
use crate::render::Node;
use clap::Args;
use sabir_server::admin::{CardKeys, key_set_at, key_set_of, make_key};
use std::path::PathBuf;
use url::Url;

/// The largest card that is read, in bytes: as much as our own client takes.
const CARD_BYTES_MAX: u64 = 1 << 20;

/// Sign a card, and print it with its signatures.
///
/// A server signs its own cards with the keys of [server.signing]; this is for cards that something else serves.
/// Signatures of other keys stay. The members of the card stay as they are; one that is empty is named, since readers
/// disagree on whether a signature covers it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir card sign card.json --key card-key.pem > signed.json\n  \
    sabir card sign - --key new.pem --key old.pem --jku https://agent.example/.well-known/jwks.json < card.json")]
pub(crate) struct CardSign {
    /// The card; - for standard input.
    file: PathBuf,
    /// A private key, PEM or JWK, for ES256, RS256 or EdDSA: a file, file:PATH or env:NAME; repeatable.
    #[arg(long = "key", value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// Where the key set of `sabir card keys` will be found, for those who verify.
    #[arg(long, value_name = "URL")]
    jku: Option<Url>,
}

impl Verb for CardSign {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let wrong = |what: String| Problem::usage(what).hint("sabir card sign --help");
        if self.jku.as_ref().is_some_and(|url| !matches!(url.scheme(), "https" | "http")) {
            return Err(wrong("--jku is an https URL".into()).into());
        }
        let card = read_text(&self.file, CARD_BYTES_MAX).map_err(wrong)?;
        let keys = CardKeys::read(&self.keys).map_err(|what| wrong(format!("--key: {what}")))?;
        let signatures = keys.sign(&card, self.jku.as_ref()).map_err(|what| {
            let problem = Problem::new(ErrorCode::CardInvalid, format!("{}: {what}", self.file.display()));
            problem.hint("sabir card get --validate --agent-card FILE names what else is wrong")
        })?;
        let members = Node::new(&card).members().into_iter().filter(|(name, _)| name != "signatures");
        let members: Vec<String> =
            members.map(|(name, value)| format!("{}:{}", serde_json::json!(name), value.raw())).collect();
        out.document(&format!("{{{},\"signatures\":{signatures}}}", members.join(",")))?;
        Ok(Exit::Done)
    }
}

/// Print the key set with which cards are verified, or make a key.
///
/// Without --key, it is the set that the server of --config publishes at /.well-known/jwks.json.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir card keys --new card-key.pem            make a key, readable by you alone\n  \
    sabir card keys --key card-key.pem > jwks.json\n  \
    sabir card keys --config sabir.toml")]
pub(crate) struct CardKeysCommand {
    /// A key, private or public, PEM or JWK: a file, file:PATH or env:NAME; repeatable.
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Make a key for ES256 in this file, which must not be there yet.
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    new: Option<PathBuf>,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for CardKeysCommand {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let wrong = |what: String| Problem::usage(what).hint("sabir card keys --help");
        let set = if let Some(file) = &self.new {
            let set = make_key(file).map_err(wrong)?;
            out.note(&format!("Made {}; name it in keys of [server.signing]", file.display()));
            set
        } else if self.keys.is_empty() {
            let config = self.server.config()?;
            if config.server.signing.keys.is_empty() && config.server.signing.retired.is_empty() {
                let none = "no key was given, and [server.signing] of the configuration has none";
                return Err(wrong(none.into()).into());
            }
            let (set, place) = key_set_at(&config).map_err(wrong)?;
            out.note(&format!("Published at: {place}"));
            set
        } else {
            key_set_of(&self.keys).map_err(|what| wrong(format!("--key: {what}")))?
        };
        out.document(&set.to_string())?;
        Ok(Exit::Done)
    }
}
