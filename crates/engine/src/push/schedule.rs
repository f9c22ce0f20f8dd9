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

/// Decides after an attempt at `owed` that failed. Of the attempts before it `owed` knows the number.
pub(super) fn after(limits: &Limits, owed: &Owed, outcome: &Outcome, now: Timestamp, random: u64) -> Next {
    let wish = match outcome {
        Outcome::Gone { status } => return Next::End(format!("the receiver wants no more (status {status})")),
        Outcome::Forbidden { reason } => return Next::GiveUp(reason.clone()),
        Outcome::Refused { retry_after, .. } => *retry_after,
        Outcome::Accepted { .. } | Outcome::Unreachable { .. } => None,
    };
    let attempts = owed.attempts.saturating_add(1);
    let patience = i64::try_from(limits.push_time_max.as_millis()).unwrap_or(i64::MAX);
    if now.millis().saturating_sub(owed.since.millis()) >= patience {
        return Next::GiveUp(format!("not delivered within {}", time(limits.push_time_max)));
    }
    if attempts >= limits.push_attempts_max {
        return Next::GiveUp(format!("not delivered in {attempts} attempts"));
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

    fn owed(attempts: u32) -> Owed {
        let (task, at) = (TaskId::new(Stamp::from_u64(1), 1), Timestamp::from_millis(0));
        Owed { number: 1, task, config: "c".into(), seq: Seq(1), last: Seq(1), at, since: at, attempts }
    }

    fn unreachable() -> Outcome {
        Outcome::Unreachable { reason: "nobody there".into() }
    }

    #[test]
    fn delays_double_up_to_the_limit_and_are_spread() {
        let limits = Limits { push_attempts_max: 100, ..Limits::default() };
        for (attempts, whole) in [(0, 1), (1, 2), (2, 4), (5, 32), (9, 512), (10, 900), (40, 900)] {
            for random in [0, 1, 12_345, u64::MAX] {
                let next = after(&limits, &owed(attempts), &unreachable(), Timestamp::from_millis(1), random);
                let Next::Again(delay) = next else { panic!("{next:?}") };
                let whole = Duration::from_secs(whole);
                assert!((whole / 2..=whole).contains(&delay), "{delay:?} of {whole:?}");
            }
        }
    }

    #[test]
    fn a_wish_to_be_left_alone_is_honoured_within_reason() {
        let asks = |seconds| Outcome::Refused { status: 429, retry_after: Some(Duration::from_secs(seconds)) };
        let now = Timestamp::from_millis(1);
        assert_eq!(after(&Limits::default(), &owed(0), &asks(77), now, 0), Next::Again(Duration::from_secs(77)));
        assert_eq!(after(&Limits::default(), &owed(0), &asks(1 << 40), now, 0), Next::Again(Duration::from_secs(900)));
        let Next::Again(delay) = after(&Limits::default(), &owed(0), &asks(0), now, 0) else { panic!("given up") };
        assert!(delay >= Duration::from_millis(500), "a wish does not make us hurry");
    }

    #[test]
    fn patience_ends_by_number_and_by_time() {
        let limits = Limits::default();
        let (soon, late) = (Timestamp::from_millis(1), Timestamp::from_millis(24 * 3_600_000));
        let given_up = |next| matches!(next, Next::GiveUp(_));
        assert!(!given_up(after(&limits, &owed(10), &unreachable(), soon, 0)));
        assert!(given_up(after(&limits, &owed(11), &unreachable(), soon, 0)));
        assert!(given_up(after(&limits, &owed(0), &unreachable(), late, 0)));
        assert!(given_up(after(&limits, &owed(0), &Outcome::Forbidden { reason: "inside".into() }, soon, 0)));
        assert!(matches!(after(&limits, &owed(0), &Outcome::Gone { status: 410 }, soon, 0), Next::End(_)));
    }
}
