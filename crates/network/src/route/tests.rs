use super::*;
use sabir_guard::authn::agnt::KeyDerivation;
use sabir_proto::{Json, Secret};
use serde_json::json;

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn answer_with(id: &str, venues: &[&str]) -> PeerAnswer {
    let venues: Vec<Value> = venues.iter().map(|name| json!({"id": name})).collect();
    let answer = json!({"count": venues.len(), "venues": venues, "fee_pct": 7.0, "expires_at": "2026-04-02T10:05:00Z"});
    PeerAnswer { id: id.into(), answer: Ok(object(&answer)) }
}

fn names(answer: &Map<String, Value>) -> Vec<String> {
    let venues = answer["venues"].as_array().unwrap().iter();
    venues.map(|venue| format!("{}/{}", venue["network"].as_str().unwrap(), venue["id"].as_str().unwrap())).collect()
}

#[test]
fn networks_take_turns_and_every_venue_says_where_it_is_from() {
    let heard = || {
        vec![
            answer_with("network:a", &["1", "2", "3"]),
            answer_with("network:b", &["1"]),
            answer_with("network:c", &["4", "5"]),
        ]
    };
    let all = merge_answers(heard(), 10);
    assert_eq!(names(&all), ["network:a/1", "network:b/1", "network:c/4", "network:a/2", "network:c/5", "network:a/3"]);
    assert_eq!((&all["count"], &all["partial"], &all["fee_pct"]), (&json!(6), &json!(false), &json!(7.0)));
    let few = merge_answers(heard(), 2);
    assert_eq!((names(&few).len(), &few["count"]), (2, &json!(2)));
}

#[test]
fn who_is_missing_is_named_and_so_is_who_is_missing_behind_somebody() {
    let down = PeerAnswer { id: "network:d".into(), answer: Err(Problem::new(ProblemCode::TtlExceeded, "late")) };
    // The result that another network merged is passed on with its name.
    let through_b = json!({
        "venues": [{"id": "1", "network": "network:b"}, {"id": "9", "network": "network:c"}], "count": 2,
        "networks": [
            {"network": "network:b", "status": "ok", "count": 1}, {"network": "network:c", "status": "ok", "count": 1},
            {"network": "network:e", "status": "missing", "error": "circuit_open", "retryable": true}
        ],
        "partial": true, "expires_at": "2026-04-02T10:04:00Z"
    });
    let b = PeerAnswer { id: "network:b".into(), answer: Ok(object(&through_b)) };
    let all = merge_answers(vec![answer_with("network:a", &["1"]), b, answer_with("network:c", &["9"]), down], 10);
    assert_eq!(names(&all), ["network:a/1", "network:b/1", "network:c/9"], "who came by two ways is told once");
    let networks = all["networks"].as_array().unwrap().iter();
    let networks: Vec<(&Value, &Value)> = networks.map(|said| (&said["network"], &said["status"])).collect();
    let expected = [
        ("network:a", "ok"),
        ("network:b", "ok"),
        ("network:c", "ok"),
        ("network:d", "missing"),
        ("network:e", "missing"),
    ];
    assert_eq!(
        networks,
        expected.map(|(id, status)| (json!(id), json!(status))).iter().map(|(a, b)| (a, b)).collect::<Vec<_>>()
    );
    assert_eq!((&all["partial"], &all["expires_at"]), (&json!(true), &json!("2026-04-02T10:04:00Z")));
    assert_eq!(all["networks"][3]["error"], "ttl_exceeded");
    assert_eq!(all["networks"][4]["through"], "network:b");
}

#[test]
fn whatever_an_answer_is_it_is_put_in() {
    let odd = |answer: &Value| PeerAnswer { id: "network:b".into(), answer: Ok(object(answer)) };
    for answer in [
        json!({}),
        json!({"venues": 7}),
        json!({"venues": [1, null]}),
        json!({"venues": [], "networks": [7, {"network": 1}]}),
    ] {
        let all = merge_answers(vec![answer_with("network:a", &["1"]), odd(&answer)], 5);
        assert_eq!(names(&all), ["network:a/1"], "{answer}");
    }
    // Another network cannot answer for us.
    let posing = odd(&json!({"venues": [{"id": "2", "network": "network:a"}]}));
    let all = merge_answers(vec![answer_with("network:a", &["1"]), posing], 5);
    assert_eq!(all["venues"][1]["through"], "network:b");
}

fn request(from: &str, key: &str) -> ForwardedRequest {
    ForwardedRequest {
        from: from.into(),
        to: "venue".into(),
        intent: Intent::BookingConfirm,
        payload: Object::new(Json::parse("{}").unwrap()).unwrap(),
        correlation: None,
        timestamp: NanoTimestamp::parse("2026-04-02T10:22:03.123456Z"),
        via: Vec::new(),
        key: key.into(),
        received_at: Instant::now(),
        time_max: None,
        now: Timestamp::from_millis(0),
    }
}

#[test]
fn a_repetition_has_the_same_timestamp_and_another_caller_another() {
    let one = request("a", "k1").disambiguated_timestamp();
    assert_eq!(one, request("a", "k1").disambiguated_timestamp());
    assert!(one.to_string().starts_with("2026-04-02T10:22:03.123456"), "{one}");
    let others =
        [request("b", "k1"), request("a", "k2"), request("ak1", "")].map(|errand| errand.disambiguated_timestamp());
    assert!(others.iter().all(|other| *other != one), "{others:?}");
}

#[test]
fn a_way_is_known_by_its_neighbour() {
    let ring = Arc::new(KeyRing::new(&Secret::new("k".repeat(32)), KeyDerivation::Raw).unwrap());
    let egress = sabir_gateway::Egress::public();
    let envelope_sender =
        EnvelopeSender::new(egress, &sabir_gateway::Tls::default(), sabir_gateway::Metrics::for_venues()).unwrap();
    let now = Timestamp::from_millis(crate::record::tests::NOW);
    let registry = Arc::new(NetworkRegistry::new("network:a", now));
    let at = Url::parse("https://b.example/a2a/v1").unwrap();
    let mail = Some(EnvelopeRoute::Direct { endpoint: at, key: None });
    let b = ConfiguredPeer {
        id: "network:b".into(),
        route: mail,
        key: None,
        ring: ring.clone(),
        accepts_forwarded: true,
        registry: None,
    };
    let routes = Routes::new(("network:a".into(), "k".into()), Some(ring), envelope_sender, registry, vec![b], 4);
    assert!(routes.has_route("network:b", now));
    assert!(!routes.has_route("network:a", now) && !routes.has_route("network:c", now));
    assert_eq!(routes.health("network:b"), NetworkHealth { is_available: true, answered_permille: 1000 });
    routes.count_answer::<()>("network:b", &Err(Problem::new(ProblemCode::TtlExceeded, "late")));
    routes.count_answer::<()>("network:b", &Err(Problem::new(ProblemCode::SlotUnavailable, "an answer")));
    assert_eq!(routes.health("network:b").answered_permille, 500);
}
