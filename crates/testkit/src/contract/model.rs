//! Compares two logs: after the same operations both must give the same answers.
//!
//! The memory log is the model, since it is simple enough to be trusted. A seed draws the operations, some of them
//! invalid; every answer of both logs is turned into the same plain text and compared.

use super::Bench;
use crate::chance::Chance;
use crate::story::{Author, News, Story, owner, push_config};
use crate::wait::wait;
use bytes::Bytes;
use sabir_engine::machine;
use sabir_proto::{ContextId, Seq, Stamp, TaskState, Timestamp};
use sabir_store::States;
use sabir_store::{
    Attempt, Effect, Letters, Listed, Listing, Mark, Note, Owed, PageToken, Reading, RetryMark, Scope, Step, Stored,
    TaskLog,
};
use std::sync::Arc;

/// The two logs, and the operations so far.
struct Pair<'a> {
    seed: u64,
    model: &'a mut dyn Bench,
    real: &'a mut dyn Bench,
    author: Author,
    chance: Chance,
    scopes: [Arc<Scope>; 2],
    stories: Vec<Story>,
    marks: Vec<RetryMark>,
    walks: Vec<(Listing, [PageToken; 2])>,
    /// Deliveries that were due at some time.
    stale: Vec<Owed>,
}

/// The aliases that the operations use.
const NAMES: [&str; 3] = ["job", "errand", "Job"];

/// Applies the operations of a seed to both logs and compares every answer.
///
/// # Panics
/// When they differ; the message has the seed.
pub fn same_answers(seed: u64, operations: usize, model: &mut dyn Bench, real: &mut dyn Bench) {
    let (author, chance) = (Author::new(seed), Chance::new(seed));
    let scopes = [owner("ann"), owner("bob")];
    let (stories, marks, walks) = (Vec::new(), Vec::new(), Vec::new());
    let mut pair = Pair { seed, model, real, author, chance, scopes, stories, marks, walks, stale: Vec::new() };
    for _ in 0..operations {
        match pair.chance.below(16) {
            0..=2 => pair.open(),
            3..=5 => pair.go_on(),
            6 => pair.effect(),
            7 => pair.read_task(),
            8 | 9 => pair.list(),
            10 => pair.read_around(),
            11 => pair.note(),
            12..=14 => pair.deliver(),
            _ if pair.chance.once_in(2) => pair.reopen(),
            _ => pair.author.pass(250),
        }
    }
}

