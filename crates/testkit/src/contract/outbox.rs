//! Promises about the outbox: deliveries to push configurations and their results.

use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, epoch, owner, put_push_effect};
use crate::wait::wait;
use sabir_proto::{Seq, TaskState, Timestamp};
use sabir_store::{
    ATTEMPTS_KEPT, Attempt, Delivery, DeliveryMark, DeliveryQuery, DueDelivery, DueQuery, DueRemainder, Effect, Lane,
    PROBLEM_CHARS_MAX, Step, TaskLog,
};
use std::pin::pin;
use std::task::{Context, Waker};

/// This many milliseconds after the beginning.
fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(epoch().millis() + ms)
}

#[track_caller]
fn due(bench: &dyn LogFixture, ms: i64) -> Vec<DueDelivery> {
    wait(bench.log().due(DueQuery::all(at(ms), 100))).expect("what is due can be read").deliveries
}

/// The due deliveries, as configuration and event number.
#[track_caller]
fn due_events(bench: &dyn LogFixture, ms: i64) -> Vec<(String, u64)> {
    due(bench, ms).into_iter().map(|owed| (owed.config, owed.seq.0)).collect()
}

fn named(events: &[(&str, u64)]) -> Vec<(String, u64)> {
    events.iter().map(|(config, seq)| ((*config).to_owned(), *seq)).collect()
}

#[track_caller]
fn mark(log: &dyn TaskLog, owed: &DueDelivery, mark: DeliveryMark) -> bool {
    wait(log.mark(owed, mark)).expect("a mark is taken")
}

#[track_caller]
fn letters(bench: &dyn LogFixture, dead: bool) -> Vec<Delivery> {
    let all = DeliveryQuery { dead, task: None, after: 0, limit: 100 };
    wait(bench.log().deliveries(all)).expect("letters can be read")
}

fn failed(ms: i64) -> Option<Attempt> {
    Some(Attempt { at_ms: at(ms).millis(), took_ms: 7, status: Some(503), problem: "refused".into() })
}

fn later(ms: i64) -> DeliveryMark {
    DeliveryMark::Postpone { until: at(ms), attempt: failed(ms - 1) }
}

/// A task with these configurations; its first step has two events, committed at the beginning.
fn told(bench: &dyn LogFixture, author: &mut TaskFactory, configs: &[&str]) -> ScriptedTask {
    let mut story = author.new_task(&owner("ann"));
    let effects = configs.iter().map(|id| put_push_effect(id, 9)).collect();
    bench.log().append_ok(Step { notify: Some(at(0)), effects, ..story.open(author, &[ScriptedEvent::Chunk]) });
    story
}

fn go_on(bench: &dyn LogFixture, author: &mut TaskFactory, story: &mut ScriptedTask, ms: i64, news: &[ScriptedEvent]) {
    bench.log().append_ok(Step { notify: Some(at(ms)), ..story.step(author, news) });
}

pub(super) fn only_the_oldest_event_of_a_configuration_is_due(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(11);
    let mut story = told(bench, &mut author, &["a", "b"]);
    go_on(bench, &mut author, &mut story, 5, &[ScriptedEvent::Chunk]);
    assert_eq!(due_events(bench, -1), [], "not before they were committed");
    for ms in [0, 5, 1000] {
        assert_eq!(due_events(bench, ms), named(&[("a", 1), ("b", 1)]));
    }
    assert_eq!(wait(bench.log().due(DueQuery::all(at(9), 1))).map(|due| due.deliveries.len()), Ok(1));
    let owed = due(bench, 0).remove(0);
    assert_eq!((owed.task, owed.last, owed.at, owed.since, owed.attempts), (story.id(), Seq(2), at(0), at(0), 0));
    // Each event is removed separately, and a crash keeps that.
    for (seq, last) in [(1, 2), (2, 2), (3, 3)] {
        bench.reopen();
        let owed = due(bench, 10).into_iter().find(|owed| owed.config == "a").expect("there is more");
        assert_eq!((owed.seq.0, owed.last.0), (seq, last));
        assert!(mark(bench.log(), &owed, DeliveryMark::Delivered { now: at(10) }));
        assert!(!mark(bench.log(), &owed, DeliveryMark::Delivered { now: at(10) }), "only once");
    }
    assert_eq!(due_events(bench, 10), named(&[("b", 1)]));
    assert_eq!(letters(bench, false).len(), 2, "what was delivered is gone");
    assert_eq!(letters(bench, true), []);
}

