//! Deliveries to push configurations, row by row.

use super::{Inner, MemoryLog};
use crate::outbox::{
    Change, Due, JOINED_ATTEMPTS_MAX, Lane, Letter, Letters, Mark, Outbox, Owed, Reading, Receiver, Rest, joins,
    keep_attempt,
};
use crate::{Answer, Attempt, Bell};
use sabir_proto::{Seq, TaskId, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The rows, ordered by number.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: BTreeMap<i64, Row>,
    pub(super) last: i64,
}

#[derive(Debug, Clone)]
struct Row {
    letter: Letter,
    since: Timestamp,
    lane: Lane,
}

impl Row {
    fn is_of(&self, task: TaskId, config: &str) -> bool {
        self.letter.task == task && self.letter.config == config
    }

    fn waits(&self) -> bool {
        self.letter.buried.is_none()
    }

    fn tried(&mut self, tried: Option<Attempt>) {
        self.letter.attempts += u32::from(tried.is_some());
        keep_attempt(&mut self.letter.tries, tried);
    }

    /// Advances the row to its next event.
    fn move_on(&mut self, now: Timestamp) {
        self.letter.first = self.letter.first.next();
        self.letter.attempts = 0;
        self.letter.tries.clear();
        self.letter.due = self.letter.due.map(|_| now);
    }
}

impl Rows {
    pub(super) fn owe(&mut self, task: TaskId, config: &str, lane: Lane, (first, last): (Seq, Seq), at: Timestamp) {
        let waits = self.rows.values().any(|row| row.waits() && row.is_of(task, config));
        let (number, config) = (self.next_number(), config.to_owned());
        let due = (!waits).then_some(at);
        let letter =
            Letter { number, task, config, first, last, at, due, attempts: 0, tries: Vec::new(), buried: None };
        self.rows.insert(number, Row { letter, since: at, lane });
    }

    /// Adds a dead letter, for a receiver that is no longer called.
    pub(super) fn owe_in_vain(
        &mut self,
        task: TaskId,
        config: &str,
        lane: Lane,
        (first, last): (Seq, Seq),
        (at, reason): (Timestamp, &str),
    ) {
        if self.join_dead((task, config), reason, (first, last)) {
            return;
        }
        self.owe(task, config, lane, (first, last), at);
        if let Some(row) = self.rows.get_mut(&self.last) {
            row.letter.due = None;
            row.letter.buried = Some((at, reason.to_owned()));
        }
    }

    /// Extends a dead letter with these events, if it ends where they begin and has the same reason.
    fn join_dead(&mut self, (task, config): (TaskId, &str), reason: &str, (first, last): (Seq, Seq)) -> bool {
        let ends_there = |row: &&mut Row| {
            row.is_of(task, config)
                && row.letter.last.next() == first
                && row.letter.attempts <= JOINED_ATTEMPTS_MAX
                && row.letter.buried.as_ref().is_some_and(|(_, why)| why == reason)
        };
        match self.rows.values_mut().find(ends_there) {
            Some(row) => row.letter.last = last,
            None => return false,
        }
        true
    }

    /// Pending deliveries go to the new host of the configuration.
    pub(super) fn move_to(&mut self, task: TaskId, config: &str, host: &Arc<str>) {
        self.rows.values_mut().filter(|row| row.is_of(task, config)).for_each(|row| row.lane.host = host.clone());
    }

    /// Whether the task has pending deliveries.
    pub(super) fn owes(&self, task: TaskId) -> bool {
        self.rows.values().any(|row| row.waits() && row.letter.task == task)
    }

    /// Removes all rows of a task. Dead letters are what is left once nothing is pending.
    pub(super) fn forget_task(&mut self, task: TaskId) {
        self.rows.retain(|_, row| row.letter.task != task);
    }

    pub(super) fn forget(&mut self, task: TaskId, config: &str) {
        self.rows.retain(|_, row| !row.is_of(task, config));
    }

    pub(super) const fn next_number(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn due(&self, reading: &Reading) -> Due {
        let mut due: Vec<(Timestamp, &Row)> = self
            .rows
            .values()
            .filter_map(|row| row.letter.due.filter(|due| *due <= reading.now).zip(Some(row)))
            .collect();
        due.sort_by_key(|(due, row)| (*due, row.letter.number));
        let mut of_lane: HashMap<Lane, usize> = HashMap::new();
        let mut fits = |row: &Row| {
            let count = of_lane.entry(row.lane.clone()).or_default();
            *count += 1;
            reading.wants(&row.lane) && *count <= reading.lane_limit
        };
        let owed = |(_, row): (Timestamp, &Row)| {
            let Letter { number, task, ref config, first, last, at, attempts, .. } = row.letter;
            let (config, lane) = (config.clone(), row.lane.clone());
            Owed { number, task, config, lane, seq: first, last, at, since: row.since, attempts }
        };
        let owed: Vec<Owed> = due.into_iter().filter(|(_, row)| fits(row)).take(reading.limit).map(owed).collect();
        let rest = if owed.len() < reading.limit { Rest::Nothing } else { Rest::From(reading.from.clone()) };
        Due { owed, rest }
    }

    /// Makes the oldest row of a configuration due, unless it is.
    fn promote(&mut self, task: TaskId, config: &str, now: Timestamp) {
        let rows = self.rows.values_mut().filter(|row| row.waits() && row.is_of(task, config));
        if let Some(oldest) = rows.min_by_key(|row| row.letter.first) {
            oldest.letter.due.get_or_insert(now);
        }
    }

    fn mark(&mut self, number: i64, mark: Mark) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        let (task, config) = (row.letter.task, row.letter.config.clone());
        match mark {
            Mark::Done { now } if row.letter.first < row.letter.last => row.move_on(now),
            Mark::Done { now } => {
                self.rows.remove(&number);
                self.promote(task, &config, now);
            }
            Mark::Postpone { until, tried } => {
                row.tried(tried);
                row.letter.due = row.letter.due.map(|_| until);
            }
            Mark::Bury { now, reason, tried } => {
                row.tried(tried);
                let mut dead = row.clone();
                dead.letter.buried = Some((now, reason.clone()));
                dead.letter.due = None;
                let goes_on = row.letter.first < row.letter.last;
                if goes_on {
                    // Only this event becomes a dead letter; the rest of the row stays pending.
                    dead.letter.last = dead.letter.first;
                    row.move_on(now);
                } else {
                    self.rows.remove(&number);
                }
                let only = (dead.letter.first, dead.letter.first);
                let joins = joins(dead.letter.attempts, &dead.letter.tries);
                if !(joins && self.join_dead((task, &config), &reason, only)) {
                    if goes_on {
                        dead.letter.number = self.next_number();
                    }
                    self.rows.insert(dead.letter.number, dead);
                }
                self.promote(task, &config, now);
            }
            Mark::End { now, reason, tried } => {
                row.tried(tried);
                for row in self.rows.values_mut().filter(|row| row.waits() && row.is_of(task, &config)) {
                    row.letter.due = None;
                    row.letter.buried = Some((now, reason.clone()));
                }
            }
        }
    }

