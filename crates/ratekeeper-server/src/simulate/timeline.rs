//! What happened when, in a bounded number of buckets: when time runs out of them, they become twice as long.

use ratekeeper::Timestamp;

/// Buckets at most. A chart has some hundred pixels for them.
const MOST: usize = 512;
/// The shortest bucket, in nanoseconds.
const SHORTEST: i64 = 1_000_000;

/// One stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were denied.
    pub denied: u64,
}

impl Bucket {
    /// All requests.
    pub fn asked(&self) -> u64 {
        self.admitted + self.denied
    }
}

/// Admitted and denied requests over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The number of the first bucket, counted from the epoch in widths.
    first: i64,
    width: i64,
    buckets: Vec<Bucket>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { first: 0, width: SHORTEST, buckets: Vec::new() }
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
                self.buckets.splice(0..0, std::iter::repeat_n(Bucket::default(), before));
                self.first = first;
                self.buckets.resize(span + 1, Bucket::default());
                return usize::try_from(number - first).unwrap_or(0);
            }
            self.halve();
        }
    }

    /// Buckets twice as long, and half as many.
    fn halve(&mut self) {
        let start = self.first;
        self.first = start.div_euclid(2);
        self.width = self.width.saturating_mul(2);
        let mut merged: Vec<Bucket> = Vec::with_capacity(self.buckets.len() / 2 + 1);
        for (number, bucket) in (start..).zip(&self.buckets) {
            let index = usize::try_from(number.div_euclid(2) - self.first).unwrap_or(0);
            if index == merged.len() {
                merged.push(*bucket);
            } else {
                merged[index].admitted += bucket.admitted;
                merged[index].denied += bucket.denied;
            }
        }
        self.buckets = merged;
    }

    /// The stretches in order: when each begins, and what happened in it.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = (Timestamp, Bucket)> + '_ {
        self.buckets.iter().enumerate().map(|(index, bucket)| {
            let number = self.first.saturating_add(i64::try_from(index).unwrap_or(i64::MAX));
            (Timestamp::from_nanos(number.saturating_mul(self.width)), *bucket)
        })
    }

    /// How long a stretch is, in nanoseconds.
    pub fn width(&self) -> u64 {
        self.width.unsigned_abs()
    }

    /// The stretch with most denials, if there was any.
    pub fn worst(&self) -> Option<(Timestamp, Bucket)> {
        let worst = self.buckets().fold(None, |worst: Option<(Timestamp, Bucket)>, next| match worst {
            Some(worst) if worst.1.denied >= next.1.denied => Some(worst),
            _ => Some(next),
        });
        worst.filter(|(_, bucket)| bucket.denied > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
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
}
