//! What a state owes under a quota: debits may go below empty, and a window's count beyond its limit.

use ratekeeper::algorithm::{AnyView, Tenancy, View, Wait};
use ratekeeper::{Cost, Nanos, Quota, State, Timestamp};

/// What is owed, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// How much is owed now, rounded up.
    pub owed: u64,
    /// When nothing is owed any more: what refills until then pays it, or the window ends.
    pub until: Timestamp,
}

/// Less than this is what a double loses on the way, and no debt.
const NOISE: f64 = 1e-6;

impl Debt {
    /// Returns what a state owes; none if it owes nothing, or is of another algorithm than the quota's.
    pub(super) fn of(quota: &Quota, state: Option<&State>, now: Timestamp) -> Option<Self> {
        let view = AnyView::at(quota, state, now, Tenancy::Own).ok()?;
        let Wait::After(wait) = view.wait_for(Cost::ONE) else { return None };
        let (used, paid_in) = match state? {
            // One more has to wait for itself and for all that is owed.
            State::Gcra(_) | State::TokenBucket(_) | State::LeakyBucket(_) => {
                let nanos = wait.as_nanos().saturating_sub(nanos_of_one(quota));
                return Self::new(real(nanos) * quota.rate() / 1e9, Nanos::from_nanos(nanos), now);
            }
            State::FixedWindow(window) => (real(window.count), view.reset_after()),
            State::SlidingWindow(window) => {
                let into = real(now.since(window.start).as_nanos()) / real(quota.period().as_nanos().max(1));
                let (before, slot) = match into {
                    into if into < 1.0 => (window.previous, window.current),
                    _ => (window.current, 0),
                };
                (real(before) * (1.0 - into.fract()) + real(slot), wait)
            }
            State::SlidingLog(log) => {
                let counts = |at: Timestamp| now.since(at).as_nanos() <= quota.period().as_nanos();
                let costs = log.entries().filter(|(at, _)| counts(*at)).map(|(_, cost)| cost);
                (real(costs.fold(0, u64::saturating_add)), wait)
            }
            _ => return None,
        };
        Self::new(used - real(quota.burst()), paid_in, now)
    }

    fn new(owed: f64, paid_in: Nanos, now: Timestamp) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "above zero, and it saturates"
        )]
        let rounded = (owed - NOISE).ceil() as u64;
        (owed > NOISE).then(|| Debt { owed: rounded, until: now.saturating_add(paid_in) })
    }
}

/// Returns how long one of the quota takes to refill, rounded up.
fn nanos_of_one(quota: &Quota) -> u64 {
    quota.period().as_nanos().div_ceil(quota.count().max(1))
}

#[expect(clippy::cast_precision_loss, reason = "for people: the nearest double")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use ratekeeper::algorithm::composite;

    use super::*;

    /// Debits a fresh state, and returns what it owes some seconds later.
    fn owed(quota: &str, cost: u64, after_secs: i64) -> Option<(u64, i64)> {
        let (quota, start) = (quota.parse::<Quota>().unwrap(), Timestamp::from_secs(1_000));
        let debit = composite::debit_each(&[(quota, None)], |_| Cost::new(cost).into(), start, Tenancy::Own);
        let ((_, mut states), _) = debit.unwrap();
        let now = Timestamp::from_secs(1_000 + after_secs);
        let debt = Debt::of(&quota, states.swap_remove(0).as_ref(), now)?;
        // To the second: a bucket counts in doubles.
        Some((debt.owed, (debt.until.as_nanos() + 500_000_000) / 1_000_000_000 - 1_000))
    }

    #[test]
    fn a_debt_is_what_is_below_empty() {
        for algorithm in ["", " bucket", " leaky"] {
            let quota = format!("60/m{algorithm}");
            assert_eq!(owed(&quota, 60, 0), None, "{quota}: empty is no debt");
            assert_eq!(owed(&quota, 80, 0), Some((20, 20)), "{quota}");
            assert_eq!(owed(&quota, 80, 5), Some((15, 20)), "{quota}: it is being paid");
            assert_eq!(owed(&quota, 80, 20), None, "{quota}: it is paid");
            assert_eq!(owed(&quota, 500, 0), Some((60, 60)), "{quota}: bounded");
        }
        for algorithm in [" fixed", " sliding", " log"] {
            let quota = format!("60/m{algorithm}");
            assert_eq!(owed(&quota, 60, 0), None, "{quota}");
            assert_eq!(owed(&quota, 80, 0).map(|(owed, _)| owed), Some(20), "{quota}");
            assert_eq!(owed(&quota, 80, 130), None, "{quota}");
        }
        assert_eq!(owed("60/m fixed", 80, 5), Some((20, 60)), "the window's end forgives it");
    }
}
