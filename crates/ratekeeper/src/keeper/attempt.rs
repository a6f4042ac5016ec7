//! A request to take, before it is asked.

use super::ask::Intent;
use super::error::KeeperError;
use super::held_to::HeldTo;
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::port::Answer;
use crate::{Cost, Key, KeyError};

/// A request to take a cost, made by [`Keeper::acquire`]. Nothing happens until it is awaited, or asked
/// [`now`](Attempt::now).
///
/// # Cancel safety
///
/// Dropped before it was awaited, it has asked nobody. Dropped while it is awaited, whether the store has taken the cost
/// is not known; a store in memory answers at once, and cannot be interrupted.
#[derive(Debug)]
#[must_use = "an attempt takes nothing until it is awaited, or asked `now`"]
pub struct Attempt<'a> {
    keeper: &'a Keeper,
    key: Result<Key<'a>, KeyError>,
    held_to: HeldTo<'a>,
    cost: Cost,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        keeper: &'a Keeper,
        key: Result<Key<'a>, KeyError>,
        held_to: HeldTo<'a>,
        cost: Cost,
    ) -> Self {
        Attempt { keeper, key, held_to, cost }
    }

    /// Takes the cost now, if the store answers at once. For callers who have no runtime, or would rather not make a
    /// future of what is known already.
    ///
    /// # Errors
    ///
    /// A store that has to be awaited: then nobody was asked and nothing was taken, and the answer is given back to be
    /// awaited, or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// # let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("free", "2/h")?]));
    /// let ruling = keeper.acquire("user:42", "free", 1).now().expect("a store in memory")?;
    /// assert!(ruling.allowed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn now(self) -> Result<Result<Ruling, KeeperError>, Answer<'a, Ruling, KeeperError>> {
        self.into_future().now()
    }
}

impl<'a> IntoFuture for Attempt<'a> {
    type Output = Result<Ruling, KeeperError>;
    type IntoFuture = Answer<'a, Ruling, KeeperError>;

    #[inline]
    fn into_future(self) -> Self::IntoFuture {
        match self.keeper.understand(self.key, self.held_to, self.cost) {
            Ok(understood) => {
                self.keeper.decide(understood, Intent::Take, |store, request| store.acquire(request))
            }
            Err(error) => Answer::ready(Err(error)),
        }
    }
}
