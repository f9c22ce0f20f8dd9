//! Promises about webhook subscriptions, and about the records of other networks.

use super::LogFixture;
use crate::wait::wait;
use sabir_proto::{Secret, Timestamp};
use sabir_store::{NetworkPutOutcome, NetworkRecord, SUBSCRIPTIONS_PER_KEY_MAX, SubscribeError, Subscription};

fn subscription(id: &str, key: &str) -> Subscription {
    Subscription {
        id: id.into(),
        key: key.into(),
        url: format!("https://example.com/{id}"),
        events: vec!["booking.confirmed".into()],
        secret: Secret::new("whsec_one"),
        previous: None,
        created_at: Timestamp::from_millis(5),
        ended: None,
    }
}

pub(super) fn subscriptions_belong_to_a_key(bench: &mut dyn LogFixture) {
    let add = |bench: &dyn LogFixture, one| wait(bench.ledger().subscribe(one));
    assert_eq!(add(bench, subscription("b", "x")), Ok(()));
    assert_eq!(add(bench, subscription("a", "x")), Ok(()));
    assert_eq!(add(bench, subscription("c", "y")), Ok(()));
    assert_eq!(add(bench, subscription("c", "x")), Err(SubscribeError::Taken));
    assert!(!format!("{:?}", subscription("a", "x")).contains("whsec"), "nobody sees a secret by accident");
    let until = Timestamp::from_millis(77);
    assert_eq!(wait(bench.ledger().rotate_subscription("a", Secret::new("whsec_two"), until)), Ok(true));
    assert_eq!(wait(bench.ledger().rotate_subscription("z", Secret::new("whsec_two"), until)), Ok(false));
    assert_eq!(wait(bench.ledger().end_subscription("b", Some("gone"))), Ok(true));
    bench.reopen();
    let rotated = Subscription {
        secret: Secret::new("whsec_two"),
        previous: Some((Secret::new("whsec_one"), until)),
        ..subscription("a", "x")
    };
    let ended = Subscription { ended: Some("gone".into()), ..subscription("b", "x") };
    assert_eq!(wait(bench.ledger().subscription("a")), Ok(Some(rotated.clone())));
    assert_eq!(wait(bench.ledger().subscription("z")), Ok(None));
    assert_eq!(wait(bench.ledger().subscriptions(Some("x"))), Ok(vec![rotated, ended]));
    assert_eq!(wait(bench.ledger().subscriptions(None)).map(|all| all.len()), Ok(3));
    let told = |bench: &dyn LogFixture, key: &str| {
        let found = wait(bench.ledger().subscribers(key)).expect("subscribers can be read");
        found.iter().map(|one| one.id.clone()).collect::<Vec<_>>()
    };
    // Read twice, since the second answer may come from memory.
    assert_eq!((told(bench, "x"), told(bench, "x"), told(bench, "z")), (vec!["a".into()], vec!["a".into()], vec![]));
    assert_eq!(wait(bench.ledger().end_subscription("b", None)), Ok(true));
    assert_eq!(told(bench, "x"), ["a", "b"]);
    assert_eq!(wait(bench.ledger().subscription("b")), Ok(Some(subscription("b", "x"))));
    assert_eq!(wait(bench.ledger().unsubscribe("b")), Ok(true));
    assert_eq!(wait(bench.ledger().unsubscribe("b")), Ok(false));
    assert_eq!(told(bench, "x"), ["a"]);
    for i in 1..SUBSCRIPTIONS_PER_KEY_MAX {
        assert_eq!(add(bench, subscription(&format!("s{i}"), "y")), Ok(()));
    }
    assert_eq!(add(bench, subscription("one more", "y")), Err(SubscribeError::TooMany));
}

fn record(network: &str, seq: u64, text: &str) -> NetworkRecord {
    NetworkRecord {
        network: network.into(),
        seq,
        record: text.into(),
        signature: "signed".into(),
        origin: "here".into(),
        received_at: Timestamp::from_millis(1),
        expires_at: Timestamp::from_millis(100),
        gone: false,
        disputed: false,
        change: 0,
    }
}

pub(super) fn the_latest_record_of_a_network_is_kept(bench: &mut dyn LogFixture) {
    let put = |bench: &dyn LogFixture, record| wait(bench.ledger().put_network(record)).expect("there is room");
    assert_eq!(put(bench, record("b", 3, "{}")), NetworkPutOutcome::Stored);
    assert_eq!(put(bench, record("a", 1, "{}")), NetworkPutOutcome::Stored);
    assert_eq!(put(bench, record("b", 3, "{}")), NetworkPutOutcome::Unchanged);
    assert_eq!(put(bench, record("b", 2, "{1}")), NetworkPutOutcome::Stale);
    assert_eq!(put(bench, record("b", 4, "{4}")), NetworkPutOutcome::Stored);
    assert_eq!(put(bench, record("c", 1, "{}")), NetworkPutOutcome::Stored);
    assert_eq!(put(bench, NetworkRecord { gone: true, ..record("d", 1, "{}") }), NetworkPutOutcome::Stored);
    // Two different records with one number: neither is trusted, until there is a later one.
    assert_eq!(put(bench, record("a", 1, "{other}")), NetworkPutOutcome::Disputed);
    assert_eq!(put(bench, record("a", 1, "{other}")), NetworkPutOutcome::Disputed);
    bench.reopen();
    let names = |records: Vec<NetworkRecord>| records.into_iter().map(|r| (r.network, r.change)).collect::<Vec<_>>();
    let now = |bench: &dyn LogFixture, ms| {
        names(wait(bench.ledger().networks(Timestamp::from_millis(ms))).expect("readable"))
    };
    assert_eq!(now(bench, 99), [("b".to_owned(), 3), ("c".to_owned(), 4)]);
    assert_eq!(now(bench, 100), []);
    let changes = |bench: &dyn LogFixture, after, limit| {
        names(wait(bench.ledger().network_changes(after, limit)).expect("readable"))
    };
    assert_eq!(changes(bench, 0, 2), [("b".to_owned(), 3), ("c".to_owned(), 4)]);
    assert_eq!(changes(bench, 4, 9), [("d".to_owned(), 5), ("a".to_owned(), 6)]);
    assert_eq!(put(bench, record("a", 2, "{2}")), NetworkPutOutcome::Stored);
    let kept = NetworkRecord { change: 7, ..record("a", 2, "{2}") };
    assert_eq!(wait(bench.ledger().network("a")), Ok(Some(kept)));
    assert_eq!(wait(bench.ledger().forget_network("a")), Ok(true));
    assert_eq!(wait(bench.ledger().forget_network("a")), Ok(false));
    bench.reopen();
    assert_eq!(put(bench, record("a", 1, "{}")), NetworkPutOutcome::Stored);
    assert_eq!(changes(bench, 7, 9), [("a".to_owned(), 8)], "numbers are never used twice");
}
