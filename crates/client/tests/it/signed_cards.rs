//! A client that requires signed cards never uses what a signature does not cover.

use crate::stub::{StubAction, StubServer, client};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sabir_client::signature::{CanonicalForm, Jwks, SignatureMode, TrustPolicy, UntrustedReason};
use sabir_client::{DiscoveredCard, Error};
use sabir_proto::digest;
use serde_json::{Value, json};

fn key() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn trust() -> TrustPolicy {
    let x = URL_SAFE_NO_PAD.encode(key().public_key());
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
    TrustPolicy { keys: Jwks::parse(set.to_string().as_bytes()).unwrap(), roots_only: true, ..TrustPolicy::default() }
}

fn signature(card: &Value, form: CanonicalForm) -> Value {
    let protected = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA","kid":"k"}"#);
    let payload = digest::card(card, form).unwrap();
    let signature = key().sign(&digest::signing_input(&protected, &payload));
    json!({"protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature)})
}

fn signed(mut card: Value, forms: &[CanonicalForm]) -> Value {
    card["signatures"] = forms.iter().map(|form| signature(&card, *form)).collect();
    card
}

const V1: &str = r#"{"name": "Ledger", "description": "Keeps books.", "version": "1",
    "supportedInterfaces": [{"url": "https://good.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}},
    "securityRequirements": [{"schemes": {"key": {}}}],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}]}"#;

const HYBRID: &str = r#"{"name": "Ledger", "description": "Keeps books.", "version": "1",
    "supportedInterfaces": [{"url": "https://good.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "url": "https://good.example/", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0",
    "additionalInterfaces": [{"url": "https://good.example/", "transport": "HTTP+JSON"}],
    "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key",
        "apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}},
    "security": [{"key": []}], "securityRequirements": [{"schemes": {"key": {}}}],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}]}"#;

const V03: &str = r#"{"name": "Ledger", "description": "Keeps books.", "version": "1",
    "url": "https://good.example/", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0",
    "additionalInterfaces": [{"url": "https://good.example/", "transport": "HTTP+JSON"}],
    "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}}, "security": [{"key": []}],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}]}"#;

/// A card of XPR Network has its own members and no version.
const XPR: &str = r#"{"name": "Ledger", "description": "Keeps books.", "version": "1", "url": "https://good.example",
    "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}], "xpr:account": "ledger"}"#;

const CARDS: [(&str, &str); 4] = [("1.0", V1), ("hybrid", HYBRID), ("0.3", V03), ("xpr", XPR)];

type Tamper = fn(&mut Value);

fn remove(card: &mut Value, names: &[&str]) {
    names.iter().for_each(|name| drop(card.as_object_mut().unwrap().remove(*name)));
}

fn foreign_login() -> Value {
    json!({"clientCredentials": {"tokenUrl": "https://evil.example/token", "scopes": {}}})
}

