use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

const SECRET: &str = "unit-test-global-secret-0001";
const NOW: i64 = 1_700_000_000;

#[derive(Deserialize)]
struct Vectors {
    organizations: Vec<Organization>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Organization {
    allowed_domain: String,
    a2a_secret: String,
}

#[derive(Deserialize)]
struct Case {
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

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../tests/vectors/agent-native-jwt.json")).unwrap()
}

fn judge(case: &Case, organizations: &[Organization], expiry: Expiry) -> Result<User, Reason> {
    let secret = case.secret.as_deref().map(Secret::new);
    let header = |name: &str| case.request_headers[name].as_str();
    let audience = own_audience(case.app_url.as_deref(), header("host"), header("x-forwarded-proto"));
    let audiences: Vec<String> = audience.into_iter().collect();
    let settings = Settings { secret: secret.as_ref(), audiences: &audiences, issuers: &[], expiry };
    let find = |domain: &str| {
        let one = organizations.iter().find(|one| one.allowed_domain.to_ascii_lowercase() == domain)?;
        Some(Secret::new(one.a2a_secret.as_str()))
    };
    verify(&case.token, settings, find, Timestamp::from_millis(case.now * 1000))
}

/// Accepted by the peer, refused here on purpose.
const STRICTER: [(&str, Reason); 3] = [
    ("alg HS384, same secret", Reason::Algorithm),
    ("alg HS512, same secret", Reason::Algorithm),
    ("no exp claim", Reason::NoExpiry),
];

#[test]
fn every_token_of_the_vectors_gets_its_verdict_or_is_refused_on_purpose() {
    let Vectors { organizations, cases } = vectors();
    assert_eq!(cases.len(), 61);
    let mut stricter = 0;
    for case in &cases {
        let ours = judge(case, &organizations, Expiry::Required);
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
    let Vectors { organizations, cases } = vectors();
    for case in &cases {
        let lax = judge(case, &organizations, Expiry::Optional);
        let expected = case.name == "no exp claim" || judge(case, &organizations, Expiry::Required).is_ok();
        assert_eq!(lax.is_ok(), expected, "{}", case.name);
    }
}

#[test]
fn stricter_than_newer_peers_our_name_is_taken_as_it_is_configured() {
    let Vectors { organizations, cases } = vectors();
    let case = cases.iter().find(|case| case.name == "APP_URL configured with endpoint path").unwrap();
    assert_eq!(case.source_head.as_ref().unwrap()["accepted"], true);
    assert_eq!(judge(case, &organizations, Expiry::Required), Err(Reason::Audience));
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

fn judge_claims(claims: &Value, audiences: &[String], issuers: &[String]) -> Result<User, Reason> {
    let secret = Secret::new(SECRET);
    let settings = Settings { secret: Some(&secret), audiences, issuers, expiry: Expiry::Required };
    verify(&token(claims), settings, |_| None, Timestamp::from_millis(NOW * 1000))
}

#[test]
fn stricter_than_the_peer_issuers_count_where_they_are_configured() {
    let issuers = ["https://app.example".to_owned(), "https://other.example".to_owned()];
    assert!(judge_claims(&claims(), &[], &issuers).is_ok());
    for issuer in [json!("https://app.example/"), json!("whatever"), json!(""), json!(5), json!(null)] {
        let mut claims = claims();
        claims["iss"] = issuer.clone();
        assert_eq!(judge_claims(&claims, &[], &issuers), Err(Reason::Issuer), "{issuer}");
        assert!(judge_claims(&claims, &[], &[]).is_ok(), "{issuer}, with no issuers configured");
    }
}

#[test]
fn times_are_numbers_and_both_edges_are_exact() {
    for (name, value, expected) in [
        ("exp", json!(NOW), Err(Reason::Expired)),
        ("exp", json!(NOW + 1), Ok(())),
        ("exp", json!("never"), Err(Reason::Token(JwsFault::Malformed("exp")))),
        ("exp", json!(null), Err(Reason::Token(JwsFault::Malformed("exp")))),
        ("nbf", json!(NOW), Ok(())),
        ("nbf", json!(NOW + 1), Err(Reason::NotYet)),
        ("nbf", json!("x"), Err(Reason::Token(JwsFault::Malformed("nbf")))),
        ("iat", json!("x"), Err(Reason::Token(JwsFault::Malformed("iat")))),
        ("aud", json!(null), Err(Reason::Audience)),
        ("aud", json!([]), Err(Reason::Audience)),
        ("aud", json!(["x", "me"]), Ok(())),
        ("aud", json!("me "), Err(Reason::Audience)),
        ("sub", json!(["ana"]), Err(Reason::Nobody)),
        ("org_domain", json!("acme.example\u{0}"), Err(Reason::Nobody)),
        ("org_domain", json!("a".repeat(321)), Err(Reason::Nobody)),
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
        let settings = Settings { secret: Some(&secret), audiences: &[], issuers: &[], expiry: Expiry::Required };
        let find = |domain: &str| (domain == "beta.example").then(|| Secret::new("beta-secret"));
        verify(token, settings, find, Timestamp::from_millis(NOW * 1000)).unwrap()
    };
    let theirs = judge(&token_under("beta-secret", &claims));
    assert_eq!(
        (theirs.under, theirs.who().to_string().as_str()),
        (Under::Organisation, "native:org:beta.example/ana@acme.example")
    );
    let shared = judge(&token(&claims));
    assert_eq!(
        (shared.under, shared.who().to_string().as_str()),
        (Under::Shared, "native:user:ana@acme.example#beta.example")
    );
    assert_eq!(claimed_organisation(&token(&claims)).as_deref(), Some("beta.example"));
}

#[test]
fn the_stand_in_for_a_missing_secret_opens_nothing() {
    let stand_in = String::from_utf8(NO_SECRET.to_vec()).unwrap();
    let forged = token_under(&stand_in, &claims());
    let secret = Secret::new(SECRET);
    for (secret, reason) in [(Some(&secret), Reason::Signature), (None, Reason::NoSecret)] {
        let settings = Settings { secret, audiences: &[], issuers: &[], expiry: Expiry::Required };
        assert_eq!(verify(&forged, settings, |_| None, Timestamp::from_millis(NOW * 1000)), Err(reason));
    }
    // A secret of blanks counts as no secret.
    let blank = Secret::new(" \n");
    let settings = Settings { secret: Some(&blank), audiences: &[], issuers: &[], expiry: Expiry::Required };
    let refused = verify(&token_under("", &claims()), settings, |_| Some(Secret::new("")), Timestamp::from_millis(0));
    assert_eq!(refused, Err(Reason::NoSecret));
}

#[test]
fn settings_can_be_printed() {
    let secret = Secret::new(SECRET);
    let settings = Settings { secret: Some(&secret), audiences: &[], issuers: &[], expiry: Expiry::Required };
    assert!(!format!("{settings:?}").contains(SECRET));
}