impl Pair<'_> {
    #[track_caller]
    fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, ask: impl Fn(&dyn TaskLog) -> T) {
        let (model, real) = (ask(self.model.log()), ask(self.real.log()));
        assert_eq!(model, real, "seed {}: {what}", self.seed);
    }

    /// Page tokens stay valid: a token outlives the process that made it.
    fn reopen(&mut self) {
        self.real.reopen();
    }

    fn story(&mut self) -> Option<Story> {
        let at = self.chance.below(self.stories.len());
        self.stories.get(at).cloned()
    }

    fn open(&mut self) {
        let scope = self.chance.pick(&[0, 1]);
        let scope = self.scopes[scope].clone();
        let known = self.story().map(|s| s.task.context_id);
        let mut story = match (self.chance.below(3), known) {
            (0, _) => self.author.story_in(&scope, &ContextId::parse("theirs").expect("a legal context")),
            (1, Some(context)) => self.author.story_in(&scope, &context),
            _ => self.author.story(&scope),
        };
        let step = if self.chance.once_in(3) {
            story.whole(TaskState::Completed)
        } else {
            let news = self.news();
            story.open(&mut self.author, &news)
        };
        self.tell(story, step);
    }

    /// The next step of a task; sometimes of a settled one, or with a stale head.
    fn go_on(&mut self) {
        let Some(mut story) = self.story() else { return };
        if self.chance.once_in(6) {
            story.head = Seq(self.chance.between(0, story.head.0 + 1));
        }
        let mut news = self.news();
        news.push(News::Chunk);
        let settled = story.task.status.state.is_settled();
        let step = story.step(&mut self.author, &news);
        if settled && self.chance.once_in(2) {
            return;
        }
        self.tell(story, step);
    }

    fn effect(&mut self) {
        let Some(story) = self.story() else { return };
        let step = Step { after: Seq(0), ..story.bare() };
        self.tell(story, step);
    }

    fn note(&mut self) {
        let Some(story) = self.story() else { return };
        let note = |chance: &mut Chance| Note {
            count: chance.between(1, 3),
            ..Note::new(chance.pick(&["a", "b"]), "k", chance.between(0, 60).to_string(), story.position.time())
        };
        let notes: Vec<Note> = (0..self.chance.between(0, 40)).map(|_| note(&mut self.chance)).collect();
        self.same("note", |log| wait(log.note(story.id(), notes.clone())));
    }

    /// Adds effects and other members to a step, and appends it to both logs.
    fn tell(&mut self, story: Story, mut step: Step) {
        // The engine never begins a turn of a settled task; a store may rely on that.
        let over = self.stories.iter().any(|s| s.id() == story.id() && s.task.status.state.is_settled());
        if self.chance.once_in(3) && !over {
            step.turn = Some((Seq(self.chance.between(0, 5)), 1));
        }
        if self.chance.once_in(3) && !over {
            step.checkpoint = Some(Bytes::from(self.chance.bits().to_string()));
        }
        if self.chance.once_in(4) && step.snapshot.is_none() && !step.events.is_empty() {
            step.snapshot = Some(story.image());
        }
        step.notify = self.chance.once_in(2).then(|| self.author.now());
        let opens_or_moves = step.opening.is_some() || step.placement.is_some();
        if self.chance.once_in(3) && opens_or_moves {
            step.retry = Some(self.author.mark());
        }
        if self.chance.once_in(4) {
            let fresh = self.marks.is_empty() || self.chance.once_in(2);
            let mark = if fresh { self.author.mark() } else { self.chance.pick(&self.marks) };
            self.marks.push(mark);
            let at = self.author.stamp();
            step.effects.push(Effect::Key { mark, at, until: Stamp::from_u64(at.get() + (1 << 26)) });
        }
        if self.chance.once_in(4) {
            let id = self.chance.pick(&["a", "b", "c", "d"]);
            let (config, at) = (push_config(id), self.author.now());
            let host = self.chance.pick(&["one", "two"]).into();
            step.effects.push(Effect::PutPush { config, dialect: "1.0".into(), host, at, configs_max: 3 });
        }
        if self.chance.once_in(9) {
            step.effects.push(Effect::DeletePush { id: self.chance.pick(&["a", "b"]).into() });
        }
        if self.chance.once_in(4) {
            let (name, scope) = (self.chance.pick(&NAMES), &story.scope);
            let now = wait(self.model.log().alias(scope, name)).expect("a name can be read");
            // Mostly the current task of the alias, sometimes a wrong one.
            let was = if self.chance.once_in(5) { self.story().map(|s| s.id()) } else { now };
            step.effects.push(Effect::Alias { name: name.into(), was });
        }
        if self.chance.once_in(12) {
            step.effects.push(Effect::Adopt(self.scopes[self.chance.pick(&[0, 1])].clone()));
        }
        let taken = wait(self.model.log().append(step.clone()));
        assert_eq!(taken, wait(self.real.log().append(step)), "seed {}: append", self.seed);
        let known = self.stories.iter_mut().find(|s| s.id() == story.id());
        match (taken, known) {
            (Ok(()), Some(known)) => *known = story,
            (Ok(()), None) => self.stories.push(story),
            (Err(_), _) => {}
        }
    }

    fn news(&mut self) -> Vec<News> {
        let status = [TaskState::Working, TaskState::Working, TaskState::InputRequired, TaskState::Completed];
        let mut news = vec![News::Chunk; self.chance.below(3)];
        if self.chance.once_in(2) {
            news.push(News::Status(self.chance.pick(&status)));
        } else if self.chance.once_in(4) {
            news.push(News::Heard);
        }
        // The scripted task ignores events after its end.
        news
    }

    fn read_task(&mut self) {
        let Some(story) = self.story() else { return };
        self.same("load", |log| wait(log.load(story.id())).map(|s| s.as_ref().map(plain)));
        let (after, limit) = (Seq(self.chance.between(0, story.head.0 + 1)), self.chance.below(6));
        self.same("events", |log| wait(log.events(story.id(), after, limit)));
        self.same("pushes", |log| wait(log.pushes(story.id())));
        self.same("notes", |log| wait(log.notes(story.id())));
        self.same("owner", |log| wait(log.owner(story.id())));
        self.same("names", |log| wait(log.aliases_of(story.id())));
        let name = self.chance.pick(&NAMES);
        self.same("a name", |log| wait(log.alias(&story.scope, name)));
    }

    /// Records a result for a due delivery, sometimes for one that is no longer due, or does an operator's command.
    fn deliver(&mut self) {
        let now = self.author.now();
        let all = Reading::all(now, 5);
        let due = wait(self.model.log().due(all.clone())).expect("what is due can be read").owed;
        self.same("due", |log| wait(log.due(all.clone())));
        let full = due.first().map(|owed| owed.lane.clone()).into_iter().collect();
        let others = Reading { full, lane_limit: 2, ..all };
        self.same("due elsewhere", |log| wait(log.due(others.clone())));
        self.stale.extend(due.iter().cloned());
        if self.stale.is_empty() {
            return;
        }
        let owed = match due.last() {
            Some(owed) if !self.chance.once_in(4) => owed.clone(),
            _ => self.stale.swap_remove(self.chance.below(self.stale.len())),
        };
        self.same("receiver", |log| wait(log.receiver(owed.task, &owed.config)));
        let status = self.chance.once_in(2).then_some(500);
        let tried = Some(Attempt { at_ms: now.millis(), took_ms: 3, status, problem: "refused".into() });
        let mark = match self.chance.below(9) {
            0..4 => Mark::Done { now },
            4 | 5 => Mark::Postpone { until: Timestamp::from_millis(now.millis() + 50), tried },
            6 => Mark::Postpone { until: Timestamp::from_millis(now.millis() + 90), tried: None },
            7 => Mark::Bury { now, reason: "too often".into(), tried },
            _ => Mark::End { now, reason: "gone".into(), tried },
        };
        self.same("mark", |log| wait(log.mark(&owed, mark.clone())));
        let number = i64::try_from(self.chance.below(60)).unwrap_or(0);
        if self.chance.once_in(3) {
            self.same("retry", |log| wait(log.retry(number, now)));
        }
        if self.chance.once_in(6) {
            self.same("discard", |log| wait(log.discard(number)));
        }
        self.same("letter", |log| wait(log.letter(number)));
    }

    /// Reads a first page, or the next page of an earlier list.
    fn list(&mut self) {
        let (listing, tokens) = if self.walks.is_empty() || self.chance.once_in(3) {
            (self.listing(), None)
        } else {
            let (listing, tokens) = self.walks.swap_remove(self.chance.below(self.walks.len()));
            (listing, Some(tokens))
        };
        let page = |log: &dyn TaskLog, token| wait(log.list(Listing { token, ..listing.clone() }));
        let model = page(self.model.log(), tokens.map(|t| t[0]));
        let real = page(self.real.log(), tokens.map(|t| t[1]));
        let words = |page: &Result<Listed, _>| match page {
            Ok(page) => Ok((page.tasks.iter().map(plain).collect::<Vec<_>>(), page.total, page.next.map(|t| t.below))),
            Err(error) => Err(format!("{error}")),
        };
        assert_eq!(words(&model), words(&real), "seed {}: list {listing:?}", self.seed);
        if let (Ok(Some(a)), Ok(Some(b))) = (model.map(|p| p.next), real.map(|p| p.next)) {
            self.walks.push((listing, [a, b]));
        }
    }

    fn listing(&mut self) -> Listing {
        let scope = self.chance.pick(&[0, 1]);
        let scope = self.scopes[scope].clone();
        let story = self.story();
        let context = story.as_ref().filter(|_| self.chance.once_in(3)).map(|s| s.task.context_id.clone());
        let since = story.as_ref().filter(|_| self.chance.once_in(4)).map(|s| s.position);
        let both = States::from_iter([TaskState::Working, TaskState::Failed]);
        let state = self.chance.pick(&[
            None,
            None,
            Some(TaskState::Working.into()),
            Some(TaskState::Completed.into()),
            Some(both),
        ]);
        Listing { scope, context, state, since, limit: 1 + self.chance.below(5), bytes_max: usize::MAX, token: None }
    }

    fn read_around(&mut self) {
        let after = self.story().map(|s| s.id());
        let limit = 1 + self.chance.below(9);
        self.same("unfinished", |log| {
            wait(log.unfinished(after, limit)).map(|page| page.iter().map(plain).collect::<Vec<_>>())
        });
        let since = self.story().map_or_else(Stamp::default, |s| s.position);
        self.same("recent retries", |log| wait(log.recent_retries(since, limit)));
        let after = i64::try_from(self.chance.below(20)).unwrap_or(0);
        for dead in [false, true] {
            let letters = Letters { dead, task: None, after, limit };
            self.same("letters", |log| wait(log.letters(letters)));
            let letters = Letters { task: self.story().map(|s| s.id()), ..letters };
            self.same("letters of a task", |log| wait(log.letters(letters)));
        }
        let now = self.author.now();
        self.same("next due", |log| wait(log.next_due(now)));
        let latest = self.stories.iter().map(|s| s.position).max().unwrap_or_default();
        self.same("last stamp", |log| wait(log.last_stamp()).is_ok_and(|last| last >= latest));
        if !self.marks.is_empty() {
            let (key, now) = (self.chance.pick(&self.marks).key, self.author.stamp());
            self.same("explicit retry", |log| wait(log.explicit_retry(key, now)));
        }
    }
}

/// A stored task as text that does not depend on the position of snapshots.
fn plain(stored: &Stored) -> String {
    let image = machine::fold(stored).expect("a stored task can be folded");
    let json = String::from_utf8_lossy(&image.json);
    let Stored { id, scope, state, head, progress, .. } = stored;
    format!("{id} {} {state} {head} {progress:?} {json}", scope.caller.name())
}
