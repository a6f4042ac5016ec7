//! The decision on a request.

use crate::{Cost, Nanos, Timestamp};

/// The decision on one request: whether it may go on, what is left, and how long to wait. A denial is a decision, not an
/// error.
///
/// ```
/// use ratekeeper::{algorithm, Cost, Quota, Timestamp};
/// let quota: Quota = "10/m burst 5".parse()?;
/// let (decision, _state) = algorithm::try_acquire(&quota, None, Cost::ONE, Timestamp::EPOCH)?;
/// assert!(decision.allowed);
/// assert_eq!((decision.limit, decision.remaining, decision.reset_after.ceil_secs()), (5, 4, 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may go on.
    pub allowed: bool,
    /// The capacity of the rule that bound the decision.
    pub limit: u64,
    /// How many requests of cost 1 would pass right now, one after another. Meaningless (and 0) where
    /// [`Reason::is_informed`] is false.
    pub remaining: u64,
    /// How long until this very cost would pass if nobody else asked: zero when allowed, `None` for never, or for
    /// what cannot be foreseen ([`Reason::AtCapacity`]).
    pub retry_after: Option<Nanos>,
    /// How long until the state equals a fresh key's again.
    pub reset_after: Nanos,
    /// Which of the request's rules bound the decision, counted from 0 over all rules of all its plans.
    pub rule: u16,
    /// Why the decision is what it is.
    pub reason: Reason,
    /// See [`Decision::charged_at`]; the beginning of time for none, which keeps a decision small.
    pub(crate) charged_at: Timestamp,
}

impl Decision {
    /// Returns a decision that allows, with what is left after it.
    #[inline]
    pub const fn allow(limit: u64, remaining: u64, reset_after: Nanos) -> Self {
        Decision {
            allowed: true,
            limit,
            remaining,
            retry_after: Some(Nanos::ZERO),
            reset_after,
            rule: 0,
            reason: Reason::WithinQuota,
            charged_at: Timestamp::MIN,
        }
    }

    /// Returns a decision that denies; `retry_after` is `None` when waiting cannot help.
    #[inline]
    pub const fn deny(limit: u64, remaining: u64, retry_after: Option<Nanos>, reset_after: Nanos) -> Self {
        let reason = if retry_after.is_some() { Reason::QuotaExceeded } else { Reason::NeverFits };
        Decision { allowed: false, retry_after, reason, ..Decision::allow(limit, remaining, reset_after) }
    }

    /// Returns a decision made without knowing the state: the store could not be asked, or had no room.
    #[inline]
    pub const fn uninformed(allowed: bool, limit: u64, reason: Reason) -> Self {
        let retry_after = if allowed { Some(Nanos::ZERO) } else { None };
        Decision { allowed, retry_after, reason, ..Decision::allow(limit, 0, Nanos::ZERO) }
    }

    /// Returns the same decision, bound by the rule at this position.
    #[inline]
    pub const fn of_rule(mut self, rule: u16) -> Self {
        self.rule = rule;
        self
    }

    /// Returns the same decision, with the instant at which its cost was taken.
    #[inline]
    pub const fn charged(mut self, at: Timestamp) -> Self {
        self.charged_at = at;
        self
    }

    /// Returns the same decision, [charged](Decision::charged) at this instant if it took the cost: not if it denies, or if
    /// the cost is zero.
    #[inline(always)]
    pub fn taken(self, cost: Cost, at: Timestamp) -> Self {
        if self.allowed && cost != Cost::ZERO { self.charged(at) } else { self }
    }

    /// Returns when the cost was taken, by the clock of the store that took it: what a
    /// [refund](crate::port::Store::refund) of it needs to know.
    ///
    /// `None` if no store took anything: the request was denied or only asked, or something else than a store
    /// answered. Then there is nothing to give back.
    #[inline]
    pub fn charged_at(&self) -> Option<Timestamp> {
        (self.charged_at > Timestamp::MIN).then_some(self.charged_at)
    }

