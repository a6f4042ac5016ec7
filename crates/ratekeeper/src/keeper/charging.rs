//! Charges of several keys that are judged together.

use super::error::KeeperError;
use super::fallback::Fallback;
use super::setup::Keeper;
use crate::port::{
    Answer, Charge, ChargeAction, ChargeForce, ChargeStanding, Judgment, Request, Standing, Store, Whole,
};
use crate::{Decision, FailureMode, Reason, Rules, StoreError, Timestamp};

impl Keeper {
    /// Judges charges of several keys together: see [`Store::charge`](crate::port::Store::charge). The rules come resolved.
    /// An answer that is not ready has asked nobody.
    ///
    /// A charge never waits, and does not ask who does: it may take what somebody [waits](super::Attempt::within) for. What is
    /// given back wakes the first who waits for it.
    ///
    /// If the store fails, the strictest [failure mode](FailureMode) of the charges' plans counts for all of them, and nothing
    /// stays charged, as far as the store can still be told so: under `open` none is over, under `closed` each is but for what is given back, and then the whole passes or
    /// not by their [force](ChargeForce). Under `local` the [local store](Keeper::local_store) judges; what it took has no
    /// [`charged_at`](Decision::charged_at), because the real store must not give it back.
    ///
    /// The observers are told of every charge that takes something as of a request to take.
    ///
    /// # Errors
    ///
    /// Amounts that a charge's rules cannot be asked for, and a store that fails where the strictest failure mode is `error`,
    /// or that [charges one key at a time](crate::StoreErrorKind::Unsupported).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request, Whole};
    /// use ratekeeper::{Cost, Keeper, Key, MemoryStore, Plan, Registry, Rules};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    /// let (user, path) = (Plan::parse("user", "2/m fixed")?, Plan::parse("path", "1/m")?);
    /// let charge = |key, plan, action| -> Result<Charge<'_>, Box<dyn std::error::Error>> {
    ///     let request = Request::new(Key::new(key)?, Rules::Plan(plan), Cost::ONE);
    ///     Ok(Charge { request, action, force: ChargeForce::Alone })
    /// };
    /// let charges =
    ///     [charge("bob", &user, ChargeAction::Count)?, charge("/x", &path, ChargeAction::Ignore)?];
    /// assert!(keeper.charge(&charges, Whole::Open).await?.passes);
    /// let refused = keeper.charge(&charges, Whole::Open).await?;
    /// assert!(!refused.passes && refused.each[0].decision.allowed && !refused.each[1].decision.allowed);
    /// assert_eq!(refused.each[0].decision.remaining, 0, "counted all the same");
    /// # Ok(()) }
    /// ```
    pub fn charge<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        whole: Whole,
    ) -> Answer<'a, Judgment, KeeperError> {
        if let Some(error) = charges.iter().find_map(|charge| acquired(charge.request).check().err()) {
            return Answer::ready(Err(error.into()));
        }
        match charge_of(&*self.store, charges, whole).now() {
            Ok(Ok(judgment)) => Answer::ready(Ok(self.announce_charges(charges, judgment))),
            Ok(Err(error)) => self.charge_instead(charges, whole, error),
            Err(pending) => Answer::later(async move {
                match pending.await {
                    Ok(judgment) => Ok(self.announce_charges(charges, judgment)),
                    Err(error) => self.charge_instead(charges, whole, error).await,
                }
            }),
        }
    }

    /// Judges charges as [`charge`](Keeper::charge) does when the store fails with this error, without asking it: for callers
    /// who have waited for it as long as they can.
    ///
    /// # Errors
    ///
    /// This error, if the strictest [failure mode](FailureMode) of the charges' plans is `error`.
    #[cold]
    pub fn charge_instead<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        whole: Whole,
        error: StoreError,
    ) -> Answer<'a, Judgment, KeeperError> {
        let modes = charges.iter().map(|charge| self.failure_mode(charge.request.rules, &error));
        let mode = modes.max().unwrap_or(FailureMode::Error);
        for charge in charges {
            self.tell(|observer| observer.failure_mode_answers(charge.request.rules, mode));
        }
        let tell = move |judgment: &Judgment, error: &StoreError| {
            let over = judgment.each.iter().find(|standing| !standing.decision.allowed);
            let answer = over.or(judgment.each.first()).map(|standing| &standing.decision);
            self.tell(|observer| observer.store_failed(error, answer));
        };
        match mode {
            FailureMode::Error => Answer::ready(Err(self.failed(error))),
            FailureMode::Local => charge_of(&*self.local, charges, whole).map(move |judged| {
                let Ok(mut judgment) = judged else { return Err(self.failed(error)) };
                for standing in &mut judgment.each {
                    standing.decision = standing.decision.charged(Timestamp::MIN);
                }
                tell(&judgment, &error);
                Ok(self.announce_charges(charges, judgment))
            }),
            FailureMode::Open | FailureMode::Closed => {
                let judgment = uninformed(charges, whole, mode);
                tell(&judgment, &error);
                self.announce_decided(charges, &judgment);
                Answer::ready(Ok(judgment))
            }
        }
    }

    /// Tells the observers what was decided, and those who wait what was given back.
    fn announce_charges(&self, charges: &[Charge<'_>], mut judgment: Judgment) -> Judgment {
        self.announce_decided(charges, &judgment);
        for (charge, standing) in charges.iter().zip(&mut judgment.each) {
            let request = acquired(charge.request);
            if charge.action == ChargeAction::GiveBack {
                self.lines.gave_back(&request);
            } else if !standing.rules.is_empty() && !charge.is_look() {
                let each = std::mem::take(&mut standing.rules);
                let told = Standing { decision: standing.decision, each, forgiven: 0 };
                self.tell_of_shadows(&request, &told);
                standing.rules = told.each;
            }
        }
        judgment
    }

    fn announce_decided(&self, charges: &[Charge<'_>], judgment: &Judgment) {
        for (charge, standing) in charges.iter().zip(&judgment.each) {
            if charge.action != ChargeAction::GiveBack && !charge.is_look() {
                self.tell(|observer| observer.decided(&charge.request, &standing.decision));
            }
        }
    }
}

/// Returns the request under its plan as it is [acquired](crate::Plan::to_acquire).
fn acquired(request: Request<'_>) -> Request<'_> {
    match request.rules {
        Rules::Plan(plan) => match plan.to_acquire() {
            Some(plan) => Request { rules: Rules::Plan(plan), ..request },
            None => request,
        },
        _ => request,
    }
}

/// Puts charges to a store, each under its plan as it is acquired. No store is asked about what is held to nothing.
fn charge_of<'a>(store: &'a dyn Store, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
    let is_usual = |charge: &Charge<'_>| match charge.request.rules {
        Rules::Quota(_) => true,
        Rules::Plan(plan) => plan.to_acquire().is_none(),
        Rules::Plans(plans) => !plans.is_empty(),
    };
    if !charges.is_empty() && charges.iter().all(is_usual) {
        return store.charge(charges, whole);
    }
    // What is held to nothing is never over: then those of its force are not all over.
    let is_free = |charge: &Charge<'_>| charge.request.rules.is_empty();
    let one_is_free = charges.iter().any(|charge| is_free(charge) && charge.force == ChargeForce::Together);
    let limited = charges.iter().filter(|charge| !is_free(charge)).map(|charge| {
        let force = match charge.force {
            ChargeForce::Together if one_is_free => ChargeForce::Never,
            force => force,
        };
        Charge { request: acquired(charge.request), force, ..*charge }
    });
    let limited: Vec<Charge<'a>> = limited.collect();
    let complete = move |judgment: Judgment| {
        let mut each = judgment.each.into_iter();
        let unlimited = |charge: &Charge<'_>| {
            let decision = Decision::unlimited(charge.request);
            ChargeStanding { decision, left_before: decision.remaining, rules: Vec::new() }
        };
        let complete = charges.iter().filter_map(|charge| match is_free(charge) {
            true => Some(unlimited(charge)),
            false => each.next(),
        });
        Judgment { passes: judgment.passes, each: complete.collect() }
    };
    if limited.is_empty() {
        return Answer::ready(Ok(complete(Judgment { passes: whole.passes([]), each: Vec::new() })));
    }
    // An answer that is not ready borrows the list, which is about to move: it is dropped, and has asked nobody.
    let at_once = store.charge(&limited, whole).now().ok();
    match at_once {
        Some(judged) => Answer::ready(judged.map(complete)),
        None => Answer::later(async move { store.charge(&limited, whole).await.map(complete) }),
    }
}

/// Returns what is judged without asking anybody.
fn uninformed(charges: &[Charge<'_>], whole: Whole, mode: FailureMode) -> Judgment {
    let standing = |charge: &Charge<'_>| {
        let can_be_over = charge.action != ChargeAction::GiveBack && !charge.request.rules.is_empty();
        let is_over = mode == FailureMode::Closed && can_be_over;
        let reason = if is_over { Reason::FailClosed } else { Reason::FailOpen };
        let limit = charge.request.rules.iter().map(|(_, quota)| quota.burst()).min().unwrap_or(0);
        let decision = Decision::uninformed(!is_over, limit, reason);
        ChargeStanding { decision, left_before: 0, rules: Vec::new() }
    };
    let each: Vec<_> = charges.iter().map(standing).collect();
    let over = charges.iter().zip(&each).map(|(charge, told)| (charge.force, !told.decision.allowed));
    Judgment { passes: whole.passes(over), each }
}
