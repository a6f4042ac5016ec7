//! What a request is expected to take, as functions of the request.

use std::fmt;
use std::sync::Arc;

use ratekeeper::Unit;

use super::estimate::Estimate;
use super::unit_list::UnitList;
use crate::key::RequestView;

type CostOf = Arc<dyn Fn(&RequestView<'_>) -> Option<u64> + Send + Sync>;

/// Functions that tell how much of which unit a request takes. What none tells, the request's [`Estimate`] may.
#[derive(Clone, Default)]
pub(crate) struct UnitCosts(Vec<(&'static str, CostOf)>);

impl UnitCosts {
    /// Sets the function of a unit.
    ///
    /// # Panics
    ///
    /// If the word is no [`Unit`].
    pub(crate) fn set<R: Into<Option<u64>>>(
        &mut self,
        unit: &'static str,
        cost: impl Fn(&RequestView<'_>) -> R + Send + Sync + 'static,
    ) {
        let checked: Unit = unit.parse().unwrap_or_else(|error| panic!("{error}"));
        self.0.retain(|(known, _)| checked != **known);
        self.0.push((unit, Arc::new(move |request| cost(request).into())));
    }

    /// Returns how much this request takes, as far as anybody says. Of its estimate, what `counts` says is counted: it is for
    /// whoever counts it.
    pub(crate) fn of(
        &self,
        request: &RequestView<'_>,
        mut counts: impl FnMut(&'static str) -> bool,
    ) -> UnitList {
        let mut units = UnitList::default();
        for (unit, amount) in request.extension::<Estimate>().iter().flat_map(|estimate| estimate.units()) {
            if counts(unit) {
                units.set(unit, *amount);
            }
        }
        for (unit, cost) in &self.0 {
            if let Some(amount) = cost(request) {
                units.set(unit, amount);
            }
        }
        units
    }
}

impl fmt::Debug for UnitCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(unit, _)| unit)).finish()
    }
}
