//! A flow at a constant rate, in floating point: the tokens that come, and the level that goes.
//!
//! The order of the operations is part of the law (docs/semantics.md §3): a script in another language that does
//! the same operations gets the same bits.

use super::solve::first_instant;
use super::tenancy::{SLACK, Tenancy};
use super::wait::Wait;
use crate::{Cost, Nanos, Quota, Timestamp};

/// A token is there if this little of it is missing: 29 tokens at 100 a second are there after 290 ms, although
/// the doubles say 28.999999999999996.
pub(super) const EPSILON: f64 = 1e-9;

/// Something that moves at a constant rate since an instant: tokens that come, a level that goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    rate: f64,
    now: Timestamp,
    /// The stored instant; now, if the state was cut off.
    last: Timestamp,
    /// How many nanoseconds from now the state may be whole again, at the latest.
    furthest: f64,
    pub(super) repaired: bool,
}

impl Flow {
    /// Returns a flow: `missing` is what must flow from `last` on until the state equals a fresh key's. If that is later than two
    /// refills, as far as a debt goes, and the slack from now, a state of one's own is cut off: what is missing flows from
    /// now on.
    ///
    /// The comparison is part of the law as well, operation by operation.
    pub(super) fn at(quota: &Quota, last: Timestamp, now: Timestamp, missing: f64, tenancy: Tenancy) -> Self {
        let furthest = match tenancy {
            Tenancy::Own => 2.0 * exact(quota.refill_time().as_nanos()) + exact(SLACK.as_nanos()),
            Tenancy::Shared => f64::INFINITY,
        };
        let mut flow = Flow { rate: quota.rate(), now, last, furthest, repaired: false };
        flow.repaired = flow.cut_off(missing);
        flow
    }

    /// Lets what is missing flow from now on if it would be whole too late. Returns whether it would.
    fn cut_off(&mut self, missing: f64) -> bool {
        let ahead = self.last.since(self.now).as_nanos();
        let is_too_late = ahead > 0 && exact(ahead) + missing * 1e9 / self.rate > self.furthest;
        if is_too_late {
            self.last = self.now;
        }
        is_too_late
    }

    /// Returns what is left of a cost that began to flow back when it was charged; zero if all has.
    pub(super) fn left_of(&self, cost: Cost, charged_at: Timestamp) -> f64 {
        (exact(cost.get()) - self.moved(self.now.since(charged_at).as_nanos())).max(0.0)
    }

    /// Returns the nanoseconds from `last` to the effective now; zero while the clock is behind `last`.
    pub(super) fn elapsed(&self) -> u64 {
        self.now.since(self.last).as_nanos()
    }

    /// Returns `max(now, last)`, the instant that the state is read at.
    pub(super) fn effective_now(&self) -> Timestamp {
        self.now.max(self.last)
    }

    /// Returns how much has moved after `elapsed` nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 ns, 104 days, and monotone beyond")]
    pub(super) fn moved(&self, elapsed: u64) -> f64 {
        elapsed as f64 * self.rate / 1e9
    }

    /// Starts the flow again at the effective now: what has moved is accounted for, and so much is missing. If a
    /// clock that stepped back is that far behind that the state would be cut off the next time, it is now.
    pub(super) fn restart(&mut self, missing: f64) {
        self.last = self.effective_now();
        self.cut_off(missing);
    }

    /// Returns the wait of a cost that must wait so long.
    pub(super) fn wait(&self, time: Option<Nanos>) -> Wait {
        Wait::after(self.now, time)
    }

    /// Returns the time from now until `reached` is true of the elapsed time, given that it is when about `amount` has
    /// moved. Counts the time until the clock gets to `last`, if it is behind.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a guess, clamped by the cast"
    )]
    pub(super) fn time_until(&self, amount: f64, reached: impl Fn(u64) -> bool) -> Option<Nanos> {
        let guess = amount * 1e9 / self.rate;
        // Rounded up by hand: without SSE4.1, rounding is a call.
        let whole = guess as u64;
        let guess = whole.saturating_add(u64::from(exact(whole) < guess));
        let instant = first_instant(guess, u64::MAX, reached)?;
        let behind = self.last.since(self.now).as_nanos();
        behind.checked_add(instant.saturating_sub(self.elapsed())).map(Nanos::from_nanos)
    }
}

/// Returns a whole number as a double: exact up to 2^53, which capacities do not exceed, and the nearest one beyond.
#[expect(clippy::cast_precision_loss, reason = "see above; a larger cost is refused before it counts")]
pub(crate) fn exact(whole: u64) -> f64 {
    whole as f64
}

/// Returns how much of a debit is forgiven that has moved an amount from here to there, cut off by its bound: what is charged
/// in part is charged. Of the two amounts, because a large cost has no place for their last digits.
pub(super) fn beyond(cost: Cost, moved: f64) -> u64 {
    let whole = floor(moved);
    let charged = whole.saturating_add(u64::from(exact(whole) < moved));
    cost.get().saturating_sub(charged)
}

/// Returns the whole part of a number, of tokens or of nanoseconds; zero for a negative one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates at both ends"
)]
pub(crate) fn floor(number: f64) -> u64 {
    // The cast cuts off what follows the point.
    number as u64
}
