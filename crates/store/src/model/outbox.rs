//! Deliveries to push configurations, row by row.

use super::{LogState, ModelLog};
use crate::outbox::{
    Delivery, DeliveryMark, DeliveryQuery, DueDeliveries, DueDelivery, DueQuery, DueRemainder, JOINED_ATTEMPTS_MAX,
    Lane, Outbox, OutboxChange, PushReceiver, can_join_dead_letter, push_attempt,
};
use crate::{Attempt, StoreFuture, WakeSignal};
use sabir_proto::{Seq, TaskId, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The rows, ordered by number.
#[derive(Debug, Default)]
pub(super) struct OutboxState {
    rows: BTreeMap<i64, OutboxRow>,
    pub(super) last: i64,
}

#[derive(Debug, Clone)]
struct OutboxRow {
    delivery: Delivery,
    since: Timestamp,
    lane: Lane,
}

impl OutboxRow {
    fn is_of(&self, task: TaskId, config: &str) -> bool {
        self.delivery.task == task && self.delivery.config == config
    }

    fn is_pending(&self) -> bool {
        self.delivery.dead_letter.is_none()
    }

    fn add_attempt(&mut self, tried: Option<Attempt>) {
        self.delivery.attempts += u32::from(tried.is_some());
        push_attempt(&mut self.delivery.recent_attempts, tried);
    }

    /// Advances the row to its next event.
    fn advance(&mut self, now: Timestamp) {
        self.delivery.first = self.delivery.first.next();
        self.delivery.attempts = 0;
        self.delivery.recent_attempts.clear();
        self.delivery.due = self.delivery.due.map(|_| now);
    }
}

impl OutboxState {
    pub(super) fn enqueue(&mut self, task: TaskId, config: &str, lane: Lane, (first, last): (Seq, Seq), at: Timestamp) {
        let waits = self.rows.values().any(|row| row.is_pending() && row.is_of(task, config));
        let (number, config) = (self.next_number(), config.to_owned());
        let due = (!waits).then_some(at);
        let letter = Delivery {
            number,
            task,
            config,
            first,
            last,
            at,
            due,
            attempts: 0,
            recent_attempts: Vec::new(),
            dead_letter: None,
        };
        self.rows.insert(number, OutboxRow { delivery: letter, since: at, lane });
    }

    /// Adds a dead letter, for a receiver that is no longer called.
    pub(super) fn enqueue_dead(
        &mut self,
        task: TaskId,
        config: &str,
        lane: Lane,
        (first, last): (Seq, Seq),
        (at, reason): (Timestamp, &str),
    ) {
        if self.extend_dead_letter((task, config), reason, (first, last)) {
            return;
        }
        self.enqueue(task, config, lane, (first, last), at);
        if let Some(row) = self.rows.get_mut(&self.last) {
            row.delivery.due = None;
            row.delivery.dead_letter = Some((at, reason.to_owned()));
        }
    }

    /// Extends a dead letter with these events, if it ends where they begin and has the same reason.
    fn extend_dead_letter(&mut self, (task, config): (TaskId, &str), reason: &str, (first, last): (Seq, Seq)) -> bool {
        let ends_there = |row: &&mut OutboxRow| {
            row.is_of(task, config)
                && row.delivery.last.next() == first
                && row.delivery.attempts <= JOINED_ATTEMPTS_MAX
                && row.delivery.dead_letter.as_ref().is_some_and(|(_, why)| why == reason)
        };
        match self.rows.values_mut().find(ends_there) {
            Some(row) => row.delivery.last = last,
            None => return false,
        }
        true
    }

    /// Pending deliveries go to the new host of the configuration.
    pub(super) fn move_to(&mut self, task: TaskId, config: &str, host: &Arc<str>) {
        self.rows.values_mut().filter(|row| row.is_of(task, config)).for_each(|row| row.lane.host = host.clone());
    }

    /// Whether the task has pending deliveries.
    pub(super) fn has_pending(&self, task: TaskId) -> bool {
        self.rows.values().any(|row| row.is_pending() && row.delivery.task == task)
    }

    /// Removes all rows of a task. Dead letters are what is left once nothing is pending.
    pub(super) fn forget_task(&mut self, task: TaskId) {
        self.rows.retain(|_, row| row.delivery.task != task);
    }

    pub(super) fn forget(&mut self, task: TaskId, config: &str) {
        self.rows.retain(|_, row| !row.is_of(task, config));
    }

    pub(super) const fn next_number(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn due(&self, reading: &DueQuery) -> DueDeliveries {
        let mut due: Vec<(Timestamp, &OutboxRow)> = self
            .rows
            .values()
            .filter_map(|row| row.delivery.due.filter(|due| *due <= reading.now).zip(Some(row)))
            .collect();
        due.sort_by_key(|(due, row)| (*due, row.delivery.number));
        let mut of_lane: HashMap<Lane, usize> = HashMap::new();
        let mut fits = |row: &OutboxRow| {
            let count = of_lane.entry(row.lane.clone()).or_default();
            *count += 1;
            reading.includes(&row.lane) && *count <= reading.lane_limit
        };
        let owed = |(_, row): (Timestamp, &OutboxRow)| {
            let Delivery { number, task, ref config, first, last, at, attempts, .. } = row.delivery;
            let (config, lane) = (config.clone(), row.lane.clone());
            DueDelivery { number, task, config, lane, seq: first, last, at, since: row.since, attempts }
        };
        let owed: Vec<DueDelivery> =
            due.into_iter().filter(|(_, row)| fits(row)).take(reading.limit).map(owed).collect();
        let rest = if owed.len() < reading.limit {
            DueRemainder::Nothing
        } else {
            DueRemainder::ContinueFrom(reading.from.clone())
        };
        DueDeliveries { deliveries: owed, remainder: rest }
    }

    /// Makes the oldest row of a configuration due, unless it is.
    fn promote(&mut self, task: TaskId, config: &str, now: Timestamp) {
        let rows = self.rows.values_mut().filter(|row| row.is_pending() && row.is_of(task, config));
        if let Some(oldest) = rows.min_by_key(|row| row.delivery.first) {
            oldest.delivery.due.get_or_insert(now);
        }
    }

    fn mark(&mut self, number: i64, mark: DeliveryMark) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        let (task, config) = (row.delivery.task, row.delivery.config.clone());
        match mark {
            DeliveryMark::Delivered { now } if row.delivery.first < row.delivery.last => row.advance(now),
            DeliveryMark::Delivered { now } => {
                self.rows.remove(&number);
                self.promote(task, &config, now);
            }
            DeliveryMark::Postpone { until, attempt: tried } => {
                row.add_attempt(tried);
                row.delivery.due = row.delivery.due.map(|_| until);
            }
            DeliveryMark::DeadLetter { now, reason, attempt: tried } => {
                row.add_attempt(tried);
                let mut dead = row.clone();
                dead.delivery.dead_letter = Some((now, reason.clone()));
                dead.delivery.due = None;
                let goes_on = row.delivery.first < row.delivery.last;
                if goes_on {
                    // Only this event becomes a dead letter; the rest of the row stays pending.
                    dead.delivery.last = dead.delivery.first;
                    row.advance(now);
                } else {
                    self.rows.remove(&number);
                }
                let only = (dead.delivery.first, dead.delivery.first);
                let joins = can_join_dead_letter(dead.delivery.attempts, &dead.delivery.recent_attempts);
                if !(joins && self.extend_dead_letter((task, &config), &reason, only)) {
                    if goes_on {
                        dead.delivery.number = self.next_number();
                    }
                    self.rows.insert(dead.delivery.number, dead);
                }
                self.promote(task, &config, now);
            }
            DeliveryMark::EndReceiver { now, reason, attempt: tried } => {
                row.add_attempt(tried);
                for row in self.rows.values_mut().filter(|row| row.is_pending() && row.is_of(task, &config)) {
                    row.delivery.due = None;
                    row.delivery.dead_letter = Some((now, reason.clone()));
                }
            }
        }
    }

    fn revive(&mut self, number: i64, now: Timestamp) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        row.delivery.dead_letter = None;
        row.delivery.attempts = 0;
        row.since = now;
        let (task, config) = (row.delivery.task, row.delivery.config.clone());
        // The revived row may be older than the one that was the oldest.
        self.rows.values_mut().filter(|row| row.is_of(task, &config)).for_each(|row| row.delivery.due = None);
        self.promote(task, &config, now);
    }
}

