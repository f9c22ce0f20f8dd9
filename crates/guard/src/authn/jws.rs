//! Parses a signed token (JWS) strictly. Nothing is verified here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sabir_proto::Json;
use serde_json::{Map, Value};

/// The longest token that is parsed, in bytes. Honest ones stay below the 8 KiB that most servers allow for all
/// headers.
pub(super) const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Why a text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwsFault {
    /// Longer than `TOKEN_BYTES_MAX`, which no honest token reaches.
    #[error("the token is too long")]
    TooLong,
    /// Not three base64url parts, not JSON, or JSON with a duplicate member.
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    /// We support no extension, so every critical header parameter is refused (RFC 7515 §4.1.11).
    #[error("critical header parameters are not understood")]
    Critical,
}

/// A parsed token. Its claims are unverified until the signature is checked.
pub(super) struct Jws<'a> {
    /// The `alg` header: the signature algorithm.
    pub(super) algorithm: String,
    /// The `kid` header: the id of the key.
    pub(super) key: Option<String>,
    /// The `typ` header, in lower case and without the optional `application/`.
    pub(super) kind: Option<String>,
    pub(super) claims: Claims,
    /// The bytes that the signature covers.
    pub(super) input: &'a [u8],
    /// The decoded signature.
    pub(super) signature: Vec<u8>,
    /// The signature as base64url, as the token writes it.
    pub(super) signature_text: &'a str,
}

impl<'a> Jws<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, JwsFault> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(JwsFault::TooLong);
        }
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature_text] = parts[..] else { return Err(JwsFault::Malformed("not three parts")) };
        let mut fields = object(header).ok_or(JwsFault::Malformed("header"))?;
        let Some(Value::String(algorithm)) = fields.remove("alg") else { return Err(JwsFault::Malformed("no `alg`")) };
        if fields.contains_key("crit") {
            return Err(JwsFault::Critical);
        }
        let mut text = |name, fault| match fields.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(JwsFault::Malformed(fault)),
        };
        let (key, kind) = (text("kid", "`kid`")?, text("typ", "`typ`")?);
        let kind = kind.map(|kind| kind.to_ascii_lowercase());
        let kind = kind.map(|kind| kind.strip_prefix("application/").map(str::to_owned).unwrap_or(kind));
        let input = &token.as_bytes()[..header.len() + 1 + claims.len()];
        let claims = Claims(object(claims).ok_or(JwsFault::Malformed("claims"))?);
        let signature = URL_SAFE_NO_PAD.decode(signature_text).map_err(|_| JwsFault::Malformed("signature"))?;
        Ok(Self { algorithm, key, kind, claims, input, signature, signature_text })
    }
}

/// The claims of a token.
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    /// A claim that is a non-empty string.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A claim that is a time. A claim that is present but not a number is an error, not an absence.
    pub(super) fn time(&self, name: &'static str) -> Result<Option<f64>, JwsFault> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(JwsFault::Malformed(name)),
        }
    }

    /// The audience of the token, one or several; `None` if the claim is absent. Entries that are not text are skipped.
    pub(super) fn audience(&self) -> Option<Vec<&str>> {
        Some(match self.0.get("aud")? {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        })
    }
}

/// Decodes a part of a token. Duplicate members are refused, because two readers could take either one.
fn object(part: &str) -> Option<Map<String, Value>> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(part).ok()?).ok()?;
    Json::parse(&text).ok()?.read().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str, claims: &str) -> Result<(), JwsFault> {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        Jws::parse(&format!("{}.{}.AA", encode(header), encode(claims))).map(|_| ())
    }

    #[test]
    fn only_one_reading_is_possible() {
        assert_eq!(parse(r#"{"alg":"HS256"}"#, "{}"), Ok(()));
        for (header, claims, fault) in [
            (r#"{"alg":"HS256","alg":"none"}"#, "{}", JwsFault::Malformed("header")),
            (r#"{"alg":"HS256"}"#, r#"{"sub":"a","sub":"b"}"#, JwsFault::Malformed("claims")),
            (r#"{"alg":["HS256"]}"#, "{}", JwsFault::Malformed("no `alg`")),
            ("{}", "{}", JwsFault::Malformed("no `alg`")),
            (r#"{"alg":"HS256","kid":7}"#, "{}", JwsFault::Malformed("`kid`")),
            (r#"{"alg":"HS256","crit":[]}"#, "{}", JwsFault::Critical),
            (r#"{"alg":"HS256"}"#, "[]", JwsFault::Malformed("claims")),
            ("7", "{}", JwsFault::Malformed("header")),
        ] {
            assert_eq!(parse(header, claims), Err(fault), "{header} {claims}");
        }
        let good = format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#));
        for odd in ["", ".", "..", "a.b.c.d", &good.replace(".AA", ".AA=="), &good.replace("e30", "e30=")] {
            assert!(matches!(Jws::parse(odd), Err(JwsFault::Malformed(_))), "{odd}");
        }
        assert!(matches!(Jws::parse(&"a".repeat(TOKEN_BYTES_MAX + 1)), Err(JwsFault::TooLong)));
    }
}
