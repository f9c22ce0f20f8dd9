//! Promises about effects, which are committed together with events.

use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, epoch, owner, push_config, put_push_effect};
use crate::wait::wait;
use sabir_proto::{Seq, TaskState};
use sabir_store::{AppendError, Delivery, DeliveryQuery, Effect, PendingCancel, Step};

fn put(id: &str) -> Effect {
    put_push_effect(id, 3)
}

fn effect_only(story: &ScriptedTask, effects: Vec<Effect>) -> Step {
    Step { after: Seq(0), effects, ..story.empty_step() }
}

fn configs(bench: &dyn LogFixture, story: &ScriptedTask) -> Vec<String> {
    let configs = wait(bench.log().pushes(story.id())).expect("push configurations can be read");
    configs.into_iter().map(|c| c.url).collect()
}

pub(super) fn push_configs_are_kept_by_id_and_bounded(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let (mut story, mut other) = (author.new_task(&scope), author.new_task(&scope));
    bench.log().append_ok(Step { effects: vec![put("b")], ..story.open(&mut author, &[]) });
    bench.log().append_ok(other.open(&mut author, &[]));
    bench.log().append_ok(effect_only(&story, vec![put("a")]));
    bench.log().append_ok(effect_only(&story, vec![put("c")]));
    assert_eq!(bench.log().append_refused(effect_only(&story, vec![put("d")])), AppendError::TooManyConfigs);
    let mut changed = push_config("b");
    changed.url = "https://example.com/elsewhere".into();
    bench.log().append_ok(effect_only(
        &story,
        vec![Effect::PutPush { config: changed, dialect: "0.3".into(), host: "h".into(), at: epoch(), configs_max: 3 }],
    ));
    bench.reopen();
    let url = |id: &str| format!("https://example.com/{id}");
    assert_eq!(configs(bench, &story), [url("a"), url("elsewhere"), url("c")]);
    assert_eq!(configs(bench, &other), Vec::<String>::new());
    for _ in 0..2 {
        bench.log().append_ok(effect_only(&story, vec![Effect::DeletePush { id: "a".into() }]));
        assert_eq!(configs(bench, &story), [url("elsewhere"), url("c")], "deleting what is gone is no error");
    }
}

pub(super) fn what_is_owed_is_committed_with_what_it_is_owed_for(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let (mut story, mut quick) = (author.new_task(&scope), author.new_task(&scope));
    let step = story.open(&mut author, &[ScriptedEvent::Chunk]);
    bench.log().append_ok(Step { notify: Some(epoch()), effects: vec![put("a")], ..step });
    bench.log().append_ok(effect_only(&story, vec![put("b")]));
    bench.log().append_ok(Step { notify: None, ..story.step(&mut author, &[ScriptedEvent::Chunk]) });
    let mut stale = story.clone();
    stale.head = Seq(1);
    let refused = Step { notify: Some(epoch()), ..stale.step(&mut author, &[ScriptedEvent::Chunk]) };
    assert_eq!(bench.log().append_refused(refused), AppendError::Stale);
    let step = story.step(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(Step { notify: Some(epoch()), ..step });
    bench.log().append_ok(Step {
        notify: Some(epoch()),
        effects: vec![put("z")],
        ..quick.open_settled(TaskState::Completed)
    });
    bench.reopen();
    let all = DeliveryQuery { dead: false, task: None, after: 0, limit: 100 };
    let rows = wait(bench.log().deliveries(all)).expect("the outbox can be read");
    assert!(rows.is_sorted_by(|a, b| a.number < b.number));
    let owed = |row: &Delivery| (row.task, row.config.clone(), row.first.0, row.last.0);
    let expected = [
        (story.id(), "a".to_owned(), 1, 2),
        (story.id(), "a".to_owned(), 4, 5),
        (story.id(), "b".to_owned(), 4, 5),
        (quick.id(), "z".to_owned(), 1, 1),
    ];
    assert_eq!(rows.iter().map(owed).collect::<Vec<_>>(), expected);
    assert_eq!(wait(bench.log().deliveries(DeliveryQuery { limit: 2, ..all })).map(|rows| rows.len()), Ok(2));
}

pub(super) fn a_step_without_events_is_held_to_no_head(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let mut story = author.new_task(&scope);
    let early = story.clone();
    assert_eq!(
        bench.log().append_refused(effect_only(&early, vec![put("a")])),
        AppendError::Stale,
        "no task, no effect"
    );
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Chunk]));
    bench.log().append_ok(effect_only(&story, vec![put("a")]));
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    bench.log().append_ok(effect_only(&story, vec![put("b")]));
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    assert_eq!(configs(bench, &story).len(), 2);
}

pub(super) fn a_cancel_that_is_owed_is_kept_until_it_is_paid(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let (mut story, mut other) = (author.new_task(&scope), author.new_task(&scope));
    let owed = |data: &'static str, attempts| PendingCancel { data: data.into(), attempts, due: epoch() };
    let owes = |owed| Effect::SetPendingCancel(Some(Box::new(owed)));
    bench.log().append_ok(story.open(&mut author, &[]));
    bench.log().append_ok(other.open(&mut author, &[]));
    let step = story.step(&mut author, &[ScriptedEvent::Status(TaskState::Canceled)]);
    bench.log().append_ok(Step { effects: vec![owes(owed("theirs", 0))], ..step });
    bench.log().append_ok(effect_only(&other, vec![owes(owed("others", 1))]));
    bench.log().append_ok(effect_only(&story, vec![owes(owed("theirs", 2))]));
    bench.reopen();
    let agent = scope.agent.clone();
    let read =
        |bench: &dyn LogFixture, after, limit| wait(bench.log().pending_cancels(after, limit)).expect("it can be read");
    let expected = [(story.id(), agent.clone(), owed("theirs", 2)), (other.id(), agent, owed("others", 1))];
    assert_eq!(read(bench, None, 10), expected);
    assert_eq!(read(bench, None, 1), expected[..1]);
    assert_eq!(read(bench, Some(story.id()), 10), expected[1..]);
    for _ in 0..2 {
        bench.log().append_ok(effect_only(&story, vec![Effect::SetPendingCancel(None)]));
        assert_eq!(read(bench, None, 10), expected[1..], "paying twice is no error");
    }
}

pub(super) fn what_an_agent_keeps_outlives_the_end_of_its_task(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let (mut story, mut other) = (author.new_task(&scope), author.new_task(&scope));
    let keeps = |data: &'static str| vec![Effect::StoreAgentData(data.into())];
    let kept = |bench: &dyn LogFixture, story: &ScriptedTask| {
        wait(bench.log().agent_data(story.id())).expect("it can be read")
    };
    bench.log().append_ok(Step { effects: keeps("one"), ..story.open(&mut author, &[]) });
    bench.log().append_ok(other.open(&mut author, &[]));
    assert_eq!(kept(bench, &story).as_deref(), Some(&b"one"[..]));
    let step = story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(Step { effects: keeps("two"), checkpoint: Some("gone".into()), ..step });
    bench.reopen();
    assert_eq!(kept(bench, &story).as_deref(), Some(&b"two"[..]));
    assert_eq!(kept(bench, &other), None);
}
