//! Where a walk turns to.

/// Xorshift: repeatable, and good enough to wander.
pub(super) struct Random(u64);

impl Random {
    /// Returns the wanderer of a seed, which it tells from its neighbours.
    pub(super) fn seeded(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }
}
