//! A request under a lease: paid for, refused in the pause, or asked for.

use std::sync::Arc;

use super::super::line_ticket::CalledTicket;
use super::holding::{Fates, Holding, Turn, Verdict, aim};
use super::in_the_air::{Errand, InTheAir};
use super::instance::{Instance, Lessee};
use super::owned_request::OwnedRequest;
use super::returns::give_back;
use super::set::{Displaced, LeaseSet, Place, Told};
use crate::port::Store;
use crate::{Decision, StoreError, Timestamp};

/// What is to be done for a request.
enum Step {
    Answer(Decision),
    /// The store decides on this request alone.
    Plain,
    /// Wait in the line.
    Wait(CalledTicket<Told>),
    /// Start a call, and wait in the line for it.
    Start(CalledTicket<Told>, Errand, Arc<OwnedRequest>),
}

impl<S: Store + 'static> Instance<S> {
    /// Answers a request if nobody must be asked for it. Else nothing has happened.
    #[inline]
    pub(super) fn try_here(this: &Arc<Self>, lessee: &Lessee<'_>, now: Timestamp) -> Option<Decision> {
        let mut set = this.set_of(lessee.name).lock();
        let (place, counts) = set.find(lessee.name)?;
        let mut fates = Fates::default();
        let over = place.holding.end(now, &mut fates);
        let verdict = place.holding.ask(lessee.cost(), Turn::Comes, now, &mut fates);
        let decision = match verdict {
            Verdict::Spent(decision) => {
                counts.by_lease += 1;
                Some(decision)
            }
            Verdict::Paused(decision) => {
                counts.by_pause += 1;
                Some(decision)
            }
            Verdict::Plain | Verdict::Fly { .. } => None,
        };
        if decision.is_some() {
            place.holding.count(lessee.cost(), now);
        }
        let early = match verdict {
            Verdict::Spent(_) if !place.is_flying => place.holding.asks_early(now),
            _ => None,
        };
        place.is_flying |= early.is_some();
        counts.add(fates);
        // Most often nothing more is to be done.
        if early.is_none() && over.is_empty() {
            return decision;
        }
        let request = Arc::clone(&place.request);
        drop(set);
        give_back(this, lessee.name, &request, over);
        if let Some(most) = early {
            let errand = Errand { least: 1, most, first: None };
            InTheAir::new(this, lessee.name, request, errand).launch_early();
        }
        decision
    }

    /// Answers a request, from a call for many if it comes to that.
    pub(super) async fn take(this: &Arc<Self>, lessee: Lessee<'_>) -> Result<Decision, StoreError> {
        let called = match Self::step(this, &lessee) {
            Step::Answer(decision) => return Ok(decision),
            Step::Plain => return Self::ask_plainly(this, &lessee).await,
            Step::Wait(called) => called,
            Step::Start(called, errand, request) => {
                InTheAir::new(this, lessee.name, request, errand).launch().await;
                called
            }
        };
        match called.await? {
            Told::Decided(decision) => Ok(decision),
            Told::Ask => {
                this.set_of(lessee.name).lock().counts.by_store += 1;
                Self::ask_plainly(this, &lessee).await
            }
        }
    }

    /// Decides what is to be done for a request that has just come.
    fn step(this: &Arc<Self>, lessee: &Lessee<'_>) -> Step {
        let (name, cost, now) = (lessee.name, lessee.cost(), this.clock.now());
        let mut guard = this.set_of(name).lock();
        let set = &mut *guard;
        if set.find(name).is_none() {
            let displaced = this.admit(set, lessee, now);
            let is_leased = displaced.is_ok();
            if let Ok(Some((other, request, over))) = displaced {
                drop(guard);
                give_back(this, other, &request, over);
                // Its place is there now.
                return Self::step(this, lessee);
            }
            if !is_leased {
                set.counts.by_store += 1;
                return Step::Plain;
            }
        }
        let Some((place, counts)) = set.find(name) else { return Step::Plain };
        place.holding.count(cost, now);
        let mut fates = Fates::default();
        let over = place.holding.end(now, &mut fates);
        let verdict = place.holding.ask(cost, Turn::Comes, now, &mut fates);
        counts.add(fates);
        let request = Arc::clone(&place.request);
        let step = match verdict {
            Verdict::Spent(decision) => {
                counts.by_lease += 1;
                Step::Answer(decision)
            }
            Verdict::Paused(decision) => {
                counts.by_pause += 1;
                Step::Answer(decision)
            }
            Verdict::Plain => {
                counts.by_store += 1;
                Step::Plain
            }
            Verdict::Fly { most } => {
                let ticket = place.join_line(cost);
                let called = CalledTicket::new(Arc::clone(&ticket));
                match std::mem::replace(&mut place.is_flying, true) {
                    true => Step::Wait(called),
                    false => {
                        let errand = Errand { least: cost, most, first: Some(ticket) };
                        Step::Start(called, errand, Arc::clone(&request))
                    }
                }
            }
        };
        drop(guard);
        give_back(this, name, &request, over);
        step
    }

    /// Gives a key a place if it is asked for often enough, and there is one.
    fn admit(
        &self,
        set: &mut LeaseSet,
        lessee: &Lessee<'_>,
        now: Timestamp,
    ) -> Result<Option<Displaced>, ()> {
        let asked = set.knock(lessee.name, now, aim(lessee.terms)).ok_or(())?;
        set.admit(lessee.name, now, || {
            let quotas = lessee.request.rules.iter().map(|(_, quota)| quota);
            let refills = quotas.map(|quota| lessee.terms.excess(quota)).max().unwrap_or(0);
            // This request is counted with those that find a place.
            let holding = Holding::new(lessee.terms, refills, self.trust, asked - 1, now);
            Place::new(holding, OwnedRequest::of(&lessee.request))
        })
    }

    /// Has the store decide on one request, as it would without leases.
    async fn ask_plainly(this: &Arc<Self>, lessee: &Lessee<'_>) -> Result<Decision, StoreError> {
        let sent = this.clock.now();
        let decision = this.store.acquire(lessee.request).await?;
        Ok(this.hear(lessee.name, decision, sent))
    }
}
