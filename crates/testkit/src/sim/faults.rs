//! The injected faults, and their rates in each seed.
//!
//! Every fault is on in two seeds out of three, so that all combinations occur and some seeds are nearly quiet. "Once
//! in `n`" counts executor steps for crashes and commits, and calls for lost replies; zero means never.

use crate::seeded_rng::SeededRng;

/// The faults of one seed.
#[derive(Debug, Clone)]
pub(super) struct Faults {
    /// The most crashes and stops of the process.
    pub(super) ends_max: u32,
    /// A crash comes once in so many steps.
    pub(super) crash_once_in: u64,
    /// An orderly stop comes once in so many steps.
    pub(super) stop_once_in: u64,
    /// The store delays a step once in so many executor steps, and commits it later with others.
    pub(super) hold_once_in: u64,
    /// Held steps are committed once in so many executor steps.
    pub(super) commit_once_in: u64,
    /// The store delays the answer to a read once in so many steps; the answer is as old as the read.
    pub(super) late_once_in: u64,
    /// A client loses the answer once in so many calls.
    pub(super) lost_once_in: u64,
    /// A reader is slow once in so many streams.
    pub(super) slow_once_in: u64,
    /// How often the disk fills up …
    pub(super) full_times: u64,
    /// … with at most twice this many seconds between …
    pub(super) full_seconds: u64,
    /// … for at most this many milliseconds. Some are longer than `store_patience`.
    pub(super) full_ms_max: u64,
    /// The largest clock error of a restarted process, in milliseconds.
    pub(super) skew_ms_max: u64,
}

impl Faults {
    /// Draws the faults of a seed.
    pub(super) fn draw(chance: &mut SeededRng) -> Self {
        let mut on = |value: u64| if chance.once_in(3) { 0 } else { value };
        let (crash, stop, hold, lost) = (on(1), on(1), on(2), on(5));
        let (slow, full, skew, late) = (on(3), on(20), on(3000), on(3));
        Self {
            ends_max: u32::try_from(chance.between(1, 8)).unwrap_or(1),
            crash_once_in: crash * chance.pick(&[60, 300, 1500]),
            stop_once_in: stop * chance.pick(&[200, 1000]),
            hold_once_in: hold,
            commit_once_in: chance.between(1, 12),
            late_once_in: late,
            lost_once_in: lost,
            slow_once_in: slow,
            full_times: full,
            full_seconds: chance.between(2, 15),
            full_ms_max: chance.pick(&[200, 3000, 60_000]),
            skew_ms_max: skew,
        }
    }
}

/// A planted fault that breaks a promise: a check must notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The store confirms a step before it is stored, and a crash loses it. In memory only.
    AcknowledgeEarly,
    /// The store drops the last event of a step that has several.
    LoseLastEvent,
    /// A second process starts on the same log while the first one runs, and the store accepts the writes of both.
    TwoOwners,
    /// The store forgets retry keys.
    ForgetKeys,
    /// The store moves an alias to any task, also one that another unfinished task has.
    MoveNames,
    /// The store sometimes does not write the deliveries of a step.
    OweNothing,
    /// The store records a failed delivery as delivered.
    CountFailures,
    /// The store returns the latest row of a configuration as due instead of the oldest.
    SkipAhead,
    /// The store drops the parent links of children.
    ForgetParents,
    /// The store finds no children of tasks that have ended.
    HideOrphans,
    /// The store does not count usage of bookings.
    CountNothing,
}
