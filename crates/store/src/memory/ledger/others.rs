//! Webhook subscriptions, and records of other networks.

use super::MemoryLog;
use crate::Answer;
use crate::ledger::{
    NETWORKS_MAX, NetworkError, NetworkPut, NetworkRecord, Networks, SUBSCRIPTIONS_PER_KEY_MAX, SubscribeError,
    Subscriber, Subscription, Subscriptions,
};
use sabir_proto::{Secret, Timestamp};
use std::cmp::Ordering;
use std::sync::Arc;

impl MemoryLog {
    fn change_subscription(&self, id: &str, change: impl FnOnce(&mut Subscription)) -> Answer<bool> {
        let mut inner = self.lock();
        let found = inner.ledger.subscriptions.iter_mut().find(|subscription| subscription.id == id);
        Answer::now(Ok(found.map(change).is_some()))
    }
}

impl Subscriptions for MemoryLog {
    fn subscribe(&self, subscription: Subscription) -> Answer<(), SubscribeError> {
        let all = &mut self.lock().ledger.subscriptions;
        Answer::now(if all.iter().filter(|one| one.key == subscription.key).count() >= SUBSCRIPTIONS_PER_KEY_MAX {
            Err(SubscribeError::TooMany)
        } else if all.iter().any(|one| one.id == subscription.id) {
            Err(SubscribeError::Taken)
        } else {
            all.push(Subscription { previous: None, ended: None, ..subscription });
            Ok(())
        })
    }

    fn subscription(&self, id: &str) -> Answer<Option<Subscription>> {
        Answer::now(Ok(self.lock().ledger.subscriptions.iter().find(|one| one.id == id).cloned()))
    }

    fn subscriptions(&self, key: Option<&str>) -> Answer<Vec<Subscription>> {
        let inner = self.lock();
        let wanted = |one: &&Subscription| key.is_none_or(|key| one.key == key);
        let mut found: Vec<Subscription> = inner.ledger.subscriptions.iter().filter(wanted).cloned().collect();
        found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Answer::now(Ok(found))
    }

    fn subscribers(&self, key: &str) -> Answer<Arc<Vec<Subscriber>>> {
        let inner = self.lock();
        let mut found: Vec<&Subscription> = inner.ledger.subscriptions.iter().filter(|one| one.key == key).collect();
        found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Answer::now(Ok(Arc::new(found.into_iter().cloned().filter_map(Subscriber::of).collect())))
    }

    fn rotate_subscription(&self, id: &str, secret: Secret, until: Timestamp) -> Answer<bool> {
        self.change_subscription(id, |one| {
            one.previous = Some((std::mem::replace(&mut one.secret, secret), until));
        })
    }

    fn end_subscription(&self, id: &str, why: Option<&str>) -> Answer<bool> {
        self.change_subscription(id, |one| one.ended = why.map(str::to_owned))
    }

    fn unsubscribe(&self, id: &str) -> Answer<bool> {
        let all = &mut self.lock().ledger.subscriptions;
        let before = all.len();
        all.retain(|one| one.id != id);
        Answer::now(Ok(all.len() < before))
    }
}

impl Networks for MemoryLog {
    fn put_network(&self, record: NetworkRecord) -> Answer<NetworkPut, NetworkError> {
        let ledger = &mut self.lock().ledger;
        let (many, change) = (ledger.networks.len() >= NETWORKS_MAX, ledger.network_change + 1);
        let put = match ledger.networks.get_mut(&record.network) {
            None if many => return Answer::now(Err(NetworkError::TooMany)),
            None => NetworkPut::Kept,
            Some(kept) => match kept.seq.cmp(&record.seq) {
                Ordering::Greater => return Answer::now(Ok(NetworkPut::Stale)),
                Ordering::Less => NetworkPut::Kept,
                Ordering::Equal if kept.disputed => return Answer::now(Ok(NetworkPut::Disputed)),
                Ordering::Equal if kept.record == record.record => return Answer::now(Ok(NetworkPut::Known)),
                Ordering::Equal => {
                    (kept.disputed, kept.change) = (true, change);
                    NetworkPut::Disputed
                }
            },
        };
        ledger.network_change = change;
        if put == NetworkPut::Kept {
            ledger.networks.insert(record.network.clone(), NetworkRecord { change, disputed: false, ..record });
        }
        Answer::now(Ok(put))
    }

    fn network(&self, network: &str) -> Answer<Option<NetworkRecord>> {
        Answer::now(Ok(self.lock().ledger.networks.get(network).cloned()))
    }

    fn networks(&self, now: Timestamp) -> Answer<Vec<NetworkRecord>> {
        let inner = self.lock();
        let believed = |one: &&NetworkRecord| !one.gone && !one.disputed && one.expires_at > now;
        Answer::now(Ok(inner.ledger.networks.values().filter(believed).cloned().collect()))
    }

    fn network_changes(&self, after: u64, limit: usize) -> Answer<Vec<NetworkRecord>> {
        let inner = self.lock();
        let mut found: Vec<NetworkRecord> =
            inner.ledger.networks.values().filter(|one| one.change > after).cloned().collect();
        found.sort_by_key(|one| one.change);
        found.truncate(limit);
        Answer::now(Ok(found))
    }

    fn forget_network(&self, network: &str) -> Answer<bool> {
        Answer::now(Ok(self.lock().ledger.networks.remove(network).is_some()))
    }
}
