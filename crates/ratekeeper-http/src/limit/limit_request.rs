//! What a request asks of a limit.

use std::borrow::Cow;

use ratekeeper::{Amounts, Cost};

use super::settings::LimitSettings;
use super::verdict::LimitFailure;
use crate::key::{ExtractError, KeyBuf, KeyExtractor, RequestView};
use crate::usage::{Estimate, UnitList};

/// What a request asks of a limit: whose it is, the plan it is held to, and how much it takes.
pub(crate) struct LimitRequest<'a> {
    /// Borrowed, because it is large and would be copied wherever the request goes.
    pub(crate) key: &'a KeyBuf,
    pub(crate) plan: Cow<'a, str>,
    pub(crate) cost: Cost,
    /// In a box, because most requests take nothing but requests.
    pub(crate) units: Option<Box<UnitList>>,
}

impl<'a> LimitRequest<'a> {
    /// Reads what an HTTP request asks of a limit. Its key is written into `key`.
    #[inline]
    pub(crate) fn read(
        settings: &'a LimitSettings,
        request: &RequestView<'a>,
        key: &'a mut KeyBuf,
    ) -> Result<Self, LimitFailure> {
        settings.by.extract(request, key).map_err(LimitFailure::Key)?;
        if key.as_bytes().is_empty() {
            return Err(LimitFailure::Key(ExtractError::Empty));
        }
        let (plan, cost) = (settings.plan_for(request), settings.cost.of(request));
        let units = settings.metering.as_ref().map(|metering| {
            // Of one that does not exist the keeper will say so.
            let plan = request.extension::<Estimate>().and_then(|_| settings.find(&plan));
            let counts = |unit: &str| plan.as_ref().is_none_or(|plan| plan.units().any(|of| of == unit));
            Box::new(metering.costs.of(request, counts))
        });
        Ok(LimitRequest { key, plan, cost, units })
    }

    /// Returns how much it takes.
    pub(crate) fn amounts(&self) -> Amounts<'_> {
        match self.units.as_deref() {
            None => Amounts::from(self.cost),
            // How many requests may be said among the units.
            Some(units) if units.get("requests").is_some() => Amounts::of(units.as_slice()),
            Some(units) => Amounts::new(self.cost, units.as_slice()),
        }
    }
}
