//! What one instance has leased, and the calls for it.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::quality::RandomState;

use super::super::memory::{Hashing, KeyHasher};
use super::set::{HoldingName, LeaseSet, WAYS, send_away};
use super::statistics::LeaseStatistics;
use crate::clock::TimeSource;
use crate::port::{Request, Store};
use crate::sync::Mutex;
use crate::{Decision, Key, Lease, Leasing, Nanos, Rules, Timestamp};

/// The leases of one instance, in front of the store that they are of.
pub(super) struct Instance<S> {
    pub(super) store: S,
    pub(super) sets: Box<[Mutex<LeaseSet>]>,
    pub(super) hasher: KeyHasher,
    quotas: RandomState,
    pub(super) clock: TimeSource,
    pub(super) own: Lease,
    pub(super) trust: Nanos,
    /// A key was leased at some time.
    pub(super) has_leased: AtomicBool,
}

/// A request that may be answered from a lease.
#[derive(Clone, Copy)]
pub(super) struct Lessee<'a> {
    pub(super) request: Request<'a>,
    pub(super) name: HoldingName,
    pub(super) terms: Leasing,
}

impl Lessee<'_> {
    pub(super) fn cost(&self) -> u64 {
        self.request.cost.get()
    }
}

impl<S: Store + 'static> Instance<S> {
    pub(super) fn new(store: S, keys: usize, trust: Nanos) -> Self {
        Instance {
            store,
            sets: sets(keys),
            hasher: KeyHasher::random(Hashing::Fold),
            quotas: RandomState::default(),
            clock: TimeSource::default(),
            own: Lease::OFF,
            trust,
            has_leased: AtomicBool::new(false),
        }
    }

    /// Returns what a request is leased by, if it is.
    #[inline]
    pub(super) fn lessee<'a>(&self, request: &Request<'a>) -> Option<Lessee<'a>> {
        let terms = request.rules.leasing(self.own)?;
        // What names units is not plain.
        if !request.units.is_empty() {
            return None;
        }
        let rules = match request.rules {
            Rules::Plan(plan) => plan.fingerprint(),
            Rules::Plans(plans) => plans.iter().fold(0, |all, plan| mixed(all ^ plan.fingerprint())),
            Rules::Quota(quota) => self.quotas.hash_one(quota),
        };
        // A plan whose lease alone has changed has new holdings.
        let rules = mixed(rules ^ terms.life.as_nanos());
        let name = HoldingName { key: self.hasher.hash(request.key), rules };
        Some(Lessee { request: *request, name, terms })
    }

    /// Notes what the store told of a key that may be leased, and returns it with what is left here.
    pub(super) fn hear(&self, name: HoldingName, decision: Decision, sent: Timestamp) -> Decision {
        let heard = self.clock.now();
        match self.set_of(name).lock().find(name) {
            Some((place, _)) => {
                place.holding.hear(decision, sent, heard);
                place.holding.beside(decision, heard)
            }
            None => decision,
        }
    }
}

impl<S> Instance<S> {
    #[cfg(feature = "testkit")]
    pub(super) fn set_seed(&mut self, seed: u64) {
        self.hasher = KeyHasher::with_seed(Hashing::Fold, [seed, mixed(seed)]);
    }

    pub(super) fn set_keys(&mut self, keys: usize) {
        self.sets = sets(keys);
    }

    #[inline]
    pub(super) fn set_of(&self, name: HoldingName) -> &Mutex<LeaseSet> {
        self.set_at(name.key.place)
    }

    #[inline]
    fn set_at(&self, place: u64) -> &Mutex<LeaseSet> {
        // The low bits choose: the number of sets is a power of two.
        let low = usize::try_from(place & (self.sets.len() as u64 - 1)).unwrap_or(0);
        &self.sets[low]
    }

    /// Returns what is left here for a request.
    pub(super) fn left(&self, name: HoldingName) -> u64 {
        let now = self.clock.now();
        self.set_of(name).lock().find(name).map_or(0, |(place, _)| place.holding.left(now))
    }

    /// Returns what the store tells of a key, with what is left here.
    pub(super) fn beside(&self, name: HoldingName, decision: Decision) -> Decision {
        let now = self.clock.now();
        let mut set = self.set_of(name).lock();
        set.find(name).map_or(decision, |(place, _)| place.holding.beside(decision, now))
    }

    /// Ends the pauses of a key: something was given back.
    pub(super) fn resume(&self, key: Key<'_>) {
        let (key, now) = (self.hasher.hash(key), self.clock.now());
        self.set_at(key.place).lock().resume(key, now);
    }

    /// Returns this reading of the clock, or another if it is older than what is known by now.
    #[inline]
    pub(super) fn not_before(&self, known: Timestamp, read: Timestamp) -> Timestamp {
        if read < known { self.clock.now() } else { read }
    }

    /// Has what is held of a key under rules that a request's have replaced forgotten, if anything was leased at all.
    pub(super) fn replace(&self, request: &Request<'_>) {
        if !self.has_leased.load(Ordering::Relaxed) || matches!(request.rules, Rules::Quota(_)) {
            return;
        }
        let key = self.hasher.hash(request.key);
        let waiting = self.set_at(key.place).lock().forget_replaced(key, request.rules);
        send_away(waiting);
    }

    /// Puts back what a request has spent of a lease that was charged then, if it has not ended. Returns what is left.
    pub(super) fn put_back(&self, lessee: &Lessee<'_>, charged: Timestamp) -> Option<Decision> {
        let now = self.clock.now();
        let mut set = self.set_of(lessee.name).lock();
        let (place, counts) = set.find(lessee.name)?;
        let now = self.not_before(place.holding.heard(), now);
        let decision = place.holding.put_back(lessee.cost(), charged, now)?;
        counts.refunded = counts.refunded.saturating_add(lessee.cost());
        Some(decision)
    }

    /// Forgets what is held of a request's key under its rules, and under any that share one of them.
    pub(super) fn forget(&self, request: &Request<'_>) {
        let key = self.hasher.hash(request.key);
        let waiting = self
            .set_at(key.place)
            .lock()
            .forget(|name, place| name.key == key && place.request.shares_a_rule_with(request.rules));
        send_away(waiting);
    }

    /// Forgets what is held of the keys that start with these bytes.
    pub(super) fn forget_all(&self, prefix: &[u8]) {
        for set in &self.sets {
            let waiting = set.lock().forget(|_, place| place.request.key().starts_with(prefix));
            send_away(waiting);
        }
    }

    pub(super) fn statistics(&self) -> LeaseStatistics {
        let now = self.clock.now();
        let start = LeaseStatistics { capacity: self.sets.len() * WAYS, ..LeaseStatistics::default() };
        self.sets.iter().fold(start, |sum, set| {
            let set = set.lock();
            let (keys, left) = set.held(now);
            sum.plus(&set.counts, keys, left)
        })
    }
}

fn sets(keys: usize) -> Box<[Mutex<LeaseSet>]> {
    let count = keys.div_ceil(WAYS).clamp(1, 1 << 22).next_power_of_two();
    std::iter::repeat_with(|| Mutex::new(LeaseSet::default())).take(count).collect()
}

/// Spreads a hash over all bits again.
pub(super) fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ word >> 29
}
