//! Promises about steps that are committed in one group and accepted or refused separately.

use super::{Ask, Bench, everything};
use crate::story::{Author, News, Story, beginning, owner, registers};
use crate::wait::wait;
use sabir_proto::{Seq, TaskState};
use sabir_store::{AppendError, Effect, Step};

pub(super) fn a_refused_step_leaves_no_trace_and_hurts_no_neighbour(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(8), owner("ann"));
    let mut running: Vec<Story> = (0..20).map(|_| author.story(&scope)).collect();
    for story in &mut running {
        bench.log().put(story.open(&mut author, &[News::Status(TaskState::Working)]));
    }
    let mark = author.mark();
    let (at, until) = (author.stamp(), sabir_proto::Stamp::from_u64(u64::MAX));
    let taken = vec![Effect::Key { mark, at, until }];
    let mut keeper = author.story(&scope);
    bench.log().put(Step { effects: taken.clone(), ..keeper.whole(TaskState::Completed) });

    // All in flight at once, so that a backend with group commits makes groups.
    let (mut good, mut answers) = (Vec::new(), Vec::new());
    for story in &mut running {
        answers.push((None, bench.log().append(story.step(&mut author, &[News::Status(TaskState::Completed)]))));
        let mut late = story.clone();
        late.head = Seq(1);
        let step = Step { notify: Some(beginning()), ..late.step(&mut author, &[News::Status(TaskState::Failed)]) };
        answers.push((Some(AppendError::Stale), bench.log().append(step)));
        let mut thief = author.story(&scope);
        let step = Step { effects: taken.clone(), ..thief.open(&mut author, &[News::Chunk]) };
        answers.push((Some(AppendError::KeyTaken), bench.log().append(step)));
        let mut fresh = author.story(&scope);
        answers.push((None, bench.log().append(fresh.open(&mut author, &[News::Chunk]))));
        let again = fresh.clone().whole(TaskState::Completed);
        answers.push((Some(AppendError::Stale), bench.log().append(again)));
        good.push(fresh);
        assert!(bench.log().stored(thief.id()).is_none());
    }
    for (expected, answer) in answers {
        assert_eq!(wait(answer).err(), expected);
    }
    bench.reopen();
    for story in running.iter().chain(&good) {
        story.check(bench.log().stored(story.id()).as_ref());
    }
    for (state, count) in [(TaskState::Completed, 21), (TaskState::Submitted, 20), (TaskState::Failed, 0)] {
        let listed = bench.log().page(sabir_store::Listing { state: Some(state.into()), ..everything(&scope) });
        assert_eq!((listed.total, listed.tasks.len()), (count, usize::try_from(count).unwrap_or(0)));
    }
}

pub(super) fn an_effect_that_is_refused_takes_the_others_with_it(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(8), owner("ann"));
    let mut story = author.story(&scope);
    bench.log().put(story.open(&mut author, &[News::Status(TaskState::InputRequired)]));
    let mark = author.mark();
    let (at, until) = (author.stamp(), sabir_proto::Stamp::from_u64(u64::MAX));
    let effects = vec![registers("a", 1), Effect::Key { mark, at, until }, registers("b", 1)];
    let mut tried = story.clone();
    let step = Step { notify: Some(beginning()), effects, ..tried.step(&mut author, &[News::Heard]) };
    assert_eq!(bench.log().refused(step), AppendError::TooManyConfigs);
    story.check(bench.log().stored(story.id()).as_ref());
    assert_eq!(wait(bench.log().explicit_retry(mark.key, at)), Ok(None));
    assert_eq!(wait(bench.log().pushes(story.id())), Ok(Vec::new()));
    let all = sabir_store::Letters { dead: false, task: None, after: 0, limit: 10 };
    assert_eq!(wait(bench.log().letters(all)), Ok(Vec::new()));
}
