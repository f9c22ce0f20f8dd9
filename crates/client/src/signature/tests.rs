use super::*;
use crate::discover::DiscoveredCard;
use aws_lc_rs::digest::{SHA256, digest as hash};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;
use std::sync::Mutex;

#[derive(Deserialize)]
struct CardVectors {
    jwks: Value,
    cases: Vec<CardCase>,
}

#[derive(Deserialize)]
struct CardCase {
    id: String,
    card: Value,
    valid: bool,
    #[serde(default)]
    valid_forms: Vec<String>,
    reason: String,
    per_signature: Vec<HashMap<String, String>>,
    canonical_sha256: HashMap<String, String>,
}

fn vectors() -> CardVectors {
    serde_json::from_str(include_str!("../../tests/vectors/card-jws.json")).unwrap()
}

fn name(form: CanonicalForm) -> &'static str {
    match form {
        CanonicalForm::Specification => "spec",
        CanonicalForm::Sdk => "sdk",
        CanonicalForm::AsReceived => "raw",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn every_vector_has_its_stated_verdict() {
    let CardVectors { jwks, cases } = vectors();
    assert_eq!(cases.len(), 31);
    let keys = Jwks::parse(jwks.to_string().as_bytes()).unwrap();
    assert_eq!(keys.len(), 4);
    let card_url = Some(Url::parse("https://agent.example.com/.well-known/agent-card.json").unwrap());
    let trust = TrustPolicy { card_url, keys, ..TrustPolicy::default() };
    for case in cases {
        let id = &case.id;
        for form in CanonicalForm::ALL {
            let bytes = digest::card(&case.card, form).unwrap();
            assert_eq!(hex(hash(&SHA256, &bytes).as_ref()), case.canonical_sha256[name(form)], "{id} as {form:?}");
        }
        match verify(&case.card.to_string(), &trust, &NoFetch).await {
            Verdict::Verified { kid, source, form, covered } => {
                assert!(case.valid, "{id} is accepted");
                // The first valid form, in the order in which we try them.
                let first =
                    CanonicalForm::ALL.into_iter().find(|form| case.valid_forms.iter().any(|v| v == name(*form)));
                assert_eq!(Some(form), first, "{id}");
                assert_eq!(source, CardKeySource::Given, "{id}");
                let good = case.per_signature.iter().position(|forms| forms[name(form)] == "ok").unwrap();
                let protected = case.card["signatures"][good]["protected"].as_str().unwrap();
                assert_eq!(kid, Header::parse(protected).unwrap().key, "{id}");
                assert_eq!(hex(hash(&SHA256, covered.as_bytes()).as_ref()), case.canonical_sha256[name(form)]);
            }
            Verdict::Unverifiable { reason } => {
                assert!(!case.valid, "{id} is refused: {reason}");
                assert_eq!(reason.code(), case.reason, "{id}");
                assert_eq!(reason.is_bad_signature(), case.reason == "bad_signature", "{id}");
            }
            Verdict::Absent => assert_eq!(case.reason, "no_signature", "{id}"),
        }
    }
}

/// The exceptions, in which the client requires more than the verdict. There are none: every card of the vectors is of
/// 1.0, where each form covers addresses and schemes. The client uses exactly the covered members.
#[tokio::test]
async fn of_every_vector_the_client_uses_what_was_covered() {
    const STRICTER: [&str; 0] = [];
    let CardVectors { jwks, cases } = vectors();
    let keys = Jwks::parse(jwks.to_string().as_bytes()).unwrap();
    let card_url = Some(Url::parse("https://agent.example.com/.well-known/agent-card.json").unwrap());
    let trust = TrustPolicy { card_url: card_url.clone(), keys, ..TrustPolicy::default() };
    let mut stricter = Vec::new();
    for CardCase { id, card, valid, reason, .. } in cases {
        let found = DiscoveredCard::read(card.to_string().as_bytes(), card_url.clone(), "here").unwrap();
        match verified_card(&found, &trust, &NoFetch).await {
            Ok(vouched) => {
                assert!(valid, "{id} is accepted");
                let mut used: Value = serde_json::from_str(vouched.discovered_card.source_json()).unwrap();
                let kept = used.as_object_mut().unwrap().remove("signatures").unwrap();
                assert_eq!(used, serde_json::from_str::<Value>(&vouched.covered).unwrap(), "{id}");
                // Only the valid signature stays, and of it only what is signed.
                let [kept] = kept.as_array().unwrap().as_slice() else { panic!("{id}: {kept}") };
                let given =
                    card["signatures"].as_array().unwrap().iter().find(|one| one["signature"] == kept["signature"]);
                assert_eq!(kept["protected"], given.unwrap()["protected"], "{id}");
                assert_eq!(kept.as_object().unwrap().len(), 2, "{id}");
                assert!(used.get("futureField").is_none(), "{id}");
            }
            Err(UntrustedReason::Uncovered(_)) => stricter.push(id),
            Err(UntrustedReason::Unverifiable(found)) => assert_eq!((valid, found.code()), (false, &*reason), "{id}"),
            Err(UntrustedReason::Unsigned) => assert_eq!(reason, "no_signature", "{id}"),
        }
    }
    assert_eq!(stricter, STRICTER);
}

/// A signer with its own key, for cases beyond the vectors.
struct TestSigner(Ed25519KeyPair);

impl TestSigner {
    fn new(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    fn keys(&self, id: &str) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x}]})
    }

    fn sign(&self, card: &Value, header: &Value) -> Value {
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let payload = digest::unambiguous_card(card).unwrap().unwrap();
        let signature = self.0.sign(&digest::signing_input(&protected, &payload));
        json!({"protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature)})
    }

    fn signed(&self, header: &Value) -> String {
        signed_by(vec![self.sign(&card(), header)])
    }
}

fn card() -> Value {
    json!({"name": "Agent", "description": "d", "capabilities": {"streaming": true}})
}

fn signed_by(signatures: Vec<Value>) -> String {
    let mut card = card();
    card["signatures"] = json!(signatures);
    card.to_string()
}

/// A fake server of key sets that records the requested URLs.
#[derive(Default)]
struct KeyServer {
    sets: HashMap<String, Vec<u8>>,
    asked: Mutex<Vec<String>>,
}

impl KeyServer {
    fn with(url: &str, keys: &Value) -> Self {
        Self { sets: HashMap::from([(url.to_owned(), keys.to_string().into_bytes())]), ..Self::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl FetchKeys for KeyServer {
    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, String> {
        self.asked.lock().unwrap().push(url.to_string());
        self.sets.get(url.as_str()).cloned().ok_or_else(|| "404".to_owned())
    }
}

fn from(url: &str) -> TrustPolicy {
    TrustPolicy { card_url: Some(Url::parse(url).unwrap()), now: 1_700_000_000, ..TrustPolicy::default() }
}

fn reason(verdict: Verdict) -> SignatureFault {
    match verdict {
        Verdict::Unverifiable { reason } => reason,
        other => panic!("expected a reason, found {other:?}"),
    }
}

const HOME: &str = "https://agent.example/.well-known/agent-card.json";
const KEYS: &str = "https://agent.example/keys.json";

#[tokio::test]
async fn keys_are_fetched_from_the_cards_own_host_once_for_all_its_signatures() {
    let signer = TestSigner::new(1);
    let web = KeyServer::with(KEYS, &signer.keys("k"));
    let stranger = TestSigner::new(2).sign(&card(), &json!({"alg": "EdDSA", "kid": "k", "jku": KEYS}));
    let own = signer.sign(&card(), &json!({"alg": "EdDSA", "kid": "k", "jku": KEYS}));
    let verdict = verify(&signed_by(vec![stranger, own]), &from(HOME), &web).await;
    let Verdict::Verified { kid, source, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!((kid.as_str(), source), ("k", CardKeySource::Fetched(Url::parse(KEYS).unwrap())));
    assert_eq!(web.asked(), [KEYS]);
}

#[tokio::test]
async fn a_jku_that_leads_astray_is_not_followed() {
    let signer = TestSigner::new(1);
    for (place, jku) in [
        (HOME, "https://evil.example/keys.json"),
        (HOME, "https://agent.example.evil.example/keys.json"),
        (HOME, "http://agent.example/keys.json"),
        (HOME, "https://user:pass@agent.example/keys.json"),
        (HOME, "file:///etc/keys.json"),
        (HOME, "data:application/json,{}"),
        (HOME, "keys.json"),
        (HOME, "https://169.254.169.254/keys.json"),
        (HOME, "https://agent.example:8443/keys.json"),
        ("https://agent.example:8443/card.json", KEYS),
        ("http://agent.example/card.json", KEYS),
        ("http://127.0.0.1:8080/card.json", "http://127.0.0.1:8080/keys.json"),
    ] {
        let web = KeyServer::with(jku, &signer.keys("k"));
        let card = signer.signed(&json!({"alg": "EdDSA", "kid": "k", "jku": jku}));
        let reason = reason(verify(&card, &from(place), &web).await);
        assert_eq!(reason.code(), "jku_refused", "{jku}");
        assert!(web.asked().is_empty(), "{jku}");
    }
}

#[tokio::test]
async fn plain_http_is_for_loopback_and_only_when_asked_for() {
    let signer = TestSigner::new(1);
    for (host, fine) in [("127.0.0.1:8080", true), ("localhost", true), ("[::1]:9", true), ("agent.example", false)] {
        let (place, jku) = (format!("http://{host}/card.json"), format!("http://{host}/keys.json"));
        let web = KeyServer::with(&jku, &signer.keys("k"));
        let trust = TrustPolicy { plain_loopback: true, ..from(&place) };
        let verdict = verify(&signer.signed(&json!({"alg": "EdDSA", "kid": "k", "jku": jku})), &trust, &web).await;
        assert_eq!(matches!(verdict, Verdict::Verified { .. }), fine, "{host}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_place_named_by_the_user_is_trusted_by_origin_and_path() {
    let signer = TestSigner::new(1);
    let trust =
        TrustPolicy { roots: vec![Url::parse("https://keys.example/agents").unwrap()], ..TrustPolicy::default() };
    for (jku, fine) in [
        ("https://keys.example/agents/a.json", true),
        ("https://keys.example/agents", true),
        ("https://keys.example/agents-of-others/a.json", false),
        ("https://keys.example/agents/../others.json", false),
        ("https://keys.example:444/agents/a.json", false),
    ] {
        let web = KeyServer::with(jku, &signer.keys("k"));
        let verdict = verify(&signer.signed(&json!({"alg": "EdDSA", "kid": "k", "jku": jku})), &trust, &web).await;
        assert_eq!(matches!(verdict, Verdict::Verified { .. }), fine, "{jku}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_key_given_by_the_user_is_not_looked_up_anywhere_else() {
    let (pinned, other) = (TestSigner::new(1), TestSigner::new(2));
    let web = KeyServer::with(KEYS, &other.keys("k"));
    let keys = Jwks::parse(pinned.keys("k").to_string().as_bytes()).unwrap();
    let trust = TrustPolicy { keys, ..from(HOME) };
    let card = other.signed(&json!({"alg": "EdDSA", "kid": "k", "jku": KEYS}));
    assert_eq!(reason(verify(&card, &trust, &web).await), SignatureFault::BadSignature);
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn key_sets_that_cannot_be_read_leave_a_card_unverifiable() {
    let signer = TestSigner::new(1);
    let card = signer.signed(&json!({"alg": "EdDSA", "kid": "k", "jku": KEYS}));
    let huge = vec![b' '; JWKS_BYTES_MAX + 1];
    for (body, code) in [
        (huge.as_slice(), "keys_unavailable"),
        (b"<html>", "keys_unavailable"),
        (br#"{"keys":[]}"#, "unknown_key"),
        (br#"{"keys":[{"kty":"oct","kid":"k","k":"AAAA"}]}"#, "unknown_key"),
    ] {
        let web = KeyServer { sets: HashMap::from([(KEYS.to_owned(), body.to_vec())]), ..KeyServer::default() };
        assert_eq!(reason(verify(&card, &from(HOME), &web).await).code(), code);
    }
    assert_eq!(reason(verify(&card, &from(HOME), &KeyServer::default()).await).code(), "keys_unavailable");
    assert_eq!(reason(verify(&card, &from(HOME), &NoFetch).await).code(), "keys_unavailable");
}

#[tokio::test]
async fn an_expired_key_vouches_for_nothing() {
    let signer = TestSigner::new(1);
    let mut keys = signer.keys("k");
    keys["keys"][0]["exp"] = json!(1_699_999_999);
    let trust = TrustPolicy { keys: Jwks::parse(keys.to_string().as_bytes()).unwrap(), ..from(HOME) };
    let card = signer.signed(&json!({"alg": "EdDSA", "kid": "k"}));
    assert_eq!(reason(verify(&card, &trust, &NoFetch).await), SignatureFault::KeyExpired("k".to_owned()));
}

#[tokio::test]
async fn an_issuer_must_be_the_cards_host() {
    let signer = TestSigner::new(1);
    let keys = Jwks::parse(signer.keys("k").to_string().as_bytes()).unwrap();
    let trust = TrustPolicy { keys: keys.clone(), ..from(HOME) };
    for (issuer, fine) in [
        ("agent.example", true),
        ("Agent.Example", true),
        ("https://agent.example", true),
        ("https://agent.example/", true),
        ("http://agent.example", false),
        ("https://agent.example:8443", false),
        ("evil.example", false),
        ("agent.example.evil.example", false),
        ("", false),
    ] {
        let card = signer.signed(&json!({"alg": "EdDSA", "kid": "k", "iss": issuer}));
        match verify(&card, &trust, &NoFetch).await {
            Verdict::Verified { .. } => assert!(fine, "{issuer}"),
            verdict => assert!(!fine && reason(verdict).code() == "foreign_issuer", "{issuer}"),
        }
    }
    // A file has no host, and this card does not name the agent's URL.
    let from_file = TrustPolicy { keys, ..TrustPolicy::default() };
    let card = signer.signed(&json!({"alg": "EdDSA", "kid": "k", "iss": "agent.example"}));
    assert_eq!(reason(verify(&card, &from_file, &NoFetch).await).code(), "foreign_issuer");
}

#[tokio::test]
async fn of_several_bad_signatures_the_wrong_one_is_reported() {
    let signer = TestSigner::new(1);
    let trust = TrustPolicy { keys: Jwks::parse(signer.keys("k").to_string().as_bytes()).unwrap(), ..from(HOME) };
    let unknown = signer.sign(&card(), &json!({"alg": "EdDSA", "kid": "other"}));
    let wrong = TestSigner::new(2).sign(&card(), &json!({"alg": "EdDSA", "kid": "k"}));
    let both = signed_by(vec![unknown.clone(), wrong]);
    assert_eq!(reason(verify(&both, &trust, &NoFetch).await), SignatureFault::BadSignature);
    let first = signed_by(vec![unknown, json!({"protected": 7, "signature": ""})]);
    assert_eq!(reason(verify(&first, &trust, &NoFetch).await), SignatureFault::UnknownKey("other".to_owned()));
}

#[tokio::test]
async fn limits_hold_and_odd_shapes_are_malformed() {
    let trust = from(HOME);
    let signer = TestSigner::new(1);
    let one = signer.sign(&card(), &json!({"alg": "EdDSA", "kid": "k"}));
    let crowd = signed_by(vec![one; SIGNATURES_MAX + 1]);
    assert_eq!(reason(verify(&crowd, &trust, &NoFetch).await).code(), "malformed");
    let large = format!(r#"{{"name":"{}"}}"#, "x".repeat(CARD_BYTES_MAX));
    assert_eq!(reason(verify(&large, &trust, &NoFetch).await).code(), "malformed");
    for card in [r#"{"signatures":7}"#, r#"{"signatures":[7]}"#, r#"{"signatures":[{"protected":"e30"}]}"#] {
        assert_eq!(reason(verify(card, &trust, &NoFetch).await).code(), "malformed", "{card}");
    }
    for card in
        ["", "<html>", "[]x", r#"{"n":1,"n":2,"signatures":[{}]}"#, r#"{"n":9007199254740993,"signatures":[{}]}"#]
    {
        assert_eq!(reason(verify(card, &trust, &NoFetch).await).code(), "not_canonical", "{card}");
    }
    for card in ["{}", r#"{"n":9007199254740993}"#, r#"{"signatures":null}"#, r#"{"signatures":[]}"#] {
        assert_eq!(verify(card, &trust, &NoFetch).await, Verdict::Absent, "{card}");
    }
    // Five signatures with five key URLs: the last one is not fetched.
    let jku = |n: usize| format!("https://agent.example/keys-{n}.json");
    let places =
        (0..=KEY_FETCHES_MAX).map(|n| signer.sign(&card(), &json!({"alg": "EdDSA", "kid": "k", "jku": jku(n)})));
    let web = KeyServer::with(&jku(KEY_FETCHES_MAX), &signer.keys("k"));
    assert!(matches!(verify(&signed_by(places.collect()), &trust, &web).await, Verdict::Unverifiable { .. }));
    assert_eq!(web.asked().len(), KEY_FETCHES_MAX);
}

/// A signer with a certificate: its key, its algorithm and its chain.
struct CertificateSigner {
    key: jsonwebtoken::EncodingKey,
    algorithm: jsonwebtoken::Algorithm,
    chain: Vec<String>,
}

impl CertificateSigner {
    fn new(chain: &str, key: jsonwebtoken::EncodingKey, algorithm: jsonwebtoken::Algorithm) -> Self {
        let ders = CertificateDer::pem_slice_iter(chain.as_bytes()).map(|der| STANDARD.encode(der.unwrap())).collect();
        Self { key, algorithm, chain: ders }
    }

    fn all() -> [Self; 3] {
        use jsonwebtoken::{Algorithm, EncodingKey};
        let elliptic = EncodingKey::from_ec_pem(include_bytes!("../../tests/vectors/x5c/p256.key")).unwrap();
        let rsa = EncodingKey::from_rsa_pem(include_bytes!("../../tests/vectors/x5c/rsa.key")).unwrap();
        let edwards = EncodingKey::from_ed_pem(include_bytes!("../../tests/vectors/x5c/ed25519.key")).unwrap();
        [
            Self::new(include_str!("../../tests/vectors/x5c/p256.pem"), elliptic, Algorithm::ES256),
            Self::new(include_str!("../../tests/vectors/x5c/rsa.pem"), rsa, Algorithm::RS256),
            Self::new(include_str!("../../tests/vectors/x5c/ed25519.pem"), edwards, Algorithm::EdDSA),
        ]
    }

    fn signed(&self, more: &Value) -> String {
        let mut header = json!({"alg": format!("{:?}", self.algorithm), "kid": "k", "x5c": self.chain});
        header.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let input = digest::signing_input(&protected, &digest::unambiguous_card(&card()).unwrap().unwrap());
        let signature = jsonwebtoken::crypto::sign(&input, &self.key, self.algorithm).unwrap();
        signed_by(vec![json!({"protected": protected, "signature": signature})])
    }
}

/// A time at which the certificates of the tests are valid.
const LATER: u64 = 1_900_000_000;

fn certified(url: &str) -> TrustPolicy {
    let authorities = Authorities::parse(include_bytes!("../../tests/vectors/x5c/root.pem")).unwrap();
    TrustPolicy { authorities, now: LATER, ..from(url) }
}

#[tokio::test]
async fn a_certificate_for_the_cards_host_vouches_for_every_kind_of_key() {
    for signer in CertificateSigner::all() {
        let verdict = verify(&signer.signed(&json!({})), &certified(HOME), &NoFetch).await;
        assert!(
            matches!(&verdict, Verdict::Verified { kid, source: CardKeySource::Certified, .. } if kid == "k"),
            "{verdict:?}"
        );
    }
}

#[tokio::test]
async fn a_certificate_that_does_not_hold_is_no_reason() {
    let [signer, other, _] = CertificateSigner::all();
    let why = async |card: &str, trust: &TrustPolicy| reason(verify(card, trust, &NoFetch).await);
    let good = signer.signed(&json!({}));
    let lone =
        include_str!("../../tests/vectors/x5c/rsa.pem").split_inclusive("-----END CERTIFICATE-----").next().unwrap();
    for trust in [
        certified("https://other.example/.well-known/agent-card.json"),
        certified("https://sub.agent.example/card.json"),
        TrustPolicy { now: 1_000_000_000, ..certified(HOME) },
        TrustPolicy { now: 1_000_000_000_000, ..certified(HOME) },
        TrustPolicy { card_url: None, ..certified(HOME) },
        // A signer's own certificate is no authority for another signer.
        TrustPolicy { authorities: Authorities::parse(lone.as_bytes()).unwrap(), ..certified(HOME) },
    ] {
        assert_eq!(why(&good, &trust).await.code(), "x5c_refused", "{trust:?}");
    }
    // Without the intermediate certificates, with the wrong key in front, and without any authority.
    let lone = signer.signed(&json!({"x5c": [signer.chain[0]]}));
    assert_eq!(why(&lone, &certified(HOME)).await.code(), "x5c_refused");
    let swapped = signer.signed(&json!({"x5c": other.chain}));
    assert_eq!(why(&swapped, &certified(HOME)).await.code(), "alg_key_mismatch");
    assert_eq!(why(&good, &from(HOME)).await.code(), "unknown_key");
    let garbage = signer.signed(&json!({"x5c": ["AAAA"]}));
    assert_eq!(why(&garbage, &certified(HOME)).await.code(), "x5c_refused");
    let tampered = good.replace("\"Agent\"", "\"Agnet\"");
    assert_eq!(why(&tampered, &certified(HOME)).await, SignatureFault::BadSignature);
    let foreign = signer.signed(&json!({"iss": "evil.example"}));
    assert_eq!(why(&foreign, &certified(HOME)).await.code(), "foreign_issuer");
}

#[test]
fn a_bundle_of_authorities_is_pem_with_certificates() {
    let root = include_bytes!("../../tests/vectors/x5c/root.pem");
    let both = [root.as_slice(), include_bytes!("../../tests/vectors/x5c/p256.pem")].concat();
    assert_eq!(Authorities::parse(&both).unwrap().len(), 3);
    assert_eq!(format!("{:?}", Authorities::default()), "Authorities(0)");
    for text in [b"".as_slice(), b"hello", include_bytes!("../../tests/vectors/x5c/p256.key")] {
        assert_eq!(Authorities::parse(text).err(), Some(AuthoritiesFault::Unreadable));
    }
}

#[tokio::test]
async fn a_registry_has_keys_by_host() {
    let signer = TestSigner::new(1);
    let registry = |url: &str| TrustPolicy { registry: Some(Url::parse(url).unwrap()), roots_only: true, ..from(HOME) };
    let entry = "https://keys.example/agents/agent.example";
    let card = signer.signed(&json!({"alg": "EdDSA", "kid": "k"}));
    for place in ["https://keys.example/agents", "https://keys.example/agents/"] {
        let web = KeyServer::with(entry, &signer.keys("k"));
        let verdict = verify(&card, &registry(place), &web).await;
        assert!(
            matches!(&verdict, Verdict::Verified { source: CardKeySource::Registered(url), .. } if url.as_str() == entry),
            "{verdict:?}"
        );
        assert_eq!(web.asked(), [entry]);
    }
    let why = async |trust: &TrustPolicy, web: &KeyServer| reason(verify(&card, trust, web).await).code();
    let there = registry("https://keys.example/agents");
    assert_eq!(why(&there, &KeyServer::with(entry, &signer.keys("another"))).await, "unknown_key");
    assert_eq!(why(&there, &KeyServer::default()).await, "keys_unavailable");
    assert_eq!(why(&registry("http://keys.example/agents"), &KeyServer::default()).await, "jku_refused");
    // A registry on this machine is allowed, and a file has no entry.
    let local = "http://127.0.0.1:9/agent.example";
    let verdict = verify(&card, &registry("http://127.0.0.1:9"), &KeyServer::with(local, &signer.keys("k"))).await;
    assert!(matches!(verdict, Verdict::Verified { .. }), "{verdict:?}");
    let web = KeyServer::with(entry, &signer.keys("k"));
    assert_eq!(why(&TrustPolicy { card_url: None, ..there.clone() }, &web).await, "unknown_key");
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn with_roots_alone_a_host_does_not_vouch_for_itself() {
    let signer = TestSigner::new(1);
    let trust = TrustPolicy {
        registry: Some(Url::parse("https://keys.example/agents").unwrap()),
        roots: vec![Url::parse("https://more.example/").unwrap()],
        roots_only: true,
        ..from(HOME)
    };
    for (jku, fine) in [
        (KEYS, false),
        ("https://keys.example/agents/of-another-name", true),
        ("https://keys.example/elsewhere", false),
        ("https://more.example/keys.json", true),
    ] {
        let web = KeyServer::with(jku, &signer.keys("k"));
        let sets = HashMap::from([("https://keys.example/agents/agent.example".to_owned(), b"{\"keys\":[]}".to_vec())]);
        let web = KeyServer { sets: web.sets.into_iter().chain(sets).collect(), ..KeyServer::default() };
        let verdict = verify(&signer.signed(&json!({"alg": "EdDSA", "kid": "k", "jku": jku})), &trust, &web).await;
        assert_eq!(matches!(verdict, Verdict::Verified { .. }), fine, "{jku}: {verdict:?}");
        assert_eq!(web.asked().contains(&jku.to_owned()), fine, "{jku}");
    }
}

#[tokio::test]
async fn a_key_set_that_the_card_names_is_a_stranger_too() {
    let signer = TestSigner::new(1);
    for (place, fine) in [(KEYS, true), ("https://evil.example/keys.json", false)] {
        let mut card = card();
        card["jwks_uri"] = json!(place);
        let protected = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA","kid":"k"}"#);
        let payload = digest::card(&card, CanonicalForm::AsReceived).unwrap();
        let signature = URL_SAFE_NO_PAD.encode(signer.0.sign(&digest::signing_input(&protected, &payload)));
        card["signatures"] = json!([{"protected": protected, "signature": signature}]);
        let verdict = verify(&card.to_string(), &from(HOME), &KeyServer::with(place, &signer.keys("k"))).await;
        assert_eq!(matches!(verdict, Verdict::Verified { .. }), fine, "{place}: {verdict:?}");
    }
}
