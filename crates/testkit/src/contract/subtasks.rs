//! Promises about subtasks, and about tasks that wait for input or credentials.

use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use crate::wait::wait;
use sabir_proto::{Stamp, TaskId, TaskState};
use sabir_store::{AppendError, ChildOf, Effect, ParentLink, Step, SubtaskSpend, TaskTreeNode};

const SUBTASKS_MAX: u64 = 1000;

fn kin(parent: &ScriptedTask, root: &ScriptedTask, key: &str) -> ParentLink {
    ParentLink {
        parent: parent.id(),
        root: root.id(),
        key: key.into(),
        hops: 3,
        path: vec!["a#1".into(), "\"quoted\"\nfar".into()],
        origin: Some("elsewhere".into()),
        readonly: true,
    }
}

fn as_child(mut step: Step, kin: ParentLink, family_max: u64) -> Step {
    let opening = step.opening.as_mut().expect("only an opening bears a child");
    opening.child_of = Some(Box::new(ChildOf { parent_link: kin, subtasks_max: family_max }));
    step
}

/// Stores a root at work with this many children at work.
fn family(bench: &dyn LogFixture, author: &mut TaskFactory, children: usize) -> Vec<ScriptedTask> {
    let mut family: Vec<ScriptedTask> = (0..=children).map(|_| author.new_task(&owner("ann"))).collect();
    let root = family[0].clone();
    for (n, story) in family.iter_mut().enumerate() {
        let step = story.open(author, &[ScriptedEvent::Status(TaskState::Working)]);
        bench.log().append_ok(if n == 0 {
            step
        } else {
            as_child(step, kin(&root, &root, &n.to_string()), SUBTASKS_MAX)
        });
    }
    family
}

fn ids(relatives: &[TaskTreeNode]) -> Vec<TaskId> {
    relatives.iter().map(|relative| relative.id).collect()
}

fn orphans(bench: &dyn LogFixture) -> Vec<TaskId> {
    ids(&wait(bench.log().orphans(None, 100)).expect("orphans can be read"))
}

pub(super) fn a_child_knows_its_parent_and_its_parent_knows_it(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(9);
    let mut family = family(bench, &mut author, 3);
    let root = family[0].clone();
    // A grandchild, which settles at once.
    let mut grandchild = author.new_task(&owner("ann"));
    let step = grandchild.open_settled(TaskState::Completed);
    bench.log().append_ok(as_child(step, kin(&family[2], &root, "1"), SUBTASKS_MAX));
    for _ in 0..2 {
        let log = bench.log();
        assert_eq!(wait(log.parent_link(root.id())), Ok(None));
        assert_eq!(wait(log.parent_link(family[1].id())), Ok(Some(kin(&root, &root, "1"))));
        assert_eq!(wait(log.parent_link(grandchild.id())), Ok(Some(kin(&family[2], &root, "1"))));
        assert_eq!(wait(log.child(root.id(), "2")), Ok(Some(family[2].id())));
        assert_eq!(wait(log.child(root.id(), "4")), Ok(None));
        assert_eq!(wait(log.child(family[2].id(), "1")), Ok(Some(grandchild.id())));
        let stored = |story: &ScriptedTask| log.stored(story.id()).expect("it is there");
        assert_eq!((stored(&root).is_child, stored(&grandchild).is_child), (false, true));
        let children = wait(log.children(root.id(), None, 2)).expect("children can be read");
        assert_eq!(ids(&children), [family[1].id(), family[2].id()]);
        assert_eq!((children[0].parent, children[0].state), (Some(root.id()), TaskState::Working));
        assert_eq!(children[0].scope, root.scope);
        let rest = wait(log.children(root.id(), Some(children[1].id), 2)).expect("children can be read");
        assert_eq!(ids(&rest), [family[3].id()]);
        let all = wait(log.descendants(root.id(), None, 9)).expect("a family can be read");
        assert_eq!(ids(&all), [family[1].id(), family[2].id(), family[3].id(), grandchild.id()]);
        let stranger = TaskId::new(root.id().stamp(), 1);
        assert_eq!(wait(log.children(stranger, None, 9)), Ok(Vec::new()));
        assert_eq!(wait(log.child(stranger, "2")), Ok(None));
        assert_eq!(wait(log.parent_link(TaskId::new(grandchild.id().stamp(), 1))), Ok(None));
        bench.reopen();
    }
    let step = family[1].step(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(step);
    assert!(bench.log().stored(family[1].id()).expect("it is there").is_child);
}

pub(super) fn a_child_is_born_once_to_a_parent_that_lives(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(9);
    let mut family = family(bench, &mut author, 1);
    let (root, mut other) = (family[0].clone(), author.new_task(&owner("ann")));
    let step = other.clone().open(&mut author, &[]);
    assert_eq!(
        bench.log().append_refused(as_child(step, kin(&root, &root, "1"), SUBTASKS_MAX)),
        AppendError::DuplicateChild
    );
    assert!(bench.log().stored(other.id()).is_none(), "a refused child leaves no trace");
    assert_eq!(wait(bench.log().child(root.id(), "1")), Ok(Some(family[1].id())));
    let nobody = author.new_task(&owner("ann"));
    let step = other.clone().open(&mut author, &[]);
    assert_eq!(
        bench.log().append_refused(as_child(step, kin(&nobody, &root, "2"), SUBTASKS_MAX)),
        AppendError::ParentSettled
    );
    let step = family[0].step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(step);
    let step = other.clone().open(&mut author, &[]);
    assert_eq!(
        bench.log().append_refused(as_child(step, kin(&root, &root, "2"), SUBTASKS_MAX)),
        AppendError::ParentSettled
    );
    // A task that asks is not settled, so it may open children.
    let step = family[1].step(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]);
    bench.log().append_ok(step);
    let step = other.open(&mut author, &[]);
    bench.log().append_ok(as_child(step, kin(&family[1], &root, "2"), SUBTASKS_MAX));
}

