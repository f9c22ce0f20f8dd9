mod network;

use super::*;
use crate::authenticator::Authenticator;
use crate::authenticator::{AuthMode, DeploymentFacts};
use crate::authn::basic::Channel;
use crate::config::AuthConfig;
use crate::fetch::FetchFault;
use crate::fetch::fakes::{FakeFetch, answer};
use crate::policy::RulesId;
use crate::policy::rate::{RateLimit, RateLimits};
use crate::policy::scope::SkillRule;
use http::{HeaderMap, HeaderName, HeaderValue};
use sabir_proto::card::{AgentCard, SecurityRequirement, StringList};
use sabir_proto::{
    AgentName, CancelTask, GetTask, Message, MessageId, Object, Role, Secret, SendConfiguration, SendMessage, Tenant,
    ToolMode,
};
use sabir_store::{AuditActor, AuditOutcome, GuardStore, KeyFingerprint, KeyId, KeyTerms, SecretRef, guard_in_memory};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Resolves every reference to its own name, so that tests can see which was asked for.
struct NamedSecrets;

impl SecretResolver for NamedSecrets {
    fn resolve(&self, reference: &SecretRef) -> Result<Secret, String> {
        match reference {
            SecretRef::Env(name) if name == "GONE" => Err("the variable GONE is not set".into()),
            SecretRef::Env(name) => Ok(Secret::new(format!("secret of {name}"))),
            SecretRef::File(_) => Err("no files here".into()),
        }
    }
}

type Fake = Arc<FakeFetch>;

struct TestGuard {
    guard: Guard,
    store: Arc<dyn GuardStore>,
    rules: Rules<Fake>,
    fetch: Fake,
}

const NOW_MS: i64 = 1_700_000_000_000;

fn now() -> Timestamp {
    Timestamp::from_millis(NOW_MS)
}

impl TestGuard {
    fn new(auth: &str) -> Self {
        Self::on(auth, &DeploymentFacts { client_certificates: true, tls: true, ..DeploymentFacts::default() })
    }

    fn on(auth: &str, ground: &DeploymentFacts) -> Self {
        let config: AuthConfig = toml::from_str(auth).unwrap();
        let fetch = FakeFetch::new(|_| Err(FetchFault::Timeout));
        let entrance = Arc::new(Authenticator::new(&config, ground, &NamedSecrets, &fetch).unwrap());
        let store = guard_in_memory();
        let skills =
            vec![SkillRule { id: "only".into(), requirements: Vec::new(), needs_identity: false, intent: None }];
        let agent = AgentName::parse("echo").unwrap();
        let rules = Rules {
            id: RulesId::next(),
            authenticator: entrance,
            agent,
            limits: RateLimits::default(),
            skills,
            tools: ToolMode::Full,
        };
        let guard = Guard::new(store.clone(), Arc::new(NamedSecrets), Metrics::default());
        Self { guard, store, rules, fetch }
    }

    async fn key(&self, id: &str, terms: KeyTerms) -> String {
        let text = format!("sabir_{:0>32}", sabir_proto::digest::hex(id.as_bytes()));
        let by = AuditActor { caller: Caller::named("test"), scheme: "test", at: now() };
        self.store.create(KeyId::parse(id).unwrap(), KeyFingerprint::of(&text), terms, by).await.unwrap();
        text
    }

    async fn admit(&self, headers: &[(&str, &str)]) -> Result<Admitted, Refusal> {
        let headers = map(headers);
        self.guard.admit(&self.rules, &evidence(&headers, b"{}")).await
    }

    /// The caller that is admitted with these headers, or the reason of the refusal.
    async fn who(&self, headers: &[(&str, &str)]) -> String {
        match self.admit(headers).await {
            Ok(admitted) => admitted.identity().caller().name().to_owned(),
            Err(refusal) => format!("! {}", refusal.reason),
        }
    }

    /// The result of a call.
    async fn call(&self, headers: &[(&str, &str)], call: Call) -> String {
        let refused = |refusal: Refusal| format!("! {}", refusal.reason);
        let admitted = match self.admit(headers).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refused(refusal),
        };
        let cleared = match self.guard.clear(&self.rules, admitted, &call, now()).await {
            Ok(cleared) => cleared,
            Err(refusal) => return refused(refusal),
        };
        match self.guard.permit(&self.rules, cleared, call, now()).await {
            Ok(permit) => format!("{} by {}", permit.call().operation(), permit.caller().name()),
            Err(refusal) => refused(refusal),
        }
    }
}

