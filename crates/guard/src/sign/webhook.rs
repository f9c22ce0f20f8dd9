//! Signs webhook deliveries, so that a receiver knows the sender, that the content is unchanged, and whether it has
//! seen it before.
//!
//! There are two signatures, and a receiver checks either. The headers of *Standard Webhooks* are an HMAC with a secret
//! that both sides know. The token is a JWT with the hash of the body, under the keys that are published in our key
//! set, so that receivers need not share a secret with us, nor with each other.
//!
//! Events of the booking network have their own pair of headers besides.
//!
//! All are made anew for each attempt, because receivers refuse those that are older than a few minutes; the id stays.

use super::SigningKey;
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sabir_proto::digest::hex;
use sabir_proto::{Secret, Timestamp};
use serde_json::{Value, json};
use std::fmt;
use url::Url;

/// The header with the id of a delivery, the same in every attempt.
pub const ID: &str = "webhook-id";
/// The header with the time of an attempt, in seconds since 1970.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures, one for each secret.
pub const SIGNATURE: &str = "webhook-signature";
/// The header with the token.
pub const TOKEN: &str = "x-a2a-signature";

/// The header of the booking network with the time of an attempt, in seconds since 1970.
pub const AGNT_TIMESTAMP: &str = "x-agnt-timestamp";
/// The header of the booking network with its signature.
pub const AGNT_SIGNATURE: &str = "x-agnt-signature";

/// How far a delivery's time may be from the receiver's, in seconds; exactly this is still accepted.
pub const TOLERANCE_SECONDS: i64 = 300;
/// How many secrets may sign at the same time: the new one, the old one, and one to spare.
pub const SECRETS_MAX: usize = 4;

/// The prefix of secrets.
const PREFIX: &str = "whsec_";
/// The length that *Standard Webhooks* asks of a secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Why a text is not a secret, or a list of them. Nothing of it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSecretFault {
    /// It has another form.
    #[error("a webhook secret is written {PREFIX} and then 24 to 64 bytes in base64")]
    Malformed,
    /// There is none, or there are more than [`SECRETS_MAX`].
    #[error("there are 1 to {SECRETS_MAX} webhook secrets, one on each line")]
    Count,
}

/// A secret that is shared with receivers.
#[derive(Clone)]
pub struct WebhookSecret(hmac::Key);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WebhookSecret")
    }
}

impl WebhookSecret {
    /// Reads one, such as `whsec_…`.
    pub fn read(text: &Secret) -> Result<Self, WebhookSecretFault> {
        let bytes = text.expose().trim().strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.filter(|bytes| SECRET_BYTES.contains(&bytes.len())).ok_or(WebhookSecretFault::Malformed)?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Reads those of a file: one on each line. All of them sign, so that receivers can change over one by one.
    pub fn read_all(text: &Secret) -> Result<Vec<Self>, WebhookSecretFault> {
        let lines = text.expose().split_whitespace();
        let all = lines.map(|line| Self::read(&Secret::new(line))).collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() || all.len() > SECRETS_MAX {
            return Err(WebhookSecretFault::Count);
        }
        Ok(all)
    }
}

/// One attempt at a delivery: what is signed.
#[derive(Debug, Clone, Copy)]
pub struct WebhookAttempt<'a> {
    /// The id of the delivery.
    pub id: &'a str,
    /// The time of the attempt.
    pub at: Timestamp,
    /// The bytes that are sent.
    pub body: &'a [u8],
}

/// The sender, the receiver and the task that a token names.
#[derive(Debug, Clone, Copy)]
pub struct TokenSubject<'a> {
    /// The origin of the sender.
    pub issuer: &'a str,
    /// The origin of the receiver.
    pub audience: &'a str,
    /// The task that the delivery is about, by its id.
    pub task: &'a str,
}

