//! Names become plans.

use std::sync::Arc;

use super::error::KeeperError;
use super::held_to::{HeldTo, MAX_PLANS, OnMissingPlan};
use super::ruling::Resolved;
use super::setup::Keeper;
use crate::port::Request;
use crate::{Amounts, Cost, Key, KeyError, Plan};

/// A request as a caller has named it.
#[derive(Debug)]
pub struct NamedRequest<'a> {
    pub(super) keeper: &'a Keeper,
    pub(super) key: Result<Key<'a>, KeyError>,
    pub(super) held_to: HeldTo<'a>,
    pub(super) amounts: Amounts<'a>,
}

impl<'a> NamedRequest<'a> {
    /// Checks the key, finds the named plans in the registry, and checks that those can be asked for the amounts.
    #[inline]
    pub(super) fn understand(self) -> Result<Understood<'a>, KeeperError> {
        let understood = self.resolve()?.acquired();
        understood.request().check()?;
        Ok(understood)
    }

    /// Returns true if it asks for a number of requests, and nothing else.
    #[inline]
    pub(super) fn is_of_requests(&self) -> bool {
        self.amounts.units().is_empty()
    }

    /// Checks the key, and finds the named plans in the registry.
    #[inline]
    pub(super) fn resolve(self) -> Result<Understood<'a>, KeeperError> {
        let NamedRequest { keeper, key, held_to, amounts } = self;
        let (cost, units) = (amounts.cost(), amounts.units());
        Ok(Understood { key: key?, resolved: keeper.resolve(held_to)?, cost, units })
    }
}

/// What is asked for beside a number of requests. Most ask for nothing, and carry nothing with them: the way of a plain
/// request is short.
pub trait AskedUnits: Copy + Send + Sync {
    /// True if the rules are known to be plain as well.
    const IS_PLAIN: bool = false;

    /// Returns the units, as they are named.
    fn list(&self) -> &[(&str, u64)];
}

impl AskedUnits for &[(&str, u64)] {
    fn list(&self) -> &[(&str, u64)] {
        self
    }
}

/// Nothing beside a number of requests, of rules that are plain.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoUnits;

impl AskedUnits for NoUnits {
    const IS_PLAIN: bool = true;

    #[inline(always)]
    fn list(&self) -> &[(&str, u64)] {
        &[]
    }
}

/// A request whose names have been resolved. It owns its plans: a reload while it waits does not change them.
#[derive(Clone, Debug)]
pub struct Understood<'a, U = &'a [(&'a str, u64)]> {
    pub(super) key: Key<'a>,
    pub(super) resolved: Resolved,
    pub(super) cost: Cost,
    pub(super) units: U,
}

impl Understood<'_> {
    /// Returns the same request, under its plans as they are [acquired](crate::Plan::to_acquire).
    pub(super) fn acquired(mut self) -> Self {
        let replace = |plan: &mut Arc<Plan>| {
            if let Some(other) = plan.to_acquire().cloned() {
                *plan = other;
            }
        };
        match &mut self.resolved {
            Resolved::Plan(plan) => replace(plan),
            Resolved::Plans(plans) => plans.iter_mut().for_each(replace),
            Resolved::Quota(_) | Resolved::Told(_) => {}
        }
        self
    }
}

impl<U: AskedUnits> Understood<'_, U> {
    /// Returns the request as a store is asked.
    #[inline]
    pub(super) fn request(&self) -> Request<'_> {
        Request { key: self.key, rules: self.resolved.rules(), cost: self.cost, units: self.units.list() }
    }
}

impl Keeper {
    #[inline]
    pub(super) fn resolve(&self, held_to: HeldTo<'_>) -> Result<Resolved, KeeperError> {
        let names = match &held_to {
            HeldTo::Quota(quota) => return Ok(Resolved::Quota(**quota)),
            // The common case: no list is made of one.
            HeldTo::Plan(name) => {
                if let Some(plan) = self.plans.find(name) {
                    return Ok(Resolved::Plan(plan));
                }
                &[*name][..]
            }
            HeldTo::Plans(names) => names,
        };
        if names.len() > MAX_PLANS {
            return Err(KeeperError::TooManyPlans { named: names.len() });
        }
        let mut plans = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(KeeperError::PlanTwice { name: (*name).into() });
            }
            match self.plans.find(name) {
                Some(plan) => plans.push(plan),
                None if self.on_missing_plan == OnMissingPlan::Fail => {
                    return Err(KeeperError::UnknownPlan { name: (*name).into() });
                }
                None => self.tell(|observer| observer.plan_missing(name)),
            }
        }
        if plans.is_empty() && (names.is_empty() || self.on_missing_plan == OnMissingPlan::RequireOne) {
            return Err(KeeperError::NoPlan);
        }
        Ok(Resolved::Plans(plans))
    }
}
