use super::*;
use crate::fetch::fakes::{FakeFetch, answer};
use crate::fetch::{FetchFault, FetchRequest, FetchResponse};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sabir_proto::jwks::JWKS_BYTES_MAX;
use serde_json::json;

const NOW: i64 = 1_700_000_000;
const ISSUER: &str = "https://id.example/tenant";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

/// A key of an issuer.
struct TestKey {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl TestKey {
    fn new(id: &'static str) -> Self {
        Self { id, pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap() }
    }

    fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y})
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({"alg": "ES256", "kid": self.id, "typ": "at+jwt"}), claims)
    }

    fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let input = input(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), input.as_bytes()).unwrap();
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn input(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

fn claims() -> Value {
    json!({"iss": ISSUER, "sub": "u1", "aud": "us", "exp": NOW + 300, "iat": NOW, "scope": "a2a:send a2a:read"})
}

/// An issuer with these keys, at the place that its discovery document names.
fn publish(keys: &[&TestKey]) -> impl Fn(&FetchRequest) -> Result<FetchResponse, FetchFault> + Send + Sync + 'static {
    let set = json!({"keys": keys.iter().map(|pen| pen.jwk()).collect::<Vec<_>>()}).to_string();
    move |request| match request.url.as_str() {
        "https://id.example/tenant/.well-known/openid-configuration" => {
            answer(200, json!({"issuer": ISSUER, "jwks_uri": "https://keys.example/set"}).to_string())
        }
        "https://keys.example/set" => answer(200, set.clone()),
        other => panic!("nobody is at {other}"),
    }
}

fn issuer() -> TrustedIssuer {
    TrustedIssuer::new(ISSUER, "us")
}

fn issuers(fetch: &Arc<FakeFetch>) -> TrustedIssuers<Arc<FakeFetch>> {
    TrustedIssuers::new(vec![issuer()], fetch.clone()).unwrap()
}

#[tokio::test]
async fn a_good_token_names_its_bearer_and_is_verified_once() {
    let pen = TestKey::new("k1");
    let fetch = FakeFetch::new(publish(&[&pen]));
    let issuers = issuers(&fetch);
    let token = pen.sign(&claims());
    assert!(issuers.has_issuer_of(&token) && !issuers.has_issuer_of("a.b.c"));
    let bearer = issuers.verify(&token, at(NOW)).await.unwrap();
    assert_eq!(bearer.principal().to_string(), "jwt:https://id.example/tenant#u1");
    assert_eq!(bearer.scopes, ["a2a:read", "a2a:send"]);
    assert_eq!(bearer.valid_until, Some(at(NOW + 360)), "until the skew is over");
    let again = issuers.verify(&token, at(NOW + 1)).await.unwrap();
    assert!(Arc::ptr_eq(&bearer, &again), "remembered, not verified anew");
    assert_eq!(fetch.request_count(), 2, "discovery and keys");
    // Being in the cache does not make it live longer: 300 s and 60 s of skew.
    assert!(issuers.verify(&token, at(NOW + 359)).await.is_ok());
    assert_eq!(issuers.verify(&token, at(NOW + 360)).await, Err(AccessTokenFault::Expired));
}