impl WebhookAttempt<'_> {
    /// The value of [`TIMESTAMP`].
    pub fn timestamp(&self) -> i64 {
        crate::unix_seconds(self.at)
    }

    /// The value of [`SIGNATURE`]: one for each secret.
    pub fn signature(&self, secrets: &[WebhookSecret]) -> String {
        let content = content(self.id, &self.timestamp().to_string(), self.body);
        let sign = |secret: &WebhookSecret| format!("v1,{}", STANDARD.encode(hmac::sign(&secret.0, &content)));
        secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
    }

    /// The value of [`AGNT_SIGNATURE`]: lower-case hex; the key is the characters of the secret as written.
    pub fn agnt_signature(&self, secret: &Secret) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        hex(hmac::sign(&key, &agnt_content(&self.timestamp().to_string(), self.body)).as_ref())
    }

    /// The value of [`TOKEN`]: the subject, and the hash of the body. `None` if the library refuses to sign, for no
    /// reason we know of.
    pub fn token(&self, key: &SigningKey, keys_url: &Url, subject: &TokenSubject<'_>) -> Option<String> {
        let header = json!({"alg": key.algorithm().name(), "kid": key.id(), "typ": "JWT", "jku": keys_url.as_str()});
        let claims = json!({
            "iss": subject.issuer,
            "aud": subject.audience,
            "iat": self.timestamp(),
            "exp": self.timestamp() + TOLERANCE_SECONDS,
            "jti": self.id,
            "taskId": subject.task,
            "request_body_sha256": hex(digest::digest(&digest::SHA256, self.body).as_ref()),
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let input = format!("{}.{}", part(&header), part(&claims));
        let signature = key.sign(input.as_bytes())?;
        Some(format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Why a delivery is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookFault {
    /// The time is not a number of seconds.
    #[error("the time of the delivery is malformed")]
    Malformed,
    /// Too old, or too far ahead.
    #[error("the delivery is not from now")]
    Expired,
    /// None of the secrets made any of the signatures.
    #[error("no signature fits")]
    Signature,
}

/// The headers that a receiver gets.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedHeaders<'a> {
    /// The value of [`ID`].
    pub id: &'a str,
    /// The value of [`TIMESTAMP`].
    pub timestamp: &'a str,
    /// The value of [`SIGNATURE`].
    pub signature: &'a str,
}

impl ReceivedHeaders<'_> {
    /// Whether a holder of one of the secrets sent the body under these headers. Signatures of an unknown version are
    /// skipped.
    pub fn verify(&self, body: &[u8], secrets: &[WebhookSecret], now: Timestamp) -> Result<(), WebhookFault> {
        let at: i64 = self.timestamp.parse().map_err(|_| WebhookFault::Malformed)?;
        if crate::unix_seconds(now).saturating_sub(at).unsigned_abs() > TOLERANCE_SECONDS.unsigned_abs() {
            return Err(WebhookFault::Expired);
        }
        let content = content(self.id, self.timestamp, body);
        let known = self.signature.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
        let fits = |tag: Vec<u8>| secrets.iter().any(|secret| hmac::verify(&secret.0, &content, &tag).is_ok());
        if known.take(SECRETS_MAX * 2).any(fits) { Ok(()) } else { Err(WebhookFault::Signature) }
    }
}

/// The headers of the booking network that a receiver gets.
#[derive(Debug, Clone, Copy)]
pub struct AgntReceivedHeaders<'a> {
    /// The value of [`AGNT_TIMESTAMP`].
    pub timestamp: &'a str,
    /// The value of [`AGNT_SIGNATURE`].
    pub signature: &'a str,
}

impl AgntReceivedHeaders<'_> {
    /// Whether a holder of one of the secrets sent the body under these headers. A signature over the body alone, as
    /// some pages of the network show it, is none: it would be valid at any time.
    pub fn verify(&self, body: &[u8], secrets: &[Secret], now: Timestamp) -> Result<(), WebhookFault> {
        let at: i64 = self.timestamp.parse().map_err(|_| WebhookFault::Malformed)?;
        if crate::unix_seconds(now).saturating_sub(at).unsigned_abs() > TOLERANCE_SECONDS.unsigned_abs() {
            return Err(WebhookFault::Expired);
        }
        let content = agnt_content(self.timestamp, body);
        let is_hex = self.signature.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
        let nibble = |b: u8| if b.is_ascii_digit() { b - b'0' } else { b - b'a' + 10 };
        let tag: Option<Vec<u8>> = (is_hex && self.signature.len() == 64)
            .then(|| self.signature.as_bytes().chunks_exact(2).map(|c| nibble(c[0]) << 4 | nibble(c[1])).collect());
        let fits = |secret: &Secret, tag: &[u8]| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
            hmac::verify(&key, &content, tag).is_ok()
        };
        match tag {
            Some(tag) if secrets.iter().take(SECRETS_MAX).any(|secret| fits(secret, &tag)) => Ok(()),
            _ => Err(WebhookFault::Signature),
        }
    }
}

/// The bytes that the booking network's HMAC covers.
fn agnt_content(timestamp: &str, body: &[u8]) -> Vec<u8> {
    [timestamp.as_bytes(), b".", body].concat()
}

