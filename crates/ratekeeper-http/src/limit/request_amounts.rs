//! How much a request takes.

use ratekeeper::{Amounts, Cost};

use crate::usage::UnitList;

/// How much a request takes: so many requests, and so much of other units.
#[derive(Clone)]
pub(crate) struct RequestAmounts {
    cost: Cost,
    /// None if nothing was said but the cost. In a box, because most requests take nothing but requests.
    units: Option<Box<UnitList>>,
}

impl RequestAmounts {
    /// Returns a cost, and so much of these units. Allocates only if there are any.
    pub(super) fn new(cost: Cost, units: UnitList) -> Self {
        let units = (!units.as_slice().is_empty()).then(|| Box::new(units));
        RequestAmounts { cost, units }
    }

    /// Returns the cost: how many requests it is, unless the units say that too.
    pub(super) fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns the amounts as a keeper is asked for them.
    pub(crate) fn as_amounts(&self) -> Amounts<'_> {
        match self.units.as_deref() {
            None => Amounts::from(self.cost),
            // How many requests may be said among the units.
            Some(units) if units.get("requests").is_some() => Amounts::of(units.as_slice()),
            Some(units) => Amounts::new(self.cost, units.as_slice()),
        }
    }
}

impl From<Cost> for RequestAmounts {
    fn from(cost: Cost) -> Self {
        RequestAmounts { cost, units: None }
    }
}
