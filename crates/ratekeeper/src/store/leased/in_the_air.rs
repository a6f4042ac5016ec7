//! A call that has not come back.

use std::sync::Arc;

use super::super::task::spawn;
use super::batch::Leftover;
use super::holding::{Fates, Landed, Turn, Verdict};
use super::instance::{Instance, mixed};
use super::owned_request::OwnedRequest;
use super::returns::{give_back, watch};
use super::set::{Flight, HoldingName, LeaseWaiter, Place, Told, send_away};
use crate::clock::is_in_runtime;
use crate::port::{Answer, Grant, Store};
use crate::{Cost, StoreError, Timestamp};

/// A call on its way to the store: for at least what the first in the line asks for, and at most what is worth holding.
///
/// Dropped before it has come back, it has failed: nobody waits for ever.
pub(super) struct InTheAir<S: Store + 'static> {
    instance: Arc<Instance<S>>,
    name: HoldingName,
    request: Arc<OwnedRequest>,
    flight: Flight,
    /// None when it has come back.
    errand: Option<Errand>,
}

/// What a call is to bring.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) least: u64,
    pub(super) most: u64,
    /// Whose cost the least is; nobody's if it is asked for early.
    pub(super) first: Option<Arc<LeaseWaiter>>,
}

/// Those who have waited, and what each is told.
pub(super) type Calls = Vec<(Arc<LeaseWaiter>, Told)>;

impl<S: Store + 'static> InTheAir<S> {
    pub(super) fn new(
        instance: &Arc<Instance<S>>,
        name: HoldingName,
        request: Arc<OwnedRequest>,
        flight: Flight,
        errand: Errand,
    ) -> Self {
        InTheAir { instance: Arc::clone(instance), name, request, flight, errand: Some(errand) }
    }

    /// Asks for what nobody waits for yet, if that can be done without waiting.
    pub(super) fn launch_early(mut self) {
        if self.fly_now() {
            return;
        }
        match is_in_runtime() {
            true => spawn(self.fly()),
            // Nobody would wait for it.
            false => self.call_off(),
        }
    }

    /// Asks for what a request waits for: in a task of its own, which a caller who gives up does not take along; without a
    /// runtime, here.
    pub(super) async fn launch(mut self) {
        if self.fly_now() {
            return;
        }
        match is_in_runtime() {
            true => spawn(self.fly()),
            false => self.fly().await,
        }
    }

    /// Returns true if the store has answered at once, as often as it was asked. If not, the last question was not asked.
    fn fly_now(&mut self) -> bool {
        let (instance, request) = (Arc::clone(&self.instance), Arc::clone(&self.request));
        while let Some(errand) = &self.errand {
            let sent = instance.clock.now();
            match ask(&instance, &request, errand).now() {
                Ok(answer) => self.land(sent, answer),
                Err(_) => return false,
            }
        }
        true
    }

    async fn fly(mut self) {
        let (instance, request) = (Arc::clone(&self.instance), Arc::clone(&self.request));
        while let Some(errand) = self.errand.clone() {
            let sent = instance.clock.now();
            let answer = ask(&instance, &request, &errand).await;
            self.land(sent, answer);
        }
    }

    /// Takes in what the call brought, tells those who wait, and goes for more if it was not enough for them.
    fn land(&mut self, sent: Timestamp, answer: Result<Grant, StoreError>) {
        let Some(errand) = self.errand.take() else { return };
        let grant = match answer {
            Ok(grant) => grant,
            Err(error) => return self.fail(&errand, error),
        };
        let heard = self.instance.clock.now();
        let (calls, over, next) = self.take_in(&errand, sent, heard, &grant);
        self.errand = next;
        tell(calls);
        give_back(&self.instance, self.name, &self.request, over);
        watch(&self.instance, self.name, &self.request);
    }

    fn take_in(
        &mut self,
        errand: &Errand,
        sent: Timestamp,
        heard: Timestamp,
        grant: &Grant,
    ) -> (Calls, Vec<Leftover>, Option<Errand>) {
        let mut guard = self.instance.set_of(self.name).lock();
        let set = &mut *guard;
        let granted = grant.granted.get();
        let outcome = match granted {
            0 => &mut set.counts.refused,
            _ if granted < errand.most => &mut set.counts.short,
            _ => &mut set.counts.full,
        };
        *outcome += 1;
        // No two calls of an instance have the same chance, and the seed decides what it is.
        let landings = set.counts.refused + set.counts.short + set.counts.full;
        let mut calls = Calls::new();
        let Some((place, counts)) = set.find(self.name).filter(|(place, _)| self.is_for(place)) else {
            // The key was reset, or has lost its place: what was taken before is not for those after.
            set.counts.burnt = set.counts.burnt.saturating_add(granted);
            calls.extend(errand.first.clone().map(|first| (first, Told::Ask)));
            return (calls, Vec::new(), None);
        };
        let mut fates = Fates::default();
        let landed = Landed {
            sent,
            heard,
            most: errand.most,
            granted,
            decision: grant.decision,
            ends: grant.ends,
            next: grant.next,
        };
        let chance = mixed(self.name.key.place ^ mixed(landings));
        let over = place.holding.land(&landed, chance, &mut fates);
        if let Some(first) = &errand.first
            && place.leave_line(first)
        {
            let told = match place.holding.ask(first.cost, Turn::Waited, heard, &mut fates) {
                Verdict::Spent(decision) | Verdict::Paused(decision) => Told::Decided(decision),
                // What was asked for, and refused, the store has decided itself.
                _ if granted == 0 && errand.least == first.cost => {
                    Told::Decided(place.holding.beside(grant.decision, heard))
                }
                // What was to be added to what is here was not enough, or has ended on the way.
                Verdict::Plain | Verdict::Fly { .. } => Told::Ask,
            };
            calls.push((Arc::clone(first), told));
        }
        let next = serve(place, heard, &mut fates, &mut calls);
        place.flight = next.is_some().then_some(Flight { begun: heard, ..self.flight });
        self.flight.begun = heard;
        counts.add(fates);
        counts.by_flight += calls.iter().filter(|(_, told)| matches!(told, Told::Decided(_))).count() as u64;
        (calls, over, next)
    }

    /// Ends a call that was not made.
    fn call_off(mut self) {
        self.errand = None;
        let waiting = {
            let mut set = self.instance.set_of(self.name).lock();
            let place = set.find(self.name).filter(|(place, _)| self.is_for(place));
            place.map(|(place, _)| place.end_line()).unwrap_or_default()
        };
        send_away(waiting);
    }

    /// Tells everybody who waits that the store failed.
    fn fail(&self, errand: &Errand, error: StoreError) {
        let waiting = self.end_line();
        // The first hears it all; and may have lost their place.
        let is_first =
            |waiter: &Arc<LeaseWaiter>| errand.first.as_ref().is_some_and(|first| Arc::ptr_eq(first, waiter));
        for waiter in waiting.iter().filter(|waiter| !is_first(waiter)) {
            drop(waiter.tell(Err(error.without_source())));
        }
        if let Some(first) = &errand.first {
            drop(first.tell(Err(error)));
        }
    }

    /// Ends the call, and returns those who wait for it.
    fn end_line(&self) -> Vec<Arc<LeaseWaiter>> {
        let mut set = self.instance.set_of(self.name).lock();
        set.counts.errors += 1;
        let place = set.find(self.name).filter(|(place, _)| self.is_for(place));
        place.map(|(place, _)| place.end_line()).unwrap_or_default()
    }

    /// Returns true if the place is still the one that the call is for.
    fn is_for(&self, place: &Place) -> bool {
        let number = place.flight.map(|flight| flight.number);
        Arc::ptr_eq(&place.request, &self.request) && number == Some(self.flight.number)
    }
}

