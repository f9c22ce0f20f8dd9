//! Tests that delivered rows do not slow down the outbox.

use sabir_proto::TaskId;
use sabir_store::{DeliveryMark, DueDelivery, DueQuery, Step, TaskLog, WriterMode};
use sabir_testkit::contract::SqliteLogFixture;
use sabir_testkit::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, epoch, owner, put_push_effect};
use sabir_testkit::wait::wait;
use std::time::{Duration, Instant};

/// The push configurations of each task.
const CONFIGS: usize = 100;

/// Opens tasks with a hundred configurations each, all of which get the next event.
fn tasks(log: &dyn TaskLog, author: &mut TaskFactory, count: usize) -> Vec<ScriptedTask> {
    let open = |author: &mut TaskFactory| {
        let mut story = author.new_task(&owner("ann"));
        let effects = (0..CONFIGS).map(|n| put_push_effect(&format!("config-{n}"), 100)).collect();
        wait(log.append(Step { effects, ..story.open(author, &[]) })).unwrap();
        story
    };
    (0..count).map(|_| open(author)).collect()
}

/// Adds one row for every configuration.
fn add_due_events(log: &dyn TaskLog, author: &mut TaskFactory, stories: &mut [ScriptedTask]) {
    let step = |story: &mut ScriptedTask, author: &mut TaskFactory| {
        log.append(Step { notify: Some(epoch()), ..story.step(author, &[ScriptedEvent::Chunk]) })
    };
    let answers: Vec<_> = stories.iter_mut().map(|story| step(story, author)).collect();
    answers.into_iter().for_each(|answer| wait(answer).unwrap());
}

/// Reads everything that a delivery needs, and marks it delivered; returns how many.
fn drain(log: &dyn TaskLog) -> usize {
    let mut delivered = 0;
    loop {
        let due: Vec<DueDelivery> = wait(log.due(DueQuery::all(epoch(), 256))).unwrap().deliveries;
        if due.is_empty() {
            return delivered;
        }
        for owed in &due {
            let task: TaskId = owed.task;
            assert!(wait(log.receiver(task, &owed.config)).unwrap().is_some());
            let before = sabir_proto::Seq(owed.seq.0 - 1);
            assert_eq!(wait(log.events(task, before, 1)).unwrap()[0].seq, owed.seq);
        }
        let marks: Vec<_> = due.iter().map(|owed| log.mark(owed, DeliveryMark::Delivered { now: epoch() })).collect();
        marks.into_iter().for_each(|mark| assert!(wait(mark).unwrap(), "delivered once"));
        delivered += due.len();
    }
}

/// An outbox with a fixed number of rows per round.
struct OutboxFixture {
    bench: SqliteLogFixture,
    author: TaskFactory,
    stories: Vec<ScriptedTask>,
}

impl OutboxFixture {
    fn new(pending: usize) -> Self {
        let (bench, mut author) = (SqliteLogFixture::new(WriterMode::Threaded), TaskFactory::new(1));
        let stories = tasks(bench.log(), &mut author, pending / CONFIGS);
        Self { bench, author, stories }
    }

    /// Adds a row for every configuration and drains them; returns the time of draining.
    fn deliver_round(&mut self) -> Duration {
        let log = self.bench.log();
        add_due_events(log, &mut self.author, &mut self.stories);
        let began = Instant::now();
        assert_eq!(drain(log), CONFIGS * self.stories.len());
        began.elapsed()
    }
}

/// The best times of several drains: in a new outbox, and in one after many deliveries. Alternately, since other
/// programs use this machine too.
fn compare(delivered: usize, pending: usize, times: usize) -> (Duration, Duration) {
    let (mut new, mut used) = (OutboxFixture::new(pending), OutboxFixture::new(pending));
    for _ in 0..delivered / pending {
        used.deliver_round();
    }
    let (fresh, later): (Vec<_>, Vec<_>) = (0..times).map(|_| (new.deliver_round(), used.deliver_round())).unzip();
    let best = (fresh.into_iter().min().unwrap(), later.into_iter().min().unwrap());
    println!("{pending} pending: {:?} in a new outbox, {:?} after {delivered} deliveries", best.0, best.1);
    best
}

#[test]
fn delivered_rows_are_gone() {
    // Too few to time exactly on a busy machine, so only a bad ratio fails: a lookup that walked over delivered rows
    // would be a hundred times as slow.
    let (new, used) = compare(30_000, 1000, 3);
    assert!(used < 3 * new, "{used:?} after 30,000 deliveries, {new:?} before");
}

#[test]
#[ignore = "takes minutes: a million deliveries"]
fn a_million_deliveries_slow_down_nothing() {
    let (new, used) = compare(1_000_000, 10_000, 10);
    assert!(used.as_secs_f64() < 1.1 * new.as_secs_f64(), "{used:?} after a million deliveries, {new:?} before");
}
