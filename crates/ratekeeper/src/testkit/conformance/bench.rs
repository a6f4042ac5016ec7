//! The store to be examined, and its clock.

use crate::port::Store;
use crate::testkit::fake_clock::FakeClock;
use crate::{Nanos, Timestamp};

/// A store to be examined, and a way to move its clock.
pub struct Bench<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) now: Box<dyn Fn() -> Timestamp + Send + Sync + 'a>,
    pub(super) advance: Box<dyn Fn(Nanos) + Send + Sync + 'a>,
    pub(super) resolution: Nanos,
    pub(super) several_plans: bool,
    pub(super) most_charges: usize,
    pub(super) equal_keys: bool,
    one_step_in: usize,
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<'a> Bench<'a> {
    /// Returns a bench for a store that goes by a fake clock.
    pub fn new(store: &'a dyn Store, clock: &'a FakeClock) -> Self {
        use crate::port::Clock;
        Self::with_time(store, || clock.now(), |span| clock.advance(span))
    }

    /// Returns a bench for a store whose time is read and moved by functions.
    pub fn with_time(
        store: &'a dyn Store,
        now: impl Fn() -> Timestamp + Send + Sync + 'a,
        advance: impl Fn(Nanos) + Send + Sync + 'a,
    ) -> Self {
        let (now, advance) = (Box::new(now), Box::new(advance));
        let resolution = Nanos::from_nanos(1);
        Bench {
            store,
            now,
            advance,
            resolution,
            several_plans: true,
            most_charges: 10,
            equal_keys: true,
            one_step_in: 1,
        }
    }

    /// Sets the unit of the store's clock, if it is not the nanosecond.
    #[must_use]
    pub fn resolution(mut self, unit: Nanos) -> Self {
        self.resolution = unit;
        self
    }

    /// Has so many keys charged together at most, each once, for a store that is exact only then.
    #[must_use]
    pub fn different_keys(mut self, most: usize) -> Self {
        (self.most_charges, self.equal_keys) = (most, false);
        self
    }

    /// Runs one in `share` of the steps and repetitions of each random walk, for a store that needs a round trip for every step.
    ///
    /// Every kind of check is still made, with every algorithm: only the walks are shorter and fewer. The default is 1: the whole
    /// suite, which is some thirty thousand calls. A share of 0 counts as 1.
    #[must_use]
    pub fn one_step_in(mut self, share: usize) -> Self {
        self.one_step_in = share.max(1);
        self
    }

    /// Returns how many of `all` steps or repetitions to run.
    pub(super) fn share_of(&self, all: usize) -> usize {
        all.div_ceil(self.one_step_in)
    }

    /// Skips what needs several plans in one request, for a store that decides one plan at a time.
    #[must_use]
    pub fn one_plan_at_a_time(mut self) -> Self {
        self.several_plans = false;
        self
    }
}
