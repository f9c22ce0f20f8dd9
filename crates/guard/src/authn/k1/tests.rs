use super::*;
use crate::fetch::FetchFault;
use crate::fetch::fakes::{FakeFetch, answer};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

#[derive(Deserialize)]
struct K1Vectors {
    valid: Vec<ValidVector>,
    negative_and_edge: Vec<EdgeVector>,
}

#[derive(Deserialize)]
struct ValidVector {
    name: String,
    account: String,
    timestamp: i64,
    body_utf8: String,
    signature: String,
    public_key_k1: String,
    public_key_legacy: String,
    ecdsa_message_hash_hex: String,
    server_now: i64,
}

#[derive(Deserialize)]
struct EdgeVector {
    name: String,
    headers: HeaderTexts,
    body_utf8: String,
    server_now: i64,
    account_active_keys: Option<Vec<String>>,
    verdict: PeerVerdict,
}

#[derive(Deserialize)]
struct HeaderTexts {
    #[serde(rename = "x-xpr-account")]
    account: Option<String>,
    #[serde(rename = "x-xpr-timestamp")]
    timestamp: Option<String>,
    #[serde(rename = "x-xpr-signature")]
    signature: Option<String>,
}

#[derive(Deserialize)]
struct PeerVerdict {
    accepted: bool,
    message: Option<String>,
}

fn vectors() -> K1Vectors {
    serde_json::from_str(include_str!("../../../tests/vectors/xpr-k1.json")).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

impl HeaderTexts {
    fn borrow(&self) -> XprHeaders<'_> {
        XprHeaders {
            account: self.account.as_deref(),
            timestamp: self.timestamp.as_deref(),
            signature: self.signature.as_deref(),
        }
    }
}

/// A chain on which one account has these keys, of weight 1 each.
fn chain_with(account: &str, keys: &[String], threshold: u64) -> ChainClient<std::sync::Arc<FakeFetch>> {
    let keys: Vec<Value> = keys.iter().map(|key| json!({"key": key, "weight": 1})).collect();
    let active = json!({"perm_name": "active", "required_auth": {"threshold": threshold, "keys": keys}});
    let body = json!({"account_name": account, "permissions": [{"perm_name": "owner"}, active]}).to_string();
    let fetch = FakeFetch::new(move |_| answer(200, body.clone()));
    ChainClient::new(&Url::parse("https://chain.example/").unwrap(), fetch).unwrap()
}

/// What the chain of the vectors says about an account.
fn chain_of(case: &EdgeVector) -> ChainClient<std::sync::Arc<FakeFetch>> {
    let account = case.headers.account.clone().unwrap_or_default();
    match (&case.account_active_keys, account.as_str()) {
        (Some(keys), _) => chain_with(&account, keys, if account == "weighted" { 2 } else { 1 }),
        (None, "noactive") => {
            let body = json!({"account_name": account, "permissions": [{"perm_name": "owner"}]}).to_string();
            let fetch = FakeFetch::new(move |_| answer(200, body.clone()));
            ChainClient::new(&Url::parse("https://chain.example").unwrap(), fetch).unwrap()
        }
        (None, _) => {
            let body = json!({"code": 500, "error": {"details": [{"message": "unknown key (boost::tuples...): x"}]}});
            let fetch = FakeFetch::new(move |_| answer(500, body.to_string()));
            ChainClient::new(&Url::parse("https://chain.example").unwrap(), fetch).unwrap()
        }
    }
}

#[tokio::test]
async fn every_valid_request_of_the_vectors_is_accepted() {
    let vectors = vectors().valid;
    assert_eq!(vectors.len(), 12);
    for case in vectors {
        let timestamp = case.timestamp.to_string();
        let headers =
            XprHeaders { account: Some(&case.account), timestamp: Some(&timestamp), signature: Some(&case.signature) };
        // In both forms of the key.
        for key in [&case.public_key_k1, &case.public_key_legacy] {
            let chain = chain_with(&case.account, std::slice::from_ref(key), 1);
            let proven = verify(headers, case.body_utf8.as_bytes(), WeightRule::Threshold, at(case.server_now), &chain);
            let proven = proven.await.unwrap_or_else(|reason| panic!("{}: {reason}", case.name));
            assert_eq!(proven.principal().to_string(), format!("xpr:{}", case.account));
            assert_eq!(proven.signed.key.to_string(), case.public_key_k1);
            assert_eq!(digest::hex(&proven.signed.digest), case.ecdsa_message_hash_hex);
        }
    }
}

