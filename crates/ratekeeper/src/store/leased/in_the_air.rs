//! A call that has not come back.

use std::sync::Arc;

use super::flight::Flight;
use super::holding::{Fates, Landed};
use super::instance::{Instance, mixed};
use super::owned_request::OwnedRequest;
use super::returns::{give_back, watch};
use super::set::{HoldingName, LeaseSet, Place};
use super::statistics::LeaseStatistics;
use super::task::spawn;
use crate::clock::is_in_runtime;
use crate::port::{Answer, Grant, Store};
use crate::{Cost, StoreError, StoreErrorKind, Timestamp};

/// A call that has not come back. Dropped before that, it has failed: nobody waits for ever.
pub(super) struct InTheAir<S: Store + 'static> {
    instance: Arc<Instance<S>>,
    name: HoldingName,
    flight: Arc<Flight>,
    is_over: bool,
}

impl<S: Store + 'static> InTheAir<S> {
    pub(super) fn new(instance: &Arc<Instance<S>>, name: HoldingName, flight: &Arc<Flight>) -> Self {
        InTheAir { instance: Arc::clone(instance), name, flight: Arc::clone(flight), is_over: false }
    }

    /// Asks for what nobody waits for yet, if that can be done without waiting.
    pub(super) fn launch_early(mut self, request: Arc<OwnedRequest>) {
        if self.fly_now(&request) {
            return;
        }
        match is_in_runtime() {
            true => spawn(self.fly(request)),
            // Nobody would wait for it.
            false => self.call_off(),
        }
    }

    /// Asks for what a request waits for: in a task of its own, which a caller who gives up does not take along; without a
    /// runtime, here.
    pub(super) async fn launch(mut self, request: Arc<OwnedRequest>) {
        if self.fly_now(&request) {
            return;
        }
        match is_in_runtime() {
            true => spawn(self.fly(request)),
            false => self.fly(request).await,
        }
    }

    /// Returns true if the store has answered at once. If not, it was asked nothing.
    fn fly_now(&mut self, request: &Arc<OwnedRequest>) -> bool {
        let instance = Arc::clone(&self.instance);
        let sent = instance.clock.now();
        let answer = self.ask(&instance, request).now();
        match answer {
            Ok(answer) => {
                self.land(sent, answer, request);
                true
            }
            Err(_) => false,
        }
    }

    async fn fly(mut self, request: Arc<OwnedRequest>) {
        let instance = Arc::clone(&self.instance);
        let sent = instance.clock.now();
        let answer = self.ask(&instance, &request).await;
        self.land(sent, answer, &request);
    }

    fn ask<'a>(&self, instance: &'a Instance<S>, request: &'a OwnedRequest) -> Answer<'a, Grant> {
        instance.store.acquire_up_to(request.at_cost(self.flight.least), Cost::new(self.flight.most))
    }

    /// Takes in what the call brought, and tells everybody who waits.
    fn land(&mut self, sent: Timestamp, answer: Result<Grant, StoreError>, request: &Arc<OwnedRequest>) {
        self.is_over = true;
        let grant = match answer {
            Ok(grant) => grant,
            Err(error) => return self.fail(error),
        };
        let flight = &self.flight;
        let heard = self.instance.clock.now();
        let granted = grant.granted.get();
        let landed = Landed {
            sent,
            heard,
            most: flight.most,
            granted,
            claimed: flight.claimed.min(granted),
            decision: grant.decision,
            at: grant.at,
            ends: grant.ends,
            next: grant.next,
        };
        let (decision, over) = {
            let mut guard = self.instance.set_of(self.name).lock();
            let set = &mut *guard;
            let outcome = match granted {
                0 => &mut set.counts.refused,
                _ if granted < flight.most => &mut set.counts.short,
                _ => &mut set.counts.full,
            };
            *outcome += 1;
            let chance =
                mixed(heard.as_nanos().cast_unsigned() ^ self.name.rules ^ sent.as_nanos().cast_unsigned());
            match Self::place(set, self.name, flight) {
                Some((place, counts)) => {
                    place.flight = None;
                    let mut fates = Fates::default();
                    let over = place.holding.land(&landed, chance, &mut fates);
                    counts.add(fates);
                    (place.holding.beside(grant.decision, heard), over)
                }
                // The key was reset, or has lost its place: what was taken before is not for those after.
                None => {
                    set.counts.spent += landed.claimed;
                    set.counts.burnt += granted - landed.claimed;
                    (grant.decision, Vec::new())
                }
            }
        };
        give_back(&self.instance, self.name, request, over);
        watch(&self.instance, self.name, request);
        flight.land(Ok(decision));
    }

    /// Ends a call that was not made.
    fn call_off(mut self) {
        self.is_over = true;
        if let Some((place, _)) =
            Self::place(&mut self.instance.set_of(self.name).lock(), self.name, &self.flight)
        {
            place.flight = None;
        }
        let message = "no call was made: outside of a runtime, nobody waits for one";
        self.flight.land(Err(StoreError::new(StoreErrorKind::Other, message)));
    }

    fn fail(&self, error: StoreError) {
        {
            let mut set = self.instance.set_of(self.name).lock();
            set.counts.errors += 1;
            if let Some((place, _)) = Self::place(&mut set, self.name, &self.flight) {
                place.flight = None;
            }
        }
        self.flight.land(Err(error));
    }

    /// Returns the place that the call is for, if it is still the same.
    fn place<'a>(
        set: &'a mut LeaseSet,
        name: HoldingName,
        flight: &Arc<Flight>,
    ) -> Option<(&'a mut Place, &'a mut LeaseStatistics)> {
        set.find(name)
            .filter(|(place, _)| place.flight.as_ref().is_some_and(|held| Arc::ptr_eq(held, flight)))
    }
}

impl<S: Store + 'static> Drop for InTheAir<S> {
    fn drop(&mut self) {
        if !self.is_over {
            let message = "the call was given up before the store answered; whether it charged is not known";
            self.fail(StoreError::new(StoreErrorKind::Other, message));
        }
    }
}
