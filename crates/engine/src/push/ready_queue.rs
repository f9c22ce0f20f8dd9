//! The queue of due deliveries: owners in turn, and the hosts of each in turn, with their shares of the workers.
//!
//! Deliveries queue in lanes: those of one owner to one host. One owner takes at most three quarters of the workers,
//! and as much of a host's share. So an owner that registers ten thousand receivers that hang, at one host or at many,
//! leaves room for others, and another owner with a single receiver is served next.

use sabir_proto::{TaskId, Timestamp};
use sabir_store::{DueDelivery, DueQuery, DueRemainder, Lane};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Deliveries read from the outbox at a time.
const PAGE: usize = 256;
/// Configurations in memory, of all owners and of one: this only bounds memory.
const HELD_MAX: usize = 16 << 10;
const OWNER_HELD_MAX: usize = 1024;
/// Configurations that wait in one lane before no more of it is read.
const LANE_WAITING_MAX: usize = 32;

/// The number of deliveries in flight at the same time, in all and per host.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerShares {
    pub(super) workers: usize,
    pub(super) host_workers: usize,
}

impl WorkerShares {
    /// The most that one owner may take: three quarters.
    const fn share_max(whole: usize) -> usize {
        whole - whole / 4
    }
}

/// Deliveries that were read from the outbox and have no recorded result yet.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    lanes: HashMap<Lane, LaneQueue>,
    /// Owners in the order of their turns, each with its hosts in the order of theirs.
    turns: VecDeque<(i64, VecDeque<Arc<str>>)>,
    /// Configurations that wait or are in flight here: each at most once.
    held: HashSet<(TaskId, String)>,
    /// Configurations that have left `held` since the latest reading began. That reading may show them as they were
    /// before; adding them again would deliver twice.
    outdated: HashSet<(TaskId, String)>,
    in_flight: InFlightCounts,
    /// Where the last reading stopped.
    from: Option<Lane>,
}

#[derive(Debug, Default)]
struct LaneQueue {
    waiting: VecDeque<DueDelivery>,
    in_flight: usize,
}

#[derive(Debug, Clone, Default)]
struct InFlightCounts {
    all: usize,
    by_owner: HashMap<i64, usize>,
    by_host: HashMap<Arc<str>, usize>,
}

impl InFlightCounts {
    /// How many more may go in a lane by the shares of its owner and its host.
    fn room(&self, lane: &Lane, shares: WorkerShares) -> usize {
        let owner = WorkerShares::share_max(shares.workers)
            .saturating_sub(self.by_owner.get(&lane.owner).copied().unwrap_or(0));
        let host = shares.host_workers.saturating_sub(self.by_host.get(&lane.host).copied().unwrap_or(0));
        owner.min(host)
    }

    fn add(&mut self, lane: &Lane, count: usize) {
        self.all += count;
        *self.by_owner.entry(lane.owner).or_default() += count;
        *self.by_host.entry(lane.host.clone()).or_default() += count;
    }

    fn take(&mut self, lane: &Lane) {
        self.all = self.all.saturating_sub(1);
        let by_owner =
            self.by_owner.get_mut(&lane.owner).map(|count| std::mem::replace(count, count.saturating_sub(1)));
        if by_owner.is_some_and(|was| was <= 1) {
            self.by_owner.remove(&lane.owner);
        }
        let by_host = self.by_host.get_mut(&lane.host).map(|count| std::mem::replace(count, count.saturating_sub(1)));
        if by_host.is_some_and(|was| was <= 1) {
            self.by_host.remove(&lane.host);
        }
    }
}

impl LaneQueue {
    /// How many of this lane may go by its own share.
    fn sendable(&self, shares: WorkerShares) -> usize {
        self.waiting.len().min(WorkerShares::share_max(shares.host_workers).saturating_sub(self.in_flight))
    }
}

