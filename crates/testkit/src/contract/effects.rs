//! Promises about effects, which are committed together with events.

use super::{Ask, Bench};
use crate::story::{Author, News, Story, beginning, owner, push_config, registers};
use crate::wait::wait;
use sabir_proto::{Seq, TaskState};
use sabir_store::{AppendError, Effect, Letter, Letters, OwedCancel, Step};

fn put(id: &str) -> Effect {
    registers(id, 3)
}

fn effect_only(story: &Story, effects: Vec<Effect>) -> Step {
    Step { after: Seq(0), effects, ..story.bare() }
}

fn configs(bench: &dyn Bench, story: &Story) -> Vec<String> {
    let configs = wait(bench.log().pushes(story.id())).expect("push configurations can be read");
    configs.into_iter().map(|c| c.url).collect()
}

pub(super) fn push_configs_are_kept_by_id_and_bounded(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(7), owner("ann"));
    let (mut story, mut other) = (author.story(&scope), author.story(&scope));
    bench.log().put(Step { effects: vec![put("b")], ..story.open(&mut author, &[]) });
    bench.log().put(other.open(&mut author, &[]));
    bench.log().put(effect_only(&story, vec![put("a")]));
    bench.log().put(effect_only(&story, vec![put("c")]));
    assert_eq!(bench.log().refused(effect_only(&story, vec![put("d")])), AppendError::TooManyConfigs);
    let mut changed = push_config("b");
    changed.url = "https://example.com/elsewhere".into();
    bench.log().put(effect_only(
        &story,
        vec![Effect::PutPush {
            config: changed,
            dialect: "0.3".into(),
            host: "h".into(),
            at: beginning(),
            configs_max: 3,
        }],
    ));
    bench.reopen();
    let url = |id: &str| format!("https://example.com/{id}");
    assert_eq!(configs(bench, &story), [url("a"), url("elsewhere"), url("c")]);
    assert_eq!(configs(bench, &other), Vec::<String>::new());
    for _ in 0..2 {
        bench.log().put(effect_only(&story, vec![Effect::DeletePush { id: "a".into() }]));
        assert_eq!(configs(bench, &story), [url("elsewhere"), url("c")], "deleting what is gone is no error");
    }
}

pub(super) fn what_is_owed_is_committed_with_what_it_is_owed_for(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(7), owner("ann"));
    let (mut story, mut quick) = (author.story(&scope), author.story(&scope));
    let step = story.open(&mut author, &[News::Chunk]);
    bench.log().put(Step { notify: Some(beginning()), effects: vec![put("a")], ..step });
    bench.log().put(effect_only(&story, vec![put("b")]));
    bench.log().put(Step { notify: None, ..story.step(&mut author, &[News::Chunk]) });
    let mut stale = story.clone();
    stale.head = Seq(1);
    let refused = Step { notify: Some(beginning()), ..stale.step(&mut author, &[News::Chunk]) };
    assert_eq!(bench.log().refused(refused), AppendError::Stale);
    let step = story.step(&mut author, &[News::Chunk, News::Status(TaskState::Completed)]);
    bench.log().put(Step { notify: Some(beginning()), ..step });
    bench.log().put(Step { notify: Some(beginning()), effects: vec![put("z")], ..quick.whole(TaskState::Completed) });
    bench.reopen();
    let all = Letters { dead: false, task: None, after: 0, limit: 100 };
    let rows = wait(bench.log().letters(all)).expect("the outbox can be read");
    assert!(rows.is_sorted_by(|a, b| a.number < b.number));
    let owed = |row: &Letter| (row.task, row.config.clone(), row.first.0, row.last.0);
    let expected = [
        (story.id(), "a".to_owned(), 1, 2),
        (story.id(), "a".to_owned(), 4, 5),
        (story.id(), "b".to_owned(), 4, 5),
        (quick.id(), "z".to_owned(), 1, 1),
    ];
    assert_eq!(rows.iter().map(owed).collect::<Vec<_>>(), expected);
    assert_eq!(wait(bench.log().letters(Letters { limit: 2, ..all })).map(|rows| rows.len()), Ok(2));
}

pub(super) fn a_step_without_events_is_held_to_no_head(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(7), owner("ann"));
    let mut story = author.story(&scope);
    let early = story.clone();
    assert_eq!(bench.log().refused(effect_only(&early, vec![put("a")])), AppendError::Stale, "no task, no effect");
    bench.log().put(story.open(&mut author, &[News::Chunk, News::Chunk]));
    bench.log().put(effect_only(&story, vec![put("a")]));
    bench.log().put(story.step(&mut author, &[News::Status(TaskState::Completed)]));
    bench.log().put(effect_only(&story, vec![put("b")]));
    story.check(bench.log().stored(story.id()).as_ref());
    assert_eq!(configs(bench, &story).len(), 2);
}

pub(super) fn a_cancel_that_is_owed_is_kept_until_it_is_paid(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(7), owner("ann"));
    let (mut story, mut other) = (author.story(&scope), author.story(&scope));
    let owed = |data: &'static str, attempts| OwedCancel { data: data.into(), attempts, due: beginning() };
    let owes = |owed| Effect::OweCancel(Some(Box::new(owed)));
    bench.log().put(story.open(&mut author, &[]));
    bench.log().put(other.open(&mut author, &[]));
    let step = story.step(&mut author, &[News::Status(TaskState::Canceled)]);
    bench.log().put(Step { effects: vec![owes(owed("theirs", 0))], ..step });
    bench.log().put(effect_only(&other, vec![owes(owed("others", 1))]));
    bench.log().put(effect_only(&story, vec![owes(owed("theirs", 2))]));
    bench.reopen();
    let agent = scope.agent.clone();
    let read = |bench: &dyn Bench, after, limit| wait(bench.log().owed_cancels(after, limit)).expect("it can be read");
    let expected = [(story.id(), agent.clone(), owed("theirs", 2)), (other.id(), agent, owed("others", 1))];
    assert_eq!(read(bench, None, 10), expected);
    assert_eq!(read(bench, None, 1), expected[..1]);
    assert_eq!(read(bench, Some(story.id()), 10), expected[1..]);
    for _ in 0..2 {
        bench.log().put(effect_only(&story, vec![Effect::OweCancel(None)]));
        assert_eq!(read(bench, None, 10), expected[1..], "paying twice is no error");
    }
}

pub(super) fn what_an_agent_keeps_outlives_the_end_of_its_task(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(7), owner("ann"));
    let (mut story, mut other) = (author.story(&scope), author.story(&scope));
    let keeps = |data: &'static str| vec![Effect::KeepData(data.into())];
    let kept = |bench: &dyn Bench, story: &Story| wait(bench.log().agent_data(story.id())).expect("it can be read");
    bench.log().put(Step { effects: keeps("one"), ..story.open(&mut author, &[]) });
    bench.log().put(other.open(&mut author, &[]));
    assert_eq!(kept(bench, &story).as_deref(), Some(&b"one"[..]));
    let step = story.step(&mut author, &[News::Status(TaskState::Completed)]);
    bench.log().put(Step { effects: keeps("two"), checkpoint: Some("gone".into()), ..step });
    bench.reopen();
    assert_eq!(kept(bench, &story).as_deref(), Some(&b"two"[..]));
    assert_eq!(kept(bench, &other), None);
}
