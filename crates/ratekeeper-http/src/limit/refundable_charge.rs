//! What a request was charged, and may get back.

use ratekeeper::{Charged, Keeper, Name, Ruling};

use super::charge_policy::ChargePolicy;
use super::request_amounts::RequestAmounts;
use crate::key::KeyBuf;
use crate::log;

/// A charge that is not settled yet. Dropped before that, wherever its request is abandoned, it is refunded or kept as
/// the [`ChargePolicy`] says.
pub(crate) struct RefundableCharge {
    refund: Option<ChargeRefund>,
    policy: ChargePolicy,
}

/// What a refund needs.
struct ChargeRefund {
    keeper: Keeper,
    key: KeyBuf,
    plan: Name,
    /// What was taken, of every unit: a plan that counts several is not given back requests alone.
    amounts: RequestAmounts,
    /// When, and by which store: what has refilled since does not come back, and no store gets what it did not take.
    charged: Charged,
}

impl RefundableCharge {
    /// Creates the charge of what a ruling took for a request; `None` if it took nothing, so that there is nothing to refund.
    pub(super) fn of(
        ruling: &Ruling,
        keeper: &Keeper,
        key: &KeyBuf,
        amounts: &RequestAmounts,
        policy: ChargePolicy,
    ) -> Option<Self> {
        let refund = ChargeRefund {
            charged: ruling.charged()?,
            plan: ruling.plan()?.name().clone(),
            amounts: amounts.clone(),
            keeper: keeper.clone(),
            key: key.clone(),
        };
        Some(RefundableCharge { refund: Some(refund), policy })
    }

    /// Returns which requests are charged in the end.
    pub(crate) fn policy(&self) -> ChargePolicy {
        self.policy
    }

    /// Keeps the charge.
    pub(crate) fn keep(mut self) {
        self.refund = None;
    }

    /// Refunds the charge. Returns what is left then, if the store answers at once; otherwise a task waits for it.
    pub(crate) fn give_back(mut self) -> Option<Ruling> {
        self.refund.take().and_then(ChargeRefund::give_back)
    }
}

impl Drop for RefundableCharge {
    fn drop(&mut self) {
        // It is not known to have succeeded: what is charged on failure stays charged.
        if self.policy == ChargePolicy::OnCompletion
            && let Some(refund) = self.refund.take()
        {
            refund.give_back();
        }
    }
}

impl ChargeRefund {
    fn give_back(self) -> Option<Ruling> {
        let key = self.key.key().ok()?;
        let amounts = self.amounts.as_amounts();
        let refunded = self.keeper.refund(key, self.plan.as_str(), amounts, self.charged).now().ok();
        match refunded {
            Some(Ok(ruling)) => return Some(ruling),
            Some(Err(error)) => log::error(self.plan.as_str(), &format_args!("refund failed: {error}")),
            None => self.give_back_later(),
        }
        None
    }

    /// Refunds in a task, because whoever drops a charge cannot wait for a store.
    fn give_back_later(self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return log::error(
                self.plan.as_str(),
                &"refund failed: the request was dropped outside of a tokio runtime",
            );
        };
        runtime.spawn(async move {
            let Ok(key) = self.key.key() else { return };
            let amounts = self.amounts.as_amounts();
            if let Err(error) = self.keeper.refund(key, self.plan.as_str(), amounts, self.charged).await {
                log::error(self.plan.as_str(), &format_args!("refund failed: {error}"));
            }
        });
    }
}