fn map(headers: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

fn evidence<'a>(headers: &'a HeaderMap, body: &'a [u8]) -> RequestEvidence<'a> {
    RequestEvidence {
        headers,
        body: Some(body),
        channel: Channel::Plain,
        certificate: None,
        address: Some([192, 0, 2, 7].into()),
        host: Some("agents.example"),
        now: now(),
    }
}

fn send(metadata: Option<&Value>) -> Call {
    let mut message = Message::text(MessageId::parse("m").unwrap(), Role::User, "hello");
    message.metadata = metadata.map(|value| Object::from_map(value.as_object().unwrap()).unwrap());
    Call::Send(Box::new(SendMessage {
        tenant: Tenant::none(),
        message,
        configuration: SendConfiguration::default(),
        metadata: None,
        alias: None,
        wants_task: false,
    }))
}

fn get() -> Call {
    let id = TaskRef::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
    Call::Get(GetTask { tenant: Tenant::none(), id, history_length: None })
}

fn cancel() -> Call {
    let id = TaskRef::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
    Call::Cancel(CancelTask { tenant: Tenant::none(), id, metadata: None })
}

fn bearer(token: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {token}"))]
}

fn as_str<'a>(headers: &'a [(&'static str, String); 1]) -> [(&'static str, &'a str); 1] {
    [(headers[0].0, &headers[0].1)]
}

#[tokio::test]
async fn an_open_door_looks_at_nothing_and_a_closed_one_opens_for_nobody() {
    let open = TestGuard::new("");
    assert_eq!(open.who(&[]).await, "anonymous");
    assert_eq!(open.who(&[("authorization", "Bearer whatever")]).await, "anonymous");
    let ground = DeploymentFacts { production: true, ..DeploymentFacts::default() };
    let closed = TestGuard::on("open = true", &ground);
    let refusal = closed.admit(&[]).await.unwrap_err();
    assert_eq!(refusal.reason, "not_configured");
    assert!(refusal.fault.to_string().starts_with("A2A authentication not configured."), "{}", refusal.fault);
    assert!(matches!(refusal.fault, sabir_proto::Fault::AuthUnavailable { retry_after: None, .. }));
}

#[tokio::test]
async fn keys_come_in_either_header_and_stop_when_they_are_revoked() {
    let test_guard = TestGuard::new("accept = [\"api_key\"]");
    let key = test_guard.key("k1", KeyTerms::default()).await;
    assert_eq!(test_guard.who(&as_str(&bearer(&key))).await, "key:k1");
    assert_eq!(test_guard.who(&[("x-api-key", &key)]).await, "key:k1");
    assert_eq!(test_guard.who(&[]).await, "! missing");
    let other = key.replace("sabir_0", "sabir_1");
    assert_eq!(test_guard.who(&[("x-api-key", &other)]).await, "! key_unknown");
    assert_eq!(test_guard.who(&[("x-api-key", "nonsense")]).await, "! key_unknown");
    assert_eq!(test_guard.who(&as_str(&bearer("nonsense"))).await, "! token_unknown");
    let by = AuditActor { caller: Caller::named("test"), scheme: "test", at: now() };
    test_guard.store.revoke(KeyId::parse("k1").unwrap(), by).await.unwrap();
    assert_eq!(test_guard.who(&[("x-api-key", &key)]).await, "! key_revoked");
    let fault = |refusal: Refusal| refusal.fault.to_string();
    let (revoked, unknown) =
        (test_guard.admit(&[("x-api-key", &key)]).await, test_guard.admit(&[("x-api-key", &other)]).await);
    assert_eq!(fault(revoked.unwrap_err()), fault(unknown.unwrap_err()), "the caller cannot tell them apart");
}

#[tokio::test]
async fn bad_credentials_are_refused_even_where_none_are_needed() {
    let test_guard = TestGuard::new("required = false\naccept = [\"api_key\"]");
    assert_eq!(test_guard.who(&[]).await, "anonymous");
    assert_eq!(test_guard.who(&[("x-xpr-account", "alice")]).await, "anonymous", "a claim is not a credential");
    for bad in ["Bearer x", "Basic YTpi", "Digest x"] {
        assert!(test_guard.who(&[("authorization", bad)]).await.starts_with('!'), "{bad}");
    }
    assert_eq!(test_guard.who(&[("x-xpr-signature", "SIG_K1_x")]).await, "! xpr_not_taken");
}

#[tokio::test]
async fn the_static_token_and_tokens_under_a_secret_stand_beside_each_other() {
    let test_guard = TestGuard::new("[jwt]\nsecret = \"env:SHARED\"\n[legacy_key]\nenv = \"OLD\"");
    assert_eq!(test_guard.who(&as_str(&bearer("secret of OLD"))).await, "legacy:key");
    assert_eq!(test_guard.who(&as_str(&bearer("secret of SHARED"))).await, "! legacy_wrong");
    // Under another secret, so it is a token with a wrong signature rather than a wrong key.
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmFAZXhhbXBsZS5jb20ifQ.AAAA";
    assert_eq!(test_guard.who(&as_str(&bearer(token))).await, "! token_signature");
}

#[tokio::test]
async fn a_door_that_cannot_work_is_found_at_the_start() {
    let wrong = |auth: &str| {
        let config: AuthConfig = toml::from_str(auth).unwrap();
        let fetch = FakeFetch::new(|_| Err(FetchFault::Timeout));
        Authenticator::new(&config, &DeploymentFacts::default(), &NamedSecrets, &fetch).err().unwrap_or_default()
    };
    for (auth, said) in [
        ("accept = [\"jwt\"]", "[auth.jwt]"),
        ("accept = [\"xpr\"]", "rpc_url"),
        ("accept = [\"mtls\"]", "client_ca"),
        ("accept = [\"basic\"]", "over TLS"),
        ("required = true", "accept"),
        ("required = false", "accept"),
        ("accept = [\"legacy_key\"]", "[auth.legacy_key]"),
        ("accept = [\"api_key\", \"api_key\"]", "twice"),
        ("[legacy_key]\nenv = \"GONE\"", "GONE is not set"),
        ("[jwt]\nsecret = \"hunter2hunter2\"", "env:NAME"),
        ("[jwt]\nissuer = \"https://issuer.example\"", "audience"),
        ("[jwt]\nissuer = \"https://i.example\"\naudience = \"a\"\nalgorithms = [\"HS256\"]", "HS256"),
        ("[xpr]\nrpc_url = \"ftp://x\"", "http or https"),
        ("[xpr]\nrpc_url = \"http://127.0.0.1\"\nmin_kyc = 4", "0 to 3"),
        ("[xpr]\nrpc_url = \"http://127.0.0.1\"\ngate = \"runner\"\nmin_trust = 41", "40"),
    ] {
        let problem = wrong(auth);
        assert!(problem.contains(said) && !problem.contains("hunter2"), "{auth}: {problem:?}");
    }
}

#[tokio::test]
async fn scopes_limit_agents_operations_and_skills() {
    let test_guard = TestGuard::new("accept = [\"api_key\"]");
    let terms = |scopes: &[&str]| KeyTerms {
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        ..KeyTerms::default()
    };
    let skill = json!({"skillId": "refund"});
    let cases: [(&str, &[&str], [&str; 4]); 9] = [
        // (id, scopes, [send, send with a skill, get, cancel])
        ("all", &[], ["", "", "", ""]),
        ("full", &["full"], ["", "", "", ""]),
        ("read", &["read"], ["! scope_operation", "! scope_operation", "", "! scope_operation"]),
        ("sends", &["send", "cancel"], ["", "", "! scope_operation", ""]),
        ("here", &["agent:echo"], ["", "", "", ""]),
        ("there", &["agent:other", "full"], ["! scope_agent"; 4]),
        ("only", &["skill:only"], ["", "! scope_skill", "", ""]),
        ("refund", &["skill:refund"], ["! scope_skill", "! scope_skill", "", ""]),
        ("query", &["query"], ["! scope_operation", "! scope_operation", "", "! scope_operation"]),
    ];
    for (id, scopes, expected) in cases {
        let key = test_guard.key(id, terms(scopes)).await;
        let calls = [send(None), send(Some(&skill)), get(), cancel()];
        for (call, expected) in calls.into_iter().zip(expected) {
            let operation = call.operation();
            let allowed = format!("{operation} by key:{id}");
            let expected = if expected.is_empty() { &*allowed } else { expected };
            assert_eq!(test_guard.call(&[("x-api-key", &key)], call).await, expected, "{id} {operation}");
        }
    }
    let tied = KeyTerms { agents: vec!["other".into()], ..KeyTerms::default() };
    let key = test_guard.key("tied", tied).await;
    assert_eq!(test_guard.call(&[("x-api-key", &key)], get()).await, "! scope_agent");
}

#[tokio::test]
async fn silence_about_the_skill_does_not_widen_rights() {
    let mut test_guard = TestGuard::new("accept = [\"api_key\"]");
    test_guard.rules.skills.push(SkillRule {
        id: "second".into(),
        requirements: Vec::new(),
        needs_identity: false,
        intent: None,
    });
    let terms = KeyTerms { scopes: vec!["skill:only".into()], ..KeyTerms::default() };
    let key = test_guard.key("k", terms).await;
    assert_eq!(test_guard.call(&[("x-api-key", &key)], send(None)).await, "! scope_skill");
    let named = json!({"urn:sabir:ext:skill:v1": "only"});
    assert_eq!(test_guard.call(&[("x-api-key", &key)], send(Some(&named))).await, "SendMessage by key:k");
}

#[tokio::test]
async fn a_skill_may_ask_for_more_than_its_agent() {
    let mut test_guard = TestGuard::new("required = false\naccept = [\"api_key\"]");
    let needs = SecurityRequirement {
        schemes: BTreeMap::from([("api_key".to_owned(), StringList { list: vec!["send".into()] })]),
    };
    test_guard.rules.skills = vec![
        SkillRule { id: "free".into(), requirements: Vec::new(), needs_identity: false, intent: None },
        SkillRule { id: "dear".into(), requirements: vec![needs], needs_identity: false, intent: None },
    ];
    let (free, dear) = (json!({"skillId": "free"}), json!({"skillId": "dear"}));
    assert_eq!(test_guard.call(&[], send(Some(&free))).await, "SendMessage by anonymous");
    assert_eq!(test_guard.call(&[], send(Some(&dear))).await, "! skill_requirement");
    assert_eq!(test_guard.call(&[], send(None)).await, "! skill_requirement", "it may end in any of them");
    let scoped = test_guard.key("scoped", KeyTerms { scopes: vec!["send".into()], ..KeyTerms::default() }).await;
    let bare = test_guard.key("bare", KeyTerms::default()).await;
    assert_eq!(test_guard.call(&[("x-api-key", &scoped)], send(Some(&dear))).await, "SendMessage by key:scoped");
    assert_eq!(test_guard.call(&[("x-api-key", &bare)], send(Some(&dear))).await, "! skill_requirement");
}

#[tokio::test]
async fn a_name_that_is_no_skill_leads_past_nothing_and_some_skills_are_for_known_callers() {
    let mut test_guard = TestGuard::new("required = false\naccept = [\"api_key\"]");
    test_guard.rules.skills = vec![
        SkillRule { id: "hello".into(), requirements: Vec::new(), needs_identity: false, intent: None },
        SkillRule { id: "mine".into(), requirements: Vec::new(), needs_identity: true, intent: None },
    ];
    let key = test_guard.key("k", KeyTerms::default()).await;
    for (skill, anonymous) in [("hello", "SendMessage by anonymous"), ("mine", "! skill_requirement")] {
        let metadata = json!({"skillId": skill});
        assert_eq!(test_guard.call(&[], send(Some(&metadata))).await, anonymous);
        assert_eq!(test_guard.call(&[("x-api-key", &key)], send(Some(&metadata))).await, "SendMessage by key:k");
    }
    for no_skill in ["mine ", "x", ""] {
        assert_eq!(
            test_guard.call(&[], send(Some(&json!({"skillId": no_skill})))).await,
            "! skill_requirement",
            "{no_skill:?}"
        );
    }
}

#[tokio::test]
async fn callers_without_a_name_find_what_they_were_told_and_list_nothing() {
    let test_guard = TestGuard::new("required = false\naccept = [\"api_key\"]");
    let list = || Call::List(sabir_proto::ListTasks::default());
    assert_eq!(test_guard.call(&[], get()).await, "GetTask by anonymous");
    assert_eq!(test_guard.call(&[], list()).await, "! list_anonymous");
    let key = test_guard.key("k", KeyTerms::default()).await;
    assert_eq!(test_guard.call(&[("x-api-key", &key)], list()).await, "ListTasks by key:k");
    assert_eq!(TestGuard::new("").call(&[], list()).await, "ListTasks by anonymous", "an open door has one caller");
    let reachable = TestGuard::on("open = true", &DeploymentFacts { reachable: true, ..DeploymentFacts::default() });
    assert_eq!(reachable.call(&[], list()).await, "! list_anonymous", "where others reach it, it has many");
    assert_eq!(reachable.call(&[], get()).await, "GetTask by anonymous");
    assert_eq!(reachable.call(&[], cancel()).await, "CancelTask by anonymous");
}

#[tokio::test]
async fn names_that_can_be_guessed_are_kept_for_known_callers_and_for_the_one_person_at_this_machine() {
    let reachable = DeploymentFacts { reachable: true, ..DeploymentFacts::default() };
    let keeps = async |test_guard: &TestGuard, headers: &[(&str, &str)]| {
        let admitted = test_guard.admit(headers).await.unwrap();
        let cleared = test_guard.guard.clear(&test_guard.rules, admitted, &get(), now()).await.unwrap();
        test_guard.guard.permit(&test_guard.rules, cleared, get(), now()).await.unwrap().keeps_guessable_names()
    };
    assert!(keeps(&TestGuard::new(""), &[]).await);
    assert!(!keeps(&TestGuard::on("open = true", &reachable), &[]).await);
    for ground in [&reachable, &DeploymentFacts::default()] {
        let test_guard = TestGuard::on("required = false\naccept = [\"api_key\"]", ground);
        let key = test_guard.key("k", KeyTerms::default()).await;
        assert!(!keeps(&test_guard, &[]).await, "beside callers who are known there may be any number of others");
        assert!(keeps(&test_guard, &[("x-api-key", &key)]).await);
    }
}

#[tokio::test]
async fn who_guesses_a_password_keeps_nobody_out_who_has_a_key_or_a_token() {
    let test_guard = TestGuard::new(
        "accept = [\"jwt\", \"legacy_key\", \"api_key\"]\n[jwt]\nsecret = \"env:S\"\n[legacy_key]\nenv = \"OLD\"",
    );
    let key = test_guard.key("k", KeyTerms::default()).await;
    for number in 0..30 {
        assert_eq!(test_guard.who(&as_str(&bearer(&format!("guess{number}")))).await, "! legacy_wrong");
    }
    assert_eq!(test_guard.who(&as_str(&bearer("secret of OLD"))).await, "! rate_guesses");
    assert_eq!(test_guard.who(&as_str(&bearer(&key))).await, "key:k");
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmFAZXhhbXBsZS5jb20ifQ.AAAA";
    assert_eq!(test_guard.who(&as_str(&bearer(token))).await, "! token_signature", "judged by its signature");
}

#[tokio::test]
async fn the_most_particular_limit_counts() {
    let mut test_guard = TestGuard::new("required = false\naccept = [\"api_key\"]");
    let pace = |per_minute, per_day| RateLimit { per_minute, per_day };
    test_guard.rules.limits = RateLimits {
        default_per_minute: 3,
        anonymous_per_minute: 1,
        tiers: Arc::new([("free".to_owned(), pace(Some(0), Some(2)))].into()),
        callers: Arc::new([("key:vip".to_owned(), pace(Some(5), Some(0)))].into()),
    };
    let tier = KeyTerms { tier: Some("free".into()), ..KeyTerms::default() };
    let plain = test_guard.key("plain", KeyTerms::default()).await;
    let free = test_guard.key("free", tier.clone()).await;
    let vip = test_guard.key("vip", tier).await;
    for (headers, most, reason) in [
        (vec![], 1, "! rate_minute"),
        (vec![("x-api-key", &*plain)], 3, "! rate_minute"),
        (vec![("x-api-key", &*free)], 2, "! rate_day"),
        (vec![("x-api-key", &*vip)], 5, "! rate_minute"),
    ] {
        for _ in 0..most {
            assert!(!test_guard.who(&headers).await.starts_with('!'), "{headers:?}");
        }
        assert_eq!(test_guard.who(&headers).await, reason, "{headers:?}");
    }
    let refusal = test_guard.admit(&[("x-api-key", &free)]).await.unwrap_err();
    assert_eq!(refusal.fault.retry_after(), Some(86_400 - 1_700_000_000 % 86_400), "until midnight UTC");
}

/// A signed request of the vectors, and a chain that knows its account.
fn signed() -> (Value, Vec<(&'static str, String)>) {
    let vectors: Value = serde_json::from_str(include_str!("../../tests/vectors/xpr-k1.json")).unwrap();
    let one = vectors["valid"][0].clone();
    let text = |name: &str| match &one[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let headers = vec![
        ("x-xpr-account", text("account")),
        ("x-xpr-timestamp", text("timestamp")),
        ("x-xpr-signature", text("signature")),
    ];
    (one, headers)
}

struct TestSignedRequest {
    test_guard: TestGuard,
    vector: Value,
    headers: HeaderMap,
    now: Timestamp,
}

impl TestSignedRequest {
    fn new(auth: &str, agent: Value) -> Self {
        let (vector, headers) = signed();
        let test_guard = TestGuard::new(&format!("[xpr]\nrpc_url = \"http://127.0.0.1:8888\"\n{auth}"));
        let (account, key) = (vector["account"].clone(), vector["public_key_k1"].clone());
        test_guard.fetch.respond_with(move |request| match request.url.path() {
            "/v1/chain/get_account" => {
                let auth = json!({"threshold": 1, "keys": [{"key": key, "weight": 1}]});
                let permissions = json!([{"perm_name": "active", "required_auth": auth}]);
                answer(200, json!({"account_name": account, "permissions": permissions}).to_string())
            }
            _ => answer(200, json!({"rows": agent.as_array().unwrap()}).to_string()),
        });
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        let now = Timestamp::from_millis(vector["server_now"].as_i64().unwrap() * 1000);
        Self { test_guard, headers: map(&headers), now, vector }
    }

    async fn call(&self, call: Call) -> String {
        let body = self.vector["body_utf8"].as_str().unwrap().as_bytes().to_vec();
        let evidence = RequestEvidence { now: self.now, ..evidence(&self.headers, &body) };
        let guard = &self.test_guard.guard;
        let outcome = async {
            let admitted = guard.admit(&self.test_guard.rules, &evidence).await?;
            let cleared = guard.clear(&self.test_guard.rules, admitted, &call, self.now).await?;
            guard.permit(&self.test_guard.rules, cleared, call, self.now).await
        };
        match outcome.await {
            Ok(permit) => format!("by {}", permit.caller().name()),
            Err(refusal) => format!("! {}", refusal.reason),
        }
    }
}

#[tokio::test]
async fn a_signed_request_has_one_effect_and_may_be_read_often() {
    let signed = TestSignedRequest::new("registration = false", json!([]));
    let by = format!("by xpr:{}", signed.vector["account"].as_str().unwrap());
    assert_eq!(signed.call(get()).await, by);
    assert_eq!(signed.call(get()).await, by);
    assert_eq!(signed.call(send(None)).await, by);
    assert_eq!(signed.call(send(None)).await, "! replayed");
    assert_eq!(signed.call(cancel()).await, "! replayed");
    assert_eq!(signed.call(get()).await, by, "reads go on");
}

#[tokio::test]
async fn accounts_are_registered_active_and_trusted_enough() {
    let account = signed().0["account"].clone();
    let row = |active: i32| json!([{"account": account, "active": active, "registered_at": 1}]);
    assert_eq!(TestSignedRequest::new("", json!([])).call(get()).await, "! trust_registration");
    assert_eq!(TestSignedRequest::new("", row(0)).call(get()).await, "! trust_inactive");
    assert!(TestSignedRequest::new("", row(1)).call(get()).await.starts_with("by xpr:"));
    assert_eq!(TestSignedRequest::new("min_kyc = 1", row(1)).call(get()).await, "! trust_kyc");
    assert_eq!(TestSignedRequest::new("min_trust = 90", row(1)).call(get()).await, "! trust_score");
    // A refused request has had no effect, so it may be sent again once the account is in order.
    let signed = TestSignedRequest::new("min_kyc = 1", row(1));
    assert_eq!(signed.call(send(None)).await, "! trust_kyc");
    assert_eq!(signed.call(send(None)).await, "! trust_kyc");
}

#[tokio::test]
async fn a_chain_that_is_away_closes_the_door_for_accounts_and_for_nobody_else() {
    let signed = TestSignedRequest::new("", json!([]));
    signed.test_guard.fetch.respond_with(|_| Err(FetchFault::Timeout));
    assert_eq!(signed.call(get()).await, "! chain_unavailable");
}

#[tokio::test]
async fn every_refusal_is_in_the_audit_and_no_secret_is() {
    let test_guard = TestGuard::new("accept = [\"api_key\"]");
    let key = test_guard.key("reader", KeyTerms { scopes: vec!["read".into()], ..KeyTerms::default() }).await;
    let stranger = "sabir_ffffffffffffffffffffffffffffffff";
    assert_eq!(test_guard.who(&[("x-api-key", stranger)]).await, "! key_unknown");
    assert_eq!(
        test_guard.call(&[("x-api-key", &key)], send(Some(&json!({"xpr:jobId": 42})))).await,
        "! scope_operation"
    );
    test_guard.store.flush().await.unwrap();
    let entries = test_guard.store.entries(0, 100).await.unwrap();
    let refused: Vec<_> =
        entries.iter().map(|one| &one.entry).filter(|one| one.outcome == AuditOutcome::Refused).collect();
    let told: Vec<_> = refused.iter().map(|one| (&*one.caller, &*one.scheme, &*one.operation, &*one.reason)).collect();
    let expected = [
        ("stranger@192.0.2.7", "key", "knock", "key_unknown"),
        ("key:reader", "key", "SendMessage", "scope_operation"),
    ];
    assert_eq!(told, expected);
    assert_eq!((refused[1].agent.as_deref(), refused[1].job.as_deref()), (Some("echo"), Some("42")));
    let all = format!("{entries:?}");
    assert!(!all.contains(stranger) && !all.contains(&key), "{all}");
}

#[tokio::test]
async fn a_decision_explains_itself() {
    let test_guard = TestGuard::new("accept = [\"api_key\"]");
    test_guard.key("reader", KeyTerms { scopes: vec!["read".into()], ..KeyTerms::default() }).await;
    let ask = |caller: &str, action| AccessQuestion { caller: caller.into(), scopes: Vec::new(), action, skill: None };
    let explain = async |caller: &str, action| {
        let explained = test_guard.guard.explain(&test_guard.rules, &ask(caller, action), now()).await.unwrap();
        let rules: Vec<(&str, bool)> = explained.decisions.iter().map(|line| (line.rule, line.passed)).collect();
        (explained.allowed(), rules)
    };
    let allowed = vec![("credential", true), ("rate", true), ("scope", true), ("tools", true)];
    assert_eq!(explain("key:reader", Action::Read).await, (true, allowed));
    let refused = vec![("credential", true), ("rate", true), ("scope", false)];
    assert_eq!(explain("key:reader", Action::Send).await, (false, refused));
    assert_eq!(explain("anonymous", Action::Read).await, (false, vec![("credential", false)]));
    assert_eq!(explain("basic:ana", Action::Read).await, (false, vec![("credential", false)]));
    let issued = TestGuard::new("[jwt]\nissuer = \"https://i.example\"\naudience = \"a\"\nscopes = [\"x\"]");
    let ask_issued = async |caller: &str, scopes: &[&str]| {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let question = AccessQuestion { caller: caller.into(), scopes, action: Action::Read, skill: None };
        issued.guard.explain(&issued.rules, &question, now()).await.unwrap().allowed()
    };
    assert!(ask_issued("jwt:https://i.example#ana", &["x"]).await);
    assert!(!ask_issued("jwt:https://i.example#ana", &[]).await, "a scope that every token must have");
    assert!(!ask_issued("jwt:https://other.example#ana", &["x"]).await, "another issuer");
    assert!(!ask_issued("native:user:ana@example.com", &[]).await, "only an issuer's tokens are taken");
    assert!(test_guard.guard.explain(&test_guard.rules, &ask("key:nobody", Action::Read), now()).await.is_err());
    assert!(test_guard.guard.explain(&test_guard.rules, &ask("nobody", Action::Read), now()).await.is_err());
    test_guard.store.flush().await.unwrap();
    let refusals = test_guard.store.entries(0, 10).await.unwrap();
    assert!(refusals.iter().all(|one| one.entry.outcome != AuditOutcome::Refused), "nobody was turned away");
}

#[test]
fn the_card_says_what_the_door_enforces() {
    let card = |auth: &str| {
        let test_guard = TestGuard::new(auth);
        let mut card: AgentCard = serde_json::from_value(json!({
            "name": "n", "description": "d", "version": "1", "supportedInterfaces": [], "capabilities": {},
            "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
        }))
        .unwrap();
        test_guard.rules.authenticator.describe_in_card(&mut card, &[]).unwrap();
        let card = serde_json::to_value(&card).unwrap();
        (test_guard.rules.authenticator.mode(), card["securitySchemes"].clone(), card["securityRequirements"].clone())
    };
    let (posture, schemes, requirements) = card("");
    assert_eq!((posture, schemes, requirements), (AuthMode::Open, Value::Null, Value::Null));
    let (_, schemes, requirements) = card("accept = [\"api_key\", \"mtls\"]");
    assert_eq!(schemes["api_key"]["apiKeySecurityScheme"]["name"], "X-API-Key");
    assert!(schemes["mtls"]["mtlsSecurityScheme"].is_object());
    assert_eq!(requirements, json!([{"schemes": {"api_key": {}}}, {"schemes": {"mtls": {}}}]), "alternatives");
    let (_, schemes, requirements) = card(
        "required = false\n[jwt]\nsecret = \"env:S\"\nissuer = \"https://i.example\"\naudience = \"a\"\nscopes = [\"x\"]",
    );
    assert_eq!(schemes["jwt"]["httpAuthSecurityScheme"]["bearerFormat"], "JWT");
    let discovery = "https://i.example/.well-known/openid-configuration";
    assert_eq!(schemes["oidc"]["openIdConnectSecurityScheme"]["openIdConnectUrl"], discovery);
    let expected = json!([{"schemes": {"jwt": {}}}, {"schemes": {"oidc": {"list": ["x"]}}}, {"schemes": {}}]);
    assert_eq!(requirements, expected, "the last says that none is needed");
    let (_, schemes, _) = card(
        "[jwt]\nissuer = \"https://i.example\"\naudience = \"a\"\n[jwt.oauth]\ntoken_url = \"https://i.example/token\"",
    );
    assert!(schemes["jwt"]["oauth2SecurityScheme"]["flows"]["clientCredentials"].is_object(), "{schemes}");
}

#[test]
fn a_skill_cannot_ask_for_what_the_door_does_not_take() {
    let test_guard = TestGuard::new("accept = [\"api_key\"]");
    let check = |schemes: Value| {
        let mut card: AgentCard = serde_json::from_value(json!({
            "name": "n", "description": "d", "version": "1", "supportedInterfaces": [], "capabilities": {},
            "defaultInputModes": [], "defaultOutputModes": [],
            "skills": [{"id": "s", "name": "s", "description": "s", "tags": [],
                        "securityRequirements": [{"schemes": schemes}]}],
        }))
        .unwrap();
        let skills = card.skills.clone();
        test_guard.rules.authenticator.describe_in_card(&mut card, &skills).err().unwrap_or_default()
    };
    assert_eq!(check(json!({"api_key": {}})), "");
    assert!(check(json!({"oauth": {}})).contains("it takes api_key"));
    let door_takes_both = check(json!({"api_key": {}, "oauth": {}}));
    assert!(!door_takes_both.is_empty());
}