pub(super) fn a_family_is_bounded(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(9);
    let family = family(bench, &mut author, 2);
    let root = &family[0];
    let (third, fourth) = (author.new_task(&owner("ann")), author.new_task(&owner("ann")));
    let step = third.clone().open(&mut author, &[]);
    bench.log().append_ok(as_child(step, kin(&family[1], root, "3"), 3));
    let step = fourth.clone().open(&mut author, &[]);
    assert_eq!(bench.log().append_refused(as_child(step, kin(&family[1], root, "4"), 3)), AppendError::TooManySubtasks);
    assert_eq!(
        (bench.log().stored(fourth.id()).is_none(), wait(bench.log().parent_link(fourth.id()))),
        (true, Ok(None))
    );
    assert_eq!(wait(bench.log().subtask_spend(root.id())), Ok(SubtaskSpend { calls: 3, spent: 0 }));
}

pub(super) fn children_of_the_given_up_are_found(bench: &mut dyn LogFixture) {
    for (end, given_up) in [
        (TaskState::Completed, false),
        (TaskState::Transferred, false),
        (TaskState::Failed, true),
        (TaskState::Canceled, true),
        (TaskState::Rejected, true),
    ] {
        let mut author = TaskFactory::new(9);
        // Later than all existing tasks.
        author.advance(i64::from(end.number()) * 1000);
        let mut family = family(bench, &mut author, 3);
        assert_eq!(orphans(bench), []);
        let step = family[1].step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
        bench.log().append_ok(step);
        let step = family[2].step(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]);
        bench.log().append_ok(step);
        let step = family[0].step(&mut author, &[ScriptedEvent::Status(end)]);
        bench.log().append_ok(step);
        bench.reopen();
        let expected = if given_up { vec![family[2].id(), family[3].id()] } else { Vec::new() };
        assert_eq!(orphans(bench), expected, "{end}");
        let after = wait(bench.log().orphans(Some(family[2].id()), 1)).expect("orphans can be read");
        assert_eq!(ids(&after), expected.get(1..).unwrap_or_default());
        for story in &mut family[2..] {
            let step = story.step(&mut author, &[ScriptedEvent::Status(TaskState::Canceled)]);
            bench.log().append_ok(step);
        }
        assert_eq!(orphans(bench), []);
    }
}

