//! Federation: renews our own record, and reads the registries of peer networks.
//!
//! A registry that cannot be read now is read the next time, from the same cursor. Nothing here decides which records
//! are accepted; the registry does.

use crate::record::{LEASE_MAX, Record, SignedRecord};
use crate::registry::{ChangesPage, NetworkRegistry};
use crate::route::Routes;
use sabir_guard::fetch::{Fetch, FetchMethod, FetchRequest};
use sabir_guard::sign::SigningKey;
use sabir_proto::{Json, Timestamp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use url::Url;

/// Bytes of a page of changes, at most.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Pages that are read of one registry in one pass; the rest is read in the next pass.
const PAGES_MAX: usize = 20;

/// The cursor of a remote registry.
#[derive(Debug, Clone, Copy, Default)]
struct RegistryCursor {
    epoch: u64,
    since: u64,
}

/// Keeps the registry up to date with those of peer networks.
pub struct Federation<F> {
    routes: Arc<Routes>,
    fetch: F,
    cursors: Mutex<HashMap<String, RegistryCursor>>,
}

impl<F: Fetch> Federation<F> {
    /// Reads the registries of the peers of these routes.
    pub fn new(routes: Arc<Routes>, fetch: F) -> Self {
        Self { routes, fetch, cursors: Mutex::default() }
    }

    /// The routes to other networks.
    pub const fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// The HTTP client for requests to other networks.
    pub const fn fetch(&self) -> &F {
        &self.fetch
    }

    /// The registry that is kept up to date.
    pub fn registry(&self) -> &NetworkRegistry {
        self.routes.registry()
    }

    /// Reads the changes at every peer that has a registry, and removes expired records.
    pub async fn sync(&self, now: Timestamp) {
        self.registry().remove_expired(now);
        for neighbour in self.routes.peers() {
            if let Some(at) = &neighbour.registry
                && let Err(why) = self.sync_registry(&neighbour.id, at, now).await
            {
                tracing::info!(network = %neighbour.id, %why, "the registry of a neighbour cannot be read");
            }
        }
    }

    async fn sync_registry(&self, id: &str, at: &Url, now: Timestamp) -> Result<(), String> {
        for _ in 0..PAGES_MAX {
            let mark = self.lock().get(id).copied().unwrap_or_default();
            let page = self.fetch_page(at, mark.since).await?;
            // The numbers of the remote registry have started anew, so the cursor is invalid.
            let page = if page.epoch == mark.epoch || mark.since == 0 { page } else { self.fetch_page(at, 0).await? };
            let (epoch, since, more) = (page.epoch, page.next, page.more);
            self.registry().apply_changes(id, page, &self.fetch, now).await;
            self.lock().insert(id.to_owned(), RegistryCursor { epoch, since });
            if !more {
                break;
            }
        }
        Ok(())
    }

    async fn fetch_page(&self, at: &Url, since: u64) -> Result<ChangesPage, String> {
        let mut url = at.clone();
        url.set_path(&format!("{}/changes", at.path().trim_end_matches('/')));
        url.query_pairs_mut().append_pair("since", &since.to_string());
        let request = FetchRequest { url, method: FetchMethod::Get, bytes_max: PAGE_BYTES_MAX };
        let answer = self.fetch.fetch(request).await.map_err(|fault| fault.to_string())?;
        if answer.status != 200 {
            return Err(format!("HTTP {}", answer.status));
        }
        serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, RegistryCursor>> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> std::fmt::Debug for Federation<F> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Federation").field("routes", &self.routes).finish_non_exhaustive()
    }
}

/// Makes a record of our own: numbered by the time, so that it is newer than any before it, and valid for a day.
pub fn issue(record: Record, key: &SigningKey, keys: Json, now: Timestamp) -> Option<(Record, SignedRecord)> {
    let lease = i64::try_from(LEASE_MAX.as_millis()).ok()?;
    let record = Record {
        keys,
        seq: u64::try_from(now.millis()).ok()?,
        issued_at: now.to_string(),
        expires_at: Timestamp::from_millis(now.millis().checked_add(lease)?).to_string(),
        ..record
    };
    let signed = record.sign(key)?;
    Some((record, signed))
}

/// How often our own record is renewed: well before it expires, so that a registry that was down for hours still has
/// it.
pub const RENEW_EVERY: Duration = Duration::from_secs(6 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{NOW, key, record};
    use crate::route::ConfiguredPeer;
    use sabir_gateway::{Egress, EnvelopeSender, Metrics, Tls};
    use sabir_guard::authn::agnt::{KeyDerivation, KeyRing};
    use sabir_guard::fetch::{FetchFault, FetchResponse};
    use sabir_guard::sign::key_set;
    use sabir_proto::Secret;

    /// The registry of a peer, and the keys that hosts publish.
    struct NeighbourStub {
        registry: Mutex<Option<NetworkRegistry>>,
        keys: String,
        asked: Mutex<Vec<String>>,
    }

    impl Fetch for NeighbourStub {
        async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchFault> {
            let ok = |body: String| Ok(FetchResponse { status: 200, body: body.into_bytes().into() });
            if request.url.path() == "/.well-known/jwks.json" {
                return ok(self.keys.clone());
            }
            self.asked.lock().unwrap().push(request.url.query().unwrap().to_owned());
            let since = request.url.query().unwrap().trim_start_matches("since=").parse().unwrap();
            match &*self.registry.lock().unwrap() {
                None => Err(FetchFault::Timeout),
                Some(registry) => {
                    ok(serde_json::to_string(&registry.changes(since, Timestamp::from_millis(NOW))).unwrap())
                }
            }
        }
    }

    #[tokio::test]
    async fn a_neighbour_is_read_on_from_where_it_was_left_and_anew_when_it_began_anew() {
        let key = key();
        let now = Timestamp::from_millis(NOW);
        let keys = Json::of(&key_set(std::slice::from_ref(&key))).unwrap();
        let world =
            Arc::new(NeighbourStub { registry: Mutex::default(), keys: keys.as_str().into(), asked: Mutex::default() });
        let ring = Arc::new(KeyRing::new(&Secret::new("k".repeat(32)), KeyDerivation::Raw).unwrap());
        let at = Some(Url::parse("https://b.example/registry/v1").unwrap());
        let b = ConfiguredPeer {
            id: "network:b".into(),
            route: None,
            key: None,
            ring,
            accepts_forwarded: true,
            registry: at,
        };
        let envelope_sender = EnvelopeSender::new(Egress::public(), &Tls::default(), Metrics::for_venues()).unwrap();
        let registry = Arc::new(NetworkRegistry::new("network:a", now));
        let routes = Routes::new(("network:a".into(), "k".into()), None, envelope_sender, registry, vec![b], 4);
        let federation = Federation::new(Arc::new(routes), world.clone());
        federation.sync(now).await;
        assert!(federation.registry().all(now).is_empty(), "nobody was there");
        let publish = async |registry: &NetworkRegistry, id: &str| {
            let (record, signed) = issue(record(id, &key, 0), &key, keys.clone(), now).unwrap();
            registry.publish(record, signed, now).await.unwrap();
        };
        let theirs = NetworkRegistry::new("network:b", now);
        publish(&theirs, "network:b").await;
        *world.registry.lock().unwrap() = Some(theirs);
        federation.sync(now).await;
        let entry = federation.registry().get("network:b", now).unwrap();
        assert_eq!((entry.origin.as_str(), entry.through.as_deref()), ("network:b", Some("network:b")));
        federation.sync(now).await;
        let anew = NetworkRegistry::new("network:b", Timestamp::from_millis(NOW + 1));
        publish(&anew, "network:c").await;
        *world.registry.lock().unwrap() = Some(anew);
        federation.sync(now).await;
        assert!(federation.registry().get("network:c", now).is_some());
        assert_eq!(*world.asked.lock().unwrap(), ["since=0", "since=0", "since=1", "since=1", "since=0"]);
    }
}
