//! What is left of leases at their end is given back.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};

use super::super::task::{rest, spawn};
use super::batch::Leftover;
use super::holding::Fates;
use super::instance::Instance;
use super::owned_request::OwnedRequest;
use super::set::{HoldingName, Place, send_away};
use crate::clock::is_in_runtime;
use crate::port::{Answer, Store};
use crate::{Charged, Decision, Timestamp};

/// Gives back what was left of leases, without waiting for it. What cannot be given back is lost.
pub(super) fn give_back<S: Store + 'static>(
    instance: &Arc<Instance<S>>,
    name: HoldingName,
    request: &Arc<OwnedRequest>,
    over: Vec<Leftover>,
) {
    for leftover in over {
        let at_once = refund(instance, request, leftover).now();
        match at_once {
            Ok(answer) => given_back(instance, name, leftover, answer.is_ok()),
            Err(_) if is_in_runtime() => {
                let (instance, request) = (Arc::clone(instance), Arc::clone(request));
                spawn(async move { give_back_one(&instance, name, &request, leftover).await });
            }
            Err(_) => given_back(instance, name, leftover, false),
        }
    }
}

/// Has somebody give back what is left of a key's leases when they end, if that is worth it.
pub(super) fn watch<S: Store + 'static>(
    instance: &Arc<Instance<S>>,
    name: HoldingName,
    request: &Arc<OwnedRequest>,
) {
    if !is_in_runtime() {
        return;
    }
    let is_due = {
        let mut set = instance.set_of(name).lock();
        let place = set.find(name).map(|(place, _)| place);
        let due = place.filter(|place| {
            let is_same = Arc::ptr_eq(&place.request, request);
            is_same && !place.is_watched && place.holding.ends_with_something().is_some()
        });
        due.map(|place| place.is_watched = true).is_some()
    };
    if is_due {
        let (instance, request) = (Arc::clone(instance), Arc::clone(request));
        let watcher = Watcher { instance, name, request, is_over: false };
        spawn(watcher.watch());
    }
}

/// Somebody who gives back what is left of a key's leases when they end. Dropped, the key is not watched any more.
struct Watcher<S: Store + 'static> {
    instance: Arc<Instance<S>>,
    name: HoldingName,
    request: Arc<OwnedRequest>,
    /// There is nothing more to watch, and the place knows it.
    is_over: bool,
}

impl<S: Store + 'static> Watcher<S> {
    async fn watch(mut self) {
        loop {
            let now = self.instance.clock.now();
            let Some((over, next)) = self.look(now) else { return };
            give_back(&self.instance, self.name, &self.request, over);
            let Some(next) = next else { return };
            if !rest(next.since(now)).await {
                return;
            }
        }
    }

    /// Takes away what has ended, and returns when the next ends; none if the place is another's.
    fn look(&mut self, now: Timestamp) -> Option<(Vec<Leftover>, Option<Timestamp>)> {
        let mut set = self.instance.set_of(self.name).lock();
        let (place, counts) = set.find(self.name).filter(|(place, _)| self.is_for(place))?;
        let mut fates = Fates::default();
        let over = place.holding.end(now, &mut fates);
        counts.add(fates);
        let next = place.holding.ends_with_something();
        // Under the same lock: what lands from here on is watched by somebody else.
        place.is_watched = next.is_some();
        self.is_over = next.is_none();
        Some((over, next))
    }

    fn is_for(&self, place: &Place) -> bool {
        Arc::ptr_eq(&place.request, &self.request)
    }
}

impl<S: Store + 'static> Drop for Watcher<S> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut set = self.instance.set_of(self.name).lock();
        if let Some((place, _)) = set.find(self.name).filter(|(place, _)| self.is_for(place)) {
            place.is_watched = false;
        }
    }
}

/// How many are given back at once by an instance that stops.
const AT_ONCE: usize = 64;

/// Gives back everything that is held. Those who wait for a call ask for themselves.
pub(super) async fn give_back_all<S: Store + 'static>(instance: &Instance<S>) {
    let now = instance.clock.now();
    let mut over = Vec::new();
    for set in &instance.sets {
        let (displaced, waiting) = set.lock().end_all(now);
        send_away(waiting);
        over.extend(displaced);
    }
    let each = over.iter().flat_map(|(name, request, leftovers)| {
        leftovers.iter().map(move |leftover| give_back_one(instance, *name, request, *leftover))
    });
    stream::iter(each).for_each_concurrent(AT_ONCE, |one| one).await;
}

async fn give_back_one<S: Store + 'static>(
    instance: &Instance<S>,
    name: HoldingName,
    request: &OwnedRequest,
    leftover: Leftover,
) {
    let answer = refund(instance, request, leftover).await;
    given_back(instance, name, leftover, answer.is_ok());
}

/// All that is left is told, with when it was taken: what has refilled meanwhile the store keeps, by its own clock, however
/// late it hears of it.
fn refund<'a, S: Store>(
    instance: &'a Instance<S>,
    request: &'a OwnedRequest,
    leftover: Leftover,
) -> Answer<'a, Decision> {
    instance.store.refund(request.at_cost(leftover.cost), Charged::at(leftover.charged))
}

fn given_back<S>(instance: &Instance<S>, name: HoldingName, leftover: Leftover, is_returned: bool) {
    let counts = &mut instance.set_of(name).lock().counts;
    let fate = if is_returned { &mut counts.returned } else { &mut counts.burnt };
    *fate = fate.saturating_add(leftover.cost - leftover.refilled);
}