/// The bytes that the HMAC covers.
fn content(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{DecodingKey, Validation, jwk::Jwk};
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Deserialize)]
    struct WebhookVectors {
        body: String,
        body_hex: String,
        cases: Vec<WebhookCase>,
    }

    #[derive(Deserialize)]
    struct WebhookCase {
        id: String,
        headers: BTreeMap<String, String>,
        secrets: Vec<String>,
        now: i64,
        valid: bool,
    }

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn every_delivery_of_the_vectors_gets_its_verdict() {
        let vectors: WebhookVectors = serde_json::from_str(include_str!("../../tests/vectors/webhooks.json")).unwrap();
        assert_eq!(hex(vectors.body.as_bytes()), vectors.body_hex);
        let body = vectors.body.as_bytes();
        let (ours, agnt): (Vec<WebhookCase>, Vec<WebhookCase>) =
            vectors.cases.into_iter().partition(|case| case.headers.contains_key(ID));
        assert_eq!((ours.len(), agnt.len()), (9, 2));
        for case in agnt {
            let header = |name: &str| case.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).unwrap().1;
            let secrets: Vec<Secret> = case.secrets.iter().map(|text| Secret::new(text.clone())).collect();
            let received = AgntReceivedHeaders { timestamp: header(AGNT_TIMESTAMP), signature: header(AGNT_SIGNATURE) };
            let verdict = received.verify(body, &secrets, seconds(case.now));
            assert_eq!(verdict.is_ok(), case.valid, "{}: {verdict:?}", case.id);
            let at = seconds(header(AGNT_TIMESTAMP).parse().unwrap());
            let signed = WebhookAttempt { id: "any", at, body }.agnt_signature(&secrets[0]);
            assert_eq!(signed == *header(AGNT_SIGNATURE), case.valid, "{}", case.id);
        }
        for case in ours {
            let read = |text: &String| WebhookSecret::read(&Secret::new(text.clone())).unwrap();
            let secrets: Vec<WebhookSecret> = case.secrets.iter().map(read).collect();
            let header = |name: &str| case.headers[name].as_str();
            let received =
                ReceivedHeaders { id: header(ID), timestamp: header(TIMESTAMP), signature: header(SIGNATURE) };
            let verdict = received.verify(body, &secrets, seconds(case.now));
            assert_eq!(verdict.is_ok(), case.valid, "{}: {verdict:?}", case.id);
            if case.id == "standard-ok" {
                let at = seconds(header(TIMESTAMP).parse().unwrap());
                let ours = WebhookAttempt { id: header(ID), at, body }.signature(&secrets);
                assert_eq!(ours, header(SIGNATURE));
            }
        }
    }

    #[test]
    fn while_secrets_change_both_sign() {
        let both = Secret::new(format!("whsec_{}\nwhsec_{}\n", STANDARD.encode([1; 32]), STANDARD.encode([2; 24])));
        let both = WebhookSecret::read_all(&both).unwrap();
        let at = seconds(1_775_989_323);
        let signature = WebhookAttempt { id: "d1", at, body: b"{}" }.signature(&both);
        assert_eq!(signature.split(' ').count(), 2);
        let received = ReceivedHeaders { id: "d1", timestamp: "1775989323", signature: &signature };
        for secret in &both {
            assert_eq!(received.verify(b"{}", std::slice::from_ref(secret), at), Ok(()));
            assert_eq!(received.verify(b"{ }", std::slice::from_ref(secret), at), Err(WebhookFault::Signature));
        }
        assert_eq!(
            ReceivedHeaders { timestamp: "soon", ..received }.verify(b"{}", &both, at),
            Err(WebhookFault::Malformed)
        );
        assert_eq!(received.verify(b"{}", &[], at), Err(WebhookFault::Signature));
    }

    #[test]
    fn what_is_no_secret_is_refused_without_being_repeated() {
        let read = |text: &str| WebhookSecret::read_all(&Secret::new(text)).map(|all| all.len());
        for wrong in ["hunter2", "whsec_", "whsec_AAAA", "whsec_not base64", "whsec_hunter2hunter2hunter2hunter2!!"] {
            assert_eq!(read(wrong), Err(WebhookSecretFault::Malformed), "{wrong}");
            assert!(!WebhookSecretFault::Malformed.to_string().contains("hunter2"));
        }
        assert_eq!(read(" \n"), Err(WebhookSecretFault::Count));
        let one = format!("whsec_{} ", STANDARD.encode([7; 64]));
        assert_eq!(read(&one.repeat(SECRETS_MAX)), Ok(SECRETS_MAX));
        assert_eq!(read(&one.repeat(SECRETS_MAX + 1)), Err(WebhookSecretFault::Count));
    }

    #[test]
    fn the_token_verifies_under_our_key_set_and_holds_the_hash_of_the_body() {
        let (key, _) = SigningKey::generate(Some("k1")).unwrap();
        let keys_url = Url::parse("https://agents.example/.well-known/jwks.json").unwrap();
        let attempt = WebhookAttempt { id: "d1", at: seconds(1_775_989_323), body: b"{}" };
        let subject = TokenSubject { issuer: "https://agents.example", audience: "https://hooks.example", task: "t1" };
        let token = attempt.token(&key, &keys_url, &subject).unwrap();
        let header = jsonwebtoken::decode_header(&token).unwrap();
        assert_eq!((header.kid.as_deref(), header.typ.as_deref()), (Some("k1"), Some("JWT")));
        assert_eq!(header.jku.as_deref(), Some(keys_url.as_str()));
        let jwk: Jwk = serde_json::from_value(key.public()).unwrap();
        let mut rules = Validation::new(jsonwebtoken::Algorithm::ES256);
        rules.set_audience(&["https://hooks.example"]);
        rules.set_issuer(&["https://agents.example"]);
        rules.validate_exp = false;
        let claims =
            jsonwebtoken::decode::<Value>(&token, &DecodingKey::from_jwk(&jwk).unwrap(), &rules).unwrap().claims;
        assert_eq!((&claims["jti"], &claims["taskId"]), (&json!("d1"), &json!("t1")));
        assert_eq!((&claims["iat"], &claims["exp"]), (&json!(1_775_989_323), &json!(1_775_989_623)));
        // printf '{}' | sha256sum
        let hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(claims["request_body_sha256"], hash);
    }
}
