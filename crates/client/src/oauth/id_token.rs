//! Id tokens (OpenID Connect Core §3.1.3.7): verifies that the server proves the identity of this login.
//!
//! A forger would like to choose the algorithm. So only algorithms that the discovery document lists are accepted,
//! without `none` and the HMAC family, and each key accepts only algorithms of its own kind.

use crate::signature::Jwks;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sabir_proto::Json;
use sabir_proto::jwks::{JwsAlgorithm, KeyFault, SignedInput};
use serde_json::{Map, Value};

/// The largest difference between two clocks, in seconds.
const SKEW: f64 = 60.0;
/// The algorithm if the discovery document lists none.
const ALGORITHM_DEFAULT: &str = "RS256";

/// The identity of the user, as the server has proven it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The URL of the issuer.
    pub issuer: String,
    /// The user id, which is only meaningful at that issuer.
    pub subject: String,
}

/// Why an id token proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdTokenFault {
    /// The answer has no id token, although `openid` was asked for.
    #[error("the answer has none")]
    Absent,
    /// The token is not a JWT.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The algorithm is `none`, an HMAC, or one that the server does not list.
    #[error("algorithm {0:?} is not accepted")]
    Algorithm(String),
    /// The server's key set has no key for the token.
    #[error("no key of the issuer fits")]
    NoKey,
    /// Another party made the token.
    #[error("the signature is wrong")]
    Signature,
    /// Another issuer made the token.
    #[error("issued by another issuer")]
    Issuer,
    /// The token is for another client.
    #[error("issued for another client")]
    Audience,
    /// The token has expired.
    #[error("expired")]
    Expired,
    /// The token is not valid yet.
    #[error("not valid yet")]
    NotYet,
    /// The token belongs to another login.
    #[error("the nonce is not the one we sent")]
    Nonce,
}

/// The claims that an id token must have.
pub(super) struct ExpectedClaims<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    /// The nonce that we sent in the code flow; the device flow has none.
    pub(super) nonce: Option<&'a str>,
    /// The algorithms that the server lists (`id_token_signing_alg_values_supported`).
    pub(super) algorithms: Option<&'a [String]>,
    pub(super) now: u64,
}

/// Checks the signature first and then the claims: the claims of a forger are not worth parsing.
pub(super) fn check_id_token(
    token: &str,
    keys: &Jwks,
    expected: &ExpectedClaims<'_>,
) -> Result<Identity, IdTokenFault> {
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, signature] = parts[..] else { return Err(IdTokenFault::Malformed("not three parts")) };
    let (algorithm, key) = read_header(header, expected)?;
    URL_SAFE_NO_PAD.decode(signature).map_err(|_| IdTokenFault::Malformed("signature"))?;
    let input = &token.as_bytes()[..header.len() + 1 + claims.len()];
    keys.check(key.as_deref(), &SignedInput { algorithm, input, signature }, Some(expected.now)).map_err(|fault| {
        match fault {
            KeyFault::Unknown | KeyFault::Mismatch | KeyFault::Expired => IdTokenFault::NoKey,
            KeyFault::Wrong => IdTokenFault::Signature,
        }
    })?;
    check_claims(&decode_part(claims).ok_or(IdTokenFault::Malformed("claims"))?, expected)
}

