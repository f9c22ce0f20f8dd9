//! Compares two logs: after the same operations both must give the same answers.
//!
//! One of them is the model, which is simple enough to be trusted. A seed draws the operations, some of them invalid;
//! every answer of both logs is turned into the same plain text and compared.

use super::LogFixture;
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner, push_config};
use crate::seeded_rng::SeededRng;
use crate::wait::wait;
use bytes::Bytes;
use sabir_engine::machine;
use sabir_proto::{ContextId, Seq, Stamp, TaskState, Timestamp};
use sabir_store::StateSet;
use sabir_store::{
    Attempt, DeliveryMark, DeliveryQuery, DueDelivery, DueQuery, Effect, LossNote, PageToken, RetryMark, Scope, Step,
    StoredTask, StoredTaskPage, TaskListQuery, TaskLog,
};
use std::sync::Arc;

/// The two logs, and the operations so far.
struct LogPair<'a> {
    seed: u64,
    model: &'a mut dyn LogFixture,
    real: &'a mut dyn LogFixture,
    author: TaskFactory,
    rng: SeededRng,
    scopes: [Arc<Scope>; 2],
    tasks: Vec<ScriptedTask>,
    marks: Vec<RetryMark>,
    open_lists: Vec<(TaskListQuery, [PageToken; 2])>,
    /// Deliveries that were due at some time.
    once_due: Vec<DueDelivery>,
}

/// The aliases that the operations use.
const NAMES: [&str; 3] = ["job", "errand", "Job"];

/// Applies the operations of a seed to both logs and compares every answer.
///
/// # Panics
/// When they differ; the message has the seed.
pub fn same_answers(seed: u64, operations: usize, model: &mut dyn LogFixture, real: &mut dyn LogFixture) {
    let (author, chance) = (TaskFactory::new(seed), SeededRng::new(seed));
    let scopes = [owner("ann"), owner("bob")];
    let (stories, marks, walks) = (Vec::new(), Vec::new(), Vec::new());
    let mut pair = LogPair {
        seed,
        model,
        real,
        author,
        rng: chance,
        scopes,
        tasks: stories,
        marks,
        open_lists: walks,
        once_due: Vec::new(),
    };
    for _ in 0..operations {
        match pair.rng.below(16) {
            0..=2 => pair.open(),
            3..=5 => pair.next_step(),
            6 => pair.effect(),
            7 => pair.read_task(),
            8 | 9 => pair.list(),
            10 => pair.read_around(),
            11 => pair.note(),
            12..=14 => pair.deliver(),
            _ if pair.rng.once_in(2) => pair.reopen(),
            _ => pair.author.advance(250),
        }
    }
}

