//! What somebody waits for: a cost, or something to hold.

use super::ask::Intent;
use super::error::KeeperError;
use super::resolve::{NamedRequest, Understood};
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::Key;
use crate::port::Answer;

/// What is to be taken by one who waits for it. Sealed: only costs and holds are.
pub trait Taker: Copy + Send + Sync + Unpin + 'static {
    /// What it is answered with.
    type Answer: Send;

    /// Checks what is asked for, and finds the plans.
    #[doc(hidden)]
    fn understand(self, named: NamedRequest<'_>) -> Result<Understood<'_>, KeeperError>;

    /// Takes it, as one of several tries: the observers are not told.
    #[doc(hidden)]
    fn take<'a>(self, keeper: &'a Keeper, understood: Understood<'a>) -> Answer<'a, Ruling, KeeperError>;

    /// Gives back what nobody waits for any more.
    #[doc(hidden)]
    fn give_back(
        self,
        keeper: &Keeper,
        taken: Understood<'_>,
        ruling: Ruling,
    ) -> impl Future<Output = ()> + Send;

    /// Makes the answer of a ruling.
    #[doc(hidden)]
    fn answer(self, keeper: &Keeper, key: Key<'_>, ruling: Ruling) -> Self::Answer;
}

/// A cost is to be taken.
#[derive(Clone, Copy, Debug)]
pub struct ForCost {
    /// Whether what each rule says is to be told.
    pub(super) tells_each: bool,
}

impl Taker for ForCost {
    type Answer = Ruling;

    fn understand(self, named: NamedRequest<'_>) -> Result<Understood<'_>, KeeperError> {
        named.understand()
    }

    fn take<'a>(self, keeper: &'a Keeper, understood: Understood<'a>) -> Answer<'a, Ruling, KeeperError> {
        match understood.request().is_plain() && !self.tells_each {
            true => keeper.decide(understood, Intent::Try, |store, request| store.acquire(request)),
            false => keeper.decide(understood, Intent::Try, |store, request| store.acquire_each(request)),
        }
    }

    async fn give_back(self, keeper: &Keeper, taken: Understood<'_>, ruling: Ruling) {
        let Some(charged) = ruling.charged() else { return };
        // A store that fails keeps it: the observers are told.
        let _ = keeper.give_back(taken, charged).await;
    }

    fn answer(self, _: &Keeper, _: Key<'_>, ruling: Ruling) -> Ruling {
        ruling
    }
}
