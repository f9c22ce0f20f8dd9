//! The store of a simulated process: late commits and answers, a disk that fills up, and planted faults.
//!
//! It outlives the process. Uncommitted steps are lost when the process dies; committed ones stay, also when no process
//! got the answer.

use super::checks::is_unfinished;
use super::faults::Sabotage;
use super::observations::OwnedAlias;
use super::{Options, Store};
use crate::agents::VENUE;
use crate::contract::url_of;
use crate::wait::at_once;
use bytes::Bytes;
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Seq, Stamp, TaskId, TaskState, Timestamp};
use sabir_store::{
    AppendError, BillingTotals, Booking, BookingQuery, Delivery, DeliveryMark, DeliveryQuery, Digest, DueDeliveries,
    DueDelivery, DueQuery, Effect, InterruptedTask, Ledger, LedgerEffect, LossNote, Outbox, ParentLink, PendingCancel,
    PushReceiver, Scope, Slot, Step, StoreError, StoreFuture, StoredRetry, StoredTask, StoredTaskPage, SubtaskSpend,
    TaskListQuery, TaskLog, TaskTree, TaskTreeNode, WakeSignal, ended_unsuccessfully,
};
use sabir_store::{Durability, OpenOptions, TaskStore, WriterMode, open_tasks};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;
use tokio::sync::oneshot;

pub(super) struct SimLog(Mutex<SimLogState>);

struct SimLogState {
    store: SimStore,
    /// Accepted and not committed yet, oldest first.
    waiting: VecDeque<QueuedStep>,
    holding: bool,
    /// Reads without an answer yet, oldest first.
    unanswered: VecDeque<Box<dyn FnOnce() + Send>>,
    answering_late: bool,
    full: bool,
    sabotage: Option<Sabotage>,
    /// For [`Sabotage::AcknowledgeEarly`]: every confirmed step, of which a crash keeps the first `journal_kept`.
    journal: Vec<Step>,
    journal_kept: usize,
    history: CommitHistory,
}

struct QueuedStep {
    step: Step,
    reply: oneshot::Sender<Result<(), AppendError>>,
}

/// The history of commits, recorded beside the store for the checks.
#[derive(Debug, Clone, Default)]
pub(super) struct CommitHistory {
    /// Every task that was opened.
    pub(super) tasks: BTreeSet<TaskId>,
    /// The last state of each task.
    states: BTreeMap<TaskId, TaskState>,
    /// The tasks that had each alias, in order. A list, since a hash map would not have the same order in every run.
    pub(super) names: Vec<(OwnedAlias, Vec<TaskId>)>,
    /// Aliases that moved while their task was unfinished.
    pub(super) names_taken_away: Vec<String>,
    /// Every child, with its parent and its key.
    pub(super) children: Vec<(TaskId, TaskId, Arc<str>)>,
    /// Settled tasks that got another event.
    pub(super) moved_after_settling: Vec<TaskId>,
}

impl CommitHistory {
    /// Unfinished children of parents that were canceled, failed or rejected, with those parents.
    pub(super) fn orphans(&self) -> impl Iterator<Item = (TaskId, TaskId)> {
        let state = |task: &TaskId| self.states.get(task).copied();
        let lives = move |child: &TaskId| state(child).is_some_and(|state| !state.is_settled());
        let is_gone = move |parent: &TaskId| state(parent).is_some_and(ended_unsuccessfully);
        let orphans = self.children.iter().filter(move |(child, parent, _)| lives(child) && is_gone(parent));
        orphans.map(|(child, parent, _)| (*child, *parent))
    }

    fn record_name(&mut self, named: OwnedAlias, task: TaskId) {
        let at = self.names.iter().position(|(known, _)| *known == named).unwrap_or_else(|| {
            self.names.push((named, Vec::new()));
            self.names.len() - 1
        });
        let (named, tasks) = &mut self.names[at];
        if let Some(last) = tasks.last()
            && !self.states.get(last).is_some_and(|state| state.is_settled())
        {
            self.names_taken_away.push(format!("{named}: task {last} is unfinished, task {task} has its name"));
        }
        tasks.push(task);
    }
}

/// The alias that a step gives to the task that it opens.
fn name_given_by(step: &Step) -> Option<OwnedAlias> {
    let scope = step.opening.as_ref().map(|opening| opening.scope.clone())?;
    step.effects.iter().find_map(|effect| match effect {
        Effect::SetAlias { name, .. } => Some(OwnedAlias { scope: scope.clone(), name: name.clone() }),
        Effect::Key { .. }
        | Effect::Claim(_)
        | Effect::PutPush { .. }
        | Effect::DeletePush { .. }
        | Effect::WaitFor(_)
        | Effect::StoreAgentData(_)
        | Effect::SetPendingCancel(_)
        | Effect::Spend { .. }
        | Effect::Ledger(_) => None,
    })
}