impl LogPair<'_> {
    #[track_caller]
    fn assert_same<T: PartialEq + std::fmt::Debug>(&self, what: &str, ask: impl Fn(&dyn TaskLog) -> T) {
        let (model, real) = (ask(self.model.log()), ask(self.real.log()));
        assert_eq!(model, real, "seed {}: {what}", self.seed);
    }

    /// Page tokens stay valid: a token outlives the process that made it.
    fn reopen(&mut self) {
        self.real.reopen();
    }

    fn story(&mut self) -> Option<ScriptedTask> {
        let at = self.rng.below(self.tasks.len());
        self.tasks.get(at).cloned()
    }

    fn open(&mut self) {
        let scope = self.rng.pick(&[0, 1]);
        let scope = self.scopes[scope].clone();
        let known = self.story().map(|s| s.task.context_id);
        let mut story = match (self.rng.below(3), known) {
            (0, _) => self.author.new_task_in(&scope, &ContextId::parse("theirs").expect("a legal context")),
            (1, Some(context)) => self.author.new_task_in(&scope, &context),
            _ => self.author.new_task(&scope),
        };
        let step = if self.rng.once_in(3) {
            story.open_settled(TaskState::Completed)
        } else {
            let news = self.news();
            story.open(&mut self.author, &news)
        };
        self.append(story, step);
    }

    /// The next step of a task; sometimes of a settled one, or with a stale head.
    fn next_step(&mut self) {
        let Some(mut story) = self.story() else { return };
        if self.rng.once_in(6) {
            story.head = Seq(self.rng.between(0, story.head.0 + 1));
        }
        let mut news = self.news();
        news.push(ScriptedEvent::Chunk);
        let settled = story.task.status.state.is_settled();
        let step = story.step(&mut self.author, &news);
        if settled && self.rng.once_in(2) {
            return;
        }
        self.append(story, step);
    }

    fn effect(&mut self) {
        let Some(story) = self.story() else { return };
        let step = Step { after: Seq(0), ..story.empty_step() };
        self.append(story, step);
    }

    fn note(&mut self) {
        let Some(story) = self.story() else { return };
        let note = |chance: &mut SeededRng| LossNote {
            count: chance.between(1, 3),
            ..LossNote::new(chance.pick(&["a", "b"]), "k", chance.between(0, 60).to_string(), story.position.time())
        };
        let notes: Vec<LossNote> = (0..self.rng.between(0, 40)).map(|_| note(&mut self.rng)).collect();
        self.assert_same("note", |log| wait(log.add_loss_notes(story.id(), notes.clone())));
    }

    /// Adds effects and other members to a step, and appends it to both logs.
    fn append(&mut self, story: ScriptedTask, mut step: Step) {
        // The engine never begins a turn of a settled task; a store may rely on that.
        let over = self.tasks.iter().any(|s| s.id() == story.id() && s.task.status.state.is_settled());
        if self.rng.once_in(3) && !over {
            step.turn = Some((Seq(self.rng.between(0, 5)), 1));
        }
        if self.rng.once_in(3) && !over {
            step.checkpoint = Some(Bytes::from(self.rng.bits().to_string()));
        }
        if self.rng.once_in(4) && step.snapshot.is_none() && !step.events.is_empty() {
            step.snapshot = Some(story.image());
        }
        step.notify = self.rng.once_in(2).then(|| self.author.now());
        let opens_or_moves = step.opening.is_some() || step.placement.is_some();
        if self.rng.once_in(3) && opens_or_moves {
            step.retry = Some(self.author.new_retry_mark());
        }
        if self.rng.once_in(4) {
            let fresh = self.marks.is_empty() || self.rng.once_in(2);
            let mark = if fresh { self.author.new_retry_mark() } else { self.rng.pick(&self.marks) };
            self.marks.push(mark);
            let at = self.author.stamp();
            step.effects.push(Effect::Key { mark, at, until: Stamp::from_u64(at.get() + (1 << 26)) });
        }
        if self.rng.once_in(4) {
            let id = self.rng.pick(&["a", "b", "c", "d"]);
            let (config, at) = (push_config(id), self.author.now());
            let host = self.rng.pick(&["one", "two"]).into();
            step.effects.push(Effect::PutPush { config, dialect: "1.0".into(), host, at, configs_max: 3 });
        }
        if self.rng.once_in(9) {
            step.effects.push(Effect::DeletePush { id: self.rng.pick(&["a", "b"]).into() });
        }
        if self.rng.once_in(4) {
            let (name, scope) = (self.rng.pick(&NAMES), &story.scope);
            let now = wait(self.model.log().alias(scope, name)).expect("a name can be read");
            // Mostly the current task of the alias, sometimes a wrong one.
            let was = if self.rng.once_in(5) { self.story().map(|s| s.id()) } else { now };
            step.effects.push(Effect::SetAlias { name: name.into(), was });
        }
        if self.rng.once_in(12) {
            step.effects.push(Effect::Claim(self.scopes[self.rng.pick(&[0, 1])].clone()));
        }
        let taken = wait(self.model.log().append(step.clone()));
        assert_eq!(taken, wait(self.real.log().append(step)), "seed {}: append", self.seed);
        let known = self.tasks.iter_mut().find(|s| s.id() == story.id());
        match (taken, known) {
            (Ok(()), Some(known)) => *known = story,
            (Ok(()), None) => self.tasks.push(story),
            (Err(_), _) => {}
        }
    }

    fn news(&mut self) -> Vec<ScriptedEvent> {
        let status = [TaskState::Working, TaskState::Working, TaskState::InputRequired, TaskState::Completed];
        let mut news = vec![ScriptedEvent::Chunk; self.rng.below(3)];
        if self.rng.once_in(2) {
            news.push(ScriptedEvent::Status(self.rng.pick(&status)));
        } else if self.rng.once_in(4) {
            news.push(ScriptedEvent::Answer);
        }
        // The scripted task ignores events after its end.
        news
    }

    fn read_task(&mut self) {
        let Some(story) = self.story() else { return };
        self.assert_same("load", |log| wait(log.load(story.id())).map(|s| s.as_ref().map(plain)));
        let (after, limit) = (Seq(self.rng.between(0, story.head.0 + 1)), self.rng.below(6));
        self.assert_same("events", |log| wait(log.events(story.id(), after, limit)));
        self.assert_same("pushes", |log| wait(log.pushes(story.id())));
        self.assert_same("notes", |log| wait(log.loss_notes(story.id())));
        self.assert_same("owner", |log| wait(log.owner(story.id())));
        self.assert_same("names", |log| wait(log.aliases_of(story.id())));
        let name = self.rng.pick(&NAMES);
        self.assert_same("a name", |log| wait(log.alias(&story.scope, name)));
    }

    /// Records a result for a due delivery, sometimes for one that is no longer due, or does an operator's command.
    fn deliver(&mut self) {
        let now = self.author.now();
        let all = DueQuery::all(now, 5);
        let due = wait(self.model.log().due(all.clone())).expect("what is due can be read").deliveries;
        self.assert_same("due", |log| wait(log.due(all.clone())));
        let full = due.first().map(|owed| owed.lane.clone()).into_iter().collect();
        let others = DueQuery { full_lanes: full, lane_limit: 2, ..all };
        self.assert_same("due elsewhere", |log| wait(log.due(others.clone())));
        self.once_due.extend(due.iter().cloned());
        if self.once_due.is_empty() {
            return;
        }
        let owed = match due.last() {
            Some(owed) if !self.rng.once_in(4) => owed.clone(),
            _ => self.once_due.swap_remove(self.rng.below(self.once_due.len())),
        };
        self.assert_same("receiver", |log| wait(log.receiver(owed.task, &owed.config)));
        let status = self.rng.once_in(2).then_some(500);
        let tried = Some(Attempt { at_ms: now.millis(), took_ms: 3, status, problem: "refused".into() });
        let mark = match self.rng.below(9) {
            0..4 => DeliveryMark::Delivered { now },
            4 | 5 => DeliveryMark::Postpone { until: Timestamp::from_millis(now.millis() + 50), attempt: tried },
            6 => DeliveryMark::Postpone { until: Timestamp::from_millis(now.millis() + 90), attempt: None },
            7 => DeliveryMark::DeadLetter { now, reason: "too often".into(), attempt: tried },
            _ => DeliveryMark::EndReceiver { now, reason: "gone".into(), attempt: tried },
        };
        self.assert_same("mark", |log| wait(log.mark(&owed, mark.clone())));
        let number = i64::try_from(self.rng.below(60)).unwrap_or(0);
        if self.rng.once_in(3) {
            self.assert_same("retry", |log| wait(log.retry(number, now)));
        }
        if self.rng.once_in(6) {
            self.assert_same("discard", |log| wait(log.discard(number)));
        }
        self.assert_same("letter", |log| wait(log.delivery(number)));
    }

    /// Reads a first page, or the next page of an earlier list.
    fn list(&mut self) {
        let (listing, tokens) = if self.open_lists.is_empty() || self.rng.once_in(3) {
            (self.listing(), None)
        } else {
            let (listing, tokens) = self.open_lists.swap_remove(self.rng.below(self.open_lists.len()));
            (listing, Some(tokens))
        };
        let page = |log: &dyn TaskLog, token| wait(log.list(TaskListQuery { token, ..listing.clone() }));
        let (of_model, of_real) = tokens.map(|[of_model, of_real]| (of_model, of_real)).unzip();
        let (model, real) = (page(self.model.log(), of_model), page(self.real.log(), of_real));
        let words = |page: &Result<StoredTaskPage, _>| match page {
            Ok(page) => Ok((page.tasks.iter().map(plain).collect::<Vec<_>>(), page.total, page.next.is_some())),
            Err(error) => Err(format!("{error}")),
        };
        assert_eq!(words(&model), words(&real), "seed {}: list {listing:?}", self.seed);
        if let (Ok(Some(a)), Ok(Some(b))) = (model.map(|p| p.next), real.map(|p| p.next)) {
            self.open_lists.push((listing, [a, b]));
        }
    }

    fn listing(&mut self) -> TaskListQuery {
        let scope = self.rng.pick(&[0, 1]);
        let scope = self.scopes[scope].clone();
        let story = self.story();
        let context = story.as_ref().filter(|_| self.rng.once_in(3)).map(|s| s.task.context_id.clone());
        let since = story.as_ref().filter(|_| self.rng.once_in(4)).map(|s| s.position);
        let both = StateSet::from_iter([TaskState::Working, TaskState::Failed]);
        let state = self.rng.pick(&[
            None,
            None,
            Some(TaskState::Working.into()),
            Some(TaskState::Completed.into()),
            Some(both),
        ]);
        TaskListQuery { scope, context, state, since, limit: 1 + self.rng.below(5), bytes_max: usize::MAX, token: None }
    }

    fn read_around(&mut self) {
        let after = self.story().map(|s| s.id());
        let limit = 1 + self.rng.below(9);
        self.assert_same("unfinished", |log| {
            wait(log.unfinished(after, limit)).map(|page| page.iter().map(plain).collect::<Vec<_>>())
        });
        let since = self.story().map_or_else(Stamp::default, |s| s.position);
        self.assert_same("recent retries", |log| wait(log.recent_retries(since, limit)));
        let after = i64::try_from(self.rng.below(20)).unwrap_or(0);
        for dead in [false, true] {
            let letters = DeliveryQuery { dead, task: None, after, limit };
            self.assert_same("letters", |log| wait(log.deliveries(letters)));
            let letters = DeliveryQuery { task: self.story().map(|s| s.id()), ..letters };
            self.assert_same("letters of a task", |log| wait(log.deliveries(letters)));
        }
        let now = self.author.now();
        self.assert_same("next due", |log| wait(log.next_due(now)));
        let latest = self.tasks.iter().map(|s| s.position).max().unwrap_or_default();
        self.assert_same("last stamp", |log| wait(log.last_stamp()).is_ok_and(|last| last >= latest));
        if !self.marks.is_empty() {
            let (key, now) = (self.rng.pick(&self.marks).key, self.author.stamp());
            self.assert_same("explicit retry", |log| wait(log.explicit_retry(key, now)));
        }
    }
}

/// A stored task as text that does not depend on the position of snapshots.
fn plain(stored: &StoredTask) -> String {
    let image = machine::fold(stored).expect("a stored task can be folded");
    let json = String::from_utf8_lossy(&image.json);
    let StoredTask { id, scope, state, head, progress, .. } = stored;
    format!("{id} {} {state} {head} {progress:?} {json}", scope.caller.name())
}
