//! When an event is tried again, and when it is given up.

use crate::courier::Outcome;
use crate::limits::Limits;
use sabir_proto::Timestamp;
use sabir_store::Owed;
use std::time::Duration;

/// What follows from an attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Tried again after this long.
    Again(Duration),
    /// Given up, for this reason.
    GiveUp(String),
    /// Given up with everything else that the configuration is owed.
    End(String),
}

/// Since when deliveries are made, and what time it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    pub(super) begun: Timestamp,
    pub(super) now: Timestamp,
}

/// Decides after an attempt at `owed` that failed. Of the attempts before it `owed` knows the number.
pub(super) fn after(limits: &Limits, owed: &Owed, outcome: &Outcome, watch: Watch, random: u64) -> Next {
    let wish = match outcome {
        Outcome::Gone { status } => return Next::End(format!("the receiver wants no more (status {status})")),
        Outcome::Forbidden { reason } => return Next::GiveUp(reason.clone()),
        Outcome::Refused { retry_after, .. } => *retry_after,
        Outcome::Accepted { .. }
        | Outcome::Unreachable { .. }
        | Outcome::Unanswered { .. }
        | Outcome::Withheld { .. } => None,
    };
    let attempts = owed.attempts.saturating_add(1);
    let patience = i64::try_from(limits.push_time_max.as_millis()).unwrap_or(i64::MAX);
    // Not counted while nobody delivered: a server that was away for a day has not tried for a day.
    let since = owed.since.max(watch.begun);
    if watch.now.millis().saturating_sub(since.millis()) >= patience {
        return Next::GiveUp(format!("not delivered within {}", time(limits.push_time_max)));
    }
    if attempts >= limits.push_attempts_max {
        return Next::GiveUp(format!(
            "not delivered in {attempts} {}",
            if attempts == 1 { "attempt" } else { "attempts" }
        ));
    }
    let delay = delay(limits, attempts, random);
    Next::Again(wish.map_or(delay, |wish| delay.max(wish.min(limits.push_delay_max))))
}

/// Doubles with every failure up to the limit; between half of that and all of it, so that those who failed together do
/// not come back together.
fn delay(limits: &Limits, attempts: u32, random: u64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(31);
    let whole = limits.push_delay_min.saturating_mul(1 << doublings).min(limits.push_delay_max);
    spread(whole, random)
}

/// Between half of it and all of it.
pub(super) fn spread(whole: Duration, random: u64) -> Duration {
    let half = u64::try_from(whole.as_millis() / 2).unwrap_or(u64::MAX / 2);
    Duration::from_millis(half + random % (half + 1))
}

fn time(duration: Duration) -> String {
    match duration.as_secs() {
        hours if hours >= 3600 && hours.is_multiple_of(3600) => format!("{} h", hours / 3600),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{Seq, Stamp, TaskId};
    use sabir_store::Lane;

    fn owed(attempts: u32) -> Owed {
        let (task, at) = (TaskId::new(Stamp::from_u64(1), 1), Timestamp::from_millis(0));
        let lane = Lane { owner: 1, host: "a".into() };
        Owed { number: 1, task, config: "c".into(), lane, seq: Seq(1), last: Seq(1), at, since: at, attempts }
    }

    fn unreachable() -> Outcome {
        Outcome::Unreachable { reason: "nobody there".into() }
    }

    /// So many hours after the event, in a process that delivers since so many.
    fn hours(begun: i64, now: i64) -> Watch {
        let at = |hours: i64| Timestamp::from_millis(hours * 3_600_000);
        Watch { begun: at(begun), now: at(now) }
    }

    #[test]
    fn delays_double_up_to_the_limit_and_are_spread() {
        for (attempts, whole) in [(0, 1), (1, 2), (2, 4), (5, 32), (9, 512), (10, 900), (40, 900)] {
            for random in [0, 1, 12_345, u64::MAX] {
                let next = after(&Limits::default(), &owed(attempts), &unreachable(), hours(0, 0), random);
                let Next::Again(delay) = next else { panic!("{next:?}") };
                let whole = Duration::from_secs(whole);
                assert!((whole / 2..=whole).contains(&delay), "{delay:?} of {whole:?}");
            }
        }
    }

    #[test]
    fn a_wish_to_be_left_alone_is_honoured_within_reason() {
        let asks = |seconds| Outcome::Refused { status: 429, retry_after: Some(Duration::from_secs(seconds)) };
        let now = hours(0, 0);
        assert_eq!(after(&Limits::default(), &owed(0), &asks(77), now, 0), Next::Again(Duration::from_secs(77)));
        assert_eq!(after(&Limits::default(), &owed(0), &asks(1 << 40), now, 0), Next::Again(Duration::from_secs(900)));
        let Next::Again(delay) = after(&Limits::default(), &owed(0), &asks(0), now, 0) else { panic!("given up") };
        assert!(delay >= Duration::from_millis(500), "a wish does not make us hurry");
    }

    #[test]
    fn patience_ends_by_number_and_by_time() {
        let limits = Limits::default();
        let gives_up = |attempts, watch, outcome: Outcome| {
            matches!(after(&limits, &owed(attempts), &outcome, watch, 0), Next::GiveUp(_))
        };
        assert!(!gives_up(148, hours(0, 1), unreachable()));
        assert!(gives_up(149, hours(0, 1), unreachable()));
        assert!(!gives_up(1, hours(0, 23), unreachable()));
        assert!(gives_up(1, hours(0, 24), unreachable()));
        assert!(!gives_up(0, hours(99, 100), unreachable()), "not while nobody delivered");
        assert!(
            gives_up(149, hours(0, 1), Outcome::Withheld { reason: "unreadable".into() }),
            "our own trouble ends, too"
        );
        assert!(gives_up(0, hours(0, 0), Outcome::Forbidden { reason: "inside".into() }));
        assert!(matches!(after(&limits, &owed(0), &Outcome::Gone { status: 410 }, hours(0, 0), 0), Next::End(_)));
    }

    #[test]
    fn attempts_last_as_long_as_time_does() {
        let limits = Limits::default();
        // The shortest is half of the whole.
        let average: Duration = (1..limits.push_attempts_max).map(|attempts| delay(&limits, attempts, 0) * 3 / 2).sum();
        assert!(average >= limits.push_time_max, "{average:?}: a receiver that is away for a day misses nothing");
    }
}
