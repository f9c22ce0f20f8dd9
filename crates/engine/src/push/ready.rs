//! Whose turn it is among those that are due: hosts in turn, each with its share of the workers.
//!
//! One host with ten thousand receivers, all of them due, takes no more than its share; another one with a single receiver
//! is served next.

use sabir_proto::TaskId;
use sabir_store::Owed;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// What was read from the outbox and has not been marked there yet.
#[derive(Debug, Default)]
pub(super) struct Ready {
    lines: HashMap<Arc<str>, Line>,
    /// Hosts that have a line, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// Configurations that wait here or are being delivered to: there is never a second one of them.
    held: HashSet<(TaskId, String)>,
    in_flight: usize,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Owed>,
    in_flight: usize,
}

impl Ready {
    pub(super) fn holds(&self, owed: &Owed) -> bool {
        self.held.contains(&(owed.task, owed.config.clone()))
    }

    /// How many configurations are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.held.len() - self.in_flight
    }

    /// Puts one at the end of its host's line.
    pub(super) fn add(&mut self, owed: Owed, host: &Arc<str>) {
        if !self.held.insert((owed.task, owed.config.clone())) {
            return;
        }
        let turns = &mut self.turns;
        let line = self.lines.entry(host.clone()).or_insert_with(|| {
            turns.push_back(host.clone());
            Line::default()
        });
        line.waiting.push_back(owed);
    }

    /// The next to go: counted as in flight until it has [`Ready::ended`].
    pub(super) fn next(&mut self, host_workers_max: usize) -> Option<(Owed, Arc<str>)> {
        for _ in 0..self.turns.len() {
            let host = self.turns.pop_front()?;
            self.turns.push_back(host.clone());
            let Some(line) = self.lines.get_mut(&host) else { continue };
            if line.in_flight < host_workers_max
                && let Some(owed) = line.waiting.pop_front()
            {
                line.in_flight += 1;
                self.in_flight += 1;
                return Some((owed, host));
            }
        }
        None
    }

    /// One that was in flight is no longer.
    pub(super) fn ended(&mut self, task: TaskId, config: &str, host: &Arc<str>) {
        self.held.remove(&(task, config.to_owned()));
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(line) = self.lines.get_mut(host) {
            line.in_flight = line.in_flight.saturating_sub(1);
            if line.in_flight == 0 && line.waiting.is_empty() {
                self.lines.remove(host);
                self.turns.retain(|known| known != host);
            }
        }
    }

    /// Lets go of everything that waits for a host.
    pub(super) fn dismiss(&mut self, host: &Arc<str>) -> Vec<Owed> {
        let waiting = self.lines.get_mut(host).map(|line| std::mem::take(&mut line.waiting)).unwrap_or_default();
        for owed in &waiting {
            self.held.remove(&(owed.task, owed.config.clone()));
        }
        waiting.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{Seq, Stamp, Timestamp};

    fn owed(number: u64) -> Owed {
        let (task, at) = (TaskId::new(Stamp::from_u64(number), 1), Timestamp::from_millis(0));
        Owed { number: 1, task, config: "c".into(), seq: Seq(1), last: Seq(1), at, since: at, attempts: 0 }
    }

    #[test]
    fn hosts_take_turns_and_none_takes_more_than_its_share() {
        let (mut ready, busy, quiet) = (Ready::default(), Arc::from("busy"), Arc::from("quiet"));
        (0..10).for_each(|n| ready.add(owed(n), &busy));
        ready.add(owed(10), &quiet);
        ready.add(owed(3), &busy);
        assert_eq!((ready.held(), ready.waiting()), (11, 11), "each configuration once");
        let hosts: Vec<_> = std::iter::from_fn(|| ready.next(2)).map(|(_, host)| host).collect();
        assert_eq!(hosts, [busy.clone(), quiet.clone(), busy.clone()]);
        assert_eq!((ready.in_flight(), ready.waiting()), (3, 8));
        ready.ended(owed(0).task, "c", &busy);
        assert!(!ready.holds(&owed(0)) && ready.holds(&owed(1)));
        assert_eq!(ready.next(2).map(|(owed, _)| owed), Some(owed(2)));
        assert_eq!(ready.dismiss(&busy).len(), 7);
        assert_eq!((ready.held(), ready.waiting(), ready.next(2)), (3, 0, None));
        for (n, host) in [(1, &busy), (2, &busy), (10, &quiet)] {
            ready.ended(owed(n).task, "c", host);
        }
        assert_eq!((ready.held(), ready.in_flight(), ready.lines.len(), ready.turns.len()), (0, 0, 0, 0));
    }
}
