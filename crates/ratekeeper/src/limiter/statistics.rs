//! What a limiter has done so far.

/// A snapshot of one limiter, taken at one instant. Exact; taking it costs one lock.
///
/// `acquired + rejected + cancelled` is how many requests have been answered; each counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterStatistics {
    /// How many requests were granted.
    pub acquired: u64,
    /// Requests that were refused: no room, a deadline, a full queue, a closed limiter.
    pub rejected: u64,
    /// Requests that were given up before their grant was collected.
    pub cancelled: u64,
    /// How many requests of cost 1 there is room for, whoever waits for it.
    pub available: u64,
    /// The most that is ever available: the capacity of the quota, or the number of permits.
    pub max: u64,
    /// How many callers are waiting.
    pub queue_depth: usize,
}
