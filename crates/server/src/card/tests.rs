use super::*;
use crate::config::Config;
use crate::config::agent::AgentConfig;
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use sabir_guard::sign::SigningKey;
use serde_json::Value;

const SKILLS: &str = r#"
[[agent]]
name = "books"
kind = "echo"
default = true
[agent.card]
description = "Keeps books"
[agent.card.capabilities]
extended_card = true
[[agent.card.skills]]
id = "open"
name = "Open"
description = "For everybody"
tags = ["a"]
[[agent.card.skills]]
id = "hidden"
name = "Hidden"
description = "For some"
tags = ["a"]
public = false
[[agent.card.skills]]
id = "closed"
name = "Closed"
description = "For callers with a name"
tags = ["a"]
requires_auth = true
security_requirements = { key = [], oauth = ["books.read"] }
[[agent.card.skills]]
id = "mcp__user_ana_notes"
name = "Notes"
description = "Of one person"
tags = ["a"]
[[agent.card.skills]]
id = "mcp__org_acme_wiki"
name = "Wiki"
description = "Of one organisation"
tags = ["a"]
"#;

fn address() -> PublicAddress {
    PublicAddress { url: "https://books.example".into(), authority: "books.example:443".into(), slash: true }
}

fn agent(text: &str) -> AgentConfig {
    Config::read(text).unwrap().agent.remove(0)
}

fn face(text: &str) -> CardContent {
    let (public, skills) = build(&agent(text), &address());
    CardContent { public, skills, xpr: None, replaced_url: None }
}

fn ids(skills: &[Skill]) -> Vec<&str> {
    skills.iter().map(|skill| &*skill.id).collect()
}

/// A signer with this many keys, and one more that is retired.
fn signer(keys: usize) -> Arc<Signer> {
    let room = tempfile::tempdir().unwrap();
    let mut config = Config { base: room.path().into(), ..Config::default() };
    for number in 0..=keys {
        let (_, file) = SigningKey::generate(None).unwrap();
        std::fs::write(room.path().join(format!("{number}.pem")), file.expose()).unwrap();
        let list = if number < keys { &mut config.server.signing.keys } else { &mut config.server.signing.retired };
        list.push(format!("file:{number}.pem"));
    }
    Arc::new(Signer::open(&config, &address(), SystemTime::now()).unwrap().unwrap())
}

fn cards(signer: Option<Arc<Signer>>) -> Cards {
    Cards::new(face(SKILLS), CardRules::default(), SystemTime::now(), signer, None).unwrap()
}

