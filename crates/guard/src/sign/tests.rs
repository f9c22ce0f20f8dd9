use super::*;
use sabir_client::signature::{self as verifier, Jwks, NoFetch, SignatureFault, TrustPolicy, Verdict};
use sabir_proto::Secret;
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct CardVectors {
    cases: Vec<CardCase>,
}

#[derive(Deserialize)]
struct CardCase {
    id: String,
    card: Value,
    /// One digest for each reading.
    canonical_sha256: Forms,
}

#[derive(Deserialize)]
struct Forms {
    spec: String,
    sdk: String,
    raw: String,
}

fn vectors() -> CardVectors {
    serde_json::from_str(include_str!("../../../client/tests/vectors/card-jws.json")).unwrap()
}

fn files() -> Value {
    serde_json::from_str(include_str!("../../tests/vectors/signing-keys.json")).unwrap()
}

fn keys() -> Vec<SigningKey> {
    let read = |jwk: &Value| SigningKey::read(&Secret::new(jwk.to_string()), None).unwrap();
    files()["card_keys"].as_array().unwrap().iter().map(read).collect()
}

/// The verdict of our own client on a card, given these keys.
async fn judged(card: &Value, keys: &[SigningKey]) -> Verdict {
    let trust =
        TrustPolicy { keys: Jwks::parse(key_set(keys).to_string().as_bytes()).unwrap(), ..TrustPolicy::default() };
    verifier::verify(&card.to_string(), &trust, &NoFetch).await
}

