//! A percentile of a histogram.

use crate::watch::{BUCKETS, TimesReading};

/// Returns the time, in microseconds, within which this share (in percent) of decisions were made; none if there were
/// none. Interpolated within its bucket, so it is about right: bounds of buckets are a factor of two to ten apart.
pub(super) fn percentile(times: &TimesReading, percent: u32) -> Option<f64> {
    let count = times.count();
    if count == 0 {
        return None;
    }
    let wanted = count as f64 * f64::from(percent) / 100.0;
    let mut below = 0.0;
    for (index, bucket) in times.buckets.iter().enumerate() {
        let within = *bucket as f64;
        if within > 0.0 && below + within >= wanted {
            let lower = index.checked_sub(1).map_or(0, |before| BUCKETS[before]) as f64;
            // What took longer than every bound is told as the last bound: it took at least that.
            let upper = BUCKETS.get(index).map_or(lower, |bound| *bound as f64);
            let nanos = lower + (upper - lower) * (wanted - below) / within;
            return Some(rounded(nanos / 1_000.0));
        }
        below += within;
    }
    None
}

/// Returns a number with three digits behind the point: more would only look exact.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(usize, u64)]) -> TimesReading {
        let mut times = TimesReading::default();
        counts.iter().for_each(|(bucket, count)| times.buckets[*bucket] = *count);
        times
    }

    #[test]
    fn it_lies_in_the_bucket_that_holds_it() {
        assert_eq!(percentile(&of(&[]), 99), None);
        assert_eq!(percentile(&of(&[(0, 100)]), 50), Some(0.125));
        assert_eq!(percentile(&of(&[(0, 99), (5, 1)]), 50), Some(0.126));
        // 99 of 100 are within the first bucket, and so is the 99th.
        assert_eq!(percentile(&of(&[(0, 99), (5, 1)]), 99), Some(0.25));
        assert_eq!(percentile(&of(&[(0, 98), (5, 2)]), 99), Some(7.5));
        assert_eq!(percentile(&of(&[(BUCKETS.len(), 1)]), 99), Some(1_000_000.0), "at least a second");
    }
}