/// Changes to a card that at least one canonical form does not notice.
const TAMPERINGS: [(&str, Tamper); 16] = [
    ("address of 0.3, called 1.0", |card| {
        remove(card, &["additionalInterfaces"]);
        card["url"] = json!("https://evil.example/");
        card["protocolVersion"] = json!("1.0");
    }),
    ("address of 0.3", |card| card["url"] = json!("https://evil.example/")),
    ("address without a version", |card| {
        remove(card, &["protocolVersion"]);
        card["url"] = json!("https://evil.example/");
    }),
    ("list of addresses in snake_case", |card| {
        remove(card, &["url", "preferredTransport", "protocolVersion", "additionalInterfaces"]);
        card["supported_interfaces"] =
            json!([{"url": "https://evil.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    }),
    ("more addresses", |card| {
        card["additionalInterfaces"] = json!([{"url": "https://evil.example/", "transport": "JSONRPC"}]);
    }),
    ("more addresses in snake_case", |card| {
        remove(card, &["additionalInterfaces"]);
        card["additional_interfaces"] = json!([{"url": "https://evil.example/", "transport": "JSONRPC"}]);
    }),
    ("another binding", |card| card["preferredTransport"] = json!("EVIL")),
    ("another version", |card| card["protocolVersion"] = json!("0.2.0-evil")),
    ("schemes in snake_case", |card| {
        remove(card, &["securitySchemes"]);
        card["security_schemes"] = json!({"evil": {"oauth2SecurityScheme": {"flows": foreign_login()}}});
    }),
    ("requirements in snake_case", |card| {
        remove(card, &["securityRequirements", "security"]);
        card["security_requirements"] = json!([{"schemes": {"evil": {"list": ["all"]}}}]);
    }),
    ("requirements of 0.3", |card| card["security"] = json!([{"evil": ["all"]}])),
    ("a scheme written as in 0.3", |card| {
        card["securitySchemes"]["evil"] = json!({"type": "oauth2", "flows": foreign_login()});
    }),
    ("a scheme in snake_case", |card| {
        card["securitySchemes"]["evil"] = json!({"oauth2_security_scheme": {"flows": foreign_login()}});
    }),
    ("authentication of 0.1", |card| {
        remove(card, &["securitySchemes", "security", "securityRequirements"]);
        card["authentication"] = json!({"schemes": ["evil"]});
    }),
    ("an account of XPR", |card| card["xpr:account"] = json!("evil")),
    ("what a skill asks for", |card| card["skills"][0]["security"] = json!([{"evil": ["all"]}])),
];

/// What a client with these trusted keys reads from a card that a server returns.
async fn asked(card: &Value) -> Result<DiscoveredCard, Error> {
    let text = card.to_string();
    let stub = StubServer::start(move |_| text.clone(), |_, _| StubAction::HangUp).await;
    let client = client().trust(SignatureMode::Require, trust()).build().unwrap();
    client.card(&stub.url.parse().unwrap()).await
}

/// The harm of a change: none if the card is refused or reduced to its signed members.
fn harm(outcome: Result<DiscoveredCard, Error>, genuine: &DiscoveredCard) -> Option<&'static str> {
    match outcome {
        Err(Error::CardUntrusted { .. } | Error::CardInvalid { .. }) => None,
        Err(_) => Some("is refused for another reason"),
        Ok(found) if format!("{found:?} {}", found.source_json()).to_lowercase().contains("evil") => Some("arrives"),
        Ok(found) if found.card.supported_interfaces != genuine.card.supported_interfaces => Some("moves the agent"),
        Ok(found) if found.card.security_schemes != genuine.card.security_schemes => Some("changes the schemes"),
        Ok(_) => None,
    }
}

#[tokio::test]
async fn no_tampering_that_a_reading_overlooks_reaches_the_client() {
    let mut harmed = Vec::new();
    for (form, text) in CARDS {
        let card: Value = serde_json::from_str(text).unwrap();
        let genuine = DiscoveredCard::read(text.as_bytes(), None, "here").unwrap();
        // Each form alone, and all of them, as a signer makes them for all verifiers.
        let readings = CanonicalForm::ALL.map(|reading| vec![reading]).into_iter().chain([CanonicalForm::ALL.to_vec()]);
        for reading in readings {
            let signed = signed(card.clone(), &reading);
            for (name, tamper) in TAMPERINGS {
                let mut tampered = signed.clone();
                tamper(&mut tampered);
                if let Some(what) = harm(asked(&tampered).await, &genuine) {
                    harmed.push(format!("{form} under {reading:?}: {name} {what}"));
                }
            }
        }
    }
    assert!(harmed.is_empty(), "{harmed:#?}");
}

#[tokio::test]
async fn a_genuine_card_is_used_as_far_as_it_was_signed() {
    for (form, text) in CARDS {
        let card: Value = serde_json::from_str(text).unwrap();
        let genuine = DiscoveredCard::read(text.as_bytes(), None, "here").unwrap();
        for reading in CanonicalForm::ALL {
            let outcome = asked(&signed(card.clone(), &[reading])).await;
            // The form of the SDKs drops the members in which older cards name the agent's URL.
            if reading == CanonicalForm::Sdk && matches!(form, "0.3" | "xpr") {
                let Err(Error::CardUntrusted { reason, .. }) = outcome else { panic!("{form}: {outcome:?}") };
                assert_eq!(*reason, UntrustedReason::Uncovered("where the agent is"), "{form}");
                assert_eq!(reason.to_string(), "its signature holds, but does not cover where the agent is");
                continue;
            }
            let found = outcome.unwrap();
            assert_eq!(found.card.supported_interfaces, genuine.card.supported_interfaces, "{form}, {reading:?}");
            assert_eq!(found.card.security_schemes, genuine.card.security_schemes, "{form}, {reading:?}");
            assert_eq!(found.xpr.is_some(), form == "xpr", "{form}, {reading:?}");
            let strips = reading == CanonicalForm::Sdk;
            assert_eq!(found.card.security_requirements.is_empty(), strips || form == "xpr", "{form}, {reading:?}");
            assert_eq!(found.card.signatures.len(), 1);
            // The reduced card can be verified again by another client, with the same result.
            let again: Value = serde_json::from_str(found.source_json()).unwrap();
            assert_eq!(asked(&again).await.unwrap().card, found.card, "{form}, {reading:?}");
        }
        // A signature that covers enough is found behind one that does not.
        let both = signed(card.clone(), &[CanonicalForm::Sdk, CanonicalForm::Specification]);
        assert_eq!(asked(&both).await.unwrap().card.supported_interfaces, genuine.card.supported_interfaces, "{form}");
    }
}

/// An agent whose public card is signed, with this extended card.
async fn extended(card: Value, mode: SignatureMode) -> Result<Value, Error> {
    let capabilities = r#"{"extendedAgentCard":true}"#;
    let public = move |base: &str| {
        let card: Value = serde_json::from_str(&crate::stub::card(base, capabilities, "")).unwrap();
        signed(card, &[CanonicalForm::AsReceived]).to_string()
    };
    let stub = StubServer::start(public, move |_, heard| {
        let answer = json!({"jsonrpc": "2.0", "id": heard.json()["id"], "result": card});
        StubAction::Answer(200, "content-type: application/json\r\n".into(), answer.to_string())
    })
    .await;
    let credentials = sabir_client::Credentials { bearer: Some(sabir_client::Secret::new("t")), ..Default::default() };
    let client = client().trust(mode, trust()).credentials(credentials).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await?;
    let said = agent.extended_card().await?;
    let value = serde_json::to_value(&said.value).unwrap();
    assert!(value.to_string().contains("evil") == said.json().contains("evil"));
    Ok(value)
}

#[tokio::test]
async fn an_extended_card_is_judged_as_the_public_one_was() {
    let card: Value = serde_json::from_str(V1).unwrap();
    let good = signed(card.clone(), &[CanonicalForm::Sdk]);
    let mut cleaned = good.clone();
    cleaned["supportsAuthenticatedExtendedCard"] = json!(true);
    cleaned["documentation_url"] = json!("https://evil.example/");
    let mut moved = good.clone();
    moved["security_schemes"] = json!({"evil": {"oauth2SecurityScheme": {"flows": foreign_login()}}});
    moved.as_object_mut().unwrap().remove("securitySchemes");
    let mut altered = good.clone();
    altered["name"] = json!("evil");
    for mode in [SignatureMode::IfPresent, SignatureMode::Require] {
        assert_eq!(extended(good.clone(), mode).await.unwrap()["name"], "Ledger");
        assert!(!extended(cleaned.clone(), mode).await.unwrap().to_string().contains("evil"));
        for tampered in [&moved, &altered] {
            let error = extended(tampered.clone(), mode).await.unwrap_err();
            assert!(matches!(error, Error::CardUntrusted { .. }), "{error:?}");
        }
    }
    let unsigned = extended(card.clone(), SignatureMode::Require).await.unwrap_err();
    assert!(
        matches!(&unsigned, Error::CardUntrusted { reason, .. } if **reason == UntrustedReason::Unsigned),
        "{unsigned:?}"
    );
    extended(card, SignatureMode::IfPresent).await.unwrap();
    assert_eq!(extended(altered, SignatureMode::Off).await.unwrap()["name"], "evil");
}
