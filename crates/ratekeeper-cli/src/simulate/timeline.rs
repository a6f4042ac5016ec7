//! Admitted and denied requests over time, in a bounded number of buckets: when there are too many, they become longer.

use ratekeeper::Timestamp;

/// The most buckets. After they have become longer, at least a seventh of them is in use.
const MOST: usize = 1_024;
const SECOND: i64 = 1_000_000_000;
/// How long buckets may be, in milliseconds: each length divides the next, and is one that people use.
const WIDTHS: [i64; 18] = [
    1,
    5,
    10,
    50,
    100,
    500,
    1_000,
    5_000,
    10_000,
    30_000,
    60_000,
    300_000,
    600_000,
    1_800_000,
    3_600_000,
    21_600_000,
    86_400_000,
    604_800_000,
];

/// What happened in one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineBucket {
    /// How many requests were admitted.
    pub admitted: u64,
    /// How many requests were denied.
    pub denied: u64,
}

impl TimelineBucket {
    /// Returns how many requests there were.
    pub fn asked(&self) -> u64 {
        self.admitted + self.denied
    }

    pub(super) fn add(&mut self, other: &TimelineBucket) {
        self.admitted += other.admitted;
        self.denied += other.denied;
    }
}

/// Admitted and denied requests over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The number of the first bucket, counted from the epoch in widths.
    first: i64,
    /// How long a bucket is, in nanoseconds.
    width: i64,
    buckets: Vec<TimelineBucket>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { first: 0, width: WIDTHS[0] * 1_000_000, buckets: Vec::new() }
    }
}

impl Timeline {
    #[inline]
    pub(super) fn count(&mut self, at: Timestamp, admitted: bool) {
        let index = self.place(at.as_nanos());
        let bucket = &mut self.buckets[index];
        if admitted {
            bucket.admitted += 1;
        } else {
            bucket.denied += 1;
        }
    }

    #[inline]
    fn place(&mut self, nanos: i64) -> usize {
        let number = nanos.div_euclid(self.width);
        if let Ok(index) = usize::try_from(number.wrapping_sub(self.first))
            && index < self.buckets.len()
        {
            return index;
        }
        self.stretch(nanos)
    }

    #[cold]
    fn stretch(&mut self, nanos: i64) -> usize {
        if self.buckets.is_empty() {
            self.first = nanos.div_euclid(self.width);
        }
        loop {
            let number = nanos.div_euclid(self.width);
            let last = self.first + i64::try_from(self.buckets.len()).unwrap_or(0) - 1;
            let (first, last) = (self.first.min(number), last.max(number));
            if let Ok(span) = usize::try_from(last - first)
                && span < MOST
            {
                let before = usize::try_from(self.first - first).unwrap_or(0);
                self.buckets.splice(0..0, std::iter::repeat_n(TimelineBucket::default(), before));
                self.first = first;
                self.buckets.resize(span + 1, TimelineBucket::default());
                return usize::try_from(number - first).unwrap_or(0);
            }
            self.lengthen();
        }
    }

    /// Makes buckets longer: the next of the usual lengths, or beyond them twice as long.
    fn lengthen(&mut self) {
        let longer = WIDTHS.iter().map(|millis| millis * 1_000_000).find(|width| *width > self.width);
        let longer = longer.unwrap_or(self.width.saturating_mul(2));
        let times = longer / self.width;
        let start = self.first;
        (self.first, self.width) = (start.div_euclid(times), longer);
        let mut merged: Vec<TimelineBucket> = Vec::with_capacity(self.buckets.len() / 2 + 1);
        for (number, bucket) in (start..).zip(&self.buckets) {
            let index = usize::try_from(number.div_euclid(times) - self.first).unwrap_or(0);
            if index == merged.len() {
                merged.push(*bucket);
            } else {
                merged[index].add(bucket);
            }
        }
        self.buckets = merged;
    }

    /// Returns the buckets in order: when each begins, and what happened in it.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = (Timestamp, TimelineBucket)> + '_ {
        self.buckets.iter().enumerate().map(|(index, bucket)| {
            let number = self.first.saturating_add(i64::try_from(index).unwrap_or(i64::MAX));
            (Timestamp::from_nanos(number.saturating_mul(self.width)), *bucket)
        })
    }

    /// Returns how long a bucket is, in nanoseconds.
    pub fn width(&self) -> u64 {
        self.width.unsigned_abs()
    }

    /// Returns the stretch with most denials, if there was any: when it begins, how many nanoseconds it lasts, and what
    /// happened in it. It is at least a second long, because nobody can act on less.
    pub fn worst(&self) -> Option<(Timestamp, u64, TimelineBucket)> {
        let width = self.width.max(SECOND);
        let mut worst: Option<(i64, TimelineBucket)> = None;
        let mut current: Option<(i64, TimelineBucket)> = None;
        for (start, bucket) in self.buckets().chain([(Timestamp::MAX, TimelineBucket::default())]) {
            let number = start.as_nanos().div_euclid(width);
            match &mut current {
                Some((same, sum)) if *same == number => sum.add(&bucket),
                _ => {
                    let done = current.replace((number, bucket)).filter(|(_, sum)| sum.denied > 0);
                    if let Some(done) = done
                        && worst.is_none_or(|(_, sum)| sum.denied < done.1.denied)
                    {
                        worst = Some(done);
                    }
                }
            }
        }
        worst.map(|(number, sum)| {
            (Timestamp::from_nanos(number.saturating_mul(width)), width.unsigned_abs(), sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn nothing_is_lost_and_everything_is_in_its_place(times in prop::collection::vec(any::<i64>(), 1..50), scale in 0u32..40) {
            let times: Vec<i64> = times.iter().map(|time| time >> scale).collect();
            let mut timeline = Timeline::default();
            for (n, time) in times.iter().enumerate() {
                timeline.count(Timestamp::from_nanos(*time), n % 3 != 0);
            }
            prop_assert!(timeline.buckets.len() <= MOST);
            let width = i64::try_from(timeline.width()).unwrap();
            for (start, bucket) in timeline.buckets() {
                let within = |time: &&i64| time.div_euclid(width) == start.as_nanos().div_euclid(width);
                prop_assert_eq!(bucket.asked(), times.iter().filter(within).count() as u64);
            }
        }
    }

    #[test]
    fn the_worst_second_of_many_buckets() {
        let mut timeline = Timeline::default();
        for millis in [100, 900, 1_100, 1_200, 1_900, 2_500] {
            timeline.count(Timestamp::from_nanos(millis * 1_000_000), false);
        }
        timeline.count(Timestamp::from_nanos(1_500_000_000), true);
        let expected = TimelineBucket { admitted: 1, denied: 3 };
        assert_eq!(timeline.worst(), Some((Timestamp::from_secs(1), 1_000_000_000, expected)));
        assert_eq!(Timeline::default().worst(), None);
    }

    #[test]
    fn each_length_divides_the_next() {
        assert!(WIDTHS.windows(2).all(|pair| pair[1] % pair[0] == 0 && pair[1] / pair[0] <= 7));
    }
}