    fn dig_up(&mut self, number: i64, now: Timestamp) {
        let Some(row) = self.rows.get_mut(&number) else { return };
        row.letter.buried = None;
        row.letter.attempts = 0;
        row.since = now;
        let (task, config) = (row.letter.task, row.letter.config.clone());
        // The revived row may be older than the one that was the oldest.
        self.rows.values_mut().filter(|row| row.is_of(task, &config)).for_each(|row| row.letter.due = None);
        self.promote(task, &config, now);
    }
}

impl Inner {
    fn change(&mut self, change: Change) -> bool {
        let (number, seq) = match &change {
            Change::Mark { number, seq, .. } => (*number, Some(*seq)),
            Change::Retry { number, .. } | Change::Discard { number } => (*number, None),
        };
        let Some(row) = self.outbox.rows.get(&number) else { return false };
        if seq.is_some_and(|seq| row.letter.first != seq || !row.waits()) {
            return false;
        }
        let Letter { task, ref config, due, at, .. } = row.letter;
        let config = config.clone();
        let ended = match &change {
            Change::Mark { mark: Mark::End { reason, .. }, .. } => Some(Some(reason.clone())),
            Change::Retry { .. } => Some(None),
            Change::Mark { .. } | Change::Discard { .. } => None,
        };
        let registered = self.tasks.get_mut(&task).and_then(|row| row.pushes.get_mut(&config));
        if let (Some(registered), Some(ended)) = (registered, ended) {
            registered.ended = ended;
        }
        match change {
            Change::Mark { mark, .. } => self.outbox.mark(number, mark),
            Change::Retry { now, .. } => self.outbox.dig_up(number, now),
            Change::Discard { .. } => {
                self.outbox.rows.remove(&number);
                self.outbox.promote(task, &config, due.unwrap_or(at));
            }
        }
        true
    }
}

impl MemoryLog {
    fn change(&self, change: Change) -> Answer<bool> {
        let moves_on = change.moves_on();
        let made = self.lock().change(change);
        if moves_on {
            self.bell.ring();
        }
        Answer::now(Ok(made))
    }
}

impl Outbox for MemoryLog {
    fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    fn due(&self, reading: Reading) -> Answer<Due> {
        Answer::now(Ok(self.lock().outbox.due(&reading)))
    }

    fn next_due(&self, after: Timestamp) -> Answer<Option<Timestamp>> {
        Answer::now(Ok(self
            .lock()
            .outbox
            .rows
            .values()
            .filter_map(|row| row.letter.due)
            .filter(|due| *due > after)
            .min()))
    }

    fn receiver(&self, task: TaskId, config: &str) -> Answer<Option<Receiver>> {
        let inner = self.lock();
        Answer::now(Ok(inner.tasks.get(&task).and_then(|row| row.pushes.get(config)).map(|r| r.receiver.clone())))
    }

    fn mark(&self, owed: &Owed, mark: Mark) -> Answer<bool> {
        self.change(Change::of(owed, mark))
    }

    fn letters(&self, letters: Letters) -> Answer<Vec<Letter>> {
        let fits = |letter: &&Letter| {
            letter.number > letters.after
                && letter.buried.is_some() == letters.dead
                && letters.task.is_none_or(|task| letter.task == task)
        };
        let inner = self.lock();
        Answer::now(Ok(inner
            .outbox
            .rows
            .values()
            .map(|r| &r.letter)
            .filter(fits)
            .take(letters.limit)
            .cloned()
            .collect()))
    }

    fn letter(&self, number: i64) -> Answer<Option<Letter>> {
        Answer::now(Ok(self.lock().outbox.rows.get(&number).map(|row| row.letter.clone())))
    }

    fn retry(&self, number: i64, now: Timestamp) -> Answer<bool> {
        self.change(Change::Retry { number, now })
    }

    fn discard(&self, number: i64) -> Answer<bool> {
        self.change(Change::Discard { number })
    }
}
