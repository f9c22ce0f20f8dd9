//! The protected header of a card signature: key id, algorithm and critical parameters.

use super::{CERTIFICATES_MAX, PROTECTED_BYTES_MAX, SignatureFault};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sabir_proto::canon;
use sabir_proto::jwks::JwsAlgorithm;
use serde_json::Value;

/// The accepted algorithms. All others are refused, above all `none` and the HMAC family.
const ALGORITHMS: [JwsAlgorithm; 3] = [JwsAlgorithm::ES256, JwsAlgorithm::RS256, JwsAlgorithm::EdDSA];

/// A header whose members we understand.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) algorithm: JwsAlgorithm,
    pub(super) key: String,
    /// The key set URL of the signer (`jku`). It is not verified yet.
    pub(super) keys_url: Option<String>,
    pub(super) issuer: Option<String>,
    /// The signer's certificate and those up to an authority, as DER. They are not verified yet.
    pub(super) chain: Vec<Vec<u8>>,
}

impl Header {
    /// Parses a header. Duplicate members are refused (RFC 7515 §4): signer and verifier could read different ones.
    pub(super) fn parse(protected: &str) -> Result<Self, SignatureFault> {
        let malformed = |why: String| SignatureFault::Malformed(format!("protected header: {why}"));
        if protected.len() > PROTECTED_BYTES_MAX {
            return Err(malformed(format!("{} bytes, more than {PROTECTED_BYTES_MAX}", protected.len())));
        }
        let bytes = URL_SAFE_NO_PAD.decode(protected).map_err(|e| malformed(e.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| malformed("not UTF-8".to_owned()))?;
        let Value::Object(members) = canon::read(&text).map_err(|e| malformed(e.to_string()))? else {
            return Err(malformed("not an object".to_owned()));
        };
        let text = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(malformed(format!("`{name}` must be a string"))),
        };
        let named = text("alg")?.ok_or_else(|| malformed("no `alg`".to_owned()))?;
        let Some(algorithm) = ALGORITHMS.into_iter().find(|algorithm| algorithm.name() == named) else {
            return Err(SignatureFault::AlgorithmRefused(named));
        };
        // We know no extension, so every critical parameter is one that we do not understand (RFC 7515 §4.1.11).
        if let Some(critical) = members.get("crit") {
            return Err(SignatureFault::Critical(critical.to_string()));
        }
        let key = text("kid")?.filter(|id| !id.is_empty()).ok_or(SignatureFault::NoKeyId)?;
        let chain = certificates(members.get("x5c")).ok_or_else(|| malformed("`x5c` is no chain".to_owned()))?;
        Ok(Self { algorithm, key, keys_url: text("jku")?, issuer: text("iss")?, chain })
    }
}

/// A chain of certificates, each in padded base64 (RFC 7515 §4.1.6).
fn certificates(chain: Option<&Value>) -> Option<Vec<Vec<u8>>> {
    match chain {
        None => Some(Vec::new()),
        Some(Value::Array(list)) if (1..=CERTIFICATES_MAX).contains(&list.len()) => {
            list.iter().map(|der| STANDARD.decode(der.as_str()?).ok()).collect()
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Header, SignatureFault> {
        Header::parse(&URL_SAFE_NO_PAD.encode(json))
    }

    #[test]
    fn only_listed_algorithms_pass() {
        for algorithm in ["none", "None", "HS256", "HS512", "ES512", "RS1", "es256", ""] {
            let refused = parse(&format!(r#"{{"alg":"{algorithm}","kid":"k"}}"#)).unwrap_err();
            assert_eq!(refused, SignatureFault::AlgorithmRefused(algorithm.to_owned()));
        }
        for algorithm in ["ES256", "RS256", "EdDSA"] {
            assert!(parse(&format!(r#"{{"alg":"{algorithm}","kid":"k"}}"#)).is_ok());
        }
    }

    #[test]
    fn anything_critical_is_refused_even_an_empty_list() {
        for critical in ["[]", r#"["b64"]"#, "null", "7"] {
            let refused = parse(&format!(r#"{{"alg":"ES256","kid":"k","crit":{critical}}}"#));
            assert!(matches!(refused, Err(SignatureFault::Critical(_))), "{critical}");
        }
    }

    #[test]
    fn a_header_that_two_readers_could_read_differently_is_malformed() {
        let twice = r#"{"alg":"ES256","alg":"none","kid":"k"}"#;
        let chains = [r#"{"alg":"ES256","kid":"k","x5c":[]}"#, r#"{"alg":"ES256","kid":"k","x5c":["*"]}"#];
        for header in chains {
            assert!(matches!(parse(header), Err(SignatureFault::Malformed(_))), "{header}");
        }
        for header in [twice, "[]", "7", r#"{"kid":"k"}"#, r#"{"alg":1,"kid":"k"}"#, r#"{"alg":"ES256","kid":7}"#, "x"]
        {
            assert!(matches!(parse(header), Err(SignatureFault::Malformed(_))), "{header}");
        }
        assert!(matches!(Header::parse("e30="), Err(SignatureFault::Malformed(_))));
        assert!(matches!(Header::parse(&"e".repeat(PROTECTED_BYTES_MAX + 1)), Err(SignatureFault::Malformed(_))));
        assert_eq!(parse(r#"{"alg":"ES256","kid":""}"#).unwrap_err(), SignatureFault::NoKeyId);
    }
}
