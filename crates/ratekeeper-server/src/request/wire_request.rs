//! What is asked, checked and complete.

use ratekeeper::keeper::HeldTo;
use ratekeeper::{Charged, Cost, Key, Quota};

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
    Refund(RequestedCharge<'a>, Charged),
    /// Forget a key under these limits.
    Reset(Key<'a>, RequestedLimits<'a>),
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
    pub(crate) cost: Cost,
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
