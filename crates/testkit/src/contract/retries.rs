//! Promises about retry keys: columns of their steps when implicit, rows of their own when explicit.

use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedEvent, TaskFactory, owner};
use crate::wait::wait;
use sabir_proto::{Stamp, TaskState};
use sabir_store::{AppendError, Effect, RetryMark, Step, StoredRetry};

fn recent(bench: &dyn LogFixture, since: Stamp, limit: usize) -> Vec<StoredRetry> {
    wait(bench.log().recent_retries(since, limit)).expect("retry keys can be read")
}

pub(super) fn implicit_keys_are_found_after_a_restart(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(6), owner("ann"));
    let marks: [RetryMark; 4] = std::array::from_fn(|_| author.new_retry_mark());
    let mut quick = author.new_task(&scope);
    bench.log().append_ok(Step { retry: Some(marks[0]), ..quick.open_settled(TaskState::Completed) });
    let mut streamed = author.new_task(&scope);
    let step = streamed.open(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(Step { retry: Some(marks[1]), ..step });
    let mut asked = author.new_task(&scope);
    let step = asked.open(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]);
    bench.log().append_ok(Step { retry: Some(marks[2]), ..step });
    bench.log().append_ok(Step { retry: Some(marks[3]), ..asked.step(&mut author, &[ScriptedEvent::Answer]) });
    bench.log().append_ok(asked.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    for _ in 0..2 {
        let found: Vec<_> = recent(bench, Stamp::default(), 10).into_iter().map(|k| (k.mark, k.task)).collect();
        let ids = [quick.id(), streamed.id(), asked.id(), asked.id()];
        assert_eq!(found, marks.into_iter().zip(ids).collect::<Vec<_>>());
        bench.reopen();
    }
}

pub(super) fn implicit_keys_are_bounded_in_time_and_number(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(6), owner("ann"));
    let mut marks = Vec::new();
    let mut half = Stamp::default();
    for n in 0..10 {
        if n == 5 {
            author.advance(1000);
            half = author.stamp();
        }
        let mark = author.new_retry_mark();
        bench.log().append_ok(Step { retry: Some(mark), ..author.new_task(&scope).open_settled(TaskState::Completed) });
        marks.push(mark);
    }
    let found = |since, limit| recent(bench, since, limit).into_iter().map(|k| k.mark).collect::<Vec<_>>();
    assert_eq!(found(Stamp::default(), 100), marks);
    assert_eq!(found(half, 100), marks[5..]);
    assert_eq!(found(Stamp::default(), 3), marks[7..], "the latest ones, oldest first");
}

pub(super) fn explicit_keys_are_taken_until_they_expire(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(6), owner("ann"));
    let mark = author.new_retry_mark();
    let at = author.stamp();
    author.advance(1000);
    let until = author.stamp();
    let key = |mark, at, until| vec![Effect::Key { mark, at, until }];
    let ask = |bench: &dyn LogFixture, now| wait(bench.log().explicit_retry(mark.key, now)).expect("a key can be read");

    assert_eq!(ask(bench, at), None);
    let mut first = author.new_task(&scope);
    bench.log().append_ok(Step { effects: key(mark, at, until), ..first.open_settled(TaskState::Completed) });
    bench.reopen();
    assert_eq!(ask(bench, at), Some(StoredRetry { mark, task: first.id(), at }));
    assert_eq!(ask(bench, until), None, "a key does not outlive its time");
    assert!(recent(bench, Stamp::default(), 9).is_empty(), "explicit keys are no implicit ones");

    let other = RetryMark { digest: [9; 16], ..mark };
    for taken in [mark, other] {
        let mut second = author.new_task(&scope);
        let step = Step { effects: key(taken, at, until), ..second.open_settled(TaskState::Completed) };
        assert_eq!(bench.log().append_refused(step), AppendError::KeyTaken);
        assert!(bench.log().stored(second.id()).is_none());
    }
    assert_eq!(ask(bench, at), Some(StoredRetry { mark, task: first.id(), at }));

    author.advance(1000);
    let (later, end) = (author.stamp(), Stamp::from_u64(until.get() << 1));
    let mut third = author.new_task(&scope);
    bench.log().append_ok(Step { effects: key(other, later, end), ..third.open_settled(TaskState::Completed) });
    assert_eq!(ask(bench, later), Some(StoredRetry { mark: other, task: third.id(), at: later }));
    let before = |key| wait(bench.log().retry_key_before(key)).expect("a key can be read");
    assert_eq!((before([0xff; 16]), before(mark.key), before([0; 16])), (Some(mark.key), None, None));
}
