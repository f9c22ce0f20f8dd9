//! Signing cards by hand, and showing the public keys.

use crate::card::{WELL_KNOWN_KEYS, read_reference};
use crate::config::Config;
use crate::tokio_host::TokioHost;
use sabir_engine::Host as _;
use sabir_guard::sign::{SigningKey, key_set, public_jwk, sign};
use sabir_network::federation::issue;
use sabir_network::record::Record;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use url::Url;

/// Private keys that sign cards.
#[derive(Debug)]
pub struct CardKeys(Vec<SigningKey>);

impl CardKeys {
    /// Reads key files, each a path, `file:PATH` or `env:NAME`. An error names the reference that is wrong.
    pub fn read(references: &[String]) -> Result<Self, String> {
        let base = Config::default();
        let one =
            |reference: &String| read_reference(&base, &with_scheme(reference), |text| SigningKey::read(text, None));
        Ok(Self(references.iter().map(one).collect::<Result<_, _>>()?))
    }

    /// Signs a card. Returns all its signatures, including those that were there before.
    pub fn sign(&self, card: &str, keys_url: Option<&Url>) -> Result<Value, String> {
        let mut signed = sign(card, &self.0, keys_url).map_err(|fault| fault.to_string())?;
        Ok(signed.get_mut("signatures").map(Value::take).unwrap_or_default())
    }
}

/// Makes the signed record that withdraws a network from registries: its present record, renewed and marked
/// `withdrawn`.
pub fn make_withdrawal(record: &str, key: &str) -> Result<String, String> {
    let record: Record = serde_json::from_str(record).map_err(|error| format!("not a record of a network: {error}"))?;
    let key = read_reference(&Config::default(), &with_scheme(key), |text| SigningKey::read(text, None))?;
    let (keys, seq) = (record.keys.clone(), record.seq);
    let issued = issue(Record { withdrawn: true, ..record }, &key, keys, TokioHost.now());
    match issued {
        Some((issued, signed)) if issued.seq > seq => Ok(signed.write()),
        Some(_) => Err("the record that is there is from the future, so none of now replaces it".into()),
        None => Err("the record cannot be signed".into()),
    }
}

/// The public key set of key files, which may hold private or public keys.
pub fn key_set_of(references: &[String]) -> Result<Value, String> {
    let base = Config::default();
    let one = |reference: &String| read_reference(&base, &with_scheme(reference), public_jwk);
    Ok(json!({"keys": references.iter().map(one).collect::<Result<Vec<_>, _>>()?}))
}

/// The key set that a server with this configuration publishes, and its URL.
pub fn key_set_at(config: &Config) -> Result<(Value, String), String> {
    let signing = &config.server.signing;
    let mut keys: Vec<Value> = Vec::new();
    for reference in signing.keys.iter().chain(&signing.retired) {
        let key = read_reference(config, reference, public_jwk)?;
        if !keys.iter().any(|known| known["kid"] == key["kid"]) {
            keys.push(key);
        }
    }
    let base = config.server.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
    Ok((json!({"keys": keys}), format!("{base}{WELL_KNOWN_KEYS}")))
}

/// Makes a key for ES256 in a new file that only its owner can read. Returns its public key set.
pub fn make_key(path: &Path) -> Result<Value, String> {
    use std::os::unix::fs::OpenOptionsExt;
    let wrong = |what: String| format!("{}: {what}", path.display());
    let (key, text) = SigningKey::generate(None).map_err(|fault| wrong(fault.to_string()))?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.expose().as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| wrong(error.to_string()))?;
    Ok(key_set(&[key]))
}

/// Adds `file:` to a path without a scheme.
fn with_scheme(reference: &str) -> String {
    match reference.split_once(':') {
        Some(("env" | "file", _)) => reference.to_owned(),
        _ => format!("file:{reference}"),
    }
}
