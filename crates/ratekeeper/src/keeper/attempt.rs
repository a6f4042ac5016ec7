//! A request to take, before it is asked.

use std::time::Duration;

use super::asking::{Ask, Asking};
use super::error::KeeperError;
use super::resolve::NamedRequest;
use super::ruling::Ruling;
use super::waiting::Waiting;
use crate::port::Answer;

/// A request to take a cost, made by [`Keeper::acquire`](super::Keeper::acquire). Nothing happens until it is awaited,
/// asked [`now`](Attempt::now), or given time [`within`](Attempt::within) which to wait.
///
/// # Cancel safety
///
/// Dropped before it was awaited, it has asked nobody. Dropped while it is awaited, whether the store has taken the cost
/// is not known; a store in memory answers at once, and cannot be interrupted.
#[derive(Debug)]
#[must_use = "an attempt takes nothing until it is awaited, or asked `now`"]
pub struct Attempt<'a>(NamedRequest<'a>);

impl<'a> Attempt<'a> {
    #[inline]
    pub(super) fn new(named: NamedRequest<'a>) -> Self {
        Attempt(named)
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
    #[expect(
        clippy::result_large_err,
        reason = "an answer to go on with, not an error: a box would be an allocation"
    )]
    #[inline]
    pub fn now(self) -> Result<Result<Ruling, KeeperError>, Answer<'a, Ruling, KeeperError>> {
        self.ask().now()
    }

    /// Waits for the cost, no longer than this, first come, first served among those who wait in this process: see
    /// [`Waiting`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("free", "100/s burst 1")?]));
    /// let patience = Duration::from_secs(2);
    /// assert!(keeper.acquire("user:42", "free", 1).within(patience).await?.allowed);
    /// assert!(keeper.acquire("user:42", "free", 1).within(patience).await?.allowed, "10 ms later");
    /// let refused = keeper.acquire("user:42", "free", 2).within(patience).await?;
    /// assert!(!refused.allowed, "at once: two never fit into a burst of one");
    /// # Ok(()) }
    /// ```
    pub fn within(self, patience: Duration) -> Waiting<'a> {
        Waiting::new(self.0, patience)
    }
}

impl<'a> IntoFuture for Attempt<'a> {
    type Output = Result<Ruling, KeeperError>;
    type IntoFuture = Asking<'a, Self>;

    #[inline]
    fn into_future(self) -> Self::IntoFuture {
        Asking::new(self)
    }
}

impl<'a> Ask<'a> for Attempt<'a> {
    #[inline]
    fn ask(self) -> Answer<'a, Ruling, KeeperError> {
        let keeper = self.0.keeper;
        match self.0.understand() {
            Ok(understood) => keeper.take_in_turn(understood, |store, request| store.acquire(request)),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}
