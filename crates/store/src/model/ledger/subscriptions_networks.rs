//! Webhook subscriptions, and records of other networks.

use super::ModelLog;
use crate::StoreFuture;
use crate::ledger::{
    NETWORKS_MAX, NetworkError, NetworkPutOutcome, NetworkRecord, Networks, SUBSCRIPTIONS_PER_KEY_MAX, SubscribeError,
    Subscriber, Subscription, Subscriptions,
};
use sabir_proto::{Secret, Timestamp};
use std::cmp::Ordering;
use std::sync::Arc;

impl ModelLog {
    fn change_subscription(&self, id: &str, change: impl FnOnce(&mut Subscription)) -> StoreFuture<bool> {
        let mut inner = self.lock();
        let found = inner.ledger.subscriptions.iter_mut().find(|subscription| subscription.id == id);
        StoreFuture::ready(Ok(found.map(change).is_some()))
    }
}

impl Subscriptions for ModelLog {
    fn subscribe(&self, subscription: Subscription) -> StoreFuture<(), SubscribeError> {
        let all = &mut self.lock().ledger.subscriptions;
        StoreFuture::ready(
            if all.iter().filter(|one| one.key == subscription.key).count() >= SUBSCRIPTIONS_PER_KEY_MAX {
                Err(SubscribeError::TooMany)
            } else if all.iter().any(|one| one.id == subscription.id) {
                Err(SubscribeError::Taken)
            } else {
                all.push(Subscription { previous: None, ended: None, ..subscription });
                Ok(())
            },
        )
    }

    fn subscription(&self, id: &str) -> StoreFuture<Option<Subscription>> {
        StoreFuture::ready(Ok(self.lock().ledger.subscriptions.iter().find(|one| one.id == id).cloned()))
    }

    fn subscriptions(&self, key: Option<&str>) -> StoreFuture<Vec<Subscription>> {
        let inner = self.lock();
        let wanted = |one: &&Subscription| key.is_none_or(|key| one.key == key);
        let mut found: Vec<Subscription> = inner.ledger.subscriptions.iter().filter(wanted).cloned().collect();
        found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        StoreFuture::ready(Ok(found))
    }

    fn subscribers(&self, key: &str) -> StoreFuture<Arc<Vec<Subscriber>>> {
        let inner = self.lock();
        let mut found: Vec<&Subscription> = inner.ledger.subscriptions.iter().filter(|one| one.key == key).collect();
        found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        StoreFuture::ready(Ok(Arc::new(found.into_iter().cloned().filter_map(Subscriber::of).collect())))
    }

    fn rotate_subscription(&self, id: &str, secret: Secret, until: Timestamp) -> StoreFuture<bool> {
        self.change_subscription(id, |one| {
            one.previous = Some((std::mem::replace(&mut one.secret, secret), until));
        })
    }

    fn end_subscription(&self, id: &str, why: Option<&str>) -> StoreFuture<bool> {
        self.change_subscription(id, |one| one.ended = why.map(str::to_owned))
    }

    fn unsubscribe(&self, id: &str) -> StoreFuture<bool> {
        let all = &mut self.lock().ledger.subscriptions;
        let before = all.len();
        all.retain(|one| one.id != id);
        StoreFuture::ready(Ok(all.len() < before))
    }
}

impl Networks for ModelLog {
    fn put_network(&self, record: NetworkRecord) -> StoreFuture<NetworkPutOutcome, NetworkError> {
        let ledger = &mut self.lock().ledger;
        let (many, change) = (ledger.networks.len() >= NETWORKS_MAX, ledger.network_change + 1);
        let put = match ledger.networks.get_mut(&record.network) {
            None if many => return StoreFuture::ready(Err(NetworkError::TooMany)),
            None => NetworkPutOutcome::Stored,
            Some(kept) => match kept.seq.cmp(&record.seq) {
                Ordering::Greater => return StoreFuture::ready(Ok(NetworkPutOutcome::Stale)),
                Ordering::Less => NetworkPutOutcome::Stored,
                Ordering::Equal if kept.disputed => return StoreFuture::ready(Ok(NetworkPutOutcome::Disputed)),
                Ordering::Equal if kept.record == record.record => {
                    return StoreFuture::ready(Ok(NetworkPutOutcome::Unchanged));
                }
                Ordering::Equal => {
                    (kept.disputed, kept.change) = (true, change);
                    NetworkPutOutcome::Disputed
                }
            },
        };
        ledger.network_change = change;
        if put == NetworkPutOutcome::Stored {
            ledger.networks.insert(record.network.clone(), NetworkRecord { change, disputed: false, ..record });
        }
        StoreFuture::ready(Ok(put))
    }

    fn network(&self, network: &str) -> StoreFuture<Option<NetworkRecord>> {
        StoreFuture::ready(Ok(self.lock().ledger.networks.get(network).cloned()))
    }

    fn networks(&self, now: Timestamp) -> StoreFuture<Vec<NetworkRecord>> {
        let inner = self.lock();
        let believed = |one: &&NetworkRecord| !one.gone && !one.disputed && one.expires_at > now;
        StoreFuture::ready(Ok(inner.ledger.networks.values().filter(believed).cloned().collect()))
    }

    fn network_changes(&self, after: u64, limit: usize) -> StoreFuture<Vec<NetworkRecord>> {
        let inner = self.lock();
        let mut found: Vec<NetworkRecord> =
            inner.ledger.networks.values().filter(|one| one.change > after).cloned().collect();
        found.sort_by_key(|one| one.change);
        found.truncate(limit);
        StoreFuture::ready(Ok(found))
    }

    fn forget_network(&self, network: &str) -> StoreFuture<bool> {
        StoreFuture::ready(Ok(self.lock().ledger.networks.remove(network).is_some()))
    }
}
