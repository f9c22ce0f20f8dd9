//! What may go wrong, and how often in this seed.
//!
//! Every fault is on in two seeds out of three, so that they meet in all combinations and some seeds are nearly quiet.
//! "Once in `n`" is per executor step for crashes and commits, per call for lost replies; zero is never.

use crate::chance::Chance;

/// The faults of one seed.
#[derive(Debug, Clone)]
pub(super) struct Faults {
    /// How often the process ends, one way or the other, at most.
    pub(super) ends_max: u32,
    /// A crash comes once in so many steps.
    pub(super) crash_once_in: u64,
    /// An orderly stop comes once in so many steps.
    pub(super) stop_once_in: u64,
    /// The store holds a step back once in so many steps, and commits it later, with others.
    pub(super) hold_once_in: u64,
    /// Held steps are committed once in so many executor steps.
    pub(super) commit_once_in: u64,
    /// The store answers a read late once in so many steps, with what it found when it was asked.
    pub(super) late_once_in: u64,
    /// A client does not hear the answer once in so many calls.
    pub(super) lost_once_in: u64,
    /// A reader is slow once in so many streams.
    pub(super) slow_once_in: u64,
    /// The disk fills up so often …
    pub(super) full_times: u64,
    /// … once in so many seconds …
    pub(super) full_seconds: u64,
    /// … for at most so many milliseconds. Some are longer than the engine's patience.
    pub(super) full_ms_max: u64,
    /// How far the clock of a restarted process is off, at most.
    pub(super) skew_ms_max: u64,
}

impl Faults {
    /// What a seed has in store.
    pub(super) fn draw(chance: &mut Chance) -> Self {
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

/// A promise that is broken on purpose: the simulator must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The store says "kept" before it has kept anything, and a crash loses what it promised. In memory only.
    AcknowledgeEarly,
    /// The store drops the last event of a step that has several.
    LoseLastEvent,
    /// A second process starts on the same log while the first one lives, and the store takes what either writes.
    TwoOwners,
    /// The store forgets retry keys.
    ForgetKeys,
    /// The store gives a name to whoever asks, whosever it is.
    MoveNames,
    /// The store forgets to put down what a step owes, now and then.
    OweNothing,
    /// The store takes a delivery that failed for one that arrived.
    CountFailures,
    /// The store says that the latest row of a configuration is due, and not the oldest.
    SkipAhead,
    /// The store forgets whose children tasks are.
    ForgetKin,
    /// The store finds no children of tasks that were given up.
    HideOrphans,
    /// The store forgets to count what is booked, now and then.
    CountNothing,
}
