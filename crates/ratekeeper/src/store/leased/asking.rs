//! A request under a lease: paid for, refused in the pause, or asked for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::line_ticket::CalledTicket;
use super::super::task::within;
use super::holding::{Fates, Holding, LeaseTerms, Turn, Verdict, aim};
use super::in_the_air::{Errand, InTheAir, serve, tell};
use super::instance::{Instance, Lessee};
use super::owned_request::OwnedRequest;
use super::returns::give_back;
use super::set::{Displaced, Flight, LeaseSet, Place, Told, send_away};
use crate::port::Store;
use crate::{Decision, Nanos, StoreError, Timestamp};

/// How long a request waits for a call: what a call brings that takes longer than a lease lives can be spent no more.
fn patience(life: Nanos) -> Nanos {
    const LONGEST: Nanos = Nanos::from_secs(1);
    life.min(LONGEST)
}

/// What is to be done for a request.
enum Step {
    Answer(Decision),
    /// The store decides on this request alone.
    Plain,
    /// Wait in the line.
    Wait(CalledTicket<Told>),
    /// Start a call, and wait in the line for it.
    Start(CalledTicket<Told>, Errand, Flight, Arc<OwnedRequest>),
}

impl<S: Store + 'static> Instance<S> {
    /// Answers a request if nobody must be asked for it. Else nothing has happened.
    #[inline]
    pub(super) fn try_here(this: &Arc<Self>, lessee: &Lessee<'_>, now: Timestamp) -> Option<Decision> {
        let mut guard = this.set_of(lessee.name).lock();
        let set = &mut *guard;
        let (place, counts) = set.find(lessee.name)?;
        let now = this.not_before(place.holding.heard(), now);
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
            Verdict::Spent(_) if place.flight.is_none() => place.holding.asks_early(now),
            _ => None,
        };
        counts.add(fates);
        // Most often nothing more is to be done.
        if early.is_none() && over.is_empty() {
            return decision;
        }
        let request = Arc::clone(&place.request);
        let flight = early.map(|most| (set.begin(now), Errand { least: 1, most, first: None }));
        if let (Some((flight, _)), Some((place, _))) = (&flight, set.find(lessee.name)) {
            place.flight = Some(*flight);
        }
        drop(guard);
        if let Some((flight, errand)) = flight {
            InTheAir::new(this, lessee.name, Arc::clone(&request), flight, errand).launch_early();
        }
        give_back(this, lessee.name, &request, over);
        decision
    }

    /// Answers a request, from a call for many if it comes to that.
    pub(super) async fn take(this: &Arc<Self>, lessee: Lessee<'_>) -> Result<Decision, StoreError> {
        let called = match Self::step(this, &lessee) {
            Step::Answer(decision) => return Ok(decision),
            Step::Plain => return Self::ask_plainly(this, &lessee).await,
            Step::Wait(called) => called,
            Step::Start(called, errand, flight, request) => {
                InTheAir::new(this, lessee.name, request, flight, errand).launch().await;
                called
            }
        };
        let told = match within(patience(lessee.terms.life), called).await {
            Some(told) => told?,
            None => {
                Self::give_up(this, &lessee);
                Told::Ask
            }
        };
        match told {
            Told::Decided(decision) => Ok(decision),
            Told::Ask => {
                this.set_of(lessee.name).lock().counts.by_store += 1;
                Self::ask_plainly(this, &lessee).await
            }
        }
    }

    /// Gives up a call that has been on its way for too long: its store has no timeout, or its runtime stands still. What it
    /// brings is nobody's. For those who still wait, another one is made.
    fn give_up(this: &Arc<Self>, lessee: &Lessee<'_>) {
        let (name, now) = (lessee.name, this.clock.now());
        let mut calls = Vec::new();
        let air = {
            let mut guard = this.set_of(name).lock();
            let set = &mut *guard;
            let flight = set.begin(now);
            let Some((place, counts)) = set.find(name) else { return };
            let is_lost = |lost: Flight| now.since(lost.begun) >= patience(place.holding.life());
            if !place.flight.is_some_and(is_lost) {
                return;
            }
            let mut fates = Fates::default();
            let errand = serve(place, now, &mut fates, &mut calls);
            counts.add(fates);
            place.flight = errand.is_some().then_some(flight);
            let request = Arc::clone(&place.request);
            errand.map(|errand| InTheAir::new(this, name, request, flight, errand))
        };
        tell(calls);
        if let Some(air) = air {
            air.launch_early();
        }
    }

    /// Decides what is to be done for a request that has just come.
    fn step(this: &Arc<Self>, lessee: &Lessee<'_>) -> Step {
        let (name, cost, now) = (lessee.name, lessee.cost(), this.clock.now());
        let mut guard = this.set_of(name).lock();
        let set = &mut *guard;
        if set.find(name).is_none() {
            let waiting = set.forget_replaced(name.key, lessee.request.rules);
            if !waiting.is_empty() {
                drop(guard);
                send_away(waiting);
                return Self::step(this, lessee);
            }
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
        let now = this.not_before(place.holding.heard(), now);
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
            Verdict::Fly { least, most } => {
                let ticket = place.join_line(cost);
                let called = CalledTicket::new(Arc::clone(&ticket));
                match place.flight {
                    Some(_) => Step::Wait(called),
                    None => {
                        let errand = Errand { least, most, first: Some(ticket) };
                        Step::Start(called, errand, set.begin(now), Arc::clone(&request))
                    }
                }
            }
        };
        if let (Step::Start(_, _, flight, _), Some((place, _))) = (&step, set.find(name)) {
            place.flight = Some(*flight);
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
        self.has_leased.store(true, Ordering::Relaxed);
        set.admit(lessee.name, now, || {
            let quotas = lessee.request.rules.iter().map(|(_, quota)| quota);
            let refills = quotas.map(|quota| lessee.terms.excess(quota)).min().unwrap_or(0);
            let terms = LeaseTerms { leasing: lessee.terms, refills, trust: self.trust };
            // This request is counted with those that find a place.
            let holding = Holding::new(terms, asked.saturating_sub(1), now);
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