    /// Joins the decisions of several rules on one request, in the order of the rules: all must allow.
    ///
    /// What is left is the least of them, what must be waited for is the most. The rule that binds is the one
    /// that must be waited for longest, or, if all allow, the one with least left; the first of equals.
    pub fn join(self, other: Decision) -> Self {
        let binding = match (self.allowed, other.allowed) {
            (true, true) if other.remaining < self.remaining => other,
            (true, false) => other,
            (false, false) if waits_longer(other.retry_after, self.retry_after) => other,
            // What may end some time is less than never.
            (false, false) if self.reason == Reason::AtCapacity && other.reason == Reason::NeverFits => other,
            _ => self,
        };
        Decision {
            remaining: self.remaining.min(other.remaining),
            reset_after: self.reset_after.max(other.reset_after),
            ..binding
        }
    }
}

/// `None` is never, which is longer than any time.
fn waits_longer(this: Option<Nanos>, that: Option<Nanos>) -> bool {
    match (this, that) {
        (None, Some(_)) => true,
        (Some(this), Some(that)) => this > that,
        (_, None) => false,
    }
}

/// Why a decision is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Allowed: every rule has room.
    WithinQuota,
    /// Denied: a rule has no room now, and will have.
    QuotaExceeded,
    /// Denied for ever: the cost is more than a rule's capacity.
    NeverFits,
    /// Denied: the store holds as many live keys as it may, and this one is new.
    StoreFull,
    /// Denied although there may be room: others wait for it, and a request that does not wait does not overtake them.
    Queued,
    /// Denied: as many requests are in flight as the limit allows. When one of them ends is not known, so there is no
    /// `retry_after`.
    AtCapacity,
    /// Denied: the limiter was closed.
    Closed,
    /// Allowed because the store failed and the plan says `open`.
    FailOpen,
    /// Denied because the store failed and the plan says `closed`.
    FailClosed,
}

impl Reason {
    /// Returns false if the decision was made without knowing the key's state.
    #[inline]
    pub const fn is_informed(self) -> bool {
        !matches!(self, Reason::StoreFull | Reason::FailOpen | Reason::FailClosed)
    }

    /// Returns the reason as metrics and wires spell it.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::WithinQuota => "within_quota",
            Reason::QuotaExceeded => "quota_exceeded",
            Reason::NeverFits => "never_fits",
            Reason::StoreFull => "store_full",
            Reason::Queued => "queued",
            Reason::AtCapacity => "at_capacity",
            Reason::Closed => "closed",
            Reason::FailOpen => "fail_open",
            Reason::FailClosed => "fail_closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);
    const MINUTE: Nanos = Nanos::from_secs(60);

    #[test]
    fn the_scarcest_rule_binds_when_all_allow() {
        let joined = Decision::allow(10, 7, MINUTE).join(Decision::allow(100, 3, SECOND).of_rule(1));
        assert_eq!((joined.limit, joined.remaining, joined.reset_after, joined.rule), (100, 3, MINUTE, 1));
    }

    #[test]
    fn the_longest_wait_binds_when_several_deny() {
        let short = Decision::deny(1, 0, Some(SECOND), SECOND);
        let long = Decision::deny(2, 0, Some(MINUTE), MINUTE).of_rule(1);
        let never = Decision::deny(3, 3, None, Nanos::ZERO).of_rule(2);
        assert_eq!(short.join(long).retry_after, Some(MINUTE));
        assert_eq!(short.join(long).join(never).rule, 2);
        assert_eq!(never.join(long).rule, 2);
    }

    #[test]
    fn one_denial_denies() {
        let denied = Decision::deny(5, 0, Some(SECOND), MINUTE).of_rule(1);
        for joined in [Decision::allow(9, 9, SECOND).join(denied), denied.join(Decision::allow(9, 9, SECOND))]
        {
            assert!(!joined.allowed);
            assert_eq!((joined.rule, joined.remaining, joined.reset_after), (1, 0, MINUTE));
        }
    }
}