async fn body(response: Response<Body>) -> Value {
    use http_body_util::BodyExt as _;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn everybody_sees_what_is_for_everybody() {
    let face = face(SKILLS);
    assert_eq!(ids(&face.public.skills), ["open"]);
    assert_eq!(face.public.capabilities.extended_agent_card, Some(true));
    let nothing = SKILLS.replacen("tags = [\"a\"]", "tags = [\"a\"]\npublic = false", 1);
    assert_eq!(ids(&self::face(&nothing).public.skills), ["books"], "what is left to say is what the agent is");
}

#[test]
fn a_caller_sees_what_that_caller_may_use() {
    let cards = cards(None);
    let all = cards.extended(|_| true);
    assert_eq!(ids(&all.skills), ["open", "hidden", "closed", "mcp__user_ana_notes", "mcp__org_acme_wiki"]);
    let needs = &all.skills[2].security_requirements;
    assert_eq!((needs.len(), &*needs[0].schemes["oauth"].list), (1, &["books.read".to_owned()][..]));
    let some = cards.extended(|id| id == "open" || id == "closed");
    assert_eq!(ids(&some.skills), ["open", "closed"]);
}

#[tokio::test]
async fn every_form_is_signed_by_every_key() {
    let cards = cards(Some(signer(2)));
    for (asked, version, readings) in
        [(WellKnown::AgentCard, Some("1.0"), 1), (WellKnown::AgentCard, None, 3), (WellKnown::Agent, None, 2)]
    {
        let card = body(cards.respond(asked, &HeaderMap::new(), version)).await;
        let signatures = card["signatures"].as_array().unwrap();
        assert_eq!(signatures.len(), 2 * readings, "{version:?}");
    }
    let extended = cards.extended(|_| true);
    // Skills that need a key without scopes make two readings of 1.0; 0.3 adds two more, because that of 1.x would lose
    // the agent's address.
    assert_eq!(extended.signatures.len(), 2 * 4);
    assert!(cards.extended(|_| false).signatures.is_empty(), "without skills there is nothing to sign");
}

#[tokio::test]
async fn a_signed_card_says_where_the_keys_are_and_which_domain_signed() {
    use base64::Engine as _;
    let signed = cards(Some(signer(1)));
    for (asked, version, says_where) in [
        (WellKnown::AgentCard, None, true),
        (WellKnown::AgentCard, Some("1.0"), false),
        (WellKnown::Agent, None, true),
        (WellKnown::Agent, Some("0.3"), true),
        (WellKnown::Agent, Some("0.1"), true),
    ] {
        let card = body(signed.respond(asked, &HeaderMap::new(), version)).await;
        let keys = "https://books.example/.well-known/jwks.json";
        // The pure card of 1.0 has no such member: validators refuse it.
        assert_eq!(card.get("jwks_uri"), says_where.then(|| Value::from(keys)).as_ref(), "{version:?}");
        let protected = card["signatures"][0]["protected"].as_str().unwrap();
        let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(protected).unwrap();
        let header: Value = serde_json::from_slice(&header).unwrap();
        assert_eq!((&header["iss"], &header["jku"]), (&Value::from("books.example"), &Value::from(keys)));
    }
    let plain = body(cards(None).respond(WellKnown::AgentCard, &HeaderMap::new(), None)).await;
    assert!(plain.get("jwks_uri").is_none(), "without keys there is nothing to fetch");
}

#[tokio::test]
async fn in_production_the_card_of_agent_native_says_that_tokens_are_taken() {
    for (production, named) in [(true, "jwtBearer"), (false, "")] {
        let rules = CardRules { production, legacy: Some(crate::config::LegacyForm::Native), ..CardRules::default() };
        let cards = Cards::new(face(SKILLS), rules, SystemTime::now(), None, None).unwrap();
        let card = body(cards.respond(WellKnown::AgentCard, &HeaderMap::new(), None)).await;
        let schemes = card["securitySchemes"].as_object().map(|s| s.keys().cloned().collect::<Vec<_>>());
        assert_eq!(schemes.unwrap_or_default().join(" "), named, "{card}");
    }
}

#[tokio::test]
async fn a_restart_is_no_news_and_another_key_is() {
    let signer = signer(1);
    let tag = |cards: &Cards| cards.respond(WellKnown::Agent, &HeaderMap::new(), None).headers()[ETAG].clone();
    let (first, again) = (cards(Some(signer.clone())), cards(Some(signer)));
    assert_eq!(tag(&first), tag(&again));
    assert!(tag(&first).to_str().unwrap().starts_with("W/\""));
    let mut request = HeaderMap::new();
    request.insert(IF_NONE_MATCH, tag(&first));
    assert_eq!(again.respond(WellKnown::Agent, &request, None).status(), 304);
    request.insert(IF_NONE_MATCH, HeaderValue::from_static("W/\"other\""));
    assert_eq!(again.respond(WellKnown::Agent, &request, None).status(), 200);
    assert_ne!(tag(&first), tag(&cards(Some(self::signer(1)))), "somebody else vouches for it now");
    assert!(tag(&cards(None)).to_str().unwrap().starts_with('"'), "without signatures every byte counts");
}

#[tokio::test]
async fn the_key_set_has_every_key_and_no_private_half() {
    let signer = signer(2);
    let set = body(signer.key_set().respond(&HeaderMap::new(), None)).await;
    let keys = set["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| key.get("d").is_none() && key["use"] == "sig"));
}

#[test]
fn what_is_wrong_with_a_key_is_said_with_its_place() {
    let room = tempfile::tempdir().unwrap();
    std::fs::write(room.path().join("bad.pem"), "hunter2").unwrap();
    let open = |keys: &[&str]| {
        let mut config = Config { base: room.path().into(), ..Config::default() };
        config.server.signing.keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Signer::open(&config, &address(), SystemTime::now()).unwrap_err()
    };
    for (key, words) in [
        ("file:none.pem", "none.pem: No such file"),
        ("file:bad.pem", "bad.pem: the key is neither PEM nor JWK"),
        ("env:SABIR_TEST_NO_SUCH_KEY", "SABIR_TEST_NO_SUCH_KEY is not set"),
        ("hunter2", "file:PATH or env:NAME"),
    ] {
        let said = open(&[key]);
        assert!(said.starts_with("server.signing.keys: ") && said.contains(words), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let (_, file) = SigningKey::generate(None).unwrap();
    std::fs::write(room.path().join("good.pem"), file.expose()).unwrap();
    assert!(open(&["file:good.pem", "file:good.pem"]).contains("the same key"));
}