/// Removes the usage from bookings.
fn drop_usage(step: &mut Step) {
    for effect in &mut step.effects {
        let Effect::Ledger(effect) = effect else { continue };
        match &mut **effect {
            LedgerEffect::Book(new) => new.usage = None,
            LedgerEffect::MoveBooking { usage, .. } => *usage = None,
            LedgerEffect::Record(_) | LedgerEffect::Pay(_) => {}
        }
    }
}

/// The contents of the ledger at the end.
#[derive(Debug, Clone)]
pub(super) struct LedgerContents {
    pub(super) tally: BillingTotals,
    pub(super) metered: u64,
    pub(super) slots: Vec<Slot>,
    pub(super) bookings: Vec<Booking>,
}

/// The parent and the key of the child that a step opens.
fn child_opened_by(step: &Step) -> Option<(TaskId, Arc<str>)> {
    let birth = step.opening.as_ref()?.child_of.as_ref()?;
    Some((birth.parent_link.parent, birth.parent_link.key.clone()))
}

struct SimStore {
    /// None while the file is opened again.
    tasks: Option<TaskStore>,
    /// The directory of the file; none for the model.
    dir: Option<TempDir>,
}

impl SimStore {
    fn new(store: Store) -> Self {
        let mut disk = match store {
            Store::Model => Self { tasks: Some(TaskStore::model()), dir: None },
            Store::Sqlite => Self { tasks: None, dir: Some(tempfile::tempdir().expect("a temporary directory")) },
        };
        disk.reopen();
        crate::agents::BookingAgent::import_venue(disk.ledger());
        disk
    }

    fn tasks(&self) -> &TaskStore {
        self.tasks.as_ref().expect("closed only while it is opened again")
    }

    fn log(&self) -> &dyn TaskLog {
        &*self.tasks().log
    }

    fn ledger(&self) -> &dyn Ledger {
        &*self.tasks().ledger
    }

    fn reopen(&mut self) {
        if let Some(dir) = &self.dir {
            self.tasks = None;
            // Without syncing: the process dies here, not the machine.
            let (durability, writer_mode) = (Durability::Normal, WriterMode::Inline);
            let options = OpenOptions { durability, writer_mode, ..OpenOptions::default() };
            let url = url_of(&dir.path().join("sim.db"));
            self.tasks = Some(open_tasks(&url, options).expect("our own file opens"));
        }
    }
}

