//! The retry schedule: when an event is retried, and when it becomes a dead letter.

use crate::limits::Limits;
use crate::push_transport::DeliveryOutcome;
use sabir_proto::Timestamp;
use sabir_store::DueDelivery;
use std::time::Duration;

/// The decision after a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Retry after this delay.
    Again(Duration),
    /// Make it a dead letter, for this reason.
    GiveUp(String),
    /// Make dead letters of it and of everything else for this configuration.
    EndRegistration(String),
}

/// When this process began deliveries, and the current time.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryClock {
    pub(super) started_at: Timestamp,
    pub(super) now: Timestamp,
}

/// Decides after a failed attempt at `owed`, which has the number of earlier attempts.
pub(super) fn decide(
    limits: &Limits,
    owed: &DueDelivery,
    outcome: &DeliveryOutcome,
    watch: DeliveryClock,
    random: u64,
) -> RetryDecision {
    let wish = match outcome {
        DeliveryOutcome::Gone { status } => {
            return RetryDecision::EndRegistration(format!("the receiver wants no more (status {status})"));
        }
        DeliveryOutcome::Forbidden { reason } => return RetryDecision::GiveUp(reason.clone()),
        DeliveryOutcome::Refused { retry_after, .. } => *retry_after,
        DeliveryOutcome::Accepted { .. }
        | DeliveryOutcome::Unreachable { .. }
        | DeliveryOutcome::NoAnswer { .. }
        | DeliveryOutcome::NotAttempted { .. } => None,
    };
    let attempts = owed.attempts.saturating_add(1);
    let patience = i64::try_from(limits.push_time_max.as_millis()).unwrap_or(i64::MAX);
    // Time without a running process does not count: a server that was down for a day has not tried for a day.
    let since = owed.since.max(watch.started_at);
    if watch.now.millis().saturating_sub(since.millis()) >= patience {
        return RetryDecision::GiveUp(format!("not delivered within {}", format_duration(limits.push_time_max)));
    }
    if attempts >= limits.push_attempts_max {
        return RetryDecision::GiveUp(format!(
            "not delivered in {attempts} {}",
            if attempts == 1 { "attempt" } else { "attempts" }
        ));
    }
    let delay = delay(limits, attempts, random);
    RetryDecision::Again(wish.map_or(delay, |wish| delay.max(wish.min(limits.push_delay_max))))
}

/// The delay of a retry: doubles with every failure up to the limit, and is then drawn between half of that and all of
/// it, so that deliveries that failed together do not return together.
fn delay(limits: &Limits, attempts: u32, random: u64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(31);
    let whole = limits.push_delay_min.saturating_mul(1 << doublings).min(limits.push_delay_max);
    jitter(whole, random)
}

/// Draws a duration between half of `whole` and all of it.
pub(super) fn jitter(whole: Duration, random: u64) -> Duration {
    let half = u64::try_from(whole.as_millis() / 2).unwrap_or(u64::MAX / 2);
    Duration::from_millis(half + random % (half + 1))
}

fn format_duration(duration: Duration) -> String {
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

    fn owed(attempts: u32) -> DueDelivery {
        let (task, at) = (TaskId::new(Stamp::from_u64(1), 1), Timestamp::from_millis(0));
        let lane = Lane { owner: 1, host: "a".into() };
        DueDelivery { number: 1, task, config: "c".into(), lane, seq: Seq(1), last: Seq(1), at, since: at, attempts }
    }

    fn unreachable() -> DeliveryOutcome {
        DeliveryOutcome::Unreachable { reason: "nobody there".into() }
    }

    /// The clock this many hours after the event, in a process that started at hour `begun`.
    fn hours(begun: i64, now: i64) -> DeliveryClock {
        let at = |hours: i64| Timestamp::from_millis(hours * 3_600_000);
        DeliveryClock { started_at: at(begun), now: at(now) }
    }

    #[test]
    fn delays_double_up_to_the_limit_and_are_spread() {
        for (attempts, whole) in [(0, 1), (1, 2), (2, 4), (5, 32), (9, 512), (10, 900), (40, 900)] {
            for random in [0, 1, 12_345, u64::MAX] {
                let next = decide(&Limits::default(), &owed(attempts), &unreachable(), hours(0, 0), random);
                let RetryDecision::Again(delay) = next else { panic!("{next:?}") };
                let whole = Duration::from_secs(whole);
                assert!((whole / 2..=whole).contains(&delay), "{delay:?} of {whole:?}");
            }
        }
    }

    #[test]
    fn a_wish_to_be_left_alone_is_honoured_within_reason() {
        let asks = |seconds| DeliveryOutcome::Refused { status: 429, retry_after: Some(Duration::from_secs(seconds)) };
        let now = hours(0, 0);
        assert_eq!(
            decide(&Limits::default(), &owed(0), &asks(77), now, 0),
            RetryDecision::Again(Duration::from_secs(77))
        );
        assert_eq!(
            decide(&Limits::default(), &owed(0), &asks(1 << 40), now, 0),
            RetryDecision::Again(Duration::from_secs(900))
        );
        let RetryDecision::Again(delay) = decide(&Limits::default(), &owed(0), &asks(0), now, 0) else {
            panic!("given up")
        };
        assert!(delay >= Duration::from_millis(500), "a wish does not make us hurry");
    }

    #[test]
    fn patience_ends_by_number_and_by_time() {
        let limits = Limits::default();
        let gives_up = |attempts, watch, outcome: DeliveryOutcome| {
            matches!(decide(&limits, &owed(attempts), &outcome, watch, 0), RetryDecision::GiveUp(_))
        };
        assert!(!gives_up(148, hours(0, 1), unreachable()));
        assert!(gives_up(149, hours(0, 1), unreachable()));
        assert!(!gives_up(1, hours(0, 23), unreachable()));
        assert!(gives_up(1, hours(0, 24), unreachable()));
        assert!(!gives_up(0, hours(99, 100), unreachable()), "not while nobody delivered");
        assert!(
            gives_up(149, hours(0, 1), DeliveryOutcome::NotAttempted { reason: "unreadable".into() }),
            "our own trouble ends, too"
        );
        assert!(gives_up(0, hours(0, 0), DeliveryOutcome::Forbidden { reason: "inside".into() }));
        assert!(matches!(
            decide(&limits, &owed(0), &DeliveryOutcome::Gone { status: 410 }, hours(0, 0), 0),
            RetryDecision::EndRegistration(_)
        ));
    }

    #[test]
    fn attempts_last_as_long_as_time_does() {
        let limits = Limits::default();
        // The shortest is half of the whole.
        let average: Duration = (1..limits.push_attempts_max).map(|attempts| delay(&limits, attempts, 0) * 3 / 2).sum();
        assert!(average >= limits.push_time_max, "{average:?}: a receiver that is away for a day misses nothing");
    }
}