impl ReadyQueue {
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight.all
    }

    /// Whether a worker is free and no delivery may go.
    pub(super) fn is_idle(&self, shares: WorkerShares) -> bool {
        self.in_flight.all < shares.workers && self.held.len() < HELD_MAX && self.sendable(shares) == 0
    }

    /// The number of deliveries that wait only for a worker.
    fn sendable(&self, shares: WorkerShares) -> usize {
        let mut planned = self.in_flight.clone();
        for (lane, line) in &self.lanes {
            let count = line.sendable(shares).min(planned.room(lane, shares));
            planned.add(lane, count);
        }
        planned.all - self.in_flight.all
    }

    /// What to read next; `None` while enough waits.
    pub(super) fn next_reading(&mut self, now: Timestamp, shares: WorkerShares) -> Option<DueQuery> {
        self.outdated.clear();
        if self.sendable(shares) >= shares.workers || self.held.len() >= HELD_MAX {
            return None;
        }
        let mut of_owner: HashMap<i64, usize> = HashMap::new();
        let mut full = HashSet::new();
        for (lane, line) in &self.lanes {
            *of_owner.entry(lane.owner).or_default() += line.waiting.len() + line.in_flight;
            let stuck = !line.waiting.is_empty() && self.in_flight.room(lane, shares) == 0;
            if line.waiting.len() >= LANE_WAITING_MAX || stuck {
                full.insert(lane.clone());
            }
        }
        let most = WorkerShares::share_max(shares.workers);
        let busy = |owner: &i64| self.in_flight.by_owner.get(owner).is_some_and(|count| *count >= most);
        let is_full = |(owner, held): (i64, usize)| (held >= OWNER_HELD_MAX || busy(&owner)).then_some(owner);
        let full_owners = of_owner.into_iter().filter_map(is_full).collect();
        // Held deliveries are due as well, and are read again.
        let (limit, lane_limit) = (self.held.len() + PAGE, LANE_WAITING_MAX + shares.host_workers);
        Some(DueQuery { now, limit, lane_limit, full_lanes: full, full_owners, from: self.from.clone() })
    }

    /// Sets where the next reading continues; true when something is left to read.
    pub(super) fn continue_from(&mut self, rest: DueRemainder) -> bool {
        match rest {
            DueRemainder::Nothing => self.from = None,
            DueRemainder::ContinueFrom(lane) => {
                self.from = lane;
                return true;
            }
        }
        false
    }

    /// Adds a delivery to the end of its lane, unless it is held or outdated.
    pub(super) fn add(&mut self, owed: DueDelivery) {
        let configuration = (owed.task, owed.config.clone());
        if self.outdated.contains(&configuration) || !self.held.insert(configuration) {
            return;
        }
        let lane = owed.lane.clone();
        let turns = &mut self.turns;
        let line = self.lanes.entry(lane).or_insert_with_key(|lane| {
            match turns.iter_mut().find(|(owner, _)| *owner == lane.owner) {
                Some((_, hosts)) => hosts.push_back(lane.host.clone()),
                None => turns.push_back((lane.owner, VecDeque::from([lane.host.clone()]))),
            }
            LaneQueue::default()
        });
        line.waiting.push_back(owed);
    }

    /// Takes the next delivery to start; it counts as in flight until [`ReadyQueue::finish`].
    pub(super) fn next(&mut self, shares: WorkerShares) -> Option<DueDelivery> {
        for _ in 0..self.turns.len() {
            let (owner, mut hosts) = self.turns.pop_front()?;
            let mut found = None;
            for _ in 0..hosts.len() {
                let Some(host) = hosts.pop_front() else { break };
                hosts.push_back(host.clone());
                let lane = Lane { owner, host };
                let room = self.in_flight.room(&lane, shares);
                if let Some(line) = self.lanes.get_mut(&lane).filter(|line| room > 0 && line.sendable(shares) > 0) {
                    found = line.waiting.pop_front();
                    line.in_flight += usize::from(found.is_some());
                    self.in_flight.add(&lane, usize::from(found.is_some()));
                    break;
                }
            }
            self.turns.push_back((owner, hosts));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Removes a delivery that is no longer in flight.
    pub(super) fn finish(&mut self, owed: &DueDelivery) {
        let configuration = (owed.task, owed.config.clone());
        self.held.remove(&configuration);
        self.outdated.insert(configuration);
        self.in_flight.take(&owed.lane);
        if let Some(line) = self.lanes.get_mut(&owed.lane) {
            line.in_flight = line.in_flight.saturating_sub(1);
            self.forget_if_empty(&owed.lane);
        }
    }

    /// Removes everything that waits in a lane.
    pub(super) fn take_waiting(&mut self, lane: &Lane) -> Vec<DueDelivery> {
        let waiting = self.lanes.get_mut(lane).map(|line| std::mem::take(&mut line.waiting)).unwrap_or_default();
        for owed in &waiting {
            self.held.remove(&(owed.task, owed.config.clone()));
        }
        self.forget_if_empty(lane);
        waiting.into()
    }

    fn forget_if_empty(&mut self, lane: &Lane) {
        if self.lanes.get(lane).is_none_or(|line| line.in_flight > 0 || !line.waiting.is_empty()) {
            return;
        }
        self.lanes.remove(lane);
        if let Some((_, hosts)) = self.turns.iter_mut().find(|(owner, _)| *owner == lane.owner) {
            hosts.retain(|host| *host != lane.host);
        }
        self.turns.retain(|(_, hosts)| !hosts.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{Seq, Stamp};

    const SHARES: WorkerShares = WorkerShares { workers: 8, host_workers: 4 };

    fn owed(number: u64, owner: i64, host: &str) -> DueDelivery {
        let (task, at) = (TaskId::new(Stamp::from_u64(number), 1), Timestamp::from_millis(0));
        let lane = Lane { owner, host: host.into() };
        DueDelivery { number: 1, task, config: "c".into(), lane, seq: Seq(1), last: Seq(1), at, since: at, attempts: 0 }
    }

    fn lanes(ready: &mut ReadyQueue) -> Vec<(i64, String)> {
        std::iter::from_fn(|| ready.next(SHARES)).map(|o| (o.lane.owner, o.lane.host.to_string())).collect()
    }

    #[test]
    fn hosts_take_turns_and_none_takes_more_than_its_share() {
        let mut ready = ReadyQueue::default();
        (0..10).for_each(|n| ready.add(owed(n, 1, "busy")));
        ready.add(owed(10, 1, "quiet"));
        ready.add(owed(3, 1, "busy"));
        assert_eq!((ready.held.len(), ready.sendable(SHARES)), (11, 4), "each configuration once");
        let hosts: Vec<_> = lanes(&mut ready).into_iter().map(|(_, host)| host).collect();
        assert_eq!(hosts, ["busy", "quiet", "busy", "busy"], "one owner leaves some of a host's share");
        assert_eq!((ready.in_flight(), ready.held.len(), ready.sendable(SHARES)), (4, 11, 0));
        ready.finish(&owed(0, 1, "busy"));
        let holds = |n| ready.held.contains(&(owed(n, 1, "busy").task, "c".to_owned()));
        assert!(!holds(0) && holds(1));
        assert_eq!(ready.next(SHARES).map(|owed| owed.task), Some(owed(3, 1, "busy").task));
        assert_eq!(ready.take_waiting(&owed(0, 1, "busy").lane).len(), 6);
        assert_eq!((ready.held.len(), ready.sendable(SHARES), ready.next(SHARES)), (4, 0, None));
        for (n, host) in [(1, "busy"), (2, "busy"), (3, "busy"), (10, "quiet")] {
            ready.finish(&owed(n, 1, host));
        }
        assert_eq!((ready.held.len(), ready.in_flight(), ready.lanes.len(), ready.turns.len()), (0, 0, 0, 0));
        assert!(ready.in_flight.by_host.is_empty() && ready.in_flight.by_owner.is_empty());
    }

    #[test]
    fn what_ends_while_the_outbox_is_read_is_not_delivered_again() {
        let (mut ready, now) = (ReadyQueue::default(), Timestamp::from_millis(0));
        ready.add(owed(1, 1, "h"));
        let delivered = ready.next(SHARES).expect("it may go");
        ready.next_reading(now, SHARES).expect("more is wanted");
        ready.finish(&delivered);
        // Read before its result was recorded, added after.
        ready.add(owed(1, 1, "h"));
        assert_eq!(ready.next(SHARES), None);
        ready.next_reading(now, SHARES).expect("more is wanted");
        ready.add(owed(1, 1, "h"));
        assert!(ready.next(SHARES).is_some(), "the next reading knows better");
    }

    #[test]
    fn an_owner_with_many_hosts_leaves_room_for_another() {
        let mut ready = ReadyQueue::default();
        (0..100).for_each(|n| ready.add(owed(n, 1, &format!("h{n}"))));
        assert_eq!(lanes(&mut ready).len(), 6, "most of eight");
        assert!(ready.is_idle(SHARES), "there is a worker for others, and nothing for it");
        let reading = ready.next_reading(Timestamp::from_millis(0), SHARES).expect("more is wanted");
        assert!(reading.full_owners.contains(&1) && !reading.full_owners.contains(&2));
        ready.add(owed(100, 2, "h1"));
        assert_eq!(lanes(&mut ready), [(2, "h1".to_owned())]);
    }

    #[test]
    fn an_owner_leaves_room_at_a_host_that_others_share() {
        let mut ready = ReadyQueue::default();
        (0..10).for_each(|n| ready.add(owed(n, 1, "h")));
        assert_eq!(lanes(&mut ready).len(), 3);
        (10..15).for_each(|n| ready.add(owed(n, 2, "h")));
        assert_eq!(lanes(&mut ready), [(2, "h".to_owned())], "four at a host, whoever they are of");
    }

    #[test]
    fn no_more_is_read_of_a_lane_that_is_full() {
        let mut ready = ReadyQueue::default();
        (0..40).for_each(|n| ready.add(owed(n, 1, "h")));
        lanes(&mut ready);
        let reading = ready.next_reading(Timestamp::from_millis(0), SHARES).expect("more is wanted");
        assert!(reading.full_lanes.contains(&owed(0, 1, "h").lane));
        assert!(!reading.full_lanes.contains(&owed(0, 1, "other").lane));
        assert!(ready.continue_from(DueRemainder::ContinueFrom(Some(owed(0, 1, "h").lane))));
        assert_eq!(ready.next_reading(reading.now, SHARES).and_then(|r| r.from), Some(owed(0, 1, "h").lane));
        assert!(!ready.continue_from(DueRemainder::Nothing));
    }
}