impl SimLog {
    pub(super) fn new(options: Options) -> Self {
        Self(Mutex::new(SimLogState {
            store: SimStore::new(options.store),
            waiting: VecDeque::new(),
            holding: false,
            unanswered: VecDeque::new(),
            answering_late: false,
            full: false,
            sabotage: options.sabotage,
            journal: Vec::new(),
            journal_kept: 0,
            history: CommitHistory::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, SimLogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delays the commits of steps, or stops delaying them.
    pub(super) fn set_holding(&self, holding: bool) {
        self.lock().holding = holding;
    }

    /// Delays the answers to reads, or stops; a delayed answer is as old as its read.
    pub(super) fn set_answering_late(&self, late: bool) {
        self.lock().answering_late = late;
    }

    /// The number of delayed reads.
    pub(super) fn unanswered(&self) -> usize {
        self.lock().unanswered.len()
    }

    /// Answers at most this many delayed reads, oldest first.
    pub(super) fn answer(&self, reads: usize) {
        let mut inner = self.lock();
        let count = reads.min(inner.unanswered.len());
        let answers: Vec<_> = inner.unanswered.drain(..count).collect();
        drop(inner);
        answers.into_iter().for_each(|answer| answer());
    }

    /// Fills the disk, or makes room again.
    pub(super) fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// The number of steps that wait for their commit.
    pub(super) fn waiting(&self) -> usize {
        let inner = self.lock();
        inner.waiting.len() + inner.journal.len() - inner.journal_kept
    }

    /// Commits at most this many waiting steps, oldest first, and answers them. A full disk refuses them now.
    pub(super) fn commit(&self, steps: usize) {
        let mut inner = self.lock();
        inner.journal_kept = inner.journal.len().min(inner.journal_kept + steps);
        let count = steps.min(inner.waiting.len());
        let group: Vec<QueuedStep> = inner.waiting.drain(..count).collect();
        let answered: Vec<_> = group.into_iter().map(|w| (w.reply, inner.commit(w.step))).collect();
        drop(inner);
        for (reply, answer) in answered {
            // The caller may have been dropped.
            drop(reply.send(answer));
        }
    }

    /// Loses everything uncommitted, as when the process dies.
    pub(super) fn crash(&self) {
        let mut inner = self.lock();
        let lost = (std::mem::take(&mut inner.waiting), std::mem::take(&mut inner.unanswered));
        if inner.sabotage == Some(Sabotage::AcknowledgeEarly) {
            inner.drop_uncommitted();
        }
        inner.store.reopen();
        drop(inner);
        drop(lost);
    }

    /// The number of unfinished tasks.
    pub(super) fn unfinished_tasks(&self) -> usize {
        self.lock().history.states.values().filter(|state| is_unfinished(**state)).count()
    }

    /// The number of unfinished children of ended parents.
    pub(super) fn orphans(&self) -> usize {
        self.lock().history.orphans().count()
    }

    pub(super) fn history(&self) -> CommitHistory {
        self.lock().history.clone()
    }

    /// Reads the contents of the ledger.
    pub(super) fn ledger_contents(&self) -> Option<LedgerContents> {
        let inner = self.lock();
        let ledger = inner.store.ledger();
        let all = BookingQuery { limit: usize::MAX, ..BookingQuery::default() };
        Some(LedgerContents {
            tally: at_once(ledger.billing_totals()).ok()?,
            metered: ledger.metered_bookings(),
            slots: at_once(ledger.slots(VENUE)).ok()?,
            bookings: at_once(ledger.bookings(&all)).ok()?,
        })
    }

    /// Whether a delivery is still pending.
    pub(super) fn has_deliveries(&self) -> bool {
        let any = DeliveryQuery { dead: false, task: None, after: 0, limit: 1 };
        at_once(self.lock().store.log().deliveries(any)).is_ok_and(|letters| !letters.is_empty())
    }

    /// Reads all dead letters.
    pub(super) fn dead_letters(&self) -> Vec<Delivery> {
        let all = DeliveryQuery { dead: true, task: None, after: 0, limit: usize::MAX };
        at_once(self.lock().store.log().deliveries(all)).unwrap_or_default()
    }

    fn write<T: Send + 'static>(&self, write: impl FnOnce(&dyn TaskLog) -> StoreFuture<T>) -> StoreFuture<T> {
        if self.lock().full {
            return StoreFuture::ready(Err(StoreError::Full));
        }
        self.read(write)
    }

    fn mark_with_sabotage(&self, owed: &DueDelivery, mark: DeliveryMark) -> StoreFuture<bool> {
        let sabotage = self.lock().sabotage;
        let mark = match mark {
            DeliveryMark::Postpone { until: now, attempt: Some(_) } if sabotage == Some(Sabotage::CountFailures) => {
                DeliveryMark::Delivered { now }
            }
            // The skipped row is postponed as well; otherwise it would stay due for ever.
            mark @ DeliveryMark::Postpone { .. } if sabotage == Some(Sabotage::SkipAhead) => {
                let of_task = DeliveryQuery { dead: false, task: Some(owed.task), after: 0, limit: usize::MAX };
                let letters = at_once(self.lock().store.log().deliveries(of_task)).unwrap_or_default();
                if let Some(first) = letters.iter().find(|letter| letter.config == owed.config) {
                    let passed_over =
                        DueDelivery { number: first.number, seq: first.first, last: first.last, ..owed.clone() };
                    drop(self.write(|log| log.mark(&passed_over, mark.clone())));
                }
                mark
            }
            mark => mark,
        };
        self.write(|log| log.mark(owed, mark))
    }

    fn due_with_sabotage(&self, reading: DueQuery) -> StoreFuture<DueDeliveries> {
        if self.lock().sabotage != Some(Sabotage::SkipAhead) {
            return self.read(|log| log.due(reading));
        }
        let inner = self.lock();
        let mut due = match at_once(inner.store.log().due(reading)) {
            Ok(due) => due,
            Err(error) => return StoreFuture::ready(Err(error)),
        };
        for owed in &mut due.deliveries {
            let of_task = DeliveryQuery { dead: false, task: Some(owed.task), after: 0, limit: usize::MAX };
            let letters = at_once(inner.store.log().deliveries(of_task)).unwrap_or_default();
            if let Some(last) = letters.iter().rfind(|letter| letter.config == owed.config) {
                (owed.number, owed.seq, owed.last) = (last.number, last.first, last.last);
            }
        }
        StoreFuture::ready(Ok(due))
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&dyn TaskLog) -> StoreFuture<T>) -> StoreFuture<T> {
        let mut inner = self.lock();
        let answer = read(inner.store.log());
        if !inner.answering_late {
            return answer;
        }
        let found = at_once(answer);
        let (sender, receiver) = oneshot::channel();
        // The caller may have been dropped.
        inner.unanswered.push_back(Box::new(move || drop(sender.send(found))));
        StoreFuture::from_receiver(receiver)
    }
}

impl SimLogState {
    fn commit(&mut self, mut step: Step) -> Result<(), AppendError> {
        if self.full {
            return Err(StoreError::Full.into());
        }
        match self.sabotage {
            Some(Sabotage::LoseLastEvent) if step.events.len() > 1 => drop(step.events.pop()),
            Some(Sabotage::ForgetKeys) => {
                step.retry = None;
                step.effects.retain(|effect| !matches!(effect, Effect::Key { .. }));
            }
            Some(Sabotage::TwoOwners) => self.renumber(&mut step),
            Some(Sabotage::MoveNames) => self.accept_any_alias(&mut step),
            Some(Sabotage::ForgetParents) => {}
            Some(Sabotage::CountNothing) => drop_usage(&mut step),
            Some(Sabotage::OweNothing) if step.head().0 % 3 == 2 => step.notify = None,
            Some(
                Sabotage::LoseLastEvent
                | Sabotage::AcknowledgeEarly
                | Sabotage::OweNothing
                | Sabotage::CountFailures
                | Sabotage::SkipAhead
                | Sabotage::HideOrphans,
            )
            | None => {}
        }
        let (task, has_events) = (step.task, !step.events.is_empty());
        let (state, opens) = (step.placement.map(|p| p.state), step.opening.is_some());
        let (named, kin) = (name_given_by(&step), child_opened_by(&step));
        if self.sabotage == Some(Sabotage::ForgetParents)
            && let Some(opening) = &mut step.opening
        {
            opening.child_of = None;
        }
        at_once(self.store.log().append(step))?;
        let witness = &mut self.history;
        witness.children.extend(kin.map(|(parent, key)| (task, parent, key)));
        if let Some(named) = named {
            witness.record_name(named, task);
        }
        witness.tasks.insert(task);
        if has_events && !opens && witness.states.get(&task).is_some_and(|s| s.is_settled()) {
            witness.moved_after_settling.push(task);
        }
        witness.states.extend(state.map(|state| (task, state)));
        Ok(())
    }

    /// Rebuilds the store from the steps that really were committed.
    fn drop_uncommitted(&mut self) {
        self.store = SimStore::new(Store::Model);
        self.journal.truncate(self.journal_kept);
        for step in &self.journal {
            at_once(self.store.log().append(step.clone())).expect("what was taken once is taken again");
        }
    }

    /// Makes an alias change fit, like a store that does not check its owner.
    fn accept_any_alias(&self, step: &mut Step) {
        let Some(scope) = step.opening.as_ref().map(|opening| opening.scope.clone()) else { return };
        for effect in &mut step.effects {
            if let Effect::SetAlias { name, was } = effect {
                *was = at_once(self.store.log().alias(&scope, name)).unwrap_or_default();
            }
        }
    }

    /// Makes a stale step fit, as a store without a head check would.
    fn renumber(&self, step: &mut Step) {
        let Ok(Some(stored)) = at_once(self.store.log().load(step.task)) else { return };
        if step.opening.is_some() || step.events.is_empty() {
            return;
        }
        step.after = stored.head;
        let mut seq = stored.head;
        for event in &mut step.events {
            seq = seq.next();
            event.seq = seq;
        }
    }
}

impl TaskLog for SimLog {
    fn stored_bytes(&self, caller: &Caller) -> u64 {
        self.lock().store.log().stored_bytes(caller)
    }

    fn handed_over(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<TaskId>> {
        self.read(|log| log.handed_over(since, limit))
    }

    fn append(&self, step: Step) -> StoreFuture<(), AppendError> {
        let mut inner = self.lock();
        if inner.sabotage == Some(Sabotage::AcknowledgeEarly) {
            let taken = inner.commit(step.clone());
            if taken.is_ok() {
                inner.journal.push(step);
            }
            return StoreFuture::ready(taken);
        }
        // Behind waiting steps: steps are committed in order.
        if inner.holding || !inner.waiting.is_empty() {
            let (sender, receiver) = oneshot::channel();
            inner.waiting.push_back(QueuedStep { step, reply: sender });
            return StoreFuture::from_receiver(receiver);
        }
        StoreFuture::ready(inner.commit(step))
    }

    fn load(&self, id: TaskId) -> StoreFuture<Option<StoredTask>> {
        self.read(|log| log.load(id))
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> StoreFuture<Vec<FrozenEvent>> {
        self.read(|log| log.events(id, after, limit))
    }

    fn list(&self, listing: TaskListQuery) -> StoreFuture<StoredTaskPage> {
        self.read(|log| log.list(listing))
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<StoredTask>> {
        self.read(|log| log.unfinished(after, limit))
    }

    fn pending_cancels(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreFuture<Vec<(TaskId, AgentName, PendingCancel)>> {
        self.read(|log| log.pending_cancels(after, limit))
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<StoredRetry>> {
        self.read(|log| log.recent_retries(since, limit))
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> StoreFuture<Option<StoredRetry>> {
        self.read(|log| log.explicit_retry(key, now))
    }

    fn retry_key_before(&self, key: Digest) -> StoreFuture<Option<Digest>> {
        self.read(|log| log.retry_key_before(key))
    }

    fn alias(&self, scope: &Scope, name: &str) -> StoreFuture<Option<TaskId>> {
        self.read(|log| log.alias(scope, name))
    }

    fn aliases_of(&self, task: TaskId) -> StoreFuture<Vec<String>> {
        self.read(|log| log.aliases_of(task))
    }

    fn owner(&self, task: TaskId) -> StoreFuture<Option<Arc<Scope>>> {
        self.read(|log| log.owner(task))
    }

    fn add_loss_notes(&self, task: TaskId, notes: Vec<LossNote>) -> StoreFuture<()> {
        self.read(|log| log.add_loss_notes(task, notes))
    }

    fn loss_notes(&self, task: TaskId) -> StoreFuture<Vec<LossNote>> {
        self.read(|log| log.loss_notes(task))
    }

    fn agent_data(&self, task: TaskId) -> StoreFuture<Option<Bytes>> {
        self.read(|log| log.agent_data(task))
    }

    fn pushes(&self, task: TaskId) -> StoreFuture<Vec<PushConfig>> {
        self.read(|log| log.pushes(task))
    }

    fn last_stamp(&self) -> StoreFuture<Stamp> {
        self.read(TaskLog::last_stamp)
    }
}

impl Outbox for SimLog {
    fn due_signal(&self) -> Arc<WakeSignal> {
        self.lock().store.log().due_signal()
    }

    fn due(&self, reading: DueQuery) -> StoreFuture<DueDeliveries> {
        self.due_with_sabotage(reading)
    }

    fn next_due(&self, after: Timestamp) -> StoreFuture<Option<Timestamp>> {
        self.read(|log| log.next_due(after))
    }

    fn receiver(&self, task: TaskId, config: &str) -> StoreFuture<Option<PushReceiver>> {
        self.read(|log| log.receiver(task, config))
    }

    fn mark(&self, owed: &DueDelivery, mark: DeliveryMark) -> StoreFuture<bool> {
        self.mark_with_sabotage(owed, mark)
    }

    fn deliveries(&self, letters: DeliveryQuery) -> StoreFuture<Vec<Delivery>> {
        self.read(|log| log.deliveries(letters))
    }

    fn delivery(&self, number: i64) -> StoreFuture<Option<Delivery>> {
        self.read(|log| log.delivery(number))
    }

    fn retry(&self, number: i64, now: Timestamp) -> StoreFuture<bool> {
        self.write(|log| log.retry(number, now))
    }

    fn discard(&self, number: i64) -> StoreFuture<bool> {
        self.write(|log| log.discard(number))
    }
}

impl TaskTree for SimLog {
    fn parent_link(&self, task: TaskId) -> StoreFuture<Option<ParentLink>> {
        self.read(|log| log.parent_link(task))
    }

    fn child(&self, parent: TaskId, key: &str) -> StoreFuture<Option<TaskId>> {
        self.read(|log| log.child(parent, key))
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.read(|log| log.descendants(root, after, limit))
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        if self.lock().sabotage == Some(Sabotage::HideOrphans) {
            return StoreFuture::ready(Ok(Vec::new()));
        }
        self.read(|log| log.children(parent, after, limit))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        if self.lock().sabotage == Some(Sabotage::HideOrphans) {
            return StoreFuture::ready(Ok(Vec::new()));
        }
        self.read(|log| log.orphans(after, limit))
    }

    fn subtask_spend(&self, root: TaskId) -> StoreFuture<SubtaskSpend> {
        self.read(|log| log.subtask_spend(root))
    }

    fn interrupted(&self, after: Option<Stamp>, limit: usize) -> StoreFuture<Vec<InterruptedTask>> {
        self.read(|log| log.interrupted(after, limit))
    }
}