pub(super) fn an_event_that_failed_is_due_again_with_all_its_attempts(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(12);
    told(bench, &mut author, &["a"]);
    for n in 1..=20 {
        let owed = due(bench, n * 10).remove(0);
        assert_eq!((owed.seq, owed.since, i64::from(owed.attempts)), (Seq(1), at(0), n - 1));
        assert!(mark(bench.log(), &owed, later(n * 10 + 10)));
        assert_eq!(due_events(bench, n * 10 + 9), []);
        assert_eq!(wait(bench.log().next_due(at(n * 10))), Ok(Some(at(n * 10 + 10))));
    }
    bench.reopen();
    assert_eq!(wait(bench.log().next_due(at(210))), Ok(None));
    let letter = letters(bench, false).remove(0);
    assert_eq!((letter.attempts, letter.due, letter.recent_attempts.len()), (20, Some(at(210)), ATTEMPTS_KEPT));
    assert_eq!(letter.recent_attempts.last(), failed(209).as_ref(), "the latest ones are kept");
    assert_eq!(wait(bench.log().delivery(letter.number)), Ok(Some(letter.clone())));
    let owed = due(bench, 210).remove(0);
    assert!(mark(bench.log(), &owed, DeliveryMark::Postpone { until: at(300), attempt: None }));
    assert_eq!(wait(bench.log().delivery(letter.number)).map(|l| l.map(|l| l.attempts)), Ok(Some(20)), "left alone");
    let owed = due(bench, 300).remove(0);
    let wordy = failed(300).map(|tried| Attempt { problem: "ü".repeat(5000), ..tried });
    mark(bench.log(), &owed, DeliveryMark::Postpone { until: at(301), attempt: wordy });
    let letter = letters(bench, false).remove(0);
    assert_eq!(letter.recent_attempts.last().map(|t| t.problem.chars().count()), Some(PROBLEM_CHARS_MAX));
    mark(bench.log(), &due(bench, 301)[0], DeliveryMark::Delivered { now: at(301) });
    let owed = due(bench, 301).remove(0);
    assert_eq!((owed.seq, owed.attempts), (Seq(2), 0), "the next one begins anew");
    assert_eq!(letters(bench, false)[0].recent_attempts, []);
}

pub(super) fn an_event_that_is_given_up_lets_the_next_one_pass(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(13);
    let mut story = told(bench, &mut author, &["a"]);
    go_on(bench, &mut author, &mut story, 5, &[ScriptedEvent::Chunk]);
    for seq in [1, 2, 3] {
        let owed = due(bench, 10).remove(0);
        assert_eq!(owed.seq.0, seq);
        let reason = format!("reason {seq}");
        assert!(mark(bench.log(), &owed, DeliveryMark::DeadLetter { now: at(10), reason, attempt: failed(9) }));
        bench.reopen();
    }
    assert_eq!(due_events(bench, 1000), []);
    assert_eq!(letters(bench, false), []);
    let mut dead = letters(bench, true);
    dead.sort_by_key(|letter| letter.first);
    for (letter, seq) in dead.iter().zip(1..) {
        assert_eq!((letter.first.0, letter.last.0, letter.attempts, letter.due), (seq, seq, 1, None));
        assert_eq!(letter.dead_letter, Some((at(10), format!("reason {seq}"))));
        assert_eq!(letter.recent_attempts, failed(9).into_iter().collect::<Vec<_>>());
    }
    assert_eq!(dead.len(), 3);
}

