//! What is left of leases at their end is given back.

use std::sync::Arc;

use super::holding::{Fates, Leftover};
use super::instance::Instance;
use super::owned_request::OwnedRequest;
use super::set::HoldingName;
use super::task::{rest, spawn};
use crate::Charged;
use crate::Decision;
use crate::clock::is_in_runtime;
use crate::port::{Answer, Store};

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
        let due = place.filter(|place| !place.is_watched && place.holding.ends_with_something().is_some());
        due.map(|place| place.is_watched = true).is_some()
    };
    if is_due {
        let (instance, request) = (Arc::clone(instance), Arc::clone(request));
        spawn(async move { watch_until_the_end(instance, name, request).await });
    }
}

/// Gives back everything that is held.
pub(super) async fn give_back_all<S: Store + 'static>(instance: &Instance<S>) {
    for set in &instance.sets {
        let over = set.lock().end_all();
        for (name, request, leftovers) in over {
            for leftover in leftovers {
                give_back_one(instance, name, &request, leftover).await;
            }
        }
    }
}

async fn watch_until_the_end<S: Store + 'static>(
    instance: Arc<Instance<S>>,
    name: HoldingName,
    request: Arc<OwnedRequest>,
) {
    loop {
        let now = instance.clock.now();
        let (over, next) = {
            let mut set = instance.set_of(name).lock();
            let Some((place, counts)) = set.find(name) else { return };
            // Its place may have been lost, and found again.
            if !Arc::ptr_eq(&place.request, &request) {
                return;
            }
            let mut fates = Fates::default();
            let over = place.holding.end(now, &mut fates);
            counts.add(fates);
            let next = place.holding.ends_with_something();
            place.is_watched = next.is_some();
            (over, next)
        };
        give_back(&instance, name, &request, over);
        let Some(next) = next else { return };
        if !rest(next.since(now)).await {
            return;
        }
    }
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
    *fate += leftover.cost - leftover.refilled;
}
