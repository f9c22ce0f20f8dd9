use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

const SECRET: &str = "unit-test-global-secret-0001";
const NOW: i64 = 1_700_000_000;

#[derive(Deserialize)]
struct NativeTokenVectors {
    organizations: Vec<Organization>,
    cases: Vec<NativeTokenCase>,
}

#[derive(Deserialize)]
struct Organization {
    allowed_domain: String,
    a2a_secret: String,
}

#[derive(Deserialize)]
struct NativeTokenCase {
    name: String,
    token: String,
    secret: Option<String>,
    app_url: Option<String>,
    request_headers: Value,
    now: i64,
    accepted: bool,
    result: Value,
    source_head: Option<Value>,
}

fn vectors() -> NativeTokenVectors {
    serde_json::from_str(include_str!("../../../tests/vectors/agent-native-jwt.json")).unwrap()
}

fn judge(
    case: &NativeTokenCase,
    organizations: &[Organization],
    expiry: ExpiryRule,
) -> Result<NativeUser, NativeUserFault> {
    let secret = case.secret.as_deref().map(Secret::new);
    let header = |name: &str| case.request_headers[name].as_str();
    let audience = own_audience(case.app_url.as_deref(), header("host"), header("x-forwarded-proto"));
    let audiences: Vec<String> = audience.into_iter().collect();
    let settings = NativeTokenSettings { secret: secret.as_ref(), audiences: &audiences, issuers: &[], expiry };
    let find = |domain: &str| {
        let one = organizations.iter().find(|one| one.allowed_domain.to_ascii_lowercase() == domain)?;
        Some(Secret::new(one.a2a_secret.as_str()))
    };
    verify(&case.token, settings, find, Timestamp::from_millis(case.now * 1000))
}

/// Accepted by the peer, refused here on purpose.
const STRICTER: [(&str, NativeUserFault); 3] = [
    ("alg HS384, same secret", NativeUserFault::Algorithm),
    ("alg HS512, same secret", NativeUserFault::Algorithm),
    ("no exp claim", NativeUserFault::NoExpiry),
];

#[test]
fn every_token_of_the_vectors_gets_its_verdict_or_is_refused_on_purpose() {
    let NativeTokenVectors { organizations, cases } = vectors();
    assert_eq!(cases.len(), 61);
    let mut stricter = 0;
    for case in &cases {
        let ours = judge(case, &organizations, ExpiryRule::Required);
        if let Some((_, reason)) = STRICTER.iter().find(|(name, _)| *name == case.name) {
            assert!(case.accepted, "{} is no case of being stricter", case.name);
            assert_eq!(ours.as_ref(), Err(reason), "{}", case.name);
            stricter += 1;
            continue;
        }
        assert_eq!(ours.is_ok(), case.accepted, "{}: {ours:?}", case.name);
        if let Ok(user) = ours {
            let told = json!({"email": user.email, "orgDomain": user.org_domain});
            assert_eq!(told, case.result, "{}", case.name);
            if let Some(id) = case.source_head.as_ref().and_then(|head| head.pointer("/result/orgId")) {
                assert_eq!(user.org_id.as_deref(), id.as_str());
            }
        }
    }
    assert_eq!(stricter, STRICTER.len());
}

#[test]
fn the_compatibility_switch_waives_the_expiry_and_nothing_else() {
    let NativeTokenVectors { organizations, cases } = vectors();
    for case in &cases {
        let lax = judge(case, &organizations, ExpiryRule::Optional);
        let expected = case.name == "no exp claim" || judge(case, &organizations, ExpiryRule::Required).is_ok();
        assert_eq!(lax.is_ok(), expected, "{}", case.name);
    }
}

#[test]
fn stricter_than_newer_peers_our_name_is_taken_as_it_is_configured() {
    let NativeTokenVectors { organizations, cases } = vectors();
    let case = cases.iter().find(|case| case.name == "APP_URL configured with endpoint path").unwrap();
    assert_eq!(case.source_head.as_ref().unwrap()["accepted"], true);
    assert_eq!(judge(case, &organizations, ExpiryRule::Required), Err(NativeUserFault::Audience));
}

/// A token with these claims, under the shared secret.
fn token(claims: &Value) -> String {
    token_under(SECRET, claims)
}