pub(super) fn a_dead_letter_can_be_tried_again_or_dropped(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(14);
    told(bench, &mut author, &["a"]);
    let owed = due(bench, 0).remove(0);
    mark(bench.log(), &owed, DeliveryMark::DeadLetter { now: at(1), reason: "tired".into(), attempt: failed(1) });
    let number = letters(bench, true)[0].number;
    let second = due(bench, 2).remove(0);
    mark(bench.log(), &second, later(500));
    assert_eq!(wait(bench.log().retry(number, at(50))), Ok(true));
    bench.reopen();
    let again = due(bench, 50);
    assert_eq!(again.len(), 1, "one at a time");
    assert_eq!(
        (again[0].seq, again[0].attempts, again[0].since),
        (Seq(1), 0, at(50)),
        "before the younger, with patience"
    );
    assert!(mark(bench.log(), &second, DeliveryMark::Delivered { now: at(51) }), "one in flight may still arrive");
    mark(bench.log(), &again[0], DeliveryMark::Delivered { now: at(52) });
    assert_eq!((letters(bench, false), letters(bench, true)), (Vec::new(), Vec::new()));
    for number in [number, 4711] {
        assert_eq!(wait(bench.log().retry(number, at(60))), Ok(false));
        assert_eq!(wait(bench.log().discard(number)), Ok(false));
    }
    told(bench, &mut author, &["b"]);
    let owed = due(bench, 0).remove(0);
    mark(bench.log(), &owed, later(900));
    assert_eq!(wait(bench.log().retry(owed.number, at(60))), Ok(true), "also one that only waits");
    assert_eq!(due_events(bench, 60), named(&[("b", 1)]));
    assert_eq!(wait(bench.log().discard(owed.number)), Ok(true));
    assert_eq!((due_events(bench, 1000), letters(bench, false)), (Vec::new(), Vec::new()));
}

pub(super) fn a_receiver_that_wants_no_more_is_owed_no_more(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(16);
    let mut story = told(bench, &mut author, &["a", "b"]);
    go_on(bench, &mut author, &mut story, 1, &[ScriptedEvent::Chunk]);
    let owed = due(bench, 2).remove(0);
    assert!(mark(
        bench.log(),
        &owed,
        DeliveryMark::EndReceiver { now: at(2), reason: "gone".into(), attempt: failed(2) }
    ));
    bench.reopen();
    go_on(bench, &mut author, &mut story, 3, &[ScriptedEvent::Chunk]);
    assert_eq!(due_events(bench, 9), named(&[("b", 1)]));
    let dead = letters(bench, true);
    assert_eq!(
        dead.iter().map(|l| (l.first.0, l.last.0)).collect::<Vec<_>>(),
        [(1, 2), (3, 4)],
        "what came after the end is dead from the start, and no gap"
    );
    assert!(dead.iter().all(|l| l.config == "a" && l.dead_letter == Some((at(2), "gone".into()))));
    assert_eq!(dead[0].attempts, 1);
    // A retry by the operator reactivates the configuration.
    assert_eq!(wait(bench.log().retry(dead[1].number, at(10))), Ok(true));
    go_on(bench, &mut author, &mut story, 11, &[ScriptedEvent::Chunk]);
    let of_a: Vec<_> = letters(bench, false).into_iter().filter(|l| l.config == "a").collect();
    assert_eq!(of_a.iter().map(|l| (l.first.0, l.due)).collect::<Vec<_>>(), [(3, Some(at(10))), (5, None)]);
    let owed = due(bench, 11).into_iter().find(|owed| owed.config == "b").expect("b is owed all of it");
    mark(bench.log(), &owed, DeliveryMark::EndReceiver { now: at(12), reason: "gone".into(), attempt: None });
    bench.log().append_ok(Step { effects: vec![put_push_effect("b", 9)], after: Seq(0), ..story.empty_step() });
    go_on(bench, &mut author, &mut story, 13, &[ScriptedEvent::Chunk]);
    assert_eq!(due_events(bench, 13), named(&[("a", 3), ("b", 6)]), "registering anew begins anew");
}

pub(super) fn a_configuration_that_is_deleted_is_owed_nothing(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(17);
    let mut story = told(bench, &mut author, &["a", "b"]);
    let other = told(bench, &mut author, &["a"]);
    let in_flight = due(bench, 0).into_iter().find(|o| o.task == story.id() && o.config == "a").expect("a is owed");
    mark(bench.log(), &in_flight, DeliveryMark::DeadLetter { now: at(1), reason: "no".into(), attempt: None });
    let in_flight = due(bench, 1).into_iter().find(|o| o.task == story.id() && o.config == "a").expect("a is owed");
    let delete = Effect::DeletePush { id: "a".into() };
    bench.log().append_ok(Step { effects: vec![delete], after: Seq(0), ..story.empty_step() });
    assert!(!mark(bench.log(), &in_flight, later(5)), "it is not tried again");
    go_on(bench, &mut author, &mut story, 5, &[ScriptedEvent::Chunk]);
    bench.reopen();
    assert_eq!(letters(bench, true), []);
    let owed: Vec<_> = due(bench, 9).into_iter().map(|owed| (owed.task, owed.config)).collect();
    assert_eq!(owed, [(story.id(), "b".to_owned()), (other.id(), "a".to_owned())]);
    assert_eq!(wait(bench.log().receiver(story.id(), "a")), Ok(None));
}

