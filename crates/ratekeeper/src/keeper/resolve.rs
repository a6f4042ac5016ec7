//! Names become plans.

use super::error::KeeperError;
use super::held_to::{HeldTo, MAX_PLANS, OnMissingPlan};
use super::ruling::Resolved;
use super::setup::Keeper;
use crate::port::Request;
use crate::{Cost, Key, KeyError};

/// A request as a caller has named it.
#[derive(Debug)]
pub(super) struct NamedRequest<'a> {
    pub(super) keeper: &'a Keeper,
    pub(super) key: Result<Key<'a>, KeyError>,
    pub(super) held_to: HeldTo<'a>,
    pub(super) cost: Cost,
}

impl<'a> NamedRequest<'a> {
    /// Checks the key and finds the named plans in the registry.
    #[inline]
    pub(super) fn understand(self) -> Result<Understood<'a>, KeeperError> {
        let NamedRequest { keeper, key, held_to, cost } = self;
        Ok(Understood { key: key?, resolved: keeper.resolve(held_to)?, cost })
    }
}

/// A request whose names have been resolved. It owns its plans: a reload while it waits does not change them.
#[derive(Clone)]
pub(super) struct Understood<'a> {
    pub(super) key: Key<'a>,
    pub(super) resolved: Resolved,
    pub(super) cost: Cost,
}

impl Understood<'_> {
    /// Returns the request as a store is asked.
    #[inline]
    pub(super) fn request(&self) -> Request<'_> {
        Request { key: self.key, rules: self.resolved.rules(), cost: self.cost }
    }
}

impl Keeper {
    fn resolve(&self, held_to: HeldTo<'_>) -> Result<Resolved, KeeperError> {
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