impl LogState {
    fn change(&mut self, change: OutboxChange) -> bool {
        let (number, seq) = match &change {
            OutboxChange::Mark { number, seq, .. } => (*number, Some(*seq)),
            OutboxChange::Retry { number, .. } | OutboxChange::Discard { number } => (*number, None),
        };
        let Some(row) = self.outbox.rows.get(&number) else { return false };
        if seq.is_some_and(|seq| row.delivery.first != seq || !row.is_pending()) {
            return false;
        }
        let Delivery { task, ref config, due, at, .. } = row.delivery;
        let config = config.clone();
        let ended = match &change {
            OutboxChange::Mark { mark: DeliveryMark::EndReceiver { reason, .. }, .. } => Some(Some(reason.clone())),
            OutboxChange::Retry { .. } => Some(None),
            OutboxChange::Mark { .. } | OutboxChange::Discard { .. } => None,
        };
        let registered = self.tasks.get_mut(&task).and_then(|row| row.pushes.get_mut(&config));
        if let (Some(registered), Some(ended)) = (registered, ended) {
            registered.ended = ended;
        }
        match change {
            OutboxChange::Mark { mark, .. } => self.outbox.mark(number, mark),
            OutboxChange::Retry { now, .. } => self.outbox.revive(number, now),
            OutboxChange::Discard { .. } => {
                self.outbox.rows.remove(&number);
                self.outbox.promote(task, &config, due.unwrap_or(at));
            }
        }
        true
    }
}

