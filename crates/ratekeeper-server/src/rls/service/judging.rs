//! Cases to charges, and to what the keeper judges.

use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{Charge, ChargeForce, ChargeStanding, Request, Whole};
use ratekeeper::{Cost, FailureMode, Keeper, Key, Rules, StoreError, StoreErrorKind};

use super::applied::{Applied, Case};
use super::cases::Cases;

/// How much of the time that the caller has is waited for the store.
const PART_FOR_THE_STORE: f64 = 0.8;

/// What came of asking the keeper.
#[derive(Debug)]
pub(super) enum Judged {
    /// Where each limit stands.
    Standings(Vec<ChargeStanding>),
    /// The store failed, and the whole is refused in any case.
    RefusedAnyway(StoreError),
}

impl Cases<'_> {
    /// Has the keeper judge all limits in one call.
    ///
    /// With a deadline, what can be answered without the store is answered before it if the store is not: by a failure mode
    /// other than `error`, or because the whole is refused in any case.
    pub(super) async fn judged(
        &self,
        keeper: &Keeper,
        is_shadow: bool,
        deadline: Option<Duration>,
    ) -> Result<Judged, KeeperError> {
        let verdict = Verdict::of(&self.each, is_shadow);
        let charges: Vec<Charge<'_>> =
            self.each.iter().filter_map(|case| self.charge(case, verdict.is_quota_toothless)).collect();
        if charges.is_empty() {
            return Ok(Judged::Standings(Vec::new()));
        }
        let is_refused = verdict.whole == Whole::Refused;
        let has_answer = || is_refused || has_another_answer(&charges);
        let judged = match (keeper.charge(&charges, verdict.whole).now(), deadline.filter(|_| has_answer())) {
            (Ok(judged), _) => judged,
            (Err(pending), None) => pending.await,
            (Err(pending), Some(deadline)) => {
                match tokio::time::timeout(deadline.mul_f64(PART_FOR_THE_STORE), pending).await {
                    Ok(judged) => judged,
                    Err(_) => {
                        let message = "no answer in the time that the caller waits for";
                        let error = StoreError::new(StoreErrorKind::Timeout, message);
                        keeper.charge_instead(&charges, verdict.whole, error).await
                    }
                }
            }
        };
        match judged {
            // A ban is a ban, also while nobody knows where the other limits stand.
            Err(KeeperError::Store(error)) if is_refused => Ok(Judged::RefusedAnyway(error)),
            judged => judged.map(|judgment| Judged::Standings(judgment.each)),
        }
    }

    fn charge<'c>(&'c self, case: &'c Case<'_>, is_quota_toothless: bool) -> Option<Charge<'c>> {
        let Applied::Limited(limited) = &case.applied else { return None };
        let key = Key::new(self.keys.get(limited.key.clone())?).ok()?;
        let force = match case.is_quota {
            _ if case.is_ok_anyway() => ChargeForce::Never,
            true if is_quota_toothless => ChargeForce::Never,
            true => ChargeForce::Together,
            false => ChargeForce::Alone,
        };
        let request = Request::new(key, Rules::Plan(&limited.plan), Cost::new(case.hits));
        Some(Charge { request, action: limited.action, force })
    }
}

/// What is known before any store was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    whole: Whole,
    /// A quota rule is not over in any case, so that the others refuse nothing.
    is_quota_toothless: bool,
}

impl Verdict {
    fn of(cases: &[Case<'_>], is_shadow: bool) -> Self {
        let mut quota = cases.iter().filter(|case| case.is_quota);
        let is_quota_toothless = quota.clone().any(Case::is_ok_anyway);
        let is_banned = |case: &Case<'_>| case.is_banned() && !case.is_shadow;
        let hard_ban = cases.iter().any(|case| !case.is_quota && is_banned(case));
        let soft_bans = !is_quota_toothless && quota.clone().next().is_some() && quota.all(is_banned);
        let whole = match is_shadow {
            true => Whole::Passes,
            false if hard_ban || soft_bans => Whole::Refused,
            false => Whole::Open,
        };
        Verdict { whole, is_quota_toothless }
    }
}

/// Returns true if something else than an error is answered when the store fails.
fn has_another_answer(charges: &[Charge<'_>]) -> bool {
    let plans = charges.iter().flat_map(|charge| charge.request.rules.plans());
    plans.map(ratekeeper::Plan::failure_mode).max() != Some(FailureMode::Error)
}
