//! Charges that outlive whoever asked for them.

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request};
use ratekeeper::{Cost, Key, OwnedRules};

/// Copies of charges, for a task that goes on when the caller is gone.
#[derive(Debug)]
pub(crate) struct OwnedCharges(Vec<OwnedCharge>);

#[derive(Debug)]
struct OwnedCharge {
    key: Vec<u8>,
    rules: OwnedRules,
    cost: Cost,
    units: Vec<(String, u64)>,
    action: ChargeAction,
    force: ChargeForce,
}

/// The amounts of the units of each charge, by their names.
pub(crate) type ChargeUnits<'a> = Vec<Vec<(&'a str, u64)>>;

impl OwnedCharges {
    pub(crate) fn of(charges: &[Charge<'_>]) -> Self {
        let owned = charges.iter().map(|Charge { request, action, force }| OwnedCharge {
            key: request.key.as_bytes().to_vec(),
            rules: request.rules.into(),
            cost: request.cost,
            units: request.units.iter().map(|(unit, amount)| ((*unit).to_owned(), *amount)).collect(),
            action: *action,
            force: *force,
        });
        OwnedCharges(owned.collect())
    }

    /// Returns what [`charges`](OwnedCharges::charges) borrow besides.
    pub(crate) fn units<'a>(&'a self) -> ChargeUnits<'a> {
        let units = |charge: &'a OwnedCharge| charge.units.iter().map(|(unit, amount)| (&**unit, *amount));
        self.0.iter().map(|charge| units(charge).collect()).collect()
    }

    /// Returns the charges as they were.
    pub(crate) fn charges<'a>(&'a self, units: &'a ChargeUnits<'a>) -> Vec<Charge<'a>> {
        let charges = self.0.iter().zip(units).filter_map(|(charge, units)| {
            // It was a key before.
            let key = Key::new(&charge.key).ok()?;
            let request = Request { units, ..Request::new(key, charge.rules.rules(), charge.cost) };
            Some(Charge { request, action: charge.action, force: charge.force })
        });
        charges.collect()
    }
}