/// Accepted by the peer, and refused here on purpose. The network's own client sends none of these.
const STRICTER: [(&str, SignedRequestFault); 4] = [
    ("non-canonical: high-S twin with flipped recovery id", SignedRequestFault::Malleable),
    ("recovery byte in the 27..30 range", SignedRequestFault::Malleable),
    ("recovery byte 255", SignedRequestFault::Malleable),
    ("R1 key and SIG_R1_ signature on an account holding PUB_R1_", SignedRequestFault::Curve),
];

#[tokio::test]
async fn every_other_request_of_the_vectors_gets_its_verdict_or_is_refused_on_purpose() {
    let cases = vectors().negative_and_edge;
    assert_eq!(cases.len(), 49);
    let mut stricter = 0;
    for case in &cases {
        let chain = chain_of(case);
        let body = case.body_utf8.as_bytes();
        let ours = verify(case.headers.borrow(), body, WeightRule::AnyKey, at(case.server_now), &chain).await;
        if let Some((_, reason)) = STRICTER.iter().find(|(name, _)| *name == case.name) {
            assert!(case.verdict.accepted, "{} is no case of being stricter", case.name);
            assert_eq!(ours.as_ref(), Err(reason), "{}", case.name);
            stricter += 1;
            continue;
        }
        assert_eq!(ours.is_ok(), case.verdict.accepted, "{}: {ours:?}", case.name);
        if let Err(reason) = ours {
            let told = case.verdict.message.as_deref().unwrap_or_default();
            assert!(has_the_peers_reason(&reason, told), "{}: {reason:?} is told as {told:?}", case.name);
        }
    }
    assert_eq!(stricter, STRICTER.len());
}

/// Whether the peer gives the same reason. The peer recovers a key from some signatures that we refuse to parse.
fn has_the_peers_reason(reason: &SignedRequestFault, told: &str) -> bool {
    match reason {
        SignedRequestFault::Incomplete => told.starts_with("Authentication required"),
        SignedRequestFault::Timestamp => told.starts_with("Invalid X-XPR-Timestamp"),
        SignedRequestFault::Window(_) => told.starts_with("Request timestamp too far"),
        SignedRequestFault::Unreadable(_) | SignedRequestFault::Curve | SignedRequestFault::Malleable => {
            told.starts_with("Invalid signature") || told.starts_with("Signature verification failed")
        }
        SignedRequestFault::WrongKey => told.starts_with("Signature verification failed"),
        SignedRequestFault::NoKeys => told.ends_with("has no active keys"),
        SignedRequestFault::Chain(ChainFault::NoPermission) => told.ends_with("has no active permission"),
        SignedRequestFault::Chain(ChainFault::Absent) => told.starts_with("unknown key"),
        _ => false,
    }
}

fn first() -> (ValidVector, Timestamp) {
    let case = vectors().valid.remove(0);
    let now = at(case.server_now);
    (case, now)
}

fn recover_with(
    account: &str,
    timestamp: &str,
    case: &ValidVector,
    now: Timestamp,
) -> Result<SignedRequest, SignedRequestFault> {
    let headers = XprHeaders { account: Some(account), timestamp: Some(timestamp), signature: Some(&case.signature) };
    recover(headers, case.body_utf8.as_bytes(), now)
}

#[test]
fn both_ends_of_the_window_belong_to_it() {
    let (case, _) = first();
    for (now, good) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
        let ours = recover_with("alice", "1700000000", &case, at(1_700_000_000 + now));
        assert_eq!(ours.is_ok(), good, "{now}");
    }
    // The peer drops fractions of our own clock.
    let late = Timestamp::from_millis(1_700_000_300_999);
    assert!(recover_with("alice", "1700000000", &case, late).is_ok());
    for odd in ["-9223372036854775809", "9223372036854775807999", "-1700000000"] {
        assert!(matches!(recover_with("alice", odd, &case, at(0)), Err(SignedRequestFault::Window(_))), "{odd}");
    }
}

