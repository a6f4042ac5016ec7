//! Units that outlive who has named them.

/// Units with words of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnedUnits(Box<[(Box<str>, u64)]>);

impl OwnedUnits {
    pub(super) fn of(units: &[(&str, u64)]) -> Self {
        OwnedUnits(units.iter().map(|(unit, amount)| (Box::from(*unit), *amount)).collect())
    }

    pub(super) fn borrowed(&self) -> Vec<(&str, u64)> {
        self.0.iter().map(|(unit, amount)| (&**unit, *amount)).collect()
    }
}
