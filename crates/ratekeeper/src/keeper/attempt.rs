//! A request to take, before it is asked.

use std::time::Duration;

use super::asking::{Ask, Asking};
use super::error::KeeperError;
use super::resolve::{NamedRequest, NoUnits, Understood};
use super::ruling::Ruling;
use super::setup::Keeper;
use super::taker::ForCost;
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
pub struct Attempt<'a> {
    named: NamedRequest<'a>,
    tells_each: bool,
}

impl<'a> Attempt<'a> {
    #[inline]
    pub(super) fn new(named: NamedRequest<'a>) -> Self {
        Attempt { named, tells_each: false }
    }

    /// Has the ruling tell what [each](Ruling::each) rule says, and not only the one that binds.
    pub fn each(mut self) -> Self {
        self.tells_each = true;
        self
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
    /// let patience = Duration::from_secs(60);
    /// assert!(keeper.acquire("user:42", "free", 1).within(patience).await?.allowed);
    /// assert!(keeper.acquire("user:42", "free", 1).within(patience).await?.allowed, "10 ms later");
    /// let refused = keeper.acquire("user:42", "free", 2).within(patience).await?;
    /// assert!(!refused.allowed, "at once: two never fit into a burst of one");
    /// # Ok(()) }
    /// ```
    pub fn within(self, patience: Duration) -> Waiting<'a> {
        Waiting::new(self.named, ForCost { tells_each: self.tells_each }, patience)
    }
}

impl<'a> IntoFuture for Attempt<'a> {
    type Output = Result<Ruling, KeeperError>;
    type IntoFuture = Asking<'a, Self, Ruling>;

    #[inline]
    fn into_future(self) -> Self::IntoFuture {
        Asking::new(self)
    }
}

impl<'a> Ask<'a> for Attempt<'a> {
    type Answer = Ruling;

    #[inline]
    fn ask(self) -> Answer<'a, Ruling, KeeperError> {
        if self.tells_each || !self.named.is_of_requests() {
            return self.ask_each();
        }
        let NamedRequest { keeper, key, held_to, amounts } = self.named;
        let (key, resolved) =
            match key.map_err(Into::into).and_then(|key| Ok((key, keeper.resolve(held_to)?))) {
                Ok(understood) => understood,
                Err(error) => return Answer::ready(Err(error)),
            };
        if !resolved.rules().are_plain() {
            return keeper.take_unusual(Understood { key, resolved, cost: amounts.cost(), units: &[] });
        }
        let plain = Understood { key, resolved, cost: amounts.cost(), units: NoUnits };
        keeper.take_in_turn(plain, |store, request| store.acquire(request))
    }
}

impl<'a> Attempt<'a> {
    /// Asks for what is not plain.
    #[inline(never)]
    fn ask_each(self) -> Answer<'a, Ruling, KeeperError> {
        let keeper = self.named.keeper;
        match self.named.resolve() {
            Ok(understood) => keeper.take_unusual(understood),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}

impl Keeper {
    /// Takes for a request that is not plain, or wants to know what each rule says.
    #[inline(never)]
    fn take_unusual<'a>(&'a self, understood: Understood<'a>) -> Answer<'a, Ruling, KeeperError> {
        let understood = understood.acquired();
        match understood.request().check() {
            Ok(()) => self.take_in_turn(understood, |store, request| store.acquire_each(request)),
            Err(error) => Answer::ready(Err(error.into())),
        }
    }
}