pub(super) fn what_is_spent_adds_up_by_root(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(9);
    let family = family(bench, &mut author, 1);
    let root = family[0].id();
    assert_eq!(wait(bench.log().subtask_spend(root)), Ok(SubtaskSpend { calls: 1, spent: 0 }));
    for (story, micros) in [(&family[0], 5), (&family[1], 7), (&family[1], 30)] {
        bench.log().append_ok(Step { effects: vec![Effect::Spend { root, micros }], ..story.empty_step() });
    }
    bench.reopen();
    assert_eq!(wait(bench.log().subtask_spend(root)), Ok(SubtaskSpend { calls: 1, spent: 42 }));
    assert_eq!(wait(bench.log().subtask_spend(family[1].id())), Ok(SubtaskSpend::default()));
}

pub(super) fn whoever_asks_is_found_whosever_it_is(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(9);
    let mut stories: Vec<ScriptedTask> = ["ann", "bob", "ann", "bob"].map(|name| author.new_task(&owner(name))).into();
    // The youngest task has asked first; one is at work, and one asks for credentials.
    for (at, state) in [
        (3, TaskState::InputRequired),
        (0, TaskState::AuthRequired),
        (1, TaskState::Working),
        (2, TaskState::InputRequired),
    ] {
        author.advance(10);
        let step = stories[at].open(&mut author, &[ScriptedEvent::Status(state)]);
        bench.log().append_ok(step);
    }
    bench.reopen();
    let asking =
        |after: Option<Stamp>, limit| wait(bench.log().interrupted(after, limit)).expect("questions can be read");
    let all = asking(None, 9);
    assert_eq!(all.iter().map(|one| one.task.id).collect::<Vec<_>>(), [3, 0, 2].map(|at: usize| stories[at].id()));
    for (one, at) in all.iter().zip([3, 0, 2]) {
        stories[at].assert_stored(Some(&one.task));
        assert_eq!(one.since, stories[at].position);
    }
    assert_eq!(asking(Some(all[0].since), 1)[0].task.id, stories[0].id());
    let step = stories[3].step(&mut author, &[ScriptedEvent::Answer]);
    bench.log().append_ok(step);
    let step = stories[0].step(&mut author, &[ScriptedEvent::Status(TaskState::Canceled)]);
    bench.log().append_ok(step);
    let left = wait(bench.log().interrupted(None, 9)).expect("questions can be read");
    assert_eq!(left.iter().map(|one| one.task.id).collect::<Vec<_>>(), [stories[2].id()]);
}

pub(super) fn a_child_is_forgotten_with_its_task(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(9);
    let mut family = family(bench, &mut author, 2);
    let root = family[0].id();
    bench.log().append_ok(Step { effects: vec![Effect::Spend { root, micros: 5 }], ..family[0].empty_step() });
    let step = family[1].step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(step);
    author.advance(1000);
    let (agent, below) = (family[0].scope.agent.clone(), author.stamp());
    wait(bench.upkeep().prune(&agent, below, None)).expect("old tasks can be forgotten");
    assert_eq!(wait(bench.log().parent_link(family[1].id())), Ok(None));
    assert_eq!(wait(bench.log().child(root, "1")), Ok(None));
    assert_eq!(
        wait(bench.log().subtask_spend(root)),
        Ok(SubtaskSpend { calls: 1, spent: 5 }),
        "the others are still there"
    );
    let step = family[0].step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
    bench.log().append_ok(step);
    let below = author.stamp();
    wait(bench.upkeep().prune(&agent, below, None)).expect("old tasks can be forgotten");
    assert_eq!(
        wait(bench.log().subtask_spend(root)),
        Ok(SubtaskSpend { calls: 1, spent: 0 }),
        "a child may outlive its root"
    );
    assert!(wait(bench.log().parent_link(family[2].id())).expect("a child can be read").is_some());
}
