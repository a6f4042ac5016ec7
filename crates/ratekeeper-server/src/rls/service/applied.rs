//! What applies to one descriptor.

use std::ops::{Deref, Range};
use std::sync::Arc;

use ratekeeper::Plan;
use ratekeeper::port::ChargeAction;
use serde_json::{Map, Value};

use crate::rls::counting::RuleCounts;
use crate::rls::rule::ToldLimit;
use crate::rls::unit::LimitUnit;

/// One descriptor, and what applies to it.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) applied: Applied<'a>,
    /// How many hits it is.
    pub(super) hits: u64,
    /// Whether they are given back.
    pub(super) is_negative: bool,
    /// Whether it counts as one of a quota rule.
    pub(super) is_quota: bool,
    pub(super) is_shadow: bool,
    /// The rule's name; empty for none.
    pub(super) name: &'a str,
    /// What filters are told when it passes.
    pub(super) metadata: Option<&'a Map<String, Value>>,
    /// What is counted of the rule.
    pub(super) counts: Option<Shared<'a, RuleCounts>>,
}

/// What applies.
#[derive(Debug)]
pub(super) enum Applied<'a> {
    /// Nothing: no rule was found, or it was replaced.
    Nothing,
    /// A rule without a limit.
    Unlimited,
    /// A ban.
    Banned(LimitUnit),
    /// A limit that is counted.
    Limited(AppliedLimit<'a>),
}

/// A limit that applies.
#[derive(Debug)]
pub(super) struct AppliedLimit<'a> {
    pub(super) plan: Shared<'a, Plan>,
    pub(super) action: ChargeAction,
    pub(super) told: ToldLimit,
    /// Where its key is among those of the request.
    pub(super) key: Range<usize>,
}

/// What is in the configuration, or came from elsewhere. Whoever borrows counts no references.
#[derive(Debug)]
pub(super) enum Shared<'a, T> {
    Borrowed(&'a T),
    Counted(Arc<T>),
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Shared::Borrowed(value) => value,
            Shared::Counted(value) => value,
        }
    }
}

impl Case<'_> {
    /// Returns true if it is judged before any store is asked: it is over.
    pub(super) fn is_banned(&self) -> bool {
        matches!(self.applied, Applied::Banned(_)) && !self.is_negative
    }

    /// Returns true if its status is OK whatever a store says.
    pub(super) fn is_ok_anyway(&self) -> bool {
        matches!(self.applied, Applied::Nothing) || self.is_shadow || self.is_negative
    }
}