#[tokio::test]
async fn every_claim_counts() {
    use AccessTokenFault::*;
    let pen = TestKey::new("k1");
    let fetch = FakeFetch::new(publish(&[&pen]));
    let issuers =
        TrustedIssuers::new(vec![super::TrustedIssuer { scopes: vec!["a2a:send".to_owned()], ..issuer() }], fetch)
            .unwrap();
    for (member, value, expected) in [
        ("iss", json!("https://evil.example"), Err(Issuer)),
        ("iss", json!("https://id.example/tenant/"), Err(Issuer)),
        ("iss", json!(null), Err(Issuer)),
        ("aud", json!("other"), Err(Audience)),
        ("aud", json!(["other"]), Err(Audience)),
        ("aud", json!(null), Err(Audience)),
        ("aud", json!([]), Err(Audience)),
        ("aud", json!(["other", "us"]), Ok(())),
        ("exp", json!(NOW - 60), Err(Expired)),
        ("exp", json!(NOW - 59), Ok(())),
        ("exp", json!("soon"), Err(Token(JwsFault::Malformed("exp")))),
        ("nbf", json!(NOW + 61), Err(NotYet)),
        ("nbf", json!(NOW + 60), Ok(())),
        ("iat", json!(NOW + 61), Err(NotYet)),
        ("sub", json!(""), Err(NoSubject)),
        ("sub", json!(7), Err(NoSubject)),
        ("sub", json!("a".repeat(320)), Ok(())),
        ("sub", json!("a".repeat(321)), Err(NoSubject)),
        ("sub", json!("ana\u{0}"), Err(NoSubject)),
        ("sub", json!("ana\nroot"), Err(NoSubject)),
        ("sub", json!("\u{9b}31m"), Err(NoSubject)),
        ("sub", json!(" ana"), Err(NoSubject)),
        ("sub", json!("auth0|0123 é"), Ok(())),
        ("scope", json!("a2a:sending"), Err(Scope("a2a:send".to_owned()))),
        ("scope", json!(null), Err(Scope("a2a:send".to_owned()))),
        ("scope", json!("x\ta2a:send"), Ok(())),
    ] {
        let mut claims = claims();
        claims[member] = value.clone();
        assert_eq!(issuers.verify(&pen.sign(&claims), at(NOW)).await.map(|_| ()), expected, "{member} {value}");
    }
    for (member, expected) in [("exp", NoExpiry), ("sub", NoSubject), ("aud", Audience), ("iss", Issuer)] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(member);
        assert_eq!(issuers.verify(&pen.sign(&claims), at(NOW)).await.map(|_| ()), Err(expected), "{member}");
    }
    let mut listed = claims();
    listed["scope"] = json!(null);
    listed["scp"] = json!(["a2a:send", "x"]);
    listed["azp"] = json!("client-7");
    let bearer = issuers.verify(&pen.sign(&listed), at(NOW)).await.unwrap();
    assert_eq!((bearer.client.as_deref(), bearer.scopes.len()), (Some("client-7"), 2));
}

#[tokio::test]
async fn a_forger_chooses_neither_algorithm_nor_key() {
    let (pen, forger) = (TestKey::new("k1"), TestKey::new("k1"));
    let fetch = FakeFetch::new(publish(&[&pen]));
    let issuers = issuers(&fetch);
    let judge = async |token: &str| issuers.verify(token, at(NOW)).await.map(|_| ());
    let none = format!("{}.", input(&json!({"alg": "none"}), &claims()));
    assert_eq!(judge(&none).await, Err(AccessTokenFault::Algorithm));
    // The published key as an HMAC secret.
    let confused = input(&json!({"alg": "HS256", "kid": "k1"}), &claims());
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, pen.pair.public_key().as_ref()), confused.as_bytes());
    assert_eq!(judge(&format!("{confused}.{}", URL_SAFE_NO_PAD.encode(tag))).await, Err(AccessTokenFault::Algorithm));
    assert_eq!(judge(&forger.sign(&claims())).await, Err(AccessTokenFault::Signature));
    let sign_as = |header: Value| pen.sign_as(&header, &claims());
    assert_eq!(judge(&sign_as(json!({"alg": "RS256", "kid": "k1"}))).await, Err(AccessTokenFault::KeyMismatch));
    assert_eq!(judge(&sign_as(json!({"alg": "ES256", "kid": "k9"}))).await, Err(AccessTokenFault::UnknownKey));
    let critical = sign_as(json!({"alg": "ES256", "kid": "k1", "crit": ["b64"], "b64": false}));
    assert_eq!(judge(&critical).await, Err(AccessTokenFault::Token(JwsFault::Critical)));
    assert_eq!(
        judge(&sign_as(json!({"alg": "ES256", "kid": "k1", "typ": "logout+jwt"}))).await,
        Err(AccessTokenFault::Kind)
    );
    for kind in ["JWT", "at+jwt", "application/AT+JWT"] {
        assert_eq!(judge(&sign_as(json!({"alg": "ES256", "kid": "k1", "typ": kind}))).await, Ok(()), "{kind}");
    }
    // A key in the header is a key of the forger.
    let embedded = forger.sign_as(&json!({"alg": "ES256", "kid": "k1", "jwk": forger.jwk()}), &claims());
    assert_eq!(judge(&embedded).await, Err(AccessTokenFault::Signature));
    // One key and no name: there is no choice to make.
    assert_eq!(judge(&sign_as(json!({"alg": "ES256"}))).await, Ok(()));
    let good = pen.sign(&claims());
    let (rest, signature) = good.rsplit_once('.').unwrap();
    let mut other = claims();
    other["sub"] = json!("u2");
    let swapped = format!("{}.{signature}", input(&json!({"alg": "ES256", "kid": "k1", "typ": "at+jwt"}), &other));
    assert_eq!(judge(&swapped).await, Err(AccessTokenFault::Signature));
    assert!(matches!(judge(rest).await, Err(AccessTokenFault::Token(_))));
}

