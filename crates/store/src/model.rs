//! The model of a task log: what every store has to answer, as plainly as it can be said.
//!
//! The simulator runs on it, because it is twice as fast as a database, and tests compare the answers of a store with
//! its answers. It is written for clarity, not for speed: a list sorts everything its owner has. No server uses it.

mod ledger;
mod outbox;
mod retention;
mod subtasks;

use crate::list::{COUNT_MAX, ListCursor, StoredTaskPage, TaskListQuery};
use crate::{
    AppendError, Digest, Effect, LOSS_NOTES_MAX, Lane, LossNote, Opening, ParentLink, PendingCancel, PushReceiver,
    Scope, Step, StoreError, StoreFuture, StoredRetry, StoredTask, TaskLog, TaskSnapshot, TurnProgress, WakeSignal,
};
use bytes::Bytes;
use sabir_proto::{AgentName, Caller, ContextId, FrozenEvent, PushConfig, Seq, Stamp, TaskId, TaskState};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

/// The model of a task log. It is in memory, and does not survive the process.
#[derive(Debug, Default)]
pub(crate) struct ModelLog {
    inner: Mutex<LogState>,
    due_signal: Arc<WakeSignal>,
}

#[derive(Debug, Default)]
struct LogState {
    tasks: BTreeMap<TaskId, TaskRow>,
    keys: HashMap<Digest, (StoredRetry, Stamp)>,
    aliases: HashMap<(Arc<Scope>, Arc<str>), TaskId>,
    notes: HashMap<TaskId, Vec<LossNote>>,
    owed_cancels: BTreeMap<TaskId, PendingCancel>,
    outbox: outbox::OutboxState,
    ledger: ledger::LedgerState,
    /// By root, in millionths.
    spent: HashMap<TaskId, u64>,
    commits: u64,
    last_stamp: Stamp,
    /// What the tasks of each caller have in bytes.
    stored_bytes: HashMap<Caller, u64>,
}

#[derive(Debug, Clone)]
struct TaskRow {
    scope: Arc<Scope>,
    context: ContextId,
    state: TaskState,
    /// Every position the task has had, with the commit that put it there; the last one is current.
    places: Vec<(u64, Stamp)>,
    events: Vec<FrozenEvent>,
    base: Option<TaskSnapshot>,
    progress: TurnProgress,
    retries: Vec<StoredRetry>,
    pushes: BTreeMap<String, PushRow>,
    kin: Option<ParentLink>,
    /// The task was handed over to the caller that presented the claim.
    claimed: bool,
    /// The data that the agent stores with the task.
    agent_data: Option<Bytes>,
    /// What events, the text once it is settled, and the data of the agent have in bytes.
    bytes: u64,
}

/// A push configuration, as it is registered.
#[derive(Debug, Clone)]
struct PushRow {
    receiver: PushReceiver,
    host: Arc<str>,
    /// The reason why its receiver is no longer called.
    ended: Option<String>,
}

impl TaskRow {
    fn of(opening: &Opening) -> Self {
        Self {
            scope: opening.scope.clone(),
            context: opening.context.clone(),
            state: TaskState::Submitted,
            places: Vec::new(),
            events: Vec::new(),
            base: None,
            progress: TurnProgress::default(),
            retries: Vec::new(),
            pushes: BTreeMap::new(),
            kin: opening.child_of.as_ref().map(|birth| birth.parent_link.clone()),
            claimed: false,
            agent_data: None,
            bytes: 0,
        }
    }

    /// The position of the task as of a commit; `None` before the task existed.
    fn position_at(&self, commit: u64) -> Option<Stamp> {
        self.places.iter().rev().find(|(since, _)| *since <= commit).map(|(_, position)| *position)
    }

    /// Keeps data of the agent, in place of what it kept before.
    fn keep_data(&mut self, data: Bytes) {
        self.bytes += length(&data);
        self.bytes -= self.agent_data.replace(data).map_or(0, |before| length(&before));
    }