fn read_header(header: &str, expected: &ExpectedClaims<'_>) -> Result<(JwsAlgorithm, Option<String>), IdTokenFault> {
    let header = decode_part(header).ok_or(IdTokenFault::Malformed("header"))?;
    let named = header.get("alg").and_then(Value::as_str).ok_or(IdTokenFault::Malformed("no `alg`"))?;
    let refused = || IdTokenFault::Algorithm(super::printable(named));
    let algorithm = JwsAlgorithm::parse(named).ok_or_else(refused)?;
    let listed = match expected.algorithms {
        Some(listed) => listed.iter().any(|name| name == named),
        None => named == ALGORITHM_DEFAULT,
    };
    if !listed {
        return Err(refused());
    }
    if header.contains_key("crit") {
        return Err(IdTokenFault::Malformed("critical header parameters"));
    }
    Ok((algorithm, header.get("kid").and_then(Value::as_str).map(str::to_owned)))
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit a double for longer than we do")]
fn check_claims(claims: &Map<String, Value>, expected: &ExpectedClaims<'_>) -> Result<Identity, IdTokenFault> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(IdTokenFault::Issuer);
    }
    let (for_us, others) = match claims.get("aud") {
        Some(Value::String(audience)) => (audience == expected.client_id, false),
        Some(Value::Array(all)) => (all.iter().any(|one| one.as_str() == Some(expected.client_id)), all.len() > 1),
        _ => (false, false),
    };
    // With several audiences the token must name the party that asked, and that party must be us.
    let asked_by_us = match claims.get("azp") {
        Some(party) => party.as_str() == Some(expected.client_id),
        None => !others,
    };
    if !for_us || !asked_by_us {
        return Err(IdTokenFault::Audience);
    }
    let now = expected.now as f64;
    let time = |name: &str| claims.get(name).map(|value| value.as_f64().ok_or(IdTokenFault::Malformed("a time")));
    let expires = time("exp").ok_or(IdTokenFault::Malformed("no `exp`"))??;
    if now >= expires + SKEW {
        return Err(IdTokenFault::Expired);
    }
    let issued = time("iat").ok_or(IdTokenFault::Malformed("no `iat`"))??;
    let from = time("nbf").transpose()?.unwrap_or(issued);
    if issued > now + SKEW || from > now + SKEW {
        return Err(IdTokenFault::NotYet);
    }
    if expected.nonce.is_some() && text("nonce") != expected.nonce {
        return Err(IdTokenFault::Nonce);
    }
    let subject = text("sub").filter(|subject| !subject.is_empty()).ok_or(IdTokenFault::Malformed("no `sub`"))?;
    Ok(Identity { issuer: expected.issuer.to_owned(), subject: subject.to_owned() })
}

