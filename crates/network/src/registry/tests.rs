use super::*;
use crate::record::tests::{NOW, key, record};
use crate::record::{Coverage, Pricing};
use sabir_guard::fetch::{FetchFault, FetchResponse};
use sabir_guard::sign::{SigningKey, key_set};
use std::collections::HashMap;
use std::sync::Mutex;

/// Hosts and the keys they publish.
#[derive(Default)]
struct KeyHosts(Mutex<HashMap<String, String>>);

impl KeyHosts {
    fn with_keys(self, id: &str, key: &SigningKey) -> Self {
        let host = format!("{}.example", id.replace(':', "-"));
        let keys = key_set(std::slice::from_ref(key)).to_string();
        self.0.lock().unwrap().insert(host, keys);
        self
    }
}

impl Fetch for KeyHosts {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchFault> {
        assert_eq!(request.url.path(), "/.well-known/jwks.json");
        let keys = self.0.lock().unwrap().get(request.url.host_str().unwrap()).cloned();
        let inside = "nobody.example is at 10.1.2.3, a private address, which is not allowed here";
        let keys = keys.ok_or_else(|| FetchFault::Failed(inside.into()))?;
        Ok(FetchResponse { status: 200, body: keys.into_bytes().into() })
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(NOW)
}

fn registry(own: &str) -> NetworkRegistry {
    NetworkRegistry::new(own, now())
}

async fn accept_record(
    registry: &NetworkRegistry,
    record: &Record,
    by: &SigningKey,
    hosts: &KeyHosts,
) -> Result<AcceptedRecord, RecordRejection> {
    registry.accept(&record.network_id, record.sign(by).unwrap(), None, hosts, now()).await
}

#[tokio::test]
async fn the_first_record_is_proven_by_its_host_and_the_next_by_the_one_before() {
    let (ours, forger, next) = (key(), key(), key());
    let hosts = KeyHosts::default().with_keys("network:a", &ours);
    let registry = registry("network:r");
    let stranger = accept_record(&registry, &record("network:b", &forger, 1), &forger, &hosts).await;
    assert!(matches!(stranger, Err(RecordRejection::Unproven(_))), "{stranger:?}");
    let told = stranger.unwrap_err().to_string();
    assert!(told.contains("network-b.example") && !told.contains("10.1.2.3") && !told.contains("private"), "{told}");
    let forged = accept_record(&registry, &record("network:a", &forger, 1), &forger, &hosts).await;
    assert_eq!(forged, Err(RecordRejection::Record(RecordFault::Signature)));
    assert_eq!(
        accept_record(&registry, &record("network:a", &ours, 1), &ours, &hosts).await,
        Ok(AcceptedRecord::First)
    );
    assert_eq!(
        accept_record(&registry, &record("network:a", &ours, 1), &ours, &hosts).await,
        Ok(AcceptedRecord::Unchanged)
    );
    // The host is not asked again: a key of the record before it signs, and the record contains the next key.
    let nobody = KeyHosts::default();
    assert_eq!(
        accept_record(&registry, &record("network:a", &forger, 2), &forger, &nobody).await,
        Err(RecordRejection::Record(RecordFault::Signature))
    );
    assert_eq!(
        accept_record(&registry, &record("network:a", &next, 2), &ours, &nobody).await,
        Ok(AcceptedRecord::Newer)
    );
    assert_eq!(
        accept_record(&registry, &record("network:a", &next, 3), &next, &nobody).await,
        Ok(AcceptedRecord::Newer)
    );
    assert_eq!(
        accept_record(&registry, &record("network:a", &ours, 2), &next, &nobody).await,
        Err(RecordRejection::Stale(3))
    );
}

#[tokio::test]
async fn two_records_under_one_number_count_for_nothing_until_a_higher_one() {
    let key = key();
    let hosts = KeyHosts::default().with_keys("network:a", &key);
    let registry = registry("network:r");
    accept_record(&registry, &record("network:a", &key, 5), &key, &hosts).await.unwrap();
    let other = Record { features: vec!["other".into()], ..record("network:a", &key, 5) };
    assert_eq!(accept_record(&registry, &other, &key, &hosts).await, Err(RecordRejection::Equivocation(5)));
    assert_eq!(registry.get("network:a", now()), None);
    assert!(registry.changes(0, now()).changes.is_empty());
    assert_eq!(
        accept_record(&registry, &record("network:a", &key, 5), &key, &hosts).await,
        Err(RecordRejection::Equivocation(5))
    );
    assert_eq!(accept_record(&registry, &record("network:a", &key, 6), &key, &hosts).await, Ok(AcceptedRecord::Newer));
    assert!(registry.get("network:a", now()).is_some());
}

#[tokio::test]
async fn what_expires_or_withdraws_is_gone() {
    let key = key();
    let hosts = KeyHosts::default().with_keys("network:a", &key).with_keys("network:b", &key);
    let registry = registry("network:r");
    accept_record(&registry, &record("network:a", &key, 1), &key, &hosts).await.unwrap();
    accept_record(&registry, &record("network:b", &key, 1), &key, &hosts).await.unwrap();
    let gone = Record { withdrawn: true, ..record("network:a", &key, 2) };
    assert_eq!(accept_record(&registry, &gone, &key, &hosts).await, Ok(AcceptedRecord::Newer));
    assert_eq!(registry.get("network:a", now()), None);
    assert_eq!(registry.changes(0, now()).changes.len(), 2, "others must hear of it");
    let later = Timestamp::from_millis(NOW + 12 * 3_600_000);
    assert!(registry.get("network:b", later).is_none() && registry.all(later).is_empty());
    registry.remove_expired(later);
    assert!(registry.read().entries.is_empty());
}

#[tokio::test]
async fn registries_learn_from_each_other_and_nothing_goes_in_circles() {
    let key = key();
    let hosts = KeyHosts::default().with_keys("network:a", &key);
    let (one, two, three) = (registry("network:1"), registry("network:2"), registry("network:3"));
    accept_record(&one, &record("network:a", &key, 1), &key, &hosts).await.unwrap();
    assert_eq!(two.apply_changes("network:1", one.changes(0, now()), &hosts, now()).await, 1);
    assert_eq!(three.apply_changes("network:2", two.changes(0, now()), &hosts, now()).await, 1);
    let entry = three.get("network:a", now()).unwrap();
    assert_eq!((entry.origin.as_str(), entry.through.as_deref()), ("network:1", Some("network:2")));
    assert_eq!(entry.signed, one.get("network:a", now()).unwrap().signed, "never signed anew");
    assert_eq!(one.apply_changes("network:3", three.changes(0, now()), &hosts, now()).await, 0);
    let page = one.changes(0, now());
    assert_eq!((page.next, page.more), (1, false));
    assert!(one.changes(page.next, now()).changes.is_empty());
    // A page reads back as it was written.
    let text = serde_json::to_string(&page).unwrap();
    assert_eq!(serde_json::from_str::<ChangesPage>(&text).unwrap(), page);
}

#[tokio::test]
async fn who_covers_restaurants_in_canggu() {
    let key = key();
    let mut hosts = KeyHosts::default();
    let registry = registry("network:r");
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let covering = |id: &str, categories: &[&str], areas: &[&str], cities: &[&str], fee_pct| Record {
        coverage: Coverage {
            categories: list(categories),
            areas: list(areas),
            cities: list(cities),
            ..Coverage::default()
        },
        pricing: Pricing { fee_pct, confirm_usd_cents: 25 },
        ..record(id, &key, 1)
    };
    for record in [
        covering("network:dear", &["restaurant"], &["Canggu"], &[], 9.0),
        covering("network:cheap", &["restaurant"], &["canggu"], &[], 5.0),
        covering("network:city", &["Restaurant", "spa"], &[], &["Canggu"], 9.0),
        covering("network:any", &[], &[], &[], 1.0),
        covering("network:spa", &["spa"], &["Canggu"], &[], 1.0),
        covering("network:ubud", &["restaurant"], &["Ubud"], &[], 1.0),
        covering("network:down", &["restaurant"], &["Canggu"], &[], 1.0),
    ] {
        hosts = hosts.with_keys(&record.network_id, &key);
        accept_record(&registry, &record, &key, &hosts).await.unwrap();
    }
    let standing = |id: &str| NetworkHealth { is_available: id != "network:down", answered_permille: 1000 };
    let ask = |query: &NetworkQuery| {
        let (found, more) = registry.search(query, now(), standing);
        (found.into_iter().map(|entry| entry.record.network_id).collect::<Vec<_>>(), more)
    };
    let query = NetworkQuery {
        category: Some("RESTAURANT".into()),
        location: Some("canggu".into()),
        intent: Some("booking.search".into()),
        limit: 10,
        ..NetworkQuery::default()
    };
    let all = ["network:city", "network:cheap", "network:dear", "network:down", "network:any"];
    assert_eq!(ask(&query), (all.map(str::to_owned).to_vec(), None));
    assert_eq!(ask(&NetworkQuery { limit: 2, ..query.clone() }), (list(&all[..2]), Some(2)));
    assert_eq!(ask(&NetworkQuery { limit: 2, after: 4, ..query.clone() }), (list(&all[4..]), None));
    assert!(ask(&NetworkQuery { intent: Some("payment.authorize".into()), ..query }).0.is_empty());
}

#[tokio::test]
async fn what_was_taken_outlives_a_restart_and_its_way_is_found_again() {
    let key = key();
    let hosts = KeyHosts::default().with_keys("network:a", &key);
    let ledger = sabir_store::TaskStore::in_memory().ledger;
    let open = async || NetworkRegistry::open("network:r", ledger.clone(), now()).await.unwrap();
    let signed = record("network:a", &key, 3).sign(&key).unwrap();
    let told = Some(RecordSource { origin: "network:o", through: "network:n" });
    assert_eq!(open().await.accept("network:a", signed.clone(), told, &hosts, now()).await, Ok(AcceptedRecord::First));
    let again = open().await;
    let entry = again.get("network:a", now()).unwrap();
    assert_eq!((entry.origin.as_str(), entry.through, &entry.signed), ("network:o", None, &signed));
    let nobody = KeyHosts::default();
    assert_eq!(again.accept("network:a", signed, told, &nobody, now()).await, Ok(AcceptedRecord::Unchanged));
    assert_eq!(again.get("network:a", now()).unwrap().through.as_deref(), Some("network:n"));
    assert_eq!(
        accept_record(&again, &record("network:a", &key, 2), &key, &nobody).await,
        Err(RecordRejection::Stale(3))
    );
}