pub(super) fn a_late_registration_is_owed_what_follows_or_the_last_turn(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(18), owner("ann"));
    let (mut story, mut quick) = (author.new_task(&scope), author.new_task(&scope));
    let register = |story: &ScriptedTask, id: &str, ms: i64| {
        let config = crate::scripted_task::push_config(id);
        let effect = Effect::PutPush { config, dialect: "0.3".into(), host: "h".into(), at: at(ms), configs_max: 9 };
        Step { effects: vec![effect], after: Seq(0), ..story.empty_step() }
    };
    bench.log().append_ok(Step { notify: Some(at(0)), ..story.open(&mut author, &[ScriptedEvent::Chunk]) });
    bench.log().append_ok(register(&story, "early", 1));
    assert_eq!(due_events(bench, 9), [], "what was is not owed");
    let asks = Step { turn: Some((Seq(3), 1)), ..story.step(&mut author, &[ScriptedEvent::Answer]) };
    bench.log().append_ok(Step { notify: Some(at(2)), ..asks });
    go_on(bench, &mut author, &mut story, 3, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(register(&story, "late", 4));
    bench.log().append_ok(register(&story, "late", 5));
    bench.log().append_ok(register(&story, "early", 5));
    bench.log().append_ok(Step { notify: Some(at(0)), ..quick.open_settled(TaskState::Completed) });
    bench.log().append_ok(register(&quick, "later", 6));
    bench.reopen();
    let rows: Vec<_> = letters(bench, false).into_iter().map(|l| (l.config, l.first.0, l.last.0, l.at)).collect();
    let owed = |id: &str, first, last, ms| (id.to_owned(), first, last, at(ms));
    let expected = [owed("early", 3, 3, 2), owed("early", 4, 5, 3), owed("late", 4, 5, 4), owed("later", 1, 1, 6)];
    assert_eq!(rows, expected, "the turn that began after event 3; and once, however often it is registered");
    let receiver = wait(bench.log().receiver(story.id(), "late")).ok().flatten().expect("it is kept");
    assert_eq!((&*receiver.dialect, &*receiver.config.url), ("0.3", "https://example.com/late"));
}

pub(super) fn whoever_delivers_is_woken(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(19);
    let bell = bench.log().due_signal();
    let heard = || {
        let mut cx = Context::from_waker(Waker::noop());
        let heard = pin!(bell.notified());
        heard.poll(&mut cx).is_ready()
    };
    let mut nobody = author.new_task(&owner("ann"));
    bench.log().append_ok(Step { notify: Some(at(0)), ..nobody.open(&mut author, &[ScriptedEvent::Chunk]) });
    assert!(!heard(), "nobody is owed anything");
    let mut story = told(bench, &mut author, &["a"]);
    assert!(heard() && !heard());
    go_on(bench, &mut author, &mut story, 1, &[ScriptedEvent::Chunk]);
    assert!(heard());
    let owed = due(bench, 5).remove(0);
    mark(bench.log(), &owed, later(9));
    assert!(!heard(), "what waits wakes nobody");
    mark(bench.log(), &owed, DeliveryMark::Delivered { now: at(9) });
    assert!(heard(), "the next one is due");
    assert_eq!(wait(bench.log().retry(owed.number, at(9))), Ok(true));
    assert!(heard());
}