#[tokio::test]
async fn only_allowed_algorithms_pass() {
    let pen = TestKey::new("k1");
    let only_rsa = TrustedIssuer { algorithms: vec![JwsAlgorithm::RS256], ..issuer() };
    let issuers = TrustedIssuers::new(vec![only_rsa], FakeFetch::new(publish(&[&pen]))).unwrap();
    assert_eq!(issuers.verify(&pen.sign(&claims()), at(NOW)).await, Err(AccessTokenFault::Algorithm));
}

#[tokio::test]
async fn a_new_key_is_fetched_once_and_unknown_names_cost_little() {
    let (old, new) = (TestKey::new("k1"), TestKey::new("k2"));
    let fetch = FakeFetch::new(publish(&[&old]));
    let issuers = issuers(&fetch);
    issuers.verify(&old.sign(&claims()), at(NOW)).await.unwrap();
    fetch.respond_with(publish(&[&new, &old]));
    let before = fetch.request_count();
    // Within the floor nothing is fetched, whatever names come.
    for second in 0..29 {
        let made_up = old.sign_as(&json!({"alg": "ES256", "kid": format!("x{second}")}), &claims());
        assert_eq!(issuers.verify(&made_up, at(NOW + second)).await, Err(AccessTokenFault::UnknownKey));
    }
    assert_eq!(fetch.request_count(), before);
    // After it, ten at once cost one fetch of each document.
    let token = new.sign(&claims());
    let all = futures_join(10, || issuers.verify(&token, at(NOW + 30))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(fetch.request_count(), before + 2);
    assert!(issuers.verify(&old.sign(&claims()), at(NOW + 31)).await.is_ok(), "both keys during rotation");
}

/// Polls several at once, on one thread.
async fn futures_join<T, F: Future<Output = T>>(count: usize, make: impl Fn() -> F) -> Vec<T> {
    let mut all: Vec<_> = (0..count).map(|_| Box::pin(make())).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        let mut at = 0;
        while at < all.len() {
            match all[at].as_mut().poll(context) {
                std::task::Poll::Ready(value) => {
                    done.push(value);
                    drop(all.remove(at));
                }
                std::task::Poll::Pending => at += 1,
            }
        }
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

#[tokio::test]
async fn a_token_under_a_removed_key_is_refused_although_it_was_remembered() {
    let (old, new) = (TestKey::new("k1"), TestKey::new("k2"));
    let fetch = FakeFetch::new(publish(&[&old]));
    let issuers = issuers(&fetch);
    let mut long = claims();
    long["exp"] = json!(NOW + 86_400);
    let token = old.sign(&long);
    issuers.verify(&token, at(NOW)).await.unwrap();
    fetch.respond_with(publish(&[&new]));
    assert!(issuers.verify(&token, at(NOW + 599)).await.is_ok(), "the keys are fresh for ten minutes");
    assert_eq!(issuers.verify(&token, at(NOW + 600)).await, Err(AccessTokenFault::UnknownKey));
    // An empty set is an answer too: no key verifies anything.
    fetch.respond_with(publish(&[]));
    assert_eq!(issuers.verify(&new.sign(&long), at(NOW + 1200)).await, Err(AccessTokenFault::UnknownKey));
}

#[tokio::test]
async fn while_the_issuer_is_away_its_last_keys_serve_for_a_bounded_time() {
    let pen = TestKey::new("k1");
    let fetch = FakeFetch::new(publish(&[&pen]));
    let issuers = issuers(&fetch);
    let mut long = claims();
    long["exp"] = json!(NOW + 86_400);
    issuers.verify(&pen.sign(&long), at(NOW)).await.unwrap();
    fetch.respond_with(|_| Err(FetchFault::Timeout));
    assert!(issuers.verify(&pen.sign(&long), at(NOW + 7199)).await.is_ok());
    let gone = issuers.verify(&pen.sign(&long), at(NOW + 7210)).await;
    assert_eq!(gone, Err(AccessTokenFault::KeysUnavailable("no answer in time".to_owned())));
}

/// A good document with so many blanks behind it that it is longer than allowed.
fn padded(value: &Value, bytes_max: usize) -> Vec<u8> {
    let mut text = value.to_string().into_bytes();
    text.resize(bytes_max + 1, b' ');
    text
}

#[tokio::test]
async fn an_issuer_that_publishes_nonsense_vouches_for_nobody() {
    let pen = TestKey::new("k1");
    let metadata = |value: Value| answer(200, value.to_string());
    let nonsense: [(&str, Result<FetchResponse, FetchFault>); 7] = [
        ("another issuer", metadata(json!({"issuer": "https://evil.example", "jwks_uri": "https://keys.example/set"}))),
        ("no issuer", metadata(json!({"jwks_uri": "https://keys.example/set"}))),
        ("an open line", metadata(json!({"issuer": ISSUER, "jwks_uri": "http://keys.example/set"}))),
        ("no keys", metadata(json!({"issuer": ISSUER}))),
        ("not there", answer(404, "{}")),
        (
            "huge",
            answer(200, padded(&json!({"issuer": ISSUER, "jwks_uri": "https://keys.example/set"}), METADATA_BYTES_MAX)),
        ),
        ("not JSON", answer(200, "<html>")),
    ];
    for (what, said) in nonsense {
        // The keys are there, for a verifier that accepts the document.
        let set = json!({"keys": [pen.jwk()]}).to_string();
        let fetch = FakeFetch::new(move |request| match request.url.path() {
            "/set" => answer(200, set.clone()),
            _ => said.clone(),
        });
        let ours = issuers(&fetch).verify(&pen.sign(&claims()), at(NOW)).await;
        assert!(matches!(ours, Err(AccessTokenFault::KeysUnavailable(_))), "{what}: {ours:?}");
    }
    let at_url = TrustedIssuer { keys: KeySource::At(Url::parse("https://keys.example/set").unwrap()), ..issuer() };
    let huge = padded(&json!({"keys": [pen.jwk()]}), JWKS_BYTES_MAX);
    for set in [huge, b"[]".to_vec(), Vec::new()] {
        let fetch = FakeFetch::new(move |_| answer(200, set.clone()));
        let issuers = TrustedIssuers::new(vec![at_url.clone()], fetch).unwrap();
        let ours = issuers.verify(&pen.sign(&claims()), at(NOW)).await;
        assert!(matches!(ours, Err(AccessTokenFault::KeysUnavailable(_))), "{ours:?}");
    }
}

#[tokio::test]
async fn a_stranger_causes_no_fetch() {
    let pen = TestKey::new("k1");
    let fetch = FakeFetch::new(publish(&[&pen]));
    let issuers = issuers(&fetch);
    let mut foreign = claims();
    foreign["iss"] = json!("https://evil.example");
    assert_eq!(issuers.verify(&pen.sign(&foreign), at(NOW)).await, Err(AccessTokenFault::Issuer));
    for odd in ["", "a.b.c", "x"] {
        assert!(issuers.verify(odd, at(NOW)).await.is_err());
    }
    assert_eq!(fetch.request_count(), 0);
}

#[test]
fn a_careless_configuration_is_refused() {
    let fault = |issuer: TrustedIssuer| TrustedIssuers::new(vec![issuer], FakeFetch::new(|_| answer(200, ""))).err();
    let name = || ISSUER.to_owned();
    assert_eq!(fault(TrustedIssuer { audiences: vec![], ..issuer() }), Some(IssuerFault::NoAudience(name())));
    assert_eq!(fault(TrustedIssuer::new(ISSUER, "")), Some(IssuerFault::NoAudience(name())));
    assert_eq!(fault(TrustedIssuer { algorithms: vec![], ..issuer() }), Some(IssuerFault::NoAlgorithm(name())));
    assert_eq!(
        fault(TrustedIssuer { skew: SKEW_MAX + Duration::from_secs(1), ..issuer() }),
        Some(IssuerFault::Skew(name()))
    );
    for (place, safe) in [
        ("https://id.example", true),
        ("http://127.0.0.1:9000/x", true),
        ("http://localhost", true),
        ("http://[::1]:80", true),
        ("http://id.example", false),
        ("http://localhost.evil.example", false),
        ("ftp://id.example", false),
    ] {
        assert_eq!(fault(TrustedIssuer::new(place, "us")).is_none(), safe, "{place}");
        let at = TrustedIssuer { keys: KeySource::At(Url::parse(place).unwrap()), ..issuer() };
        assert_eq!(fault(at).is_none(), safe, "{place}");
    }
    for place in ["", "us", "https://id.example/?x", "https://id.example/#x"] {
        assert!(matches!(fault(TrustedIssuer::new(place, "us")), Some(IssuerFault::NotAUrl(_))), "{place}");
    }
    let twice = TrustedIssuers::new(vec![issuer(), issuer()], FakeFetch::new(|_| answer(200, ""))).err();
    assert_eq!(twice, Some(IssuerFault::Twice(name())));
}
