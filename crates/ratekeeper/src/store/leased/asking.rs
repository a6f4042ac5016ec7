//! A request under a lease: paid for, refused in the pause, or asked for.

use std::sync::Arc;

use super::flight::Flight;
use super::holding::{Fates, Holding, Verdict, aim};
use super::in_the_air::InTheAir;
use super::instance::{Instance, Lessee};
use super::owned_request::OwnedRequest;
use super::returns::give_back;
use super::set::{Displaced, HoldingName, LeaseSet, Place};
use crate::port::Store;
use crate::{Decision, StoreError, Timestamp};

/// How many calls a request waits for before it asks for itself.
const MOST_LANDINGS: u32 = 2;

/// What is to be done for a request.
enum Step {
    Answer(Decision),
    /// The store decides on this request alone.
    Plain,
    /// Wait for the call that is on its way.
    Join(Arc<Flight>),
    /// This request has started a call, and waits for it.
    Start(Arc<Flight>, Arc<OwnedRequest>),
}

impl<S: Store + 'static> Instance<S> {
    /// Answers a request if nobody must be asked for it. Else nothing has happened.
    #[inline]
    pub(super) fn try_here(this: &Arc<Self>, lessee: &Lessee<'_>, now: Timestamp) -> Option<Decision> {
        let mut set = this.set_of(lessee.name).lock();
        let (place, counts) = set.find(lessee.name)?;
        let mut fates = Fates::default();
        let over = place.holding.end(now, &mut fates);
        let verdict = place.holding.ask(lessee.cost(), now, &mut fates);
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
            Verdict::Spent(_) if place.flight.is_none() => place.holding.asks_early(now),
            _ => None,
        };
        counts.add(fates);
        // Most often nothing more is to be done.
        if early.is_none() && over.is_empty() {
            return decision;
        }
        let request = Arc::clone(&place.request);
        let flight = early.map(|most| place.flight.insert(Arc::new(Flight::early(most))).clone());
        drop(set);
        give_back(this, lessee.name, &request, over);
        if let Some(flight) = flight {
            InTheAir::new(this, lessee.name, &flight).launch_early(request);
        }
        decision
    }

    /// Answers a request, from a call for many if it comes to that.
    pub(super) async fn take(this: &Arc<Self>, lessee: Lessee<'_>) -> Result<Decision, StoreError> {
        let mut landings = 0;
        loop {
            match Self::step(this, &lessee, landings) {
                Step::Answer(decision) => return Ok(decision),
                Step::Plain => return Self::ask_plainly(this, &lessee).await,
                Step::Start(flight, request) => {
                    InTheAir::new(this, lessee.name, &flight).launch(request).await;
                    return flight.landed().await;
                }
                Step::Join(flight) => {
                    let waits = Waits::new(this, &lessee);
                    let landed = flight.landed().await;
                    drop(waits);
                    landed?;
                    landings += 1;
                }
            }
        }
    }

    /// Decides what is to be done for a request, which has waited for so many calls.
    fn step(this: &Arc<Self>, lessee: &Lessee<'_>, landings: u32) -> Step {
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
                return Self::step(this, lessee, landings);
            }
            if !is_leased {
                set.counts.by_store += 1;
                return Step::Plain;
            }
        }
        let Some((place, counts)) = set.find(name) else { return Step::Plain };
        if landings == 0 {
            place.holding.count(cost, now);
        }
        let mut fates = Fates::default();
        let over = place.holding.end(now, &mut fates);
        let verdict = place.holding.ask(cost, now, &mut fates);
        counts.add(fates);
        let request = Arc::clone(&place.request);
        let step = match verdict {
            Verdict::Spent(decision) | Verdict::Paused(decision) => {
                counts.by_flight += 1;
                Step::Answer(decision)
            }
            Verdict::Plain => Step::Plain,
            Verdict::Fly { .. } if landings >= MOST_LANDINGS => Step::Plain,
            Verdict::Fly { most } => match &place.flight {
                Some(flight) => {
                    place.holding.waits(cost);
                    Step::Join(Arc::clone(flight))
                }
                None => {
                    counts.by_flight += 1;
                    let flight = Arc::new(Flight::for_one(cost, most));
                    place.flight = Some(Arc::clone(&flight));
                    Step::Start(flight, Arc::clone(&request))
                }
            },
        };
        if matches!(step, Step::Plain) {
            counts.by_store += 1;
        }
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
            let request = Arc::new(OwnedRequest::of(&lessee.request));
            Place { holding, request, flight: None, is_watched: false }
        })
    }

    /// Has the store decide on one request, as it would without leases.
    async fn ask_plainly(this: &Arc<Self>, lessee: &Lessee<'_>) -> Result<Decision, StoreError> {
        let sent = this.clock.now();
        let decision = this.store.acquire(lessee.request).await?;
        Ok(this.hear(lessee.name, decision, sent))
    }
}

/// Somebody who waits for a call that another has started, counted until they wait no more.
struct Waits<'a, S> {
    instance: &'a Instance<S>,
    name: HoldingName,
    cost: u64,
}

impl<'a, S> Waits<'a, S> {
    fn new(instance: &'a Instance<S>, lessee: &Lessee<'_>) -> Self {
        Waits { instance, name: lessee.name, cost: lessee.cost() }
    }
}

impl<S> Drop for Waits<'_, S> {
    fn drop(&mut self) {
        if let Some((place, _)) = self.instance.set_of(self.name).lock().find(self.name) {
            place.holding.waits_no_more(self.cost);
        }
    }
}