/// Decodes a part of the token. Duplicate members are refused, as everywhere.
fn decode_part(part: &str) -> Option<Map<String, Value>> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(part).ok()?).ok()?;
    Json::parse(&text).ok()?.read().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use aws_lc_rs::hmac;
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    pub(crate) const NOW: u64 = 1_700_000_000;

    /// An issuer with its own key.
    pub(crate) struct TestIssuer(Ed25519KeyPair);

    impl TestIssuer {
        pub(crate) fn new(seed: u8) -> Self {
            Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
        }

        pub(crate) fn keys(&self) -> Value {
            let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
            json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "use": "sig", "x": x}]})
        }

        pub(crate) fn sign(&self, claims: &Value) -> String {
            self.sign_as(&json!({"alg": "EdDSA", "kid": "k"}), claims)
        }

        fn sign_as(&self, header: &Value, claims: &Value) -> String {
            let input = input(header, claims);
            format!("{input}.{}", URL_SAFE_NO_PAD.encode(self.0.sign(input.as_bytes())))
        }
    }

    fn input(header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}", encode(header), encode(claims))
    }

    fn claims() -> Value {
        json!({"iss": "https://as.example", "sub": "u", "aud": "me", "exp": NOW + 300, "iat": NOW, "nonce": "n"})
    }

    fn judge(token: &str) -> Result<Identity, IdTokenFault> {
        judge_with(token, &["EdDSA", "HS256", "none"], Some("n"))
    }

    fn judge_with(token: &str, algorithms: &[&str], nonce: Option<&str>) -> Result<Identity, IdTokenFault> {
        let keys = Jwks::parse(TestIssuer::new(1).keys().to_string().as_bytes()).unwrap();
        let algorithms: Vec<String> = algorithms.iter().map(|&name| name.to_owned()).collect();
        let algorithms = Some(algorithms.as_slice());
        let expected = ExpectedClaims { issuer: "https://as.example", client_id: "me", nonce, algorithms, now: NOW };
        check_id_token(token, &keys, &expected)
    }

    #[test]
    fn a_good_token_proves_who_it_is() {
        let identity = judge(&TestIssuer::new(1).sign(&claims())).unwrap();
        assert_eq!(identity, Identity { issuer: "https://as.example".to_owned(), subject: "u".to_owned() });
    }

    #[test]
    fn every_claim_counts() {
        use IdTokenFault::*;
        for (member, value, expected) in [
            ("iss", json!("https://evil.example"), Err(Issuer)),
            ("iss", json!("https://as.example/"), Err(Issuer)),
            ("iss", json!(null), Err(Issuer)),
            ("aud", json!("other"), Err(Audience)),
            ("aud", json!(["other"]), Err(Audience)),
            ("aud", json!(["me", "other"]), Err(Audience)),
            ("aud", json!(null), Err(Audience)),
            ("aud", json!(["me"]), Ok(())),
            ("azp", json!("other"), Err(Audience)),
            ("azp", json!("me"), Ok(())),
            ("exp", json!(NOW - 60), Err(Expired)),
            ("exp", json!(NOW - 59), Ok(())),
            ("exp", json!("soon"), Err(Malformed("a time"))),
            ("iat", json!(NOW + 61), Err(NotYet)),
            ("nbf", json!(NOW + 61), Err(NotYet)),
            ("nbf", json!(NOW + 60), Ok(())),
            ("nonce", json!("another"), Err(Nonce)),
            ("nonce", json!(null), Err(Nonce)),
            ("sub", json!(""), Err(Malformed("no `sub`"))),
        ] {
            let mut claims = claims();
            claims[member] = value.clone();
            assert_eq!(
                judge(&super::tests::TestIssuer::new(1).sign(&claims)).map(|_| ()),
                expected,
                "{member} {value}"
            );
        }
        for (member, expected) in [("exp", "no `exp`"), ("iat", "no `iat`"), ("sub", "no `sub`")] {
            let mut claims = claims();
            claims.as_object_mut().unwrap().remove(member);
            assert_eq!(judge(&super::tests::TestIssuer::new(1).sign(&claims)), Err(Malformed(expected)));
        }
    }

    #[test]
    fn several_audiences_need_a_party_and_the_party_is_us() {
        let mut claims = claims();
        claims["aud"] = json!(["me", "other"]);
        claims["azp"] = json!("me");
        assert!(judge(&TestIssuer::new(1).sign(&claims)).is_ok());
    }

    #[test]
    fn the_device_flow_has_no_nonce_to_compare() {
        assert!(judge_with(&TestIssuer::new(1).sign(&claims()), &["EdDSA"], None).is_ok());
    }

    #[test]
    fn a_forger_cannot_choose_the_algorithm() {
        let refused = |name: &str| Err(IdTokenFault::Algorithm(name.to_owned()));
        let none = format!("{}.", input(&json!({"alg": "none"}), &claims()));
        assert_eq!(judge(&none), refused("none"));
        // The public key as an HMAC secret, although the server lists HS256.
        let public = TestIssuer::new(1).0.public_key().as_ref().to_vec();
        let confused = input(&json!({"alg": "HS256", "kid": "k"}), &claims());
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &public), confused.as_bytes());
        assert_eq!(judge(&format!("{confused}.{}", URL_SAFE_NO_PAD.encode(tag))), refused("HS256"));
        // A valid signature with an algorithm that the server does not list.
        let token = TestIssuer::new(1).sign(&claims());
        assert_eq!(judge_with(&token, &["ES256"], Some("n")), refused("EdDSA"));
        // The algorithm is listed, but the key is of another kind.
        let mismatch = TestIssuer::new(1).sign_as(&json!({"alg": "ES256", "kid": "k"}), &claims());
        assert_eq!(judge_with(&mismatch, &["ES256"], Some("n")), Err(IdTokenFault::NoKey));
    }

    #[test]
    fn a_wrong_signature_or_an_unknown_key_proves_nothing() {
        assert_eq!(judge(&TestIssuer::new(2).sign(&claims())), Err(IdTokenFault::Signature));
        let unknown = TestIssuer::new(1).sign_as(&json!({"alg": "EdDSA", "kid": "other"}), &claims());
        assert_eq!(judge(&unknown), Err(IdTokenFault::NoKey));
        // One key and no key id: there is no choice to make.
        assert!(judge(&TestIssuer::new(1).sign_as(&json!({"alg": "EdDSA"}), &claims())).is_ok());
        let token = TestIssuer::new(1).sign(&claims());
        let (rest, _) = token.rsplit_once('.').unwrap();
        for odd in ["", "a.b", "a.b.c.d", &format!("{rest}.=="), &format!("{token}."), rest] {
            assert!(matches!(judge(odd), Err(IdTokenFault::Malformed(_))), "{odd}");
        }
        let critical = TestIssuer::new(1).sign_as(&json!({"alg": "EdDSA", "kid": "k", "crit": ["x"]}), &claims());
        assert!(matches!(judge(&critical), Err(IdTokenFault::Malformed(_))));
    }

    #[test]
    fn silence_about_algorithms_means_rs256() {
        let keys = Jwks::parse(TestIssuer::new(1).keys().to_string().as_bytes()).unwrap();
        let expected =
            ExpectedClaims { issuer: "https://as.example", client_id: "me", nonce: None, algorithms: None, now: NOW };
        let refused = check_id_token(&TestIssuer::new(1).sign(&claims()), &keys, &expected);
        assert_eq!(refused, Err(IdTokenFault::Algorithm("EdDSA".to_owned())));
    }
}