    /// Whether events may follow this one.
    fn accepts(&self, after: Seq) -> bool {
        !self.state.is_settled() && self.events.last().is_some_and(|e| e.seq == after)
    }

    fn current(&self) -> Stamp {
        self.places.last().map_or_else(Stamp::default, |(_, position)| *position)
    }

    fn stored(&self, id: TaskId) -> StoredTask {
        let from = self.base.as_ref().map_or(Seq(0), |b| b.seq);
        let head = self.events.last().map_or(Seq(0), |e| e.seq);
        StoredTask {
            id,
            scope: self.scope.clone(),
            state: self.state,
            head,
            base: self.base.clone(),
            tail: self.events.iter().filter(|e| e.seq > from).cloned().collect(),
            progress: self.progress.clone(),
            is_child: self.kin.is_some(),
            is_claimed: self.claimed,
        }
    }
}

impl ModelLog {
    fn lock(&self) -> MutexGuard<'_, LogState> {
        // A panic under the lock is a bug; the data behind it is still what was committed.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl LogState {
    fn append(&mut self, step: Step) -> Result<(), AppendError> {
        let now = step.placement.map_or(step.task.stamp(), |p| p.position);
        if let Some(birth) = step.opening.as_ref().and_then(|opening| opening.child_of.as_deref()) {
            self.check_new_child(birth)?;
        }
        let mut row = match (&step.opening, self.tasks.get(&step.task)) {
            (Some(opening), None) => TaskRow::of(opening),
            (None, Some(row)) if step.events.is_empty() || row.accepts(step.after) => row.clone(),
            _ => return Err(AppendError::Stale),
        };
        let (head, commit, opens) = (step.head(), self.commits + 1, step.opening.is_some());
        let eventless = step.events.is_empty();
        if let Some(placement) = step.placement {
            row.state = placement.state;
            row.places.push((commit, placement.position));
        }
        if step.events.is_empty() && step.opening.is_some() {
            let snapshot = step.snapshot.as_ref().ok_or_else(|| StoreError::Io("an opening without content".into()))?;
            row.events.push(FrozenEvent::of_task(Seq(1), snapshot));
        }
        let was = (row.scope.caller.clone(), row.bytes);
        row.bytes += bytes_of(&step, row.state);
        row.events.extend(step.events);
        if let Some(task) = step.snapshot {
            row.base = Some(TaskSnapshot { seq: head, task });
        }
        if let Some((turn, attempt)) = step.turn {
            row.progress = TurnProgress { turn, attempt, checkpoint: row.progress.checkpoint.take() };
        }
        if let Some(checkpoint) = step.checkpoint {
            row.progress.checkpoint = Some(checkpoint);
        }
        if row.state.is_settled() {
            // No agent continues this turn any more.
            row.progress.checkpoint = None;
        }
        if let Some(mark) = step.retry {
            let at = if step.opening.is_some() { step.task.stamp() } else { now };
            row.retries.push(StoredRetry { mark, task: step.task, at });
        }
        // Changes are collected here until none of them can be refused any more.
        let mut keys: HashMap<Digest, (StoredRetry, Stamp)> = HashMap::new();
        let mut aliases: HashMap<(Arc<Scope>, Arc<str>), TaskId> = HashMap::new();
        let (mut deleted, mut moved, mut late, mut spent) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut cancel, mut booked, mut adopted) = (None, Vec::new(), false);
        for effect in step.effects {
            match effect {
                Effect::Key { mark, at, until } => {
                    let old = keys.get(&mark.key).or_else(|| self.keys.get(&mark.key));
                    if old.is_some_and(|(_, old_until)| *old_until > at) {
                        return Err(AppendError::KeyTaken);
                    }
                    keys.insert(mark.key, (StoredRetry { mark, task: step.task, at }, until));
                }
                Effect::PutPush { config, dialect, host, at, configs_max } => {
                    let id = config.id.clone().unwrap_or_default();
                    let registered = PushRow { receiver: PushReceiver { config, dialect }, host, ended: None };
                    let known = row.pushes.insert(id.clone(), registered).is_some();
                    moved.extend(known.then(|| id.clone()));
                    if row.pushes.len() > configs_max as usize {
                        return Err(AppendError::TooManyConfigs);
                    }
                    // Where events come with the registration, they are queued with their step.
                    if !known && row.state.is_settled() && eventless && !opens {
                        late.push((Some(id), at));
                    }
                }
                Effect::DeletePush { id } => {
                    row.pushes.remove(&id);
                    late.iter_mut().filter(|(late, _)| late.as_ref() == Some(&id)).for_each(|(late, _)| *late = None);
                    deleted.push(id);
                }
                Effect::SetAlias { name, was } => {
                    let named = (row.scope.clone(), name);
                    if aliases.get(&named).or_else(|| self.aliases.get(&named)).copied() != was {
                        return Err(AppendError::NameMoved);
                    }
                    aliases.insert(named, step.task);
                }
                Effect::Claim(_) if row.claimed => return Err(AppendError::Stale),
                Effect::Claim(by) if by == row.scope => row.claimed = true,
                Effect::Claim(by) => {
                    (row.scope, row.claimed, adopted) = (by, true, true);
                    late.iter_mut().for_each(|(late, _)| *late = None);
                    deleted.extend(std::mem::take(&mut row.pushes).into_keys());
                }
                // For readers of the SQLite file; a store in memory has none.
                Effect::WaitFor(_) => {}
                Effect::StoreAgentData(data) => row.keep_data(data),
                Effect::SetPendingCancel(owed) => cancel = Some(owed),
                Effect::Spend { root, micros } => spent.push((root, micros)),
                Effect::Ledger(effect) => booked.push(*effect),
            }
        }
        self.ledger.apply(step.task, booked)?;
        deleted.iter().for_each(|config| self.outbox.forget(step.task, config));
        for config in moved {
            if let Some(registered) = row.pushes.get(&config) {
                self.outbox.move_to(step.task, &config, &registered.host);
            }
        }
        let last = row.events.last().map_or(Seq(0), |event| event.seq);
        for (config, at) in late {
            let first = row.progress.turn.next().min(last);
            match config {
                Some(config) => {
                    let Some(registered) = row.pushes.get(&config) else { continue };
                    self.outbox.enqueue(step.task, &config, Lane::of(&row.scope, &registered.host), (first, last), at);
                }
                // The configuration is deleted in the same step; its number is used up.
                None => drop(self.outbox.next_number()),
            }
        }
        if let Some(at) = step.notify.filter(|_| head > step.after) {
            let events = (step.after.next(), head);
            // Pending deliveries get their numbers before dead letters.
            for (config, registered) in row.pushes.iter().filter(|(_, registered)| registered.ended.is_none()) {
                self.outbox.enqueue(step.task, config, Lane::of(&row.scope, &registered.host), events, at);
            }
            for (config, PushRow { host, ended, .. }) in &row.pushes {
                let Some(reason) = ended else { continue };
                self.outbox.enqueue_dead(step.task, config, Lane::of(&row.scope, host), events, (at, reason));
            }
        }
        self.commits = commit;
        self.keys.extend(keys);
        match cancel {
            Some(Some(owed)) => drop(self.owed_cancels.insert(step.task, *owed)),
            Some(None) => drop(self.owed_cancels.remove(&step.task)),
            None => {}
        }
        for (root, micros) in spent {
            *self.spent.entry(root).or_default() += micros;
        }
        self.aliases.extend(aliases);
        if adopted {
            self.aliases.retain(|(scope, _), task| *task != step.task || *scope == row.scope);
        }
        self.last_stamp = self.last_stamp.max(now).max(step.task.stamp());
        self.take_off(&was.0, was.1);
        *self.stored_bytes.entry(row.scope.caller.clone()).or_default() += row.bytes;
        self.tasks.insert(step.task, row);
        Ok(())
    }

    /// Takes bytes off what a caller has stored.
    fn take_off(&mut self, caller: &Caller, bytes: u64) {
        if let Some(stored) = self.stored_bytes.get_mut(caller) {
            *stored = stored.saturating_sub(bytes);
        }
    }

    fn note(&mut self, task: TaskId, note: LossNote) {
        if !self.tasks.contains_key(&task) {
            return;
        }
        let kept = self.notes.entry(task).or_default();
        let more = note.without_details();
        let different = kept.iter().filter(|known| !known.is_like(&more)).count();
        let fits = different < LOSS_NOTES_MAX || kept.iter().any(|known| known.is_like(&note));
        let note = if fits { note } else { more };
        match kept.iter_mut().find(|known| known.is_like(&note)) {
            Some(known) => {
                known.first_at = known.first_at.min(note.first_at);
                known.count += note.count;
            }
            None => kept.push(note),
        }
        kept.sort_unstable();
    }

    fn list(&self, listing: &TaskListQuery) -> Result<StoredTaskPage, StoreError> {
        let ListCursor { commit, below } = ListCursor::of(listing, self.commits)?;
        if commit > self.commits {
            return Err(StoreError::PageToken);
        }
        let since = listing.since.unwrap_or_default();
        let mut matching: Vec<(Stamp, TaskId, &TaskRow)> = Vec::new();
        let mut total = 0;
        for (id, row) in &self.tasks {
            let fits = *row.scope == *listing.scope
                && listing.context.as_ref().is_none_or(|c| *c == row.context)
                && listing.state.is_none_or(|states| states.contains(row.state));
            if !fits {
                continue;
            }
            total += u64::from(row.current() >= since);
            if let Some(position) = row.position_at(commit)
                && position < below
                && row.current() >= since
            {
                matching.push((position, *id, row));
            }
        }
        matching.sort_by_key(|(position, ..)| std::cmp::Reverse(*position));
        let (mut tasks, mut last, mut bytes) = (Vec::new(), None, 0);
        for (below, id, row) in matching.iter().take(listing.limit) {
            let stored = row.stored(*id);
            bytes += stored.bytes();
            if bytes > listing.bytes_max && !tasks.is_empty() {
                break;
            }
            tasks.push(stored);
            last = Some(*below);
        }
        let next =
            last.filter(|_| tasks.len() < matching.len()).map(|below| ListCursor { commit, below }.token(listing));
        let total = if listing.since.is_some() { total.min(COUNT_MAX) } else { total };
        Ok(StoredTaskPage { tasks, next, total })
    }
}

