//! What a request took.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::unit_list::UnitList;

/// What a request has taken, as an extension of its response: how a handler tells a [`Limit`](crate::Limit) that
/// [holds](crate::Limit::hold) what to settle its estimate with.
///
/// Clones are handles of the same. A handler that streams its body puts one into the response and keeps another, which it
/// sets while the body is sent: it is read when the body has ended, or the client has hung up. Units that are not said are
/// settled as they were estimated. It names at most four; more are ignored, and so is, with a line in the log, one that no
/// rule of the plan counts.
///
/// In axum it is a part of a response: `(Spent::tokens(42), "body")`.
///
/// ```
/// use ratekeeper_http::Spent;
/// let spent = Spent::default();
/// let mut response = http::Response::new("a body that streams, and has another handle of `spent`");
/// response.extensions_mut().insert(spent.clone());
/// // In the last chunk the model says what it took:
/// spent.set("tokens", 1_234);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Spent(Arc<Mutex<SpentSoFar>>);

/// What was said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpentSoFar {
    pub(crate) units: UnitList,
    /// Nothing was spent at all: the hold is cancelled.
    pub(crate) is_nothing: bool,
}

impl Spent {
    /// Returns that so many `tokens` were spent.
    pub fn tokens(amount: u64) -> Self {
        Spent::of("tokens", amount)
    }

    /// Returns that so much of this unit was spent.
    pub fn of(unit: &'static str, amount: u64) -> Self {
        let spent = Spent::default();
        spent.set(unit, amount);
        spent
    }

    /// Returns that nothing was spent, not even a request: all of the estimate is given back. For a gateway whose upstream has
    /// failed.
    pub fn nothing() -> Self {
        let spent = Spent::default();
        spent.lock().is_nothing = true;
        spent
    }

    /// Returns the same, with so much of this unit.
    #[must_use]
    pub fn and(self, unit: &'static str, amount: u64) -> Self {
        self.set(unit, amount);
        self
    }

    /// Sets how much of this unit was spent, in all.
    pub fn set(&self, unit: &'static str, amount: u64) {
        let mut so_far = self.lock();
        so_far.is_nothing = false;
        so_far.units.set(unit, amount);
    }

    /// Adds to how much of this unit was spent: for a body that counts what it sends.
    pub fn add(&self, unit: &'static str, amount: u64) {
        let mut so_far = self.lock();
        let before = so_far.units.get(unit).unwrap_or(0);
        so_far.is_nothing = false;
        so_far.units.set(unit, before.saturating_add(amount));
    }

    pub(crate) fn so_far(&self) -> SpentSoFar {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, SpentSoFar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
