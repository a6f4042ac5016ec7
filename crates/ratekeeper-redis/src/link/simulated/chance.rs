//! What a seed decides, and which seeds there are.

use std::ops::Range;
use std::time::Duration;

use test_support::cases::{first_seeds, is_thorough};

/// Chance that is the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number of the range, which must not be empty.
    pub(super) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(super) fn index(&mut self, of: usize) -> usize {
        usize::try_from(self.within(0..of as u64)).unwrap()
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }

    pub(super) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range.start * 1_000..range.end * 1_000))
    }
}

/// The number of schedules of a test in an ordinary run; a thorough one has hundreds.
pub(super) const ORDINARY: u32 = 24;

/// Calls `run` with `count` seeds, or with fewer in an [ordinary](ORDINARY) run.
///
/// A seed that `RATEKEEPER_SEED` names is run 100 times: of several tasks that wait for the same thing, tokio chooses one at
/// random that goes first, and only an unstable option of its runtime would set the seed of that.
pub(super) fn schedules(count: u32, run: impl Fn(u64)) {
    let times = if std::env::var_os("RATEKEEPER_SEED").is_some() { 100 } else { 1 };
    let count = if is_thorough() { count } else { ORDINARY };
    first_seeds(count, |seed| (0..times).for_each(|_| run(seed)));
}