impl<S: Store + 'static> Drop for InTheAir<S> {
    fn drop(&mut self) {
        if let Some(errand) = self.errand.take() {
            // Its runtime has ended, or whoever made it has given up: those who wait ask for themselves.
            let mut waiting = self.end_line();
            waiting.extend(errand.first);
            send_away(waiting);
        }
    }
}

fn ask<'a, S: Store>(
    instance: &'a Instance<S>,
    request: &'a OwnedRequest,
    errand: &Errand,
) -> Answer<'a, Grant> {
    instance.store.acquire_up_to(request.at_cost(errand.least), Cost::new(errand.most))
}

/// Serves those who wait, the first in the line first, and returns what to go for if it was not enough for them.
pub(super) fn serve(
    place: &mut Place,
    now: Timestamp,
    fates: &mut Fates,
    calls: &mut Calls,
) -> Option<Errand> {
    while let Some(first) = place.line.front() {
        let cost = first.cost;
        if !first.waits() {
            place.next_in_line();
            continue;
        }
        let told = match place.holding.ask(cost, Turn::Waited, now, fates) {
            Verdict::Spent(decision) | Verdict::Paused(decision) => Told::Decided(decision),
            Verdict::Plain => Told::Ask,
            Verdict::Fly { least, most } => {
                return Some(Errand { least, most, first: Some(Arc::clone(first)) });
            }
        };
        if let Some(ticket) = place.next_in_line() {
            calls.push((ticket, told));
        }
    }
    None
}

/// Tells those who have waited.
pub(super) fn tell(calls: Calls) {
    for (waiter, told) in calls {
        // Who has gone meanwhile has taken it along, as with a call of their own.
        drop(waiter.tell(Ok(told)));
    }
}
