//! What a limiter has done so far.

/// A snapshot of one limiter, taken at one instant: exact, and cheap.
///
/// `acquired + rejected + cancelled` is how many requests have been answered; each counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests that were granted.
    pub acquired: u64,
    /// Requests that were refused: no room, a deadline, a full queue, a closed limiter.
    pub rejected: u64,
    /// Requests that were given up before their grant was taken up.
    pub cancelled: u64,
    /// How many requests of cost 1 there is room for, whoever waits for it.
    pub available: u64,
    /// The capacity.
    pub max: u64,
    /// How many wait.
    pub queue_depth: usize,
}
