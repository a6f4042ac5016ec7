//! Charges of several keys that are judged together.

use super::error::KeeperError;
use super::setup::Keeper;
use crate::port::{Answer, Charge, Judgment, Whole};

impl Keeper {
    /// Judges charges of several keys together: see [`Store::charge`](crate::port::Store::charge). The rules come resolved.
    /// An answer that is not ready has asked nobody.
    ///
    /// # Errors
    ///
    /// A store that fails where the strictest [failure mode](crate::FailureMode) of the charges' plans is `error`.
    pub fn charge<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        whole: Whole,
    ) -> Answer<'a, Judgment, KeeperError> {
        self.store.charge(charges, whole).map(|judged| judged.map_err(|error| self.failed(error)))
    }
}