fn token_under(secret: &str, claims: &Value) -> String {
    let encode = |text: String| URL_SAFE_NO_PAD.encode(text);
    let input = format!("{}.{}", encode(json!({"alg": "HS256"}).to_string()), encode(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), input.as_bytes());
    format!("{input}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn claims() -> Value {
    json!({"sub": "ana@acme.example", "iss": "https://app.example", "exp": NOW + 900})
}

fn judge_claims(claims: &Value, audiences: &[String], issuers: &[String]) -> Result<NativeUser, NativeUserFault> {
    let secret = Secret::new(SECRET);
    let settings = NativeTokenSettings { secret: Some(&secret), audiences, issuers, expiry: ExpiryRule::Required };
    verify(&token(claims), settings, |_| None, Timestamp::from_millis(NOW * 1000))
}

#[test]
fn stricter_than_the_peer_issuers_count_where_they_are_configured() {
    let issuers = ["https://app.example".to_owned(), "https://other.example".to_owned()];
    assert!(judge_claims(&claims(), &[], &issuers).is_ok());
    for issuer in [json!("https://app.example/"), json!("whatever"), json!(""), json!(5), json!(null)] {
        let mut claims = claims();
        claims["iss"] = issuer.clone();
        assert_eq!(judge_claims(&claims, &[], &issuers), Err(NativeUserFault::Issuer), "{issuer}");
        assert!(judge_claims(&claims, &[], &[]).is_ok(), "{issuer}, with no issuers configured");
    }
}

#[test]
fn times_are_numbers_and_both_edges_are_exact() {
    for (name, value, expected) in [
        ("exp", json!(NOW), Err(NativeUserFault::Expired)),
        ("exp", json!(NOW + 1), Ok(())),
        ("exp", json!("never"), Err(NativeUserFault::Token(JwsFault::Malformed("exp")))),
        ("exp", json!(null), Err(NativeUserFault::Token(JwsFault::Malformed("exp")))),
        ("nbf", json!(NOW), Ok(())),
        ("nbf", json!(NOW + 1), Err(NativeUserFault::NotYet)),
        ("nbf", json!("x"), Err(NativeUserFault::Token(JwsFault::Malformed("nbf")))),
        ("iat", json!("x"), Err(NativeUserFault::Token(JwsFault::Malformed("iat")))),
        ("aud", json!(null), Err(NativeUserFault::Audience)),
        ("aud", json!([]), Err(NativeUserFault::Audience)),
        ("aud", json!(["x", "me"]), Ok(())),
        ("aud", json!("me "), Err(NativeUserFault::Audience)),
        ("sub", json!(["ana"]), Err(NativeUserFault::NoUser)),
        ("org_domain", json!("acme.example\u{0}"), Err(NativeUserFault::NoUser)),
        ("org_domain", json!("a".repeat(321)), Err(NativeUserFault::NoUser)),
    ] {
        let mut claims = claims();
        claims[name] = value.clone();
        assert_eq!(judge_claims(&claims, &["me".to_owned()], &[]).map(|_| ()), expected, "{name} {value}");
    }
}

#[test]
fn the_secret_of_an_organisation_names_nobody_outside_of_it() {
    let mut claims = claims();
    claims["org_domain"] = json!("Beta.Example");
    let judge = |token: &str| {
        let secret = Secret::new(SECRET);
        let settings =
            NativeTokenSettings { secret: Some(&secret), audiences: &[], issuers: &[], expiry: ExpiryRule::Required };
        let find = |domain: &str| (domain == "beta.example").then(|| Secret::new("beta-secret"));
        verify(token, settings, find, Timestamp::from_millis(NOW * 1000)).unwrap()
    };
    let theirs = judge(&token_under("beta-secret", &claims));
    assert_eq!(
        (theirs.secret_kind, theirs.principal().to_string().as_str()),
        (SecretKind::Organisation, "native:org:beta.example/ana@acme.example")
    );
    let shared = judge(&token(&claims));
    assert_eq!(
        (shared.secret_kind, shared.principal().to_string().as_str()),
        (SecretKind::Shared, "native:user:ana@acme.example#beta.example")
    );
    assert_eq!(claimed_organisation(&token(&claims)).as_deref(), Some("beta.example"));
}

#[test]
fn the_stand_in_for_a_missing_secret_opens_nothing() {
    let stand_in = String::from_utf8(NO_SECRET.to_vec()).unwrap();
    let forged = token_under(&stand_in, &claims());
    let secret = Secret::new(SECRET);
    for (secret, reason) in [(Some(&secret), NativeUserFault::Signature), (None, NativeUserFault::NoSecret)] {
        let settings = NativeTokenSettings { secret, audiences: &[], issuers: &[], expiry: ExpiryRule::Required };
        assert_eq!(verify(&forged, settings, |_| None, Timestamp::from_millis(NOW * 1000)), Err(reason));
    }
    // A secret of blanks counts as no secret.
    let blank = Secret::new(" \n");
    let settings =
        NativeTokenSettings { secret: Some(&blank), audiences: &[], issuers: &[], expiry: ExpiryRule::Required };
    let refused = verify(&token_under("", &claims()), settings, |_| Some(Secret::new("")), Timestamp::from_millis(0));
    assert_eq!(refused, Err(NativeUserFault::NoSecret));
}

#[test]
fn settings_can_be_printed() {
    let secret = Secret::new(SECRET);
    let settings =
        NativeTokenSettings { secret: Some(&secret), audiences: &[], issuers: &[], expiry: ExpiryRule::Required };
    assert!(!format!("{settings:?}").contains(SECRET));
}
