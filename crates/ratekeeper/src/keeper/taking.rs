//! A cost on its way from a store elsewhere, which is not lost if nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::error::KeeperError;
use super::owned_units::OwnedUnits;
use super::resolve::Understood;
use super::ruling::{Resolved, Ruling};
use super::setup::Keeper;
use super::taker::Taker;
use crate::{Cost, Key};

type Asking = Pin<Box<dyn Future<Output = Result<Ruling, KeeperError>> + Send>>;

/// A cost that is being taken. It owns all that it needs, so that it can be seen to its end by somebody else: dropped
/// after it has begun, it leaves a task that waits for the answer and gives back what was taken.
///
/// Outside of a tokio runtime there is nobody to leave it to, and whether the cost was taken is not known.
pub(super) struct Taking<T: Taker> {
    keeper: Keeper,
    taker: T,
    resolved: Resolved,
    key: Box<[u8]>,
    cost: Cost,
    units: OwnedUnits,
    /// None once it has ended.
    asking: Option<Asking>,
    has_begun: bool,
}

impl<T: Taker> Taking<T> {
    pub(super) fn new(keeper: &Keeper, understood: &Understood<'_>, taker: T) -> Self {
        let (keeper, key) = (keeper.clone(), Box::from(understood.key.as_bytes()));
        let asking: Asking = {
            let (keeper, key, resolved) = (keeper.clone(), Box::clone(&key), understood.resolved.clone());
            let (cost, units) = (understood.cost, OwnedUnits::of(understood.units));
            Box::pin(async move {
                let units = units.borrowed();
                taker.take(&keeper, Understood { key: Key::new(&*key)?, resolved, cost, units: &units }).await
            })
        };
        let (cost, units) = (understood.cost, OwnedUnits::of(understood.units));
        let resolved = understood.resolved.clone();
        Taking { keeper, taker, resolved, key, cost, units, asking: Some(asking), has_begun: false }
    }
}

impl<T: Taker> Future for Taking<T> {
    type Output = Result<Ruling, KeeperError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.has_begun = true;
        #[expect(clippy::expect_used, reason = "polled again after it has ended, as any future")]
        let asking = self.asking.as_mut().expect("`Taking` polled after completion");
        let answer = asking.as_mut().poll(context);
        if answer.is_ready() {
            self.asking = None;
        }
        answer
    }
}

impl<T: Taker> Drop for Taking<T> {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take().filter(|_| self.has_begun) else { return };
        let (keeper, key, taker) = (self.keeper.clone(), std::mem::take(&mut self.key), self.taker);
        let (cost, units, resolved) = (self.cost, std::mem::take(&mut self.units), self.resolved.clone());
        spawn(async move {
            let (Ok(ruling), Ok(key)) = (asking.await, Key::new(&*key)) else { return };
            let units = units.borrowed();
            let taken = Understood { key, resolved, cost, units: &units[..] };
            taker.give_back(&keeper, taken, ruling).await;
        });
    }
}

#[cfg(all(feature = "tokio", not(loom)))]
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

#[cfg(not(all(feature = "tokio", not(loom))))]
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    drop(work);
}
