//! The store of a simulated process: late commits and answers, a disk that fills up, and planted faults.
//!
//! It outlives the process. Uncommitted steps are lost when the process dies; committed ones stay, also when no process
//! got the answer.

use super::checks::is_unfinished;
use super::faults::Sabotage;
use super::ledger::Named;
use super::{Options, Store};
use crate::agents::VENUE;
use crate::wait::at_once;
use bytes::Bytes;
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Seq, Stamp, TaskId, TaskState, Timestamp};
use sabir_store::memory::MemoryLog;
use sabir_store::sqlite::{Durability, SqliteLog, Writing};
use sabir_store::{
    Answer, AppendError, Asking, Bell, Booking, BookingQuery, Digest, Due, Effect, Family, KeptRetry, Kin, Ledger,
    Letter, Letters, Listed, Listing, Mark, Note, Outbox, Owed, OwedCancel, Reading, Receiver, Relative, Scope, Slot,
    Step, StoreError, Stored, Tally, TaskLog, Toll, is_given_up,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;
use tokio::sync::oneshot;

pub(super) struct SimLog(Mutex<Inner>);

struct Inner {
    disk: Disk,
    /// Accepted and not committed yet, oldest first.
    waiting: VecDeque<Waiting>,
    holding: bool,
    /// Reads without an answer yet, oldest first.
    unanswered: VecDeque<Box<dyn FnOnce() + Send>>,
    answering_late: bool,
    full: bool,
    sabotage: Option<Sabotage>,
    /// For [`Sabotage::AcknowledgeEarly`]: every confirmed step, of which a crash keeps the first `journal_kept`.
    journal: Vec<Step>,
    journal_kept: usize,
    witness: Witness,
}

struct Waiting {
    step: Step,
    reply: oneshot::Sender<Result<(), AppendError>>,
}

/// The history of commits, recorded beside the store for the checks.
#[derive(Debug, Clone, Default)]
pub(super) struct Witness {
    /// Every task that was opened.
    pub(super) tasks: BTreeSet<TaskId>,
    /// The last state of each task.
    states: BTreeMap<TaskId, TaskState>,
    /// The tasks that had each alias, in order. A list, since a hash map would not have the same order in every run.
    pub(super) names: Vec<(Named, Vec<TaskId>)>,
    /// Aliases that moved while their task was unfinished.
    pub(super) names_taken_away: Vec<String>,
    /// Every child, with its parent and its key.
    pub(super) born: Vec<(TaskId, TaskId, Arc<str>)>,
    /// Settled tasks that got another event.
    pub(super) moved_after_settling: Vec<TaskId>,
}

impl Witness {
    /// Unfinished children of parents that were canceled, failed or rejected, with those parents.
    pub(super) fn orphans(&self) -> impl Iterator<Item = (TaskId, TaskId)> {
        let state = |task: &TaskId| self.states.get(task).copied();
        let lives = move |child: &TaskId| state(child).is_some_and(|state| !state.is_settled());
        let is_gone = move |parent: &TaskId| state(parent).is_some_and(is_given_up);
        let orphans = self.born.iter().filter(move |(child, parent, _)| lives(child) && is_gone(parent));
        orphans.map(|(child, parent, _)| (*child, *parent))
    }

    fn gives(&mut self, named: Named, task: TaskId) {
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
fn named(step: &Step) -> Option<Named> {
    let scope = step.opening.as_ref().map(|opening| opening.scope.clone())?;
    step.effects.iter().find_map(|effect| match effect {
        Effect::Alias { name, .. } => Some(Named { scope: scope.clone(), name: name.clone() }),
        Effect::Key { .. }
        | Effect::Adopt(_)
        | Effect::PutPush { .. }
        | Effect::DeletePush { .. }
        | Effect::WaitFor(_)
        | Effect::KeepData(_)
        | Effect::OweCancel(_)
        | Effect::Spend { .. }
        | Effect::Book(_)
        | Effect::MoveBooking { .. }
        | Effect::Interaction(_)
        | Effect::Pay(_) => None,
    })
}

/// Removes the usage from bookings.
fn forget_counts(step: &mut Step) {
    for effect in &mut step.effects {
        match effect {
            Effect::Book(new) => new.usage = None,
            Effect::MoveBooking { usage, .. } => *usage = None,
            _ => {}
        }
    }
}

/// The contents of the ledger at the end.
#[derive(Debug, Clone)]
pub(super) struct Books {
    pub(super) tally: Tally,
    pub(super) metered: u64,
    pub(super) slots: Vec<Slot>,
    pub(super) bookings: Vec<Booking>,
}

/// The parent and the key of the child that a step opens.
fn born(step: &Step) -> Option<(TaskId, Arc<str>)> {
    let birth = step.opening.as_ref()?.birth.as_ref()?;
    Some((birth.kin.parent, birth.kin.key.clone()))
}

enum Disk {
    Memory(MemoryLog),
    File { log: Option<SqliteLog>, dir: TempDir },
}

impl Disk {
    fn new(store: Store) -> Self {
        let disk = match store {
            Store::Memory => Self::Memory(MemoryLog::new()),
            Store::Sqlite => {
                let mut disk = Self::File { log: None, dir: tempfile::tempdir().expect("a temporary directory") };
                disk.reopen();
                disk
            }
        };
        crate::agents::Books::furnish(disk.ledger());
        disk
    }

    fn log(&self) -> &dyn TaskLog {
        match self {
            Self::Memory(log) => log,
            Self::File { log, .. } => log.as_ref().expect("closed only while it is opened again"),
        }
    }

    fn ledger(&self) -> &dyn Ledger {
        match self {
            Self::Memory(log) => log,
            Self::File { log, .. } => log.as_ref().expect("closed only while it is opened again"),
        }
    }

    fn reopen(&mut self) {
        if let Self::File { log, dir } = self {
            *log = None;
            // Without syncing: the process dies here, not the machine.
            let (durability, writing) = (Durability::Normal, Writing::Inline);
            let options = sabir_store::sqlite::Options { durability, writing, ..Default::default() };
            *log = Some(SqliteLog::open(&dir.path().join("sim.db"), options).expect("our own file opens"));
        }
    }
}

impl SimLog {
    pub(super) fn new(options: Options) -> Self {
        Self(Mutex::new(Inner {
            disk: Disk::new(options.store),
            waiting: VecDeque::new(),
            holding: false,
            unanswered: VecDeque::new(),
            answering_late: false,
            full: false,
            sabotage: options.sabotage,
            journal: Vec::new(),
            journal_kept: 0,
            witness: Witness::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
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
        let group: Vec<Waiting> = inner.waiting.drain(..count).collect();
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
            inner.lose_what_was_not_kept();
        }
        inner.disk.reopen();
        drop(inner);
        drop(lost);
    }

    /// The number of unfinished tasks.
    pub(super) fn unfinished_tasks(&self) -> usize {
        self.lock().witness.states.values().filter(|state| is_unfinished(**state)).count()
    }

    /// The number of unfinished children of ended parents.
    pub(super) fn orphans(&self) -> usize {
        self.lock().witness.orphans().count()
    }

    pub(super) fn witness(&self) -> Witness {
        self.lock().witness.clone()
    }

    /// Reads the contents of the ledger.
    pub(super) fn books(&self) -> Option<Books> {
        let inner = self.lock();
        let ledger = inner.disk.ledger();
        let all = BookingQuery { limit: usize::MAX, ..BookingQuery::default() };
        Some(Books {
            tally: at_once(ledger.tally()).ok()?,
            metered: ledger.metered(),
            slots: at_once(ledger.slots(VENUE)).ok()?,
            bookings: at_once(ledger.bookings(&all)).ok()?,
        })
    }

    /// Whether a delivery is still pending.
    pub(super) fn has_letters(&self) -> bool {
        let any = Letters { dead: false, task: None, after: 0, limit: 1 };
        at_once(self.lock().disk.log().letters(any)).is_ok_and(|letters| !letters.is_empty())
    }

    /// Reads all dead letters.
    pub(super) fn dead_letters(&self) -> Vec<Letter> {
        let all = Letters { dead: true, task: None, after: 0, limit: usize::MAX };
        at_once(self.lock().disk.log().letters(all)).unwrap_or_default()
    }

    fn write<T: Send + 'static>(&self, write: impl FnOnce(&dyn TaskLog) -> Answer<T>) -> Answer<T> {
        if self.lock().full {
            return Answer::now(Err(StoreError::Full));
        }
        self.read(write)
    }

    fn mark_as_told(&self, owed: &Owed, mark: Mark) -> Answer<bool> {
        let sabotage = self.lock().sabotage;
        let mark = match mark {
            Mark::Postpone { until: now, tried: Some(_) } if sabotage == Some(Sabotage::CountFailures) => {
                Mark::Done { now }
            }
            // The skipped row is postponed as well; otherwise it would stay due for ever.
            mark @ Mark::Postpone { .. } if sabotage == Some(Sabotage::SkipAhead) => {
                let of_task = Letters { dead: false, task: Some(owed.task), after: 0, limit: usize::MAX };
                let letters = at_once(self.lock().disk.log().letters(of_task)).unwrap_or_default();
                if let Some(first) = letters.iter().find(|letter| letter.config == owed.config) {
                    let passed_over = Owed { number: first.number, seq: first.first, last: first.last, ..owed.clone() };
                    drop(self.write(|log| log.mark(&passed_over, mark.clone())));
                }
                mark
            }
            mark => mark,
        };
        self.write(|log| log.mark(owed, mark))
    }

    fn due_as_told(&self, reading: Reading) -> Answer<Due> {
        if self.lock().sabotage != Some(Sabotage::SkipAhead) {
            return self.read(|log| log.due(reading));
        }
        let inner = self.lock();
        let mut due = match at_once(inner.disk.log().due(reading)) {
            Ok(due) => due,
            Err(error) => return Answer::now(Err(error)),
        };
        for owed in &mut due.owed {
            let of_task = Letters { dead: false, task: Some(owed.task), after: 0, limit: usize::MAX };
            let letters = at_once(inner.disk.log().letters(of_task)).unwrap_or_default();
            if let Some(last) = letters.iter().rfind(|letter| letter.config == owed.config) {
                (owed.number, owed.seq, owed.last) = (last.number, last.first, last.last);
            }
        }
        Answer::now(Ok(due))
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&dyn TaskLog) -> Answer<T>) -> Answer<T> {
        let mut inner = self.lock();
        let answer = read(inner.disk.log());
        if !inner.answering_late {
            return answer;
        }
        let found = at_once(answer);
        let (sender, receiver) = oneshot::channel();
        // The caller may have been dropped.
        inner.unanswered.push_back(Box::new(move || drop(sender.send(found))));
        Answer::later(receiver)
    }
}

impl Inner {
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
            Some(Sabotage::MoveNames) => self.look_away(&mut step),
            Some(Sabotage::ForgetKin) => {}
            Some(Sabotage::CountNothing) => forget_counts(&mut step),
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
        let (named, kin) = (named(&step), born(&step));
        if self.sabotage == Some(Sabotage::ForgetKin)
            && let Some(opening) = &mut step.opening
        {
            opening.birth = None;
        }
        at_once(self.disk.log().append(step))?;
        let witness = &mut self.witness;
        witness.born.extend(kin.map(|(parent, key)| (task, parent, key)));
        if let Some(named) = named {
            witness.gives(named, task);
        }
        witness.tasks.insert(task);
        if has_events && !opens && witness.states.get(&task).is_some_and(|s| s.is_settled()) {
            witness.moved_after_settling.push(task);
        }
        witness.states.extend(state.map(|state| (task, state)));
        Ok(())
    }

    /// Rebuilds the store from the steps that really were committed.
    fn lose_what_was_not_kept(&mut self) {
        self.disk = Disk::new(Store::Memory);
        self.journal.truncate(self.journal_kept);
        for step in &self.journal {
            at_once(self.disk.log().append(step.clone())).expect("what was taken once is taken again");
        }
    }

    /// Makes an alias change fit, like a store that does not check its owner.
    fn look_away(&self, step: &mut Step) {
        let Some(scope) = step.opening.as_ref().map(|opening| opening.scope.clone()) else { return };
        for effect in &mut step.effects {
            if let Effect::Alias { name, was } = effect {
                *was = at_once(self.disk.log().alias(&scope, name)).unwrap_or_default();
            }
        }
    }

    /// Makes a stale step fit, as a store without a head check would.
    fn renumber(&self, step: &mut Step) {
        let Ok(Some(stored)) = at_once(self.disk.log().load(step.task)) else { return };
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
        self.lock().disk.log().stored_bytes(caller)
    }

    fn handed_over(&self, since: Stamp, limit: usize) -> Answer<Vec<TaskId>> {
        self.read(|log| log.handed_over(since, limit))
    }

    fn append(&self, step: Step) -> Answer<(), AppendError> {
        let mut inner = self.lock();
        if inner.sabotage == Some(Sabotage::AcknowledgeEarly) {
            let taken = inner.commit(step.clone());
            if taken.is_ok() {
                inner.journal.push(step);
            }
            return Answer::now(taken);
        }
        // Behind waiting steps: steps are committed in order.
        if inner.holding || !inner.waiting.is_empty() {
            let (sender, receiver) = oneshot::channel();
            inner.waiting.push_back(Waiting { step, reply: sender });
            return Answer::later(receiver);
        }
        Answer::now(inner.commit(step))
    }

    fn load(&self, id: TaskId) -> Answer<Option<Stored>> {
        self.read(|log| log.load(id))
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> Answer<Vec<FrozenEvent>> {
        self.read(|log| log.events(id, after, limit))
    }

    fn list(&self, listing: Listing) -> Answer<Listed> {
        self.read(|log| log.list(listing))
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Stored>> {
        self.read(|log| log.unfinished(after, limit))
    }

    fn owed_cancels(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<(TaskId, AgentName, OwedCancel)>> {
        self.read(|log| log.owed_cancels(after, limit))
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> Answer<Vec<KeptRetry>> {
        self.read(|log| log.recent_retries(since, limit))
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> Answer<Option<KeptRetry>> {
        self.read(|log| log.explicit_retry(key, now))
    }

    fn retry_key_before(&self, key: Digest) -> Answer<Option<Digest>> {
        self.read(|log| log.retry_key_before(key))
    }

    fn alias(&self, scope: &Scope, name: &str) -> Answer<Option<TaskId>> {
        self.read(|log| log.alias(scope, name))
    }

    fn aliases_of(&self, task: TaskId) -> Answer<Vec<String>> {
        self.read(|log| log.aliases_of(task))
    }

    fn owner(&self, task: TaskId) -> Answer<Option<Arc<Scope>>> {
        self.read(|log| log.owner(task))
    }

    fn note(&self, task: TaskId, notes: Vec<Note>) -> Answer<()> {
        self.read(|log| log.note(task, notes))
    }

    fn notes(&self, task: TaskId) -> Answer<Vec<Note>> {
        self.read(|log| log.notes(task))
    }

    fn agent_data(&self, task: TaskId) -> Answer<Option<Bytes>> {
        self.read(|log| log.agent_data(task))
    }

    fn pushes(&self, task: TaskId) -> Answer<Vec<PushConfig>> {
        self.read(|log| log.pushes(task))
    }

    fn last_stamp(&self) -> Answer<Stamp> {
        self.read(TaskLog::last_stamp)
    }
}

impl Outbox for SimLog {
    fn bell(&self) -> Arc<Bell> {
        self.lock().disk.log().bell()
    }

    fn due(&self, reading: Reading) -> Answer<Due> {
        self.due_as_told(reading)
    }

    fn next_due(&self, after: Timestamp) -> Answer<Option<Timestamp>> {
        self.read(|log| log.next_due(after))
    }

    fn receiver(&self, task: TaskId, config: &str) -> Answer<Option<Receiver>> {
        self.read(|log| log.receiver(task, config))
    }

    fn mark(&self, owed: &Owed, mark: Mark) -> Answer<bool> {
        self.mark_as_told(owed, mark)
    }

    fn letters(&self, letters: Letters) -> Answer<Vec<Letter>> {
        self.read(|log| log.letters(letters))
    }

    fn letter(&self, number: i64) -> Answer<Option<Letter>> {
        self.read(|log| log.letter(number))
    }

    fn retry(&self, number: i64, now: Timestamp) -> Answer<bool> {
        self.write(|log| log.retry(number, now))
    }

    fn discard(&self, number: i64) -> Answer<bool> {
        self.write(|log| log.discard(number))
    }
}

impl Family for SimLog {
    fn kin(&self, task: TaskId) -> Answer<Option<Kin>> {
        self.read(|log| log.kin(task))
    }

    fn child(&self, parent: TaskId, key: &str) -> Answer<Option<TaskId>> {
        self.read(|log| log.child(parent, key))
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        self.read(|log| log.descendants(root, after, limit))
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        if self.lock().sabotage == Some(Sabotage::HideOrphans) {
            return Answer::now(Ok(Vec::new()));
        }
        self.read(|log| log.children(parent, after, limit))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        if self.lock().sabotage == Some(Sabotage::HideOrphans) {
            return Answer::now(Ok(Vec::new()));
        }
        self.read(|log| log.orphans(after, limit))
    }

    fn toll(&self, root: TaskId) -> Answer<Toll> {
        self.read(|log| log.toll(root))
    }

    fn asking(&self, after: Option<Stamp>, limit: usize) -> Answer<Vec<Asking>> {
        self.read(|log| log.asking(after, limit))
    }
}