pub(super) fn much_of_one_lane_hides_no_other(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(20);
    let many: Vec<String> = (0..100).map(|n| format!("config-{n}")).collect();
    for _ in 0..13 {
        let mut story = author.new_task(&owner("ann"));
        let effects = many.iter().map(|id| put_push_effect(id, 100)).collect();
        bench.log().append_ok(Step { notify: Some(at(0)), effects, ..story.open(&mut author, &[]) });
    }
    for (n, (who, host)) in
        [("ann", "elsewhere"), ("ben", "https://example.com:443"), ("cid", "a")].into_iter().enumerate()
    {
        let mut story = author.new_task(&owner(who));
        let config = crate::scripted_task::push_config("one");
        let at = at(i64::try_from(n).unwrap_or(0) + 1);
        let effects = vec![Effect::PutPush { config, dialect: "1.0".into(), host: host.into(), at, configs_max: 9 }];
        bench.log().append_ok(Step { notify: Some(at), effects, ..story.open(&mut author, &[]) });
    }
    let full = due(bench, 9).remove(0).lane;
    let first = DueQuery { lane_limit: 10, limit: 20, ..DueQuery::all(at(9), 20) };
    let others = |reading: DueQuery| {
        let mut reading = Some(reading);
        let mut found = Vec::new();
        // One reading after the other, to the end.
        while let Some(next) = reading.take() {
            let read = wait(bench.log().due(next.clone())).expect("what is due can be read");
            found.extend(read.deliveries.into_iter().filter(|owed| owed.lane != full).map(|owed| owed.at));
            if let DueRemainder::ContinueFrom(from @ Some(_)) = read.remainder {
                reading = Some(DueQuery { from, ..next });
            }
        }
        found.sort_unstable();
        found
    };
    let all = vec![at(1), at(2), at(3)];
    assert_eq!(others(first.clone()), all, "without having been told that one is full");
    assert_eq!(others(DueQuery { full_lanes: [full.clone()].into(), ..first.clone() }), all);
    assert_eq!(others(DueQuery { full_owners: [full.owner].into(), ..first.clone() }), [at(2), at(3)]);
    let far =
        DueQuery { from: Some(Lane { owner: i64::MAX, host: "z".into() }), full_lanes: [full.clone()].into(), ..first };
    let read = wait(bench.log().due(far)).expect("what is due can be read");
    assert!(
        read.deliveries.len() == 3 || read.remainder == DueRemainder::ContinueFrom(None),
        "who began in the middle begins again: {read:?}"
    );
}

pub(super) fn neighbours_that_were_given_up_alike_are_one_letter(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(21);
    let mut story = told(bench, &mut author, &["a"]);
    go_on(bench, &mut author, &mut story, 1, &[ScriptedEvent::Chunk, ScriptedEvent::Chunk]);
    go_on(bench, &mut author, &mut story, 1, &[ScriptedEvent::Chunk]);
    for reason in ["inside", "inside", "inside", "another", "another"] {
        let owed = due(bench, 9).remove(0);
        let attempt = failed(9).map(|attempt| Attempt { status: None, ..attempt });
        assert!(mark(bench.log(), &owed, DeliveryMark::DeadLetter { now: at(9), reason: reason.into(), attempt }));
    }
    bench.reopen();
    let mut dead = letters(bench, true);
    dead.sort_by_key(|letter| letter.first);
    assert_eq!(dead.iter().map(|l| (l.first.0, l.last.0)).collect::<Vec<_>>(), [(1, 3), (4, 5)]);
    assert_eq!(wait(bench.log().retry(dead[0].number, at(10))), Ok(true));
    for seq in 1..=3 {
        let owed = due(bench, 10).remove(0);
        assert_eq!((owed.seq.0, owed.last.0), (seq, 3), "each of them by itself");
        assert!(mark(bench.log(), &owed, DeliveryMark::Delivered { now: at(10) }));
    }
    // A delivery with an answer, or with several attempts, keeps a row of its own.
    go_on(bench, &mut author, &mut story, 11, &[ScriptedEvent::Chunk, ScriptedEvent::Chunk]);
    for _ in 0..2 {
        mark(
            bench.log(),
            &due(bench, 12)[0],
            DeliveryMark::DeadLetter { now: at(12), reason: "another".into(), attempt: failed(12) },
        );
    }
    assert_eq!(letters(bench, true).len(), 3);
}

pub(super) fn what_waits_goes_where_its_registration_leads(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(22);
    let story = told(bench, &mut author, &["a"]);
    assert_eq!(&*due(bench, 1)[0].lane.host, "https://example.com:443");
    let config = crate::scripted_task::push_config("a");
    let moved = Effect::PutPush { config, dialect: "1.0".into(), host: "new".into(), at: at(1), configs_max: 9 };
    bench.log().append_ok(Step { effects: vec![moved], after: Seq(0), ..story.empty_step() });
    bench.reopen();
    assert_eq!(&*due(bench, 1)[0].lane.host, "new");
    assert_eq!(due(bench, 1)[0].lane.owner, owner("ann").owner());
}
