//! The writer: one group is one transaction, and a refused step does not affect the others.

use super::ledger::SlotMove;
use super::queue::{AppendReply, ReplyDispatcher};
use super::{StoreState, key, number, salt, seq, store_error, stored_bytes};
use crate::list::WALK_MS_MAX;
use crate::{AppendError, Effect, Interaction, Metrics, Opening, RetryMark, Scope, Step, StoreError};
use crate::{Durability, OpenOptions};
use rusqlite::{Connection, OptionalExtension, params};
use sabir_proto::{FrozenEvent, FrozenTask, Seq, Stamp, TaskId, TaskState, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Old moves and expired keys are deleted once in this many groups, this many rows at a time.
const SWEEP_EVERY: u64 = 256;
const SWEEP_ROWS: i64 = 4096;

#[derive(Debug)]
pub(super) struct TaskLogWriter {
    pub(super) connection: Connection,
    pub(super) shared: Arc<StoreState>,
    pub(super) durability: Durability,
    /// Commits are not synced, for the moment or because restoring the setting failed; see `notes`.
    pub(super) is_sync_skipped: bool,
    pub(super) metrics: Metrics,
    groups: u64,
    /// Whether this group made a delivery due.
    pub(super) became_due: Cell<bool>,
    /// Bookings metered in this group.
    pub(super) counted: Cell<u64>,
    /// Changes of slots in this group.
    pub(super) slots_moved: RefCell<Vec<SlotMove>>,
    /// Records of envelopes for the next commit.
    pub(super) interactions: Vec<Interaction>,
    pub(super) dispatcher: Arc<ReplyDispatcher>,
}

/// What can be rolled back while a group is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UndoScope {
    /// Only the whole group.
    Group,
    /// Each step by itself.
    Step,
}

/// What a group changes in the counters; written once per group.
#[derive(Debug, Default)]
struct CounterDeltas {
    /// Tasks, by owner and state.
    tasks: HashMap<(i64, u8), i64>,
    /// Bytes, by owner; nothing where they are not counted.
    bytes: HashMap<i64, i64>,
    counts_bytes: bool,
}

impl CounterDeltas {
    fn task(&mut self, scope: i64, state: u8, change: i64) {
        *self.tasks.entry((scope, state)).or_default() += change;
    }

    fn bytes(&mut self, scope: i64, change: impl FnOnce() -> usize) {
        if self.counts_bytes {
            *self.bytes.entry(scope).or_default() += i64::try_from(change()).unwrap_or(i64::MAX);
        }
    }

    /// Gives bytes of one owner to another.
    fn move_bytes(&mut self, from: i64, to: i64, bytes: i64) {
        *self.bytes.entry(from).or_default() -= bytes;
        *self.bytes.entry(to).or_default() += bytes;
    }

    fn add(&mut self, other: Self) {
        for ((scope, state), change) in other.tasks {
            self.task(scope, state, change);
        }
        for (scope, change) in other.bytes {
            *self.bytes.entry(scope).or_default() += change;
        }
    }
}

/// The columns of a task's row that a later step needs.
struct TaskHead {
    scope: i64,
    state: u8,
    position: i64,
    moved: i64,
    head: i64,
}

impl TaskLogWriter {
    pub(super) fn new(connection: Connection, shared: Arc<StoreState>, options: OpenOptions) -> rusqlite::Result<Self> {
        let last: i64 = connection.query_row("SELECT number FROM latest", [], |row| row.get(0))?;
        let last = u64::try_from(last).unwrap_or(0);
        shared.commit.store(last, Ordering::Release);
        shared.recent_changes.start_after(last);
        let OpenOptions { durability, metrics, .. } = options;
        Ok(Self {
            connection,
            shared,
            durability,
            is_sync_skipped: false,
            metrics,
            groups: 0,
            became_due: Cell::new(false),
            counted: Cell::new(0),
            slots_moved: RefCell::default(),
            interactions: Vec::new(),
            dispatcher: Arc::default(),
        })
    }

