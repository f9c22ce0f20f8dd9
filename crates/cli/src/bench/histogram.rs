//! Counting durations: exact to a microsecond when they are short, to a thousandth when they are long, and always in the
//! same small memory.
//!
//! Buckets double in width with every power of two, and every power of two has as many of them. That is how
//! HdrHistogram does it; its encodings and corrections are not needed here.

use std::time::Duration;

/// Buckets per power of two: 1,024 keep the error below a thousandth.
const STEPS_LOG2: u32 = 10;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Durations from here on are counted as this one: 2^36 µs are 19 hours.
const EXPONENT_MAX: u32 = 36;

/// A histogram of durations, from which quantiles are read.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: Duration,
    min: Duration,
    max: Duration,
}

impl Histogram {
    pub(super) fn new() -> Self {
        let counts = vec![0; bucket_index((1 << EXPONENT_MAX) - 1) + 1];
        Self { counts, total: 0, sum: Duration::ZERO, min: Duration::MAX, max: Duration::ZERO }
    }

    pub(super) fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min((1 << EXPONENT_MAX) - 1);
        self.counts[bucket_index(micros)] += 1;
        self.total += 1;
        self.sum += time;
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }

    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    pub(super) const fn max(&self) -> Duration {
        self.max
    }

    pub(super) fn min(&self) -> Duration {
        self.min.min(self.max)
    }

    pub(super) fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.sum.as_secs_f64() / (self.total.max(1) as f64))
    }

    /// The duration that this share of all durations does not exceed.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count is a count")]
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                // The end of a bucket, and never more than there was.
                return Duration::from_micros(start(at + 1) - 1).min(self.max).max(self.min());
            }
        }
        self.max
    }

    /// The counts by powers of two from the shortest to the longest: from, to, how many.
    pub(super) fn octaves(&self) -> Vec<(Duration, Duration, u64)> {
        let mut octaves: Vec<(Duration, Duration, u64)> = Vec::new();
        for (at, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let from = start(at).checked_ilog2().map_or(0, |exponent| 1 << exponent);
            let (from, to) = (Duration::from_micros(from), Duration::from_micros((from * 2).max(1)));
            match octaves.last_mut() {
                Some((known, _, sum)) if *known == from => *sum += count,
                _ => octaves.push((from, to, *count)),
            }
        }
        octaves
    }
}

/// The bucket of a number of microseconds.
fn bucket_index(micros: u64) -> usize {
    let exponent = micros.checked_ilog2().unwrap_or(0);
    let shift = exponent.saturating_sub(STEPS_LOG2);
    // Below 2^11 every number has a bucket of its own; from there on, each octave adds STEPS of them.
    let at = (micros >> shift) + u64::from(shift) * STEPS;
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The least number of microseconds in a bucket.
fn start(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * STEPS {
        return index;
    }
    let shift = index / STEPS - 1;
    (STEPS + index % STEPS) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let last = bucket_index((1 << EXPONENT_MAX) - 1);
        for at in 0..=last {
            assert_eq!(bucket_index(start(at)), at);
            assert_eq!(bucket_index(start(at + 1) - 1), at, "the end of {at}");
        }
    }

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut histogram = Histogram::new();
        (1..=100_000_u64).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        for (share, exact) in [(0.5, 50_000.0), (0.9, 90_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let found = histogram.quantile(share).as_secs_f64() * 1e6;
            assert!((found - exact).abs() / exact < 0.0011, "{share}: {found}");
        }
        assert_eq!(histogram.quantile(1.0), Duration::from_micros(100_000));
        assert_eq!(histogram.mean(), Duration::from_nanos(50_000_500));
    }

    #[test]
    fn nothing_and_too_much_are_counted_too() {
        let empty = Histogram::new();
        assert_eq!((empty.quantile(0.5), empty.max(), empty.min()), (Duration::ZERO, Duration::ZERO, Duration::ZERO));
        let mut histogram = Histogram::new();
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_secs(1_000_000));
        assert_eq!((histogram.total(), histogram.max()), (2, Duration::from_secs(1_000_000)));
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn octaves_hold_every_count() {
        let mut histogram = Histogram::new();
        for micros in [0, 1, 2, 3, 1000, 1500, 5000] {
            histogram.record(Duration::from_micros(micros));
        }
        let micros = Duration::from_micros;
        assert_eq!(
            histogram.octaves(),
            [
                (micros(0), micros(1), 1),
                (micros(1), micros(2), 1),
                (micros(2), micros(4), 2),
                (micros(512), micros(1024), 1),
                (micros(1024), micros(2048), 1),
                (micros(4096), micros(8192), 1)
            ]
        );
    }
}
