//! Holds of the store: what is refused before a shard is asked, and what is answered when there is no room.

use super::budget::Allowance;
use super::shard::Subject;
use super::store::{MemoryStore, check_rules, refusal};
use crate::port::{HoldAction, HoldChange, HoldOutcome, HoldRequest, LeaseError, Request, Standing};
use crate::{Cost, Decision, Rules, StoreError, StoreErrorKind, Timestamp};

impl MemoryStore {
    /// Takes what is to be held, or nothing.
    pub(super) fn hold_at(&self, hold: &HoldRequest<'_>, now: Timestamp) -> Result<Standing, StoreError> {
        let request = hold.request();
        request.check_hold()?;
        HoldRequest::check_lease(hold.lease).map_err(unsupported)?;
        if hold.plans.len() > 1 {
            check_rules(request.rules)?;
        }
        let subject = Subject { is_hold: true, ..self.subject(self.hasher.hash(request.key), request) };
        let mut each = Vec::with_capacity(request.rules.len());
        let held = self.with_room(&subject, now, |subject, _| {
            each.clear();
            let mut shard = self.shard(subject.hash).lock();
            shard.hold(subject, hold, now, &self.budget, &mut |decision| each.push(decision))
        });
        let decision = match held {
            Some(Some(decision)) => decision,
            Some(None) => {
                let message = format!("id: {}; the key has a hold of this id: choose another one", hold.id);
                return Err(StoreError::new(StoreErrorKind::Unsupported, message));
            }
            None => {
                let refusal = refusal(request.rules);
                each = vec![refusal; request.rules.len()];
                refusal
            }
        };
        Ok(Standing { decision, each, forgiven: 0 })
    }

    /// Returns what a hold of this request would be told, also if it would find no room.
    pub(super) fn look_held(
        &self,
        subject: &Subject<'_>,
        now: Timestamp,
        tell: &mut impl FnMut(Decision),
    ) -> Decision {
        let subject = Subject { is_hold: true, ..*subject };
        let mut look = || {
            let mut shard = self.shard(subject.hash).lock();
            shard.lapse(now, &self.budget);
            let decision = shard.look_held(&subject, now, tell);
            match decision.allowed {
                true => shard.has_room(&subject, Allowance::Within, now, &self.budget).map(|()| decision),
                false => Ok(decision),
            }
        };
        match look() {
            Ok(decision) => decision,
            Err(full) if self.search_for(full, now) => {
                look().unwrap_or_else(|_| refusal(subject.request.rules))
            }
            Err(_) => refusal(subject.request.rules),
        }
    }

    /// Settles, cancels or prolongs a hold.
    pub(super) fn change_hold_at(
        &self,
        change: &HoldChange<'_>,
        now: Timestamp,
    ) -> Result<HoldOutcome, StoreError> {
        if let HoldAction::Extend(lease) = change.action {
            HoldRequest::check_lease(lease).map_err(unsupported)?;
        }
        let request = Request::new(change.key, Rules::Plans(&[]), Cost::ZERO);
        let subject = self.subject(self.hasher.hash(change.key), request);
        let mut each = Vec::new();
        let mut shard = self.shard(subject.hash).lock();
        let changed =
            shard.change_hold(&subject, change, now, &self.budget, &mut |decision| each.push(decision));
        drop(shard);
        Ok(changed?.map_or(HoldOutcome::GONE, |((state, decision, forgiven), plans)| HoldOutcome {
            state,
            standing: Some(Standing { decision, each, forgiven }),
            plans,
        }))
    }
}

fn unsupported(error: LeaseError) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, error.to_string()).caused_by(error)
}
