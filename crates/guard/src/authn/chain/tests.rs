use super::*;
use crate::fetch::fakes::{FakeFetch, answer};
use crate::fetch::{FetchFault, FetchResponse};

const KEY: &str = "EOS8cQsMa5SoqcNNsk4zWRPiAe6sk4DqysKKjJRek4zcSJaKJxUsK";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn chain(fetch: &Arc<FakeFetch>) -> ChainClient<Arc<FakeFetch>> {
    ChainClient::new(&Url::parse("https://chain.example/node/").unwrap(), fetch.clone()).unwrap()
}

fn account(name: &str) -> Result<FetchResponse, FetchFault> {
    let auth = json!({"threshold": 2, "keys": [{"key": KEY, "weight": 1}, {"key": "PUB_WA_x", "weight": 1}, {}]});
    answer(
        200,
        json!({"account_name": name, "permissions": [{"perm_name": "active", "required_auth": auth}]}).to_string(),
    )
}

fn body(request: &FetchRequest) -> String {
    match &request.method {
        FetchMethod::Post { body, content_type } => {
            assert_eq!(*content_type, CONTENT_TYPE);
            String::from_utf8(body.clone()).unwrap()
        }
        FetchMethod::Get => panic!("the chain is asked by POST"),
    }
}

#[tokio::test]
async fn questions_are_those_of_the_networks_own_library() {
    let fetch = FakeFetch::new(|request| match request.url.path() {
        "/node/v1/chain/get_account" => account("alice"),
        _ => answer(200, r#"{"rows":[{"account":"alice"}],"more":false,"next_key":""}"#),
    });
    let chain = chain(&fetch);
    let authority = chain.authority("alice", at(1)).await.unwrap();
    assert_eq!((authority.threshold, authority.keys.len()), (2, 1), "keys of other kinds are passed over");
    assert_eq!(authority.keys[0].1, 1);
    chain.row(ChainTable::Agents, "alice", at(1)).await.unwrap();
    let asked = fetch.requests.lock().unwrap();
    assert_eq!(asked[0].url.as_str(), "https://chain.example/node/v1/chain/get_account");
    assert_eq!(body(&asked[0]), r#"{"account_name":"alice"}"#);
    assert_eq!(asked[1].url.as_str(), "https://chain.example/node/v1/chain/get_table_rows");
    let expected = r#"{"json":true,"code":"agentcore","scope":"agentcore","table":"agents","lower_bound":"alice","upper_bound":"alice","index_position":1,"key_type":"","limit":1,"reverse":false,"show_payer":false}"#;
    assert_eq!(body(&asked[1]), expected);
}

#[tokio::test]
async fn keys_are_remembered_for_five_minutes_and_serve_for_half_an_hour_without_the_chain() {
    let fetch = FakeFetch::new(|_| account("alice"));
    let chain = chain(&fetch);
    for (now, asked) in [(0, 1), (299, 1), (300, 2)] {
        chain.authority("alice", at(now)).await.unwrap();
        assert_eq!(fetch.request_count(), asked, "at {now}");
    }
    fetch.respond_with(|_| Err(FetchFault::Timeout));
    assert!(chain.authority("alice", at(300 + 1799)).await.is_ok());
    let gone = chain.authority("alice", at(300 + 1810)).await;
    assert_eq!(gone, Err(ChainFault::Unavailable("no answer in time".to_owned())));
}

#[tokio::test]
async fn an_account_that_was_removed_is_gone_even_while_its_keys_are_remembered() {
    let fetch = FakeFetch::new(|_| account("alice"));
    let chain = chain(&fetch);
    chain.authority("alice", at(0)).await.unwrap();
    fetch.respond_with(|_| answer(500, r#"{"code":500,"error":{"details":[{"message":"unknown key (x): alice"}]}}"#));
    assert_eq!(chain.authority("alice", at(300)).await, Err(ChainFault::Absent));
    fetch.respond_with(|_| answer(200, r#"{"code":404,"message":"no"}"#));
    assert_eq!(chain.authority("bob", at(300)).await, Err(ChainFault::Absent));
}

#[tokio::test]
async fn a_node_that_lies_or_talks_nonsense_is_not_believed() {
    // Valid, except for the blanks behind it.
    let mut long = account("alice").unwrap().body.to_vec();
    long.resize(ANSWER_BYTES_MAX + 1, b' ');
    let huge = answer(200, long);
    let nonsense: [(&str, Result<FetchResponse, FetchFault>); 8] = [
        ("another account", account("mallory")),
        ("not JSON", answer(200, "<html>")),
        ("an error of its own", answer(500, r#"{"code":500,"error":{"details":[{"message":"out of memory"}]}}"#)),
        ("an error in a 200", answer(200, r#"{"code":503,"permissions":[]}"#)),
        ("no permissions", answer(200, r#"{"account_name":"alice"}"#)),
        ("empty", answer(200, "")),
        ("huge", huge),
        ("slow", Err(FetchFault::Timeout)),
    ];
    for (what, lie) in nonsense {
        let fetch = FakeFetch::new(move |_| lie.clone());
        let ours = chain(&fetch).authority("alice", at(0)).await;
        assert!(matches!(ours, Err(ChainFault::Unavailable(_))), "{what}: {ours:?}");
    }
    let fetch = FakeFetch::new(|_| answer(200, r#"{"rows":[{"account":"mallory","active":1}]}"#));
    let ours = chain(&fetch).row(ChainTable::Agents, "alice", at(0)).await;
    assert!(matches!(ours, Err(ChainFault::Unavailable(_))), "{ours:?}");
}

#[tokio::test]
async fn a_permission_that_says_nothing_about_its_threshold_cannot_be_fulfilled() {
    let fetch = FakeFetch::new(|_| {
        let auth = json!({"keys": [{"key": KEY}]});
        answer(200, json!({"permissions": [{"perm_name": "active", "required_auth": auth}]}).to_string())
    });
    let authority = chain(&fetch).authority("alice", at(0)).await.unwrap();
    assert_eq!((authority.threshold, authority.keys[0].1), (u64::MAX, 0));
}

#[tokio::test]
async fn the_full_standing_reads_four_tables_and_the_gate_two() {
    let respond = |request: &FetchRequest| {
        let text = body(request);
        let asked: Value = serde_json::from_str(&text).unwrap();
        let row = match (asked["table"].as_str().unwrap(), asked["lower_bound"].as_str().unwrap()) {
            ("agents", "alice") => json!({"account": "alice", "owner": "carol", "active": 1, "registered_at": "0",
                "capabilities": "[\"compute\"]", "name": "A"}),
            ("agentscores", "alice") => json!({"agent": "alice", "total_weight": "1", "avg_score": "5000"}),
            ("usersinfo", "carol") => json!({"acc": "carol", "kyc": [3]}),
            ("usersinfo", "alice") => json!({"acc": "alice", "kyc": [1]}),
            ("voters", "alice") => json!({"owner": "alice", "staked": "10000000"}),
            other => panic!("nobody asked for {other:?}"),
        };
        answer(200, json!({"rows": [row]}).to_string())
    };
    let fetch = FakeFetch::new(respond);
    let chain = chain(&fetch);
    let full = chain.trust_record("alice", ScoreKind::Full, at(0)).await.unwrap();
    assert_eq!((full.score.total(), full.kyc_level, fetch.request_count()), (30 + 2 + 20, 3, 4));
    assert_eq!((full.agent.capabilities, full.agent.active), (vec!["compute".to_owned()], true));
    let gate = chain.trust_record("alice", ScoreKind::Gate, at(0)).await.unwrap();
    assert_eq!((gate.score.total(), gate.kyc_level, fetch.request_count()), (10, 1, 5));

    // An unreadable table only lowers the score; without a registration there is no score.
    fetch.respond_with(move |request| match body(request).contains("\"agents\"") {
        true => respond(request),
        false => Err(FetchFault::Timeout),
    });
    let poor = chain.trust_record("alice", ScoreKind::Full, at(4000)).await.unwrap();
    assert_eq!(poor.score.total(), 0);
    fetch.respond_with(|_| answer(200, r#"{"rows":[]}"#));
    assert_eq!(chain.trust_record("bob", ScoreKind::Gate, at(0)).await, Err(ChainFault::Absent));
}