#[test]
fn stricter_than_the_peer_a_name_that_no_account_has_is_not_looked_up() {
    let (case, now) = first();
    for name in ["Alice", "alice\n1700000000", "a/../b", "thirteenchars"] {
        assert_eq!(recover_with(name, "1700000000", &case, now), Err(SignedRequestFault::AccountName), "{name:?}");
    }
}

#[test]
fn stricter_than_the_peer_invalid_utf8_is_hashed_as_it_is() {
    let (case, now) = first();
    let key = |body: &[u8]| {
        let headers =
            XprHeaders { account: Some("alice"), timestamp: Some("1700000000"), signature: Some(&case.signature) };
        recover(headers, body, now).map(|signed| signed.key)
    };
    assert_ne!(key(b"\xff").ok(), key("\u{fffd}".as_bytes()).ok());
}

#[test]
fn a_request_is_remembered_for_as_long_as_it_is_accepted() {
    let (case, now) = first();
    let signed = recover_with("alice", "1700000000", &case, now).unwrap();
    let until = ProvenAccount { signed }.accepted_until();
    assert!(recover_with("alice", "1700000000", &case, Timestamp::from_millis(until.millis() - 1)).is_ok());
    assert!(recover_with("alice", "1700000000", &case, until).is_err());
}

#[test]
fn a_key_must_reach_the_threshold_alone_where_that_is_asked_for() {
    let (case, now) = first();
    let signed = recover_with("alice", "1700000000", &case, now).unwrap();
    let other = PublicKey { curve: Curve::K1, point: [2; 33] };
    let authority = |keys: Vec<(PublicKey, u64)>| AccountAuthority { threshold: 2, keys };
    let judge = |authority: &AccountAuthority, weight| authorize(signed.clone(), authority, weight).map(|_| ());
    let light = authority(vec![(other, 2), (signed.key, 1)]);
    assert_eq!(judge(&light, WeightRule::AnyKey), Ok(()));
    assert_eq!(judge(&light, WeightRule::Threshold), Err(SignedRequestFault::TooLight { weight: 1, threshold: 2 }));
    assert_eq!(judge(&authority(vec![(signed.key, 2)]), WeightRule::Threshold), Ok(()));
    assert_eq!(judge(&authority(vec![(other, 2)]), WeightRule::AnyKey), Err(SignedRequestFault::WrongKey));
    assert_eq!(judge(&authority(vec![]), WeightRule::AnyKey), Err(SignedRequestFault::NoKeys));
    // The same point on another curve is another key.
    let elsewhere = PublicKey { curve: Curve::R1, ..signed.key };
    assert_eq!(judge(&authority(vec![(elsewhere, 2)]), WeightRule::AnyKey), Err(SignedRequestFault::WrongKey));
}

#[tokio::test]
async fn a_request_that_is_wrong_in_itself_costs_no_lookup() {
    let (case, now) = first();
    let fetch = FakeFetch::new(|_| Err(FetchFault::Timeout));
    let chain = ChainClient::new(&Url::parse("https://chain.example").unwrap(), fetch.clone()).unwrap();
    let good = XprHeaders { account: Some("alice"), timestamp: Some("1700000000"), signature: Some(&case.signature) };
    for headers in [
        XprHeaders { account: Some("ALICE"), ..good },
        XprHeaders { timestamp: Some("1699999699"), ..good },
        XprHeaders { signature: Some("SIG_K1_x"), ..good },
        XprHeaders { signature: Some("SIG_WA_x"), ..good },
        XprHeaders { signature: None, ..good },
    ] {
        assert!(verify(headers, b"", WeightRule::AnyKey, now, &chain).await.is_err());
    }
    assert_eq!(fetch.request_count(), 0);
    let refused = verify(good, b"", WeightRule::AnyKey, now, &chain).await.unwrap_err();
    assert_eq!((refused.code(), fetch.request_count()), ("chain_unavailable", 1));
}
