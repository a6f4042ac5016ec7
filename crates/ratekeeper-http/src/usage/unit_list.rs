//! A few units, and so much of each.

use ratekeeper::Unit;
use ratekeeper::port::Request;

/// Amounts of at most [4](Unit::MOST_NAMED) units, which is as many as a request may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitList {
    units: [(&'static str, u64); Unit::MOST_NAMED],
    len: usize,
}

impl UnitList {
    /// Sets how much of a unit it is; cut to the most there can be, so that no number that a stranger has sent is an error.
    /// Returns false, and changes nothing, if there is no room for one more unit.
    pub(crate) fn set(&mut self, unit: &'static str, amount: u64) -> bool {
        let amount = amount.min(Request::MOST);
        let known = self.units[..self.len].iter().position(|(known, _)| *known == unit);
        let index = known.unwrap_or(self.len);
        let Some(entry) = self.units.get_mut(index) else { return false };
        *entry = (unit, amount);
        self.len = self.len.max(index + 1);
        true
    }

    /// Returns how much of a unit it is, if that was said.
    pub(crate) fn get(&self, unit: &str) -> Option<u64> {
        self.as_slice().iter().find(|(known, _)| *known == unit).map(|(_, amount)| *amount)
    }

    /// Returns the units that were said.
    pub(crate) fn as_slice(&self) -> &[(&'static str, u64)] {
        &self.units[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_units_and_no_more() {
        let mut list = UnitList::default();
        for (unit, amount) in [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("d", u64::MAX)] {
            assert!(list.set(unit, amount));
        }
        assert!(!list.set("e", 1));
        assert_eq!(list.as_slice(), [("a", 3), ("b", 2), ("c", 4), ("d", Request::MOST)]);
        assert_eq!((list.get("b"), list.get("e")), (Some(2), None));
    }
}
