//! The busiest second of a trace.

use ratekeeper::Timestamp;

/// How many seconds are counted at once: lines may be out of order by as much.
const SECONDS: usize = 64;

/// Counts requests by the second of trace time that they fall in, and remembers the busiest.
#[derive(Clone, Debug)]
pub(super) struct Peak {
    recent: [(i64, u64); SECONDS],
    /// The most requests in one whole second.
    pub(super) most: u64,
    /// When that second began.
    pub(super) at: Timestamp,
}

impl Default for Peak {
    fn default() -> Self {
        Peak { recent: [(i64::MIN, 0); SECONDS], most: 0, at: Timestamp::EPOCH }
    }
}

impl Peak {
    #[inline]
    pub(super) fn count(&mut self, at: Timestamp) {
        let second = at.as_nanos().div_euclid(1_000_000_000);
        // The lowest byte is as good as the second itself: the number of places divides 256.
        let [.., lowest] = second.to_be_bytes();
        let (held, count) = &mut self.recent[usize::from(lowest) % SECONDS];
        if *held != second {
            (*held, *count) = (second, 0);
        }
        *count += 1;
        if *count > self.most {
            (self.most, self.at) = (*count, Timestamp::from_secs(second));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_second_also_out_of_order() {
        let mut peak = Peak::default();
        for millis in [100, 900, 1_000, 1_500, 999, 1_999, 2_000, 500, 1_700] {
            peak.count(Timestamp::from_nanos(millis * 1_000_000));
        }
        assert_eq!((peak.most, peak.at), (4, Timestamp::EPOCH));
        peak.count(Timestamp::from_nanos(-1));
        assert_eq!(peak.most, 4);
    }
}
