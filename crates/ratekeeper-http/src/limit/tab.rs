//! What was taken and may have to be given back.

use ratekeeper::{Charged, Cost, Keeper, Name, Ruling};

use super::Charge;
use crate::key::KeyBuf;
use crate::log;

/// What a request was charged. Dropped without having been settled, wherever its request is abandoned, it is given back
/// or kept as the [`Charge`] says.
pub(crate) struct Tab {
    open: Option<Open>,
    charge: Charge,
}

struct Open {
    keeper: Keeper,
    key: KeyBuf,
    plan: Name,
    cost: Cost,
    /// When, and by which store: what has refilled since does not come back, and no store gets what it did not take.
    charged: Charged,
}

impl Tab {
    /// What a ruling took; `None` if nobody took anything, so that there is nothing to give back.
    pub(crate) fn of(ruling: &Ruling, keeper: &Keeper, key: &KeyBuf, charge: Charge) -> Option<Self> {
        let open = Open {
            charged: ruling.charged()?,
            plan: ruling.plan()?.name().clone(),
            cost: ruling.granted(),
            keeper: keeper.clone(),
            key: key.clone(),
        };
        Some(Tab { open: Some(open), charge })
    }

    /// Which requests are charged in the end.
    pub(crate) fn charge(&self) -> Charge {
        self.charge
    }

    /// It stays charged.
    pub(crate) fn keep(mut self) {
        self.open = None;
    }

    /// It is given back; tells what is left then, if the store answers at once.
    pub(crate) fn give_back(mut self) -> Option<Ruling> {
        self.open.take().and_then(Open::give_back)
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // Nobody knows that it succeeded: what is charged on failure stays charged.
        if self.charge == Charge::OnCompletion
            && let Some(open) = self.open.take()
        {
            open.give_back();
        }
    }
}

impl Open {
    fn give_back(self) -> Option<Ruling> {
        let key = self.key.key().ok()?;
        let refunded = self.keeper.refund(key, self.plan.as_str(), self.cost, self.charged).now().ok();
        match refunded {
            Some(Ok(ruling)) => return Some(ruling),
            Some(Err(error)) => log::error(self.plan.as_str(), &format_args!("cannot give back: {error}")),
            None => self.give_back_later(),
        }
        None
    }

    /// A store that has to be awaited is given it back by a task: whoever drops a tab cannot wait.
    fn give_back_later(self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return log::error(self.plan.as_str(), &"cannot give back: dropped outside of a tokio runtime");
        };
        runtime.spawn(async move {
            let Ok(key) = self.key.key() else { return };
            if let Err(error) = self.keeper.refund(key, self.plan.as_str(), self.cost, self.charged).await {
                log::error(self.plan.as_str(), &format_args!("cannot give back: {error}"));
            }
        });
    }
}
