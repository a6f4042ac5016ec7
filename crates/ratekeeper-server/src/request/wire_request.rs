//! What is asked, checked and complete.

use ratekeeper::keeper::HeldTo;
use ratekeeper::port::HoldId;
use ratekeeper::{Amounts, Charged, Key, Nanos, Quota};

use crate::secret::Admin;

/// A request, whichever wire carried it. Each verb is one arm of [`Responder::answer`].
///
/// [`Responder::answer`]: crate::responder::Responder::answer
#[derive(Clone, Debug)]
pub(crate) enum WireRequest<'a> {
    /// Take a cost, or nothing.
    Acquire(RequestedCharge<'a>),
    /// Tell what taking a cost would be answered.
    Peek(RequestedCharge<'a>),
    /// Give back a cost that was charged then.
    Refund(RequestedCharge<'a>, Charged, Admin),
    /// Charge, whether it passes or not.
    Debit(RequestedCharge<'a>, Admin),
    /// Take an estimate and a place in flight, for so long unless it is ended before.
    Hold(RequestedCharge<'a>, Nanos),
    /// End a hold with what was spent.
    Settle(RequestedHold<'a>, Amounts<'a>),
    /// End a hold of which nothing was spent.
    Cancel(RequestedHold<'a>),
    /// Have a hold last so long from now.
    Extend(RequestedHold<'a>, Nanos),
    /// Forget a key under these limits.
    Reset(Key<'a>, RequestedLimits<'a>, Admin),
    /// Forget every key that starts with these bytes; no bytes stand for all keys.
    Forget(&'a [u8], Admin),
}

/// How much is asked for, for whom, and under which limits.
#[derive(Clone, Debug)]
pub(crate) struct RequestedCharge<'a> {
    /// Who asks.
    pub(crate) key: Key<'a>,
    /// What they are held to; never [`RequestedLimits::All`].
    pub(crate) limits: RequestedLimits<'a>,
    /// How much they want.
    pub(crate) amounts: Amounts<'a>,
    /// True if the answer is to tell of every rule, and not only of the one that binds.
    pub(crate) tells_each: bool,
}

/// Which hold is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedHold<'a> {
    /// Whose it is.
    pub(crate) key: Key<'a>,
    /// Which of theirs.
    pub(crate) id: HoldId,
}

/// What a request is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestedLimits<'a> {
    /// A quota that came with the request.
    Quota(Quota),
    /// Plans by their names, at least one.
    Plans(&'a [&'a str]),
    /// Every plan, and every quota that requests brought: only a reset means that.
    All,
}

impl RequestedLimits<'_> {
    /// Returns what the keeper holds the request to.
    pub(crate) fn held_to(&self) -> HeldTo<'_> {
        match self {
            RequestedLimits::Quota(quota) => HeldTo::Quota(quota),
            RequestedLimits::Plans([only]) => HeldTo::Plan(only),
            RequestedLimits::Plans(plans) => HeldTo::Plans(plans),
            RequestedLimits::All => HeldTo::Plans(&[]),
        }
    }
}
