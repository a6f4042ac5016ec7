//! A cost on its way from a store elsewhere, which is not lost if nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::error::KeeperError;
use super::resolve::Understood;
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::Key;

type Asking = Pin<Box<dyn Future<Output = Result<Ruling, KeeperError>> + Send>>;

/// A cost that is being taken. It owns all that it needs, so that it can be seen to its end by somebody else: dropped
/// after it has begun, it leaves a task that waits for the answer and gives back what was taken.
///
/// Outside of a tokio runtime there is nobody to leave it to, and whether the cost was taken is not known.
pub(super) struct Taking {
    keeper: Keeper,
    key: Box<[u8]>,
    /// None once it has ended.
    asking: Option<Asking>,
    has_begun: bool,
}

impl Taking {
    pub(super) fn new(keeper: &Keeper, understood: &Understood<'_>) -> Self {
        let (keeper, key) = (keeper.clone(), Box::from(understood.key.as_bytes()));
        let asking: Asking = {
            let (keeper, key, resolved, cost) =
                (keeper.clone(), Box::clone(&key), understood.resolved.clone(), understood.cost);
            Box::pin(async move { keeper.take(Understood { key: Key::new(&*key)?, resolved, cost }).await })
        };
        Taking { keeper, key, asking: Some(asking), has_begun: false }
    }
}

impl Future for Taking {
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

impl Drop for Taking {
    fn drop(&mut self) {
        let Some(asking) = self.asking.take().filter(|_| self.has_begun) else { return };
        let (keeper, key) = (self.keeper.clone(), std::mem::take(&mut self.key));
        spawn(async move {
            let Ok(ruling) = asking.await else { return };
            let (Ok(key), Some(charged)) = (Key::new(&*key), ruling.charged()) else { return };
            let taken = Understood { key, cost: ruling.granted(), resolved: ruling.into_resolved() };
            // A store that fails keeps it: the observers are told.
            let _ = keeper.give_back(taken, charged).await;
        });
    }
}

#[cfg(all(feature = "tokio", not(loom)))]
fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

#[cfg(not(all(feature = "tokio", not(loom))))]
fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    drop(work);
}