impl ModelLog {
    fn change(&self, change: OutboxChange) -> StoreFuture<bool> {
        let moves_on = change.may_make_due();
        let made = self.lock().change(change);
        if moves_on {
            self.due_signal.notify();
        }
        StoreFuture::ready(Ok(made))
    }
}

impl Outbox for ModelLog {
    fn due_signal(&self) -> Arc<WakeSignal> {
        self.due_signal.clone()
    }

    fn due(&self, reading: DueQuery) -> StoreFuture<DueDeliveries> {
        StoreFuture::ready(Ok(self.lock().outbox.due(&reading)))
    }

    fn next_due(&self, after: Timestamp) -> StoreFuture<Option<Timestamp>> {
        StoreFuture::ready(Ok(self
            .lock()
            .outbox
            .rows
            .values()
            .filter_map(|row| row.delivery.due)
            .filter(|due| *due > after)
            .min()))
    }

    fn receiver(&self, task: TaskId, config: &str) -> StoreFuture<Option<PushReceiver>> {
        let inner = self.lock();
        StoreFuture::ready(Ok(inner
            .tasks
            .get(&task)
            .and_then(|row| row.pushes.get(config))
            .map(|r| r.receiver.clone())))
    }

    fn mark(&self, owed: &DueDelivery, mark: DeliveryMark) -> StoreFuture<bool> {
        self.change(OutboxChange::of(owed, mark))
    }

    fn deliveries(&self, letters: DeliveryQuery) -> StoreFuture<Vec<Delivery>> {
        let fits = |letter: &&Delivery| {
            letter.number > letters.after
                && letter.dead_letter.is_some() == letters.dead
                && letters.task.is_none_or(|task| letter.task == task)
        };
        let inner = self.lock();
        StoreFuture::ready(Ok(inner
            .outbox
            .rows
            .values()
            .map(|r| &r.delivery)
            .filter(fits)
            .take(letters.limit)
            .cloned()
            .collect()))
    }

    fn delivery(&self, number: i64) -> StoreFuture<Option<Delivery>> {
        StoreFuture::ready(Ok(self.lock().outbox.rows.get(&number).map(|row| row.delivery.clone())))
    }

    fn retry(&self, number: i64, now: Timestamp) -> StoreFuture<bool> {
        self.change(OutboxChange::Retry { number, now })
    }

    fn discard(&self, number: i64) -> StoreFuture<bool> {
        self.change(OutboxChange::Discard { number })
    }
}