fn card() -> Value {
    json!({
        "name": "Ledger", "description": "Keeps books.", "version": "1",
        "supportedInterfaces": [{"url": "https://ledger.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
    })
}

#[tokio::test]
async fn every_card_of_the_vectors_is_signed_by_every_key_in_every_reading() {
    let keys = keys();
    assert_eq!(keys.len(), 4, "two elliptic keys, an RSA key and an Edwards key");
    let cases = vectors().cases;
    assert_eq!(cases.len(), 31);
    let mut signed = 0;
    for CardCase { id, card, canonical_sha256: forms } in cases {
        let readings = BTreeSet::from([&forms.spec, &forms.sdk, &forms.raw]).len();
        for key in &keys {
            let one = std::slice::from_ref(key);
            match sign(&card.to_string(), one, None) {
                Ok(card) => {
                    let ours = card["signatures"].as_array().unwrap().iter().filter_map(signer_id);
                    assert_eq!(ours.filter(|id| id == key.id()).count(), readings, "{id}");
                    // Signatures of others may be there still; the test looks for ours.
                    let verdict = judged(&card, one).await;
                    assert!(matches!(&verdict, Verdict::Verified { kid, .. } if kid == key.id()), "{id}: {verdict:?}");
                    signed += 1;
                }
                Err(SignFault::Disputed(places)) => {
                    assert!(readings > 1, "{id} has one reading and was not signed");
                    assert!(!places.is_empty(), "{id}");
                }
                Err(other) => panic!("{id}: {other}"),
            }
        }
    }
    assert_eq!(signed, 4 * 28);
}

#[tokio::test]
async fn during_rotation_either_key_vouches_for_the_card() {
    let url = Url::parse("https://ledger.example/.well-known/jwks.json").unwrap();
    let keys = keys();
    let signed = sign(&card().to_string(), &keys[..2], Some(&url)).unwrap();
    let signatures = signed["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 2);
    let header = URL_SAFE_NO_PAD.decode(signatures[0]["protected"].as_str().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    assert_eq!(header, json!({"alg": "ES256", "kid": "test-es256-1", "typ": "JOSE", "jku": url.as_str()}));
    for key in &keys[..2] {
        let verdict = judged(&signed, std::slice::from_ref(key)).await;
        assert!(matches!(&verdict, Verdict::Verified { kid, .. } if kid == key.id()), "{verdict:?}");
    }
    let stranger = judged(&signed, &keys[2..]).await;
    assert!(matches!(stranger, Verdict::Unverifiable { .. }), "{stranger:?}");
    // Signing again replaces our own signatures and leaves those of others.
    let again = sign(&signed.to_string(), &keys[1..3], None).unwrap();
    let names: Vec<_> = again["signatures"].as_array().unwrap().iter().filter_map(signer_id).collect();
    assert_eq!(names, ["test-es256-1", "test-es256-2", "test-rs256-1"]);
}

#[tokio::test]
async fn a_change_after_signing_shows() {
    let keys = keys();
    for key in &keys {
        let mut signed = sign(&card().to_string(), std::slice::from_ref(key), None).unwrap();
        signed["name"] = json!("Mallory");
        let verdict = judged(&signed, std::slice::from_ref(key)).await;
        assert_eq!(verdict, Verdict::Unverifiable { reason: SignatureFault::BadSignature });
    }
}

#[test]
fn a_card_with_empty_members_is_not_signed_and_the_members_are_named() {
    let keys = keys();
    let mut card = card();
    card["description"] = json!("");
    card["skills"][0]["examples"] = json!([]);
    card["x/y"] = json!("");
    let disputed = sign(&card.to_string(), &keys, None).unwrap_err();
    let expected = ["/description", "/skills/0/examples"].map(str::to_owned);
    assert_eq!(disputed, SignFault::Disputed(expected.to_vec()));
    assert!(disputed.to_string().contains("fill in or remove /description, "), "{disputed}");
}

#[tokio::test]
async fn where_readings_cannot_agree_each_is_signed() {
    let keys = keys();
    let mut card = card();
    card["securityRequirements"] = json!([{"schemes": {"key": {}}}]);
    card["url"] = json!("https://ledger.example/");
    let signed = sign(&card.to_string(), &keys[..1], None).unwrap();
    assert_eq!(signed["signatures"].as_array().unwrap().len(), 2, "the SDKs' reading, and that of everybody else");
    // A reader of either kind finds one of the two, also when the other was taken away.
    for (number, form) in [(0, CanonicalForm::Specification), (1, CanonicalForm::Sdk)] {
        let mut one = signed.clone();
        one["signatures"] = json!([signed["signatures"][number]]);
        let verdict = judged(&one, &keys[..1]).await;
        assert!(matches!(&verdict, Verdict::Verified { form: found, .. } if *found == form), "{verdict:?}");
    }
}

/// Cards that say where they are in members that the SDKs' reading drops, and those that say it there as well.
fn cards_of_every_form() -> Vec<(&'static str, Value)> {
    let v1 = card();
    let mut hybrid = v1.clone();
    hybrid["url"] = json!("https://ledger.example/");
    hybrid["protocolVersion"] = json!("0.3.0");
    hybrid["additionalInterfaces"] = json!([{"url": "https://ledger.example/", "transport": "HTTP+JSON"}]);
    hybrid["securitySchemes"] = json!({"b": {"type": "http", "scheme": "Bearer",
        "httpAuthSecurityScheme": {"scheme": "Bearer"}}});
    hybrid["security"] = json!([{"b": []}]);
    hybrid["securityRequirements"] = json!([{"schemes": {"b": {}}}]);
    let without = |card: &Value, names: &[&str]| {
        let mut card = card.clone();
        names.iter().for_each(|name| drop(card.as_object_mut().unwrap().remove(*name)));
        card
    };
    let mut older = without(&hybrid, &["supportedInterfaces", "securityRequirements"]);
    older["securitySchemes"] = json!({"b": {"type": "http", "scheme": "Bearer"}});
    let open = without(&older, &["securitySchemes", "security"]);
    let mut xpr = without(&open, &["protocolVersion", "additionalInterfaces"]);
    xpr["xpr:account"] = json!("ledger");
    let mut snake = without(&v1, &["supportedInterfaces"]);
    snake["supported_interfaces"] = v1["supportedInterfaces"].clone();
    let mut snake_schemes = v1.clone();
    snake_schemes["security_schemes"] = json!({"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}});
    let mut sloppy = v1.clone();
    sloppy["securitySchemes"] = older["securitySchemes"].clone();
    sloppy["security"] = json!([{"b": ["x"]}]);
    let mut bare = v1.clone();
    bare["securitySchemes"] = json!({"m": {"mtlsSecurityScheme": {}}});
    let mut first = v1.clone();
    first["authentication"] = json!({"schemes": ["Bearer"]});
    vec![
        ("1.0", v1),
        ("hybrid", hybrid),
        ("0.3", older),
        ("0.3, open", open),
        ("xpr", xpr),
        ("snake_case", snake),
        ("schemes in snake_case", snake_schemes),
        ("schemes of 0.3", sloppy),
        ("a scheme that is nothing but there", bare),
        ("authentication of 0.1", first),
    ]
}

#[test]
fn a_reading_that_drops_addresses_or_security_is_not_signed() {
    let key = &keys()[..1];
    let made = |card: &Value| sign(&card.to_string(), key, None).unwrap()["signatures"].as_array().unwrap().len();
    let made: Vec<_> = cards_of_every_form().iter().map(|(form, card)| (*form, made(card))).collect();
    assert_eq!(
        made,
        [
            ("1.0", 1),
            // As it is, and as the SDKs read it. The Python SDK of 0.3 forgets what kind a scheme is.
            ("hybrid", 2),
            ("0.3", 1),
            // As it is, and as the Python SDK of 0.3 reads it.
            ("0.3, open", 2),
            ("xpr", 1),
            ("snake_case", 1),
            ("schemes in snake_case", 1),
            ("schemes of 0.3", 1),
            ("a scheme that is nothing but there", 1),
            ("authentication of 0.1", 1),
        ]
    );
}

#[tokio::test]
async fn a_card_of_ours_cannot_be_made_to_lead_elsewhere() {
    type Tamper = fn(&mut Value);
    let tamperings: [(&str, Tamper); 5] = [
        ("address", |card| {
            card["url"] = json!("https://evil.example/");
            card["protocolVersion"] = json!("1.0");
            card.as_object_mut().unwrap().remove("additionalInterfaces");
        }),
        ("list", |card| {
            for name in ["url", "protocolVersion", "additionalInterfaces"] {
                card.as_object_mut().unwrap().remove(name);
            }
            card["supported_interfaces"] = json!([{"url": "https://evil.example/"}]);
        }),
        ("more addresses", |card| card["additionalInterfaces"] = json!([{"url": "https://evil.example/"}])),
        ("schemes", |card| {
            card["security_schemes"] = json!({"evil": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}})
        }),
        ("requirements", |card| card["security"] = json!([{"evil": ["all"]}])),
    ];
    let key = &keys()[..1];
    for (form, card) in cards_of_every_form() {
        let signed = sign(&card.to_string(), key, None).unwrap();
        for (what, tamper) in tamperings {
            let mut tampered = signed.clone();
            tamper(&mut tampered);
            match judged(&tampered, key).await {
                Verdict::Unverifiable { reason } => assert_eq!(reason, SignatureFault::BadSignature, "{form}, {what}"),
                // A signature for the SDKs, which ignore these members as the signature does.
                Verdict::Verified { covered, form: reading, .. } => {
                    assert_eq!(reading, CanonicalForm::Sdk, "{form}, {what}");
                    assert!(!covered.contains("evil"), "{form}, {what}: {covered}");
                    assert!(covered.contains("\"supportedInterfaces\""), "{form}, {what}: {covered}");
                }
                Verdict::Absent => panic!("{form}, {what}"),
            }
        }
    }
}

#[test]
fn what_is_no_card_is_not_signed() {
    let keys = keys();
    assert_eq!(sign("[]", &keys, None), Err(SignFault::NotACard));
    for text in ["", "{\"a\":1,\"a\":2}", "{\"a\":9007199254740993}"] {
        assert!(matches!(sign(text, &keys, None), Err(SignFault::NotCanonical(_))), "{text}");
    }
    assert_eq!(sign(&card().to_string(), &[], None), Err(SignFault::Signatures(0)));
    let mut crowded = card();
    crowded["signatures"] = json!(vec![json!({"protected": "e30", "signature": ""}); SIGNATURES_MAX]);
    assert_eq!(sign(&crowded.to_string(), &keys[..1], None), Err(SignFault::Signatures(SIGNATURES_MAX + 1)));
}

#[test]
fn the_key_set_holds_public_halves_only_and_equals_that_of_the_vectors() {
    let set = key_set(&keys());
    let vectors: Value = serde_json::from_str(include_str!("../../../client/tests/vectors/card-jws.json")).unwrap();
    assert_eq!(set["keys"], vectors["jwks"]["keys"]);
    for key in set["keys"].as_array().unwrap() {
        for private in ["d", "p", "q", "dp", "dq", "qi", "k"] {
            assert!(key.get(private).is_none(), "{private}");
        }
    }
}

#[tokio::test]
async fn a_key_that_was_made_can_be_kept_and_read_again() {
    let (key, file) = SigningKey::generate(None).unwrap();
    assert_eq!((key.algorithm(), key.id().len()), (SigningAlgorithm::Es256, 43));
    let again = SigningKey::read(&file, None).unwrap();
    assert_eq!(again.public(), key.public());
    let signed = sign(&card().to_string(), &[again], None).unwrap();
    assert!(matches!(judged(&signed, &[key]).await, Verdict::Verified { .. }));
    let (named, _) = SigningKey::generate(Some("mine")).unwrap();
    assert_eq!(format!("{named:?}"), r#"SigningKey("mine", ES256)"#);
    assert_eq!(SigningKey::generate(Some("")).err(), Some(SigningKeyFault::NoName));
}

#[tokio::test]
async fn keys_that_openssl_made_are_read() {
    let files = files();
    let read = |name: &str| SigningKey::read(&Secret::new(files["keys"][name].as_str().unwrap()), None);
    for (name, algorithm) in [
        ("p256-pkcs8", SigningAlgorithm::Es256),
        ("p256-sec1", SigningAlgorithm::Es256),
        ("ed25519-pkcs8", SigningAlgorithm::EdDsa),
        ("rsa2048-pkcs8", SigningAlgorithm::Rs256),
        ("rsa2048-pkcs1", SigningAlgorithm::Rs256),
    ] {
        let key = read(name).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(key.algorithm(), algorithm, "{name}");
        let signed = sign(&card().to_string(), std::slice::from_ref(&key), None).unwrap();
        assert!(matches!(judged(&signed, &[key]).await, Verdict::Verified { .. }), "{name}");
    }
    assert_eq!(read("p256-pkcs8").unwrap().public(), read("p256-sec1").unwrap().public(), "one key in two forms");
    assert_eq!(read("p256-pkcs8").unwrap().id(), files["thumbprint"].as_str().unwrap());
    for (name, fault) in [
        ("p256-public", SigningKeyFault::NotPrivate),
        ("p384-pkcs8", SigningKeyFault::Unsupported),
        ("rsa1024-pkcs8", SigningKeyFault::Unsupported),
    ] {
        assert_eq!(read(name).err(), Some(fault), "{name}");
    }
}

#[test]
fn a_jwk_that_is_not_for_this_is_refused() {
    let jwk = files()["card_keys"][0].clone();
    let read = |jwk: &Value| SigningKey::read(&Secret::new(jwk.to_string()), None).map(|_| ());
    let with = |member: &str, value: Value| {
        let mut jwk = jwk.clone();
        jwk[member] = value;
        read(&jwk)
    };
    assert_eq!(read(&jwk), Ok(()));
    assert_eq!(with("alg", json!("ES384")), Err(SigningKeyFault::Unsupported));
    assert_eq!(with("use", json!("enc")), Err(SigningKeyFault::Unsupported));
    assert_eq!(with("crv", json!("P-384")), Err(SigningKeyFault::Unsupported));
    assert_eq!(with("kid", json!("")), Err(SigningKeyFault::NoName));
    assert_eq!(with("d", json!("!")), Err(SigningKeyFault::Unreadable));
    // The private half of another key.
    assert_eq!(with("d", json!(URL_SAFE_NO_PAD.encode([7; 32]))), Err(SigningKeyFault::Unsupported));
    assert_eq!(read(&json!({"kty": "oct", "k": "c2VjcmV0", "d": "x"})), Err(SigningKeyFault::Unsupported));
    let mut public = jwk.clone();
    public.as_object_mut().unwrap().remove("d");
    assert_eq!(read(&public), Err(SigningKeyFault::NotPrivate));
    for text in ["", "x", "{}", "{\"kty\":\"EC\",\"kty\":\"EC\"}"] {
        assert_eq!(SigningKey::read(&Secret::new(text), None).err(), Some(SigningKeyFault::Unreadable), "{text}");
    }
    let long = Secret::new("x".repeat(40 * 1024));
    assert_eq!(SigningKey::read(&long, None).err(), Some(SigningKeyFault::TooLong));
}

#[test]
fn a_public_key_is_shown_as_its_private_half_would_be() {
    let files = files();
    let file = |name: &str| Secret::new(files["keys"][name].as_str().unwrap());
    let shown = public_jwk(&file("p256-pkcs8")).unwrap();
    assert_eq!(shown, SigningKey::read(&file("p256-pkcs8"), None).unwrap().public());
    assert_eq!(public_jwk(&file("p256-public")).unwrap(), shown);
    for key in keys() {
        let mut public = key.public();
        assert_eq!(public_jwk(&Secret::new(public.to_string())).unwrap(), public);
        public["x5u"] = json!("https://elsewhere.example");
        assert_eq!(public_jwk(&Secret::new(public.to_string())).unwrap(), key.public(), "only what makes up the key");
    }
    assert_eq!(public_jwk(&file("p384-pkcs8")).err(), Some(SigningKeyFault::Unsupported));
    assert_eq!(public_jwk(&Secret::new("nonsense")).err(), Some(SigningKeyFault::Unreadable));
    assert_eq!(public_jwk(&Secret::new(r#"{"kty":"oct","k":"c2VjcmV0"}"#)).err(), Some(SigningKeyFault::Unsupported));
}

/// A key of the client's vectors, with or without its certificates.
fn certified(key: &str, chain: &str) -> Result<SigningKey, SigningKeyFault> {
    SigningKey::read(&Secret::new(format!("{key}\n{chain}")), None)
}

#[tokio::test]
async fn certificates_beside_a_key_are_shown_with_its_signatures() {
    let root = include_bytes!("../../../client/tests/vectors/x5c/root.pem");
    let p256 = include_str!("../../../client/tests/vectors/x5c/p256.key");
    let chain = include_str!("../../../client/tests/vectors/x5c/p256.pem");
    let rsa = include_str!("../../../client/tests/vectors/x5c/rsa.key");
    let rsa_chain = include_str!("../../../client/tests/vectors/x5c/rsa.pem");
    for (key, chain) in [(p256, chain), (rsa, rsa_chain)] {
        let key = certified(key, chain).unwrap();
        let signed = sign(&card().to_string(), std::slice::from_ref(&key), None).unwrap();
        // The verifier has no key: it trusts an authority, for the host of the card.
        let trust = |url: &str| TrustPolicy {
            card_url: Some(Url::parse(url).unwrap()),
            authorities: verifier::Authorities::parse(root).unwrap(),
            roots_only: true,
            now: 1_900_000_000,
            ..TrustPolicy::default()
        };
        let verdict = verifier::verify(&signed.to_string(), &trust("https://agent.example/"), &NoFetch).await;
        assert!(matches!(&verdict, Verdict::Verified { kid, .. } if kid == key.id()), "{verdict:?}");
        let elsewhere = verifier::verify(&signed.to_string(), &trust("https://elsewhere.example/"), &NoFetch).await;
        assert!(matches!(elsewhere, Verdict::Unverifiable { .. }), "{elsewhere:?}");
    }
    assert_eq!(certified(p256, rsa_chain).err(), Some(SigningKeyFault::Certificates), "the certificate of another key");
    assert_eq!(certified("", chain).err(), Some(SigningKeyFault::NotPrivate));
    assert_eq!(certified(p256, "").unwrap().public(), certified(p256, chain).unwrap().public());
}
