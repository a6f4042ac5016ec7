//! What a request is held to.

use crate::Quota;

/// The most plans that one request may name.
pub const MAX_PLANS: usize = 8;

/// What a request is held to: plans by name, or a quota of its own.
///
/// Made of a name, of several, or of a quota by `Into`, so that verbs take any of them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum HeldTo<'a> {
    /// One plan, by its name.
    Plan(&'a str),
    /// Several plans, all of which must allow; at most [`MAX_PLANS`].
    Plans(&'a [&'a str]),
    /// A quota that comes with the request.
    Quota(&'a Quota),
}

impl<'a> From<&'a str> for HeldTo<'a> {
    fn from(plan: &'a str) -> Self {
        HeldTo::Plan(plan)
    }
}

impl<'a> From<&'a [&'a str]> for HeldTo<'a> {
    fn from(plans: &'a [&'a str]) -> Self {
        HeldTo::Plans(plans)
    }
}

impl<'a, const N: usize> From<&'a [&'a str; N]> for HeldTo<'a> {
    fn from(plans: &'a [&'a str; N]) -> Self {
        HeldTo::Plans(plans)
    }
}

impl<'a> From<&'a Quota> for HeldTo<'a> {
    fn from(quota: &'a Quota) -> Self {
        HeldTo::Quota(quota)
    }
}

/// What becomes of a request that names a plan which does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingPlan {
    /// Fails with an error that names it.
    #[default]
    Fail,
    /// Goes on without it, and tells the observers. A request of whose plans none exists is allowed.
    Skip,
    /// Goes on without it as [`Skip`](OnMissingPlan::Skip) does, but fails if none of its plans exists.
    RequireOne,
}