/// What a step stores in bytes beside the data of its agent; its snapshot is kept as the task once that has settled.
fn bytes_of(step: &Step, state: TaskState) -> u64 {
    let events = step.events.iter().map(|event| length(&event.json)).sum::<u64>();
    events + step.snapshot.as_ref().filter(|_| state.is_settled()).map_or(0, |task| length(&task.json))
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl TaskLog for ModelLog {
    fn handed_over(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<TaskId>> {
        let inner = self.lock();
        let gone = inner.tasks.iter().filter(|(_, row)| row.state == TaskState::Transferred && row.current() >= since);
        let mut gone: Vec<(Stamp, TaskId)> = gone.map(|(id, row)| (row.current(), *id)).collect();
        gone.sort_unstable();
        StoreFuture::ready(Ok(gone.into_iter().take(limit).map(|(_, id)| id).collect()))
    }

    fn append(&self, step: Step) -> StoreFuture<(), AppendError> {
        let mut inner = self.lock();
        let before = inner.outbox.last;
        let taken = inner.append(step);
        if inner.outbox.last > before {
            self.due_signal.notify();
        }
        drop(inner);
        StoreFuture::ready(taken)
    }

    fn load(&self, id: TaskId) -> StoreFuture<Option<StoredTask>> {
        StoreFuture::ready(Ok(self.lock().tasks.get(&id).map(|row| row.stored(id))))
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> StoreFuture<Vec<FrozenEvent>> {
        let inner = self.lock();
        let events = inner.tasks.get(&id).map_or(&[][..], |row| &row.events);
        StoreFuture::ready(Ok(events.iter().filter(|e| e.seq > after).take(limit).cloned().collect()))
    }

    fn list(&self, listing: TaskListQuery) -> StoreFuture<StoredTaskPage> {
        StoreFuture::ready(self.lock().list(&listing))
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<StoredTask>> {
        let inner = self.lock();
        let running = |row: &TaskRow| matches!(row.state, TaskState::Submitted | TaskState::Working);
        let rows = inner.tasks.iter().filter(|(id, row)| after.is_none_or(|a| **id > a) && running(row));
        StoreFuture::ready(Ok(rows.take(limit).map(|(id, row)| row.stored(*id)).collect()))
    }

    fn pending_cancels(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreFuture<Vec<(TaskId, AgentName, PendingCancel)>> {
        let inner = self.lock();
        let rows = inner.owed_cancels.iter().filter(|(id, _)| after.is_none_or(|a| **id > a));
        let agent = |id: &TaskId| inner.tasks.get(id).map(|row| row.scope.agent.clone());
        let told = rows.filter_map(|(id, owed)| Some((*id, agent(id)?, owed.clone())));
        StoreFuture::ready(Ok(told.take(limit).collect()))
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<StoredRetry>> {
        let inner = self.lock();
        let mut kept: Vec<StoredRetry> =
            inner.tasks.values().flat_map(|r| r.retries.clone()).filter(|r| r.at >= since).collect();
        kept.sort_by_key(|r| r.at);
        kept.drain(..kept.len().saturating_sub(limit));
        StoreFuture::ready(Ok(kept))
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> StoreFuture<Option<StoredRetry>> {
        let inner = self.lock();
        StoreFuture::ready(Ok(inner.keys.get(&key).filter(|(_, until)| *until > now).map(|(kept, _)| kept.clone())))
    }

    fn retry_key_before(&self, key: Digest) -> StoreFuture<Option<Digest>> {
        StoreFuture::ready(Ok(self.lock().keys.keys().filter(|known| **known < key).max().copied()))
    }

    fn alias(&self, scope: &Scope, name: &str) -> StoreFuture<Option<TaskId>> {
        StoreFuture::ready(Ok(self.lock().aliases.get(&(Arc::new(scope.clone()), name.into())).copied()))
    }

    fn aliases_of(&self, task: TaskId) -> StoreFuture<Vec<String>> {
        let inner = self.lock();
        let names = inner.aliases.iter().filter(|(_, named)| **named == task).map(|((_, name), _)| name.to_string());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        StoreFuture::ready(Ok(names))
    }

    fn owner(&self, task: TaskId) -> StoreFuture<Option<Arc<Scope>>> {
        StoreFuture::ready(Ok(self.lock().tasks.get(&task).map(|row| row.scope.clone())))
    }

    fn add_loss_notes(&self, task: TaskId, notes: Vec<LossNote>) -> StoreFuture<()> {
        let mut inner = self.lock();
        notes.into_iter().for_each(|note| inner.note(task, note));
        StoreFuture::ready(Ok(()))
    }

    fn loss_notes(&self, task: TaskId) -> StoreFuture<Vec<LossNote>> {
        StoreFuture::ready(Ok(self.lock().notes.get(&task).cloned().unwrap_or_default()))
    }

    fn agent_data(&self, task: TaskId) -> StoreFuture<Option<Bytes>> {
        StoreFuture::ready(Ok(self.lock().tasks.get(&task).and_then(|row| row.agent_data.clone())))
    }

    fn pushes(&self, task: TaskId) -> StoreFuture<Vec<PushConfig>> {
        let inner = self.lock();
        StoreFuture::ready(Ok(inner
            .tasks
            .get(&task)
            .map(|row| row.pushes.values().map(|r| r.receiver.config.clone()).collect())
            .unwrap_or_default()))
    }

    fn stored_bytes(&self, caller: &Caller) -> u64 {
        self.lock().stored_bytes.get(caller).copied().unwrap_or(0)
    }

    fn last_stamp(&self) -> StoreFuture<Stamp> {
        StoreFuture::ready(Ok(self.lock().last_stamp))
    }
}