    pub(super) fn set_pages_max(&self, pages: u32) -> Result<(), StoreError> {
        let set = self.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()));
        set.map_err(|e| store_error(&e))
    }

    /// Commits a group and answers all its callers.
    pub(super) fn commit(&mut self, group: Vec<(Step, AppendReply)>) {
        let started = Instant::now();
        let (steps, replies): (Vec<Step>, Vec<AppendReply>) = group.into_iter().unzip();
        let outcome = self.transact(&steps);
        self.metrics.commit_seconds.observe(started.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a group has at most a thousand steps")]
        self.metrics.commit_steps.observe(steps.len() as f64);
        match outcome {
            Ok(verdicts) => self.dispatcher.dispatch(replies.into_iter().zip(verdicts)),
            Err(error) => {
                self.metrics.commit_failures.inc();
                tracing::error!(%error, steps = steps.len(), "group commit failed");
                self.dispatcher.dispatch(replies.into_iter().map(|reply| (reply, Err(error.clone().into()))));
            }
        }
    }

    /// Commits one step, for callers that run the writer themselves.
    pub(super) fn commit_one(&mut self, step: Step) -> Result<(), AppendError> {
        let mut verdicts = self.transact(std::slice::from_ref(&step))?;
        verdicts.pop().unwrap_or(Err(StoreError::Closed.into()))
    }

    /// Writes all steps in one transaction. The inner results are refusals of single steps; the outer error means that
    /// nothing of the group was committed.
    pub(super) fn transact(&mut self, steps: &[Step]) -> Result<Vec<Result<(), AppendError>>, StoreError> {
        let shared = self.shared.clone();
        let _turn = super::lock(&shared.write_lock);
        let outcome = self.try_group(steps).map_err(|e| store_error(&e));
        if outcome.is_err() {
            self.roll_back();
            // The cache may not match the file, so it is read again.
            shared.ledger.venue_cache.clear();
        }
        self.record_outcome(&outcome);
        outcome
    }

    pub(super) fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // Fails only where SQLite has rolled back already.
            drop(self.connection.execute_batch("ROLLBACK"));
        }
    }

    /// Steps are rarely refused, so a group is first written without savepoints, which would cost a copy of every page
    /// that a step touches. When a step is refused after all, the group is written again, with savepoints.
    fn try_group(&mut self, steps: &[Step]) -> rusqlite::Result<Vec<Result<(), AppendError>>> {
        self.require_sync()?;
        if let Some(verdicts) = self.write_group(steps, UndoScope::Group)? {
            return Ok(verdicts);
        }
        self.roll_back();
        Ok(self.write_group(steps, UndoScope::Step)?.unwrap_or_default())
    }

    /// Writes a group; `None` where a refused step cannot be rolled back alone.
    fn write_group(
        &mut self,
        steps: &[Step],
        care: UndoScope,
    ) -> rusqlite::Result<Option<Vec<Result<(), AppendError>>>> {
        let mut last = None;
        for scope in steps.iter().flat_map(owners) {
            // Nearly always the owner of the step before.
            if !last.is_some_and(|l| Arc::ptr_eq(l, scope)) {
                self.shared.scopes.intern(&self.connection, scope)?;
                last = Some(scope);
            }
        }
        self.counted.set(0);
        self.slots_moved.borrow_mut().clear();
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let latest = steps.iter().filter_map(|s| s.placement).map(|p| p.position.get()).max().unwrap_or(0);
        let commit = latest.max(self.shared.commit.load(Ordering::Acquire) + 1);
        let mut counts = self.no_counts();
        let mut verdicts = Vec::with_capacity(steps.len());
        for step in steps {
            match self.write_step(step, commit, &mut counts, care)? {
                Some(verdict) => verdicts.push(verdict),
                None => return Ok(None),
            }
        }
        for record in &self.interactions {
            self.write_interaction(record)?;
        }
        for ((scope, state), change) in &counts.tasks {
            self.connection
                .prepare_cached(
                    "INSERT INTO counter (scope, state, n) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET n = n + ?3",
                )?
                .execute((scope, state, change))?;
        }
        stored_bytes::write_changes(&self.connection, &counts.bytes)?;
        self.groups += 1;
        if self.groups.is_multiple_of(SWEEP_EVERY) {
            self.sweep(Stamp::from_u64(commit))?;
        }
        self.connection.prepare_cached("UPDATE latest SET number = ?1")?.execute([commit.cast_signed()])?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        // Before any caller is answered: its next request finds what this one has stored.
        self.shared.follow_stored_bytes(&counts.bytes);
        self.shared.commit.store(commit, Ordering::Release);
        let changed = steps.iter().filter(|step| step.placement.is_some()).map(|step| key(step.task.stamp()));
        self.shared.recent_changes.add(commit, changed);
        claimed_tasks(steps).for_each(|task| self.shared.settled.forget(&[task]));
        self.interactions.clear();
        self.shared.ledger.venue_cache.apply_slot_moves(&self.slots_moved.borrow(), commit);
        self.shared.ledger.metered_bookings.fetch_add(self.counted.take(), Ordering::AcqRel);
        if self.became_due.take() {
            self.shared.due_signal.notify();
        }
        Ok(Some(verdicts))
    }

    fn no_counts(&self) -> CounterDeltas {
        CounterDeltas { counts_bytes: self.shared.stored_bytes.is_counted(), ..CounterDeltas::default() }
    }

    /// Writes one step. A step without effects is refused before it has written anything, and needs no savepoint.
    /// `None` where a refused step would have needed one.
    fn write_step(
        &self,
        step: &Step,
        commit: u64,
        counts: &mut CounterDeltas,
        care: UndoScope,
    ) -> rusqlite::Result<Option<Result<(), AppendError>>> {
        let mut changes = self.no_counts();
        let (counted, slots_moved) = (self.counted.get(), self.slots_moved.borrow().len());
        let alone = step.opening.as_ref().is_none_or(|o| o.child_of.is_none()) && step.effects.is_empty();
        let savepoint = !alone && care == UndoScope::Step;
        if savepoint {
            self.connection.prepare_cached("SAVEPOINT step")?.execute([])?;
        }
        let verdict = match self.apply(step, commit, &mut changes) {
            Ok(verdict) => verdict,
            // One generator never issues the same stamp twice; refuse the second task rather than trust it. A step
            // without a savepoint may be partly written: then the whole group fails.
            Err(e)
                if e.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
                    && (!alone || step.opening.is_some()) =>
            {
                Err(AppendError::Stale)
            }
            Err(e) => return Err(e),
        };
        if verdict.is_err() && !alone && !savepoint {
            return Ok(None);
        }
        if savepoint {
            if verdict.is_err() {
                self.connection.prepare_cached("ROLLBACK TO step")?.execute([])?;
                self.counted.set(counted);
                self.slots_moved.borrow_mut().truncate(slots_moved);
            }
            self.connection.prepare_cached("RELEASE step")?.execute([])?;
        }
        if verdict.is_ok() {
            counts.add(changes);
        }
        Ok(Some(verdict))
    }

    fn apply(&self, step: &Step, commit: u64, counts: &mut CounterDeltas) -> rusqlite::Result<Result<(), AppendError>> {
        let k = key(step.task.stamp());
        match &step.opening {
            Some(opening) => {
                if let Some(birth) = &opening.child_of
                    && let Err(refused) = self.open_child(k, birth)?
                {
                    return Ok(Err(refused));
                }
                self.open(k, step, opening, commit, counts)?;
            }
            None => {
                if let Err(refused) = self.append_to(k, step, commit, counts)? {
                    return Ok(Err(refused));
                }
            }
        }
        if let Some(data) = &step.checkpoint
            && !step.placement.is_some_and(|p| p.state.is_settled())
        {
            let sql = "INSERT INTO checkpoint (k, data) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET data = ?2";
            self.connection.prepare_cached(sql)?.execute(params![k, &data[..]])?;
        }
        for effect in &step.effects {
            let done = match effect {
                Effect::Claim(by) => self.claim(k, by, counts)?,
                Effect::StoreAgentData(data) => self.keep_data(k, data, counts)?,
                effect => self.effect(k, step, effect)?,
            };
            if let Err(refused) = done {
                return Ok(Err(refused));
            }
        }
        // A new task without a registration has no receivers.
        let registers = |effect: &Effect| matches!(effect, Effect::PutPush { .. });
        let receivers = step.opening.is_none() || step.effects.iter().any(registers);
        if let Some(at) = step.notify.filter(|_| receivers && step.head() > step.after) {
            self.enqueue(k, step, at)?;
        }
        Ok(Ok(()))
    }

    fn open(
        &self,
        k: i64,
        step: &Step,
        opening: &Opening,
        commit: u64,
        counts: &mut CounterDeltas,
    ) -> rusqlite::Result<()> {
        let scope = self.shared.scopes.intern(&self.connection, &opening.scope)?;
        let (state, position) =
            step.placement.map_or((TaskState::Submitted, step.task.stamp()), |p| (p.state, p.position));
        let settled = state.is_settled();
        let context = (opening.context.stamp() != Some(step.task.stamp())).then(|| opening.context.to_string());
        let body = step.snapshot.as_ref().filter(|_| settled);
        let lines = (!step.events.is_empty()).then(|| lines(&step.events));
        self.connection
            .prepare_cached(
                "INSERT INTO task (k, salt, scope, state, position, moved, head, context, turn, attempt, retry,
                                   history_at, artifacts_at, body, events, child)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            )?
            .execute(params![
                k,
                salt(step.task),
                scope,
                state.number(),
                key(position),
                commit.cast_signed(),
                number(step.head()),
                context,
                step.turn.map(|(turn, _)| number(turn)),
                step.turn.map(|(_, attempt)| attempt),
                step.retry.map(mark_bytes),
                body.map(|b| b.history_at),
                body.map(|b| b.artifacts_at),
                body.map(|b| &b.json[..]),
                lines.as_ref().filter(|_| settled),
                opening.child_of.is_some().then_some(1),
            ])?;
        counts.task(scope, state.number(), 1);
        counts.bytes(scope, || body.map_or(0, |b| b.json.len()) + lines.as_ref().map_or(0, Vec::len));
        if !settled {
            if let Some(lines) = lines {
                self.insert_events(k, Seq(1), step, lines, None)?;
            }
            if let Some(snapshot) = &step.snapshot {
                self.put_snapshot(k, step.head(), snapshot)?;
            }
        }
        Ok(())
    }

    fn append_to(
        &self,
        k: i64,
        step: &Step,
        commit: u64,
        counts: &mut CounterDeltas,
    ) -> rusqlite::Result<Result<(), AppendError>> {
        let row = self
            .connection
            .prepare_cached("SELECT salt, scope, state, position, moved, head FROM task WHERE k = ?1")?
            .query_row([k], |r| {
                let row = TaskHead {
                    scope: r.get(1)?,
                    state: r.get(2)?,
                    position: r.get(3)?,
                    moved: r.get(4)?,
                    head: r.get(5)?,
                };
                Ok((r.get::<_, i64>(0)?, row))
            })
            .optional()?;
        let Some((_, row)) = row.filter(|(found, _)| *found == salt(step.task)) else {
            return Ok(Err(AppendError::Stale));
        };
        if !step.events.is_empty() {
            let settled = TaskState::from_number(row.state.into()).is_none_or(TaskState::is_settled);
            if settled || self.head(k, row.head)? != step.after {
                return Ok(Err(AppendError::Stale));
            }
            let retry = step.retry.zip(step.placement.map(|p| p.position));
            let lines = lines(&step.events);
            counts.bytes(row.scope, || lines.len());
            self.insert_events(k, step.after.next(), step, lines, retry)?;
        }
        if let Some((turn, attempt)) = step.turn {
            let sql = "UPDATE task SET turn = ?2, attempt = ?3 WHERE k = ?1";
            self.connection.prepare_cached(sql)?.execute((k, number(turn), attempt))?;
        }
        self.place(k, &row, step, commit, counts)?;
        Ok(Ok(()))
    }

    /// Moves the task in its owner's list, and writes the snapshot that came with the step.
    fn place(
        &self,
        k: i64,
        row: &TaskHead,
        step: &Step,
        commit: u64,
        counts: &mut CounterDeltas,
    ) -> rusqlite::Result<()> {
        let settled = step.placement.is_some_and(|p| p.state.is_settled());
        if let Some(placement) = step.placement {
            let (state, position) = (placement.state.number(), key(placement.position));
            self.connection
                .prepare_cached(
                    "INSERT INTO move (position, scope, was, since, until, k) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute((position, row.scope, row.position, row.moved, commit.cast_signed(), k))?;
            let (moved, head) = (commit.cast_signed(), number(step.head()));
            match step.snapshot.as_ref().filter(|_| settled) {
                Some(body) => {
                    let sql = "UPDATE task SET state = ?2, position = ?3, moved = ?4, head = ?5, history_at = ?6,
                                   artifacts_at = ?7, body = ?8 WHERE k = ?1";
                    let (json, history_at, artifacts_at) = (&body.json[..], body.history_at, body.artifacts_at);
                    let scope = row.scope;
                    let row = params![k, state, position, moved, head, history_at, artifacts_at, json];
                    self.connection.prepare_cached(sql)?.execute(row)?;
                    counts.bytes(scope, || json.len());
                }
                None => {
                    let sql = "UPDATE task SET state = ?2, position = ?3, moved = ?4, head = ?5 WHERE k = ?1";
                    self.connection.prepare_cached(sql)?.execute((k, state, position, moved, head))?;
                }
            }
            if row.state != state {
                counts.task(row.scope, row.state, -1);
                counts.task(row.scope, state, 1);
            }
        }
        match &step.snapshot {
            Some(_) if settled => {
                self.connection.prepare_cached("DELETE FROM snapshot WHERE k = ?1")?.execute([k])?;
                self.connection.prepare_cached("DELETE FROM checkpoint WHERE k = ?1")?.execute([k])?;
                self.end_continuation(k, step)?;
            }
            Some(snapshot) => self.put_snapshot(k, step.head(), snapshot)?,
            None => {}
        }
        Ok(())
    }

    /// The last event of an unsettled task: its row is only updated by events that moved it.
    fn head(&self, k: i64, in_row: i64) -> rusqlite::Result<Seq> {
        let sql = "SELECT last FROM event WHERE k = ?1 ORDER BY first DESC LIMIT 1";
        let last: Option<i64> = self.connection.prepare_cached(sql)?.query_row([k], |r| r.get(0)).optional()?;
        Ok(seq(last.unwrap_or(in_row)))
    }

    fn insert_events(
        &self,
        k: i64,
        first: Seq,
        step: &Step,
        lines: Vec<u8>,
        retry: Option<(RetryMark, Stamp)>,
    ) -> rusqlite::Result<()> {
        let (mark, at) = (retry.map(|(m, _)| mark_bytes(m)), retry.map(|(_, at)| key(at)));
        self.connection
            .prepare_cached("INSERT INTO event (k, first, last, at, retry, lines) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![k, number(first), number(step.head()), at, mark, lines])?;
        Ok(())
    }

    fn put_snapshot(&self, k: i64, at: Seq, task: &FrozenTask) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO snapshot (k, seq, history_at, artifacts_at, json) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET seq = ?2, history_at = ?3, artifacts_at = ?4, json = ?5",
            )?
            .execute(params![k, number(at), task.history_at, task.artifacts_at, &task.json[..]])?;
        Ok(())
    }

    fn effect(&self, k: i64, step: &Step, effect: &Effect) -> rusqlite::Result<Result<(), AppendError>> {
        match effect {
            Effect::Key { mark, at, until } => {
                // Replaces a key that has expired.
                let sql = "INSERT INTO retry_key (key, digest, k, salt, at, until) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                           ON CONFLICT DO UPDATE SET digest = ?2, k = ?3, salt = ?4, at = ?5, until = ?6 WHERE until <= ?5";
                let row = params![mark.key, mark.digest, k, salt(step.task), key(*at), key(*until)];
                let added = self.connection.prepare_cached(sql)?.execute(row)?;
                return Ok(if added == 1 { Ok(()) } else { Err(AppendError::KeyTaken) });
            }
            Effect::PutPush { config, dialect, host, at, configs_max } => {
                if self.put_push(k, step, (config, dialect, host), *at)? > *configs_max {
                    return Ok(Err(AppendError::TooManyConfigs));
                }
            }
            Effect::DeletePush { id } => self.delete_push(k, id)?,
            Effect::WaitFor(Some(whom)) => self.put_continuation(k, step, whom)?,
            Effect::SetPendingCancel(owed) => self.put_pending_cancel(k, step, owed.as_deref())?,
            Effect::WaitFor(None) => self.end_continuation(k, step)?,
            Effect::Spend { root, micros } => self.spend(*root, *micros)?,
            // They change what is counted for owners, so the caller of this function, which has the counts, did them.
            Effect::Claim(_) | Effect::StoreAgentData(_) => {}
            Effect::Ledger(effect) => return Ok(self.apply_to_ledger(step.task, effect)?.map_err(AppendError::from)),
            Effect::SetAlias { name, was } => {
                // The alias belongs to the owner in the task's own row.
                let moved = match was {
                    None => {
                        let sql = "INSERT INTO alias (scope, name, k, salt) SELECT scope, ?2, k, salt FROM task
                                   WHERE k = ?1 ON CONFLICT DO NOTHING";
                        self.connection.prepare_cached(sql)?.execute(params![k, name])?
                    }
                    Some(was) => {
                        let sql = "UPDATE alias SET k = ?1, salt = ?3 WHERE name = ?2 AND k = ?4 AND salt = ?5
                                   AND scope = (SELECT scope FROM task WHERE k = ?1)";
                        let to = params![k, name, salt(step.task), key(was.stamp()), salt(*was)];
                        self.connection.prepare_cached(sql)?.execute(to)?
                    }
                };
                return Ok(if moved == 1 { Ok(()) } else { Err(AppendError::NameMoved) });
            }
        }
        Ok(Ok(()))
    }

    /// Gives a task to another owner, with its position in the list and its past moves.
    fn claim(&self, k: i64, by: &Arc<Scope>, counts: &mut CounterDeltas) -> rusqlite::Result<Result<(), AppendError>> {
        let sql = "SELECT scope, state FROM task WHERE k = ?1 AND adopted IS NULL";
        let row =
            self.connection.prepare_cached(sql)?.query_row([k], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((was, state)) = row else { return Ok(Err(AppendError::Stale)) };
        let to = self.shared.scopes.intern(&self.connection, by)?;
        let sql = "UPDATE task SET scope = ?2, adopted = 1 WHERE k = ?1";
        self.connection.prepare_cached(sql)?.execute((k, to))?;
        if was == to {
            return Ok(Ok(()));
        }
        let sql = "UPDATE move SET scope = ?3 WHERE scope = ?2 AND k = ?1";
        self.connection.prepare_cached(sql)?.execute((k, was, to))?;
        self.connection.prepare_cached("DELETE FROM alias WHERE k = ?1 AND scope <> ?2")?.execute((k, to))?;
        self.connection.prepare_cached("DELETE FROM push_config WHERE k = ?1")?.execute([k])?;
        self.connection.prepare_cached("DELETE FROM outbox WHERE k = ?1")?.execute([k])?;
        counts.task(was, state, -1);
        counts.task(to, state, 1);
        if counts.counts_bytes {
            counts.move_bytes(was, to, stored_bytes::task_bytes(&self.connection, k)?);
        }
        Ok(Ok(()))
    }

    /// Keeps data of the agent with the task, in place of what it kept before.
    fn keep_data(&self, k: i64, data: &[u8], counts: &mut CounterDeltas) -> rusqlite::Result<Result<(), AppendError>> {
        if counts.counts_bytes {
            let sql = "SELECT t.scope, ifnull(length(d.data), 0) FROM task t LEFT JOIN agent_data d ON d.k = t.k WHERE t.k = ?1";
            let (scope, before): (i64, i64) =
                self.connection.prepare_cached(sql)?.query_row([k], |row| Ok((row.get(0)?, row.get(1)?)))?;
            *counts.bytes.entry(scope).or_default() += i64::try_from(data.len()).unwrap_or(i64::MAX) - before;
        }
        let sql = "INSERT INTO agent_data (k, data) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET data = ?2";
        self.connection.prepare_cached(sql)?.execute(params![k, data])?;
        Ok(Ok(()))
    }

    /// Deletes moves and retry keys that no list and no retry can ask for any more.
    fn sweep(&self, now: Stamp) -> rusqlite::Result<()> {
        // Twice the longest validity, so that a page token at its limit still finds its moves.
        let horizon = Stamp::first_of(Timestamp::from_millis(now.time().millis() - 2 * WALK_MS_MAX));
        let sql = "DELETE FROM move WHERE position IN (SELECT position FROM move WHERE position < ?1 ORDER BY position LIMIT ?2)";
        self.connection.prepare_cached(sql)?.execute((key(horizon), SWEEP_ROWS))?;
        let sql =
            "DELETE FROM retry_key WHERE key IN (SELECT key FROM retry_key WHERE until < ?1 ORDER BY until LIMIT ?2)";
        self.connection.prepare_cached(sql)?.execute((key(now), SWEEP_ROWS))?;
        Ok(())
    }
}

/// The owners that a step names.
fn owners(step: &Step) -> impl Iterator<Item = &Arc<Scope>> {
    fn adopting(effect: &Effect) -> Option<&Arc<Scope>> {
        if let Effect::Claim(by) = effect { Some(by) } else { None }
    }
    step.opening.iter().map(|opening| &opening.scope).chain(step.effects.iter().filter_map(adopting))
}

/// The tasks of a group that changed owners.
fn claimed_tasks(steps: &[Step]) -> impl Iterator<Item = TaskId> {
    let adopts = |step: &&Step| step.effects.iter().any(|effect| matches!(effect, Effect::Claim(_)));
    steps.iter().filter(adopts).map(|step| step.task)
}

/// The key and the digest, concatenated.
fn mark_bytes(mark: RetryMark) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&mark.key);
    bytes[16..].copy_from_slice(&mark.digest);
    bytes
}

/// The events of a step, one per line.
fn lines(events: &[FrozenEvent]) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(events.iter().map(|e| e.json.len() + e.input.as_ref().map_or(0, |h| h.len()) + 2).sum());
    for (i, event) in events.iter().enumerate() {
        if i > 0 {
            out.push(b'\n');
        }
        event.write_line(&mut out);
    }
    out
}
