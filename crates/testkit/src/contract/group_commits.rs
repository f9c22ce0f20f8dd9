//! Promises about steps that are committed in one group and accepted or refused separately.

use super::{LogFixture, TaskLogTestExt, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, epoch, owner, put_push_effect};
use crate::wait::wait;
use sabir_proto::{Seq, TaskState};
use sabir_store::{AppendError, Effect, Step};

pub(super) fn a_refused_step_leaves_no_trace_and_hurts_no_neighbour(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(8), owner("ann"));
    let mut running: Vec<ScriptedTask> = (0..20).map(|_| author.new_task(&scope)).collect();
    for story in &mut running {
        bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    }
    let mark = author.new_retry_mark();
    let (at, until) = (author.stamp(), sabir_proto::Stamp::from_u64(u64::MAX));
    let taken = vec![Effect::Key { mark, at, until }];
    let mut keeper = author.new_task(&scope);
    bench.log().append_ok(Step { effects: taken.clone(), ..keeper.open_settled(TaskState::Completed) });

    // All in flight at once, so that a backend with group commits makes groups.
    let (mut good, mut answers) = (Vec::new(), Vec::new());
    for story in &mut running {
        answers
            .push((None, bench.log().append(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]))));
        let mut late = story.clone();
        late.head = Seq(1);
        let step =
            Step { notify: Some(epoch()), ..late.step(&mut author, &[ScriptedEvent::Status(TaskState::Failed)]) };
        answers.push((Some(AppendError::Stale), bench.log().append(step)));
        let mut thief = author.new_task(&scope);
        let step = Step { effects: taken.clone(), ..thief.open(&mut author, &[ScriptedEvent::Chunk]) };
        answers.push((Some(AppendError::KeyTaken), bench.log().append(step)));
        let mut fresh = author.new_task(&scope);
        answers.push((None, bench.log().append(fresh.open(&mut author, &[ScriptedEvent::Chunk]))));
        let again = fresh.clone().open_settled(TaskState::Completed);
        answers.push((Some(AppendError::Stale), bench.log().append(again)));
        good.push(fresh);
        assert!(bench.log().stored(thief.id()).is_none());
    }
    for (expected, answer) in answers {
        assert_eq!(wait(answer).err(), expected);
    }
    bench.reopen();
    for story in running.iter().chain(&good) {
        story.assert_stored(bench.log().stored(story.id()).as_ref());
    }
    for (state, count) in [(TaskState::Completed, 21), (TaskState::Submitted, 20), (TaskState::Failed, 0)] {
        let listed =
            bench.log().page(sabir_store::TaskListQuery { state: Some(state.into()), ..list_everything(&scope) });
        assert_eq!((listed.total, listed.tasks.len()), (count, usize::try_from(count).unwrap_or(0)));
    }
}

pub(super) fn an_effect_that_is_refused_takes_the_others_with_it(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(8), owner("ann"));
    let mut story = author.new_task(&scope);
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]));
    let mark = author.new_retry_mark();
    let (at, until) = (author.stamp(), sabir_proto::Stamp::from_u64(u64::MAX));
    let effects = vec![put_push_effect("a", 1), Effect::Key { mark, at, until }, put_push_effect("b", 1)];
    let mut tried = story.clone();
    let step = Step { notify: Some(epoch()), effects, ..tried.step(&mut author, &[ScriptedEvent::Answer]) };
    assert_eq!(bench.log().append_refused(step), AppendError::TooManyConfigs);
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    assert_eq!(wait(bench.log().explicit_retry(mark.key, at)), Ok(None));
    assert_eq!(wait(bench.log().pushes(story.id())), Ok(Vec::new()));
    let all = sabir_store::DeliveryQuery { dead: false, task: None, after: 0, limit: 10 };
    assert_eq!(wait(bench.log().deliveries(all)), Ok(Vec::new()));
}
