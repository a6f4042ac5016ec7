//! Those who are compared, each behind the same call.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, SystemTime};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};
use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, MemoryStore, Quota, Rules};
use throttlecrab::PeriodicStore;

/// The quota of all: one a minute with a burst that nobody exhausts, so that nobody is refused, and so that no state
/// expires during the run: every contender holds every key.
const BURST: u32 = 100_000_000;

/// Something that can be asked about a key.
pub(crate) trait Contender: Sync {
    /// Decides each of these keys in turn.
    fn decide(&self, keys: &[String], order: &[u32]);
}

pub(crate) fn by_name(name: &str, keys: usize) -> Option<Box<dyn Contender>> {
    Some(match name {
        "ratekeeper" => Box::new(Ratekeeper::new(keys)),
        "ratekeeper, batches of 16" => Box::new(Batched(Ratekeeper::new(keys))),
        "the keys alone" => Box::new(KeysAlone),
        "governor" => Box::new(Governor::new()),
        "throttlecrab" => Box::new(Throttlecrab::new(keys)),
        _ => return None,
    })
}

pub(crate) struct Ratekeeper {
    store: MemoryStore,
    quota: Quota,
    /// What is expected of every decision.
    allows: bool,
}

impl Ratekeeper {
    pub(crate) fn new(keys: usize) -> Self {
        let store = MemoryStore::builder().max_keys(keys).build();
        let quota = Quota::per_minute(1).burst(BURST).build().expect("a quota");
        Ratekeeper { store, quota, allows: true }
    }

    /// One a day, which is taken: this key is refused.
    pub(crate) fn refusing(key: &str) -> Self {
        let quota = "1/day".parse().expect("a quota");
        let refusing = Ratekeeper { store: MemoryStore::default(), quota, allows: false };
        assert!(
            matches!(refusing.store.acquire(refusing.request(key)).now(), Ok(Ok(first)) if first.allowed)
        );
        refusing
    }

    fn request<'a>(&'a self, key: &'a str) -> Request<'a> {
        let key = Key::new(key).expect("a key");
        Request::new(key, Rules::Quota(&self.quota), Cost::ONE)
    }
}

impl Contender for Ratekeeper {
    fn decide(&self, keys: &[String], order: &[u32]) {
        for index in order {
            let answer = self.store.acquire(self.request(&keys[*index as usize])).now();
            assert!(matches!(answer, Ok(Ok(decision)) if decision.allowed == self.allows));
        }
    }
}

pub(crate) struct Batched(pub(crate) Ratekeeper);

impl Contender for Batched {
    fn decide(&self, keys: &[String], order: &[u32]) {
        let mut decisions = Vec::with_capacity(16);
        let mut batch = Vec::with_capacity(16);
        for chunk in order.chunks(16) {
            batch.clear();
            batch.extend(chunk.iter().map(|index| self.0.request(&keys[*index as usize])));
            decisions.clear();
            assert!(matches!(self.0.store.acquire_many(&batch, &mut decisions).now(), Ok(Ok(()))));
            let allows = self.0.allows;
            assert!(decisions.iter().all(|answer| answer.as_ref().is_ok_and(|it| it.allowed == allows)));
        }
    }
}

/// Reads the keys, and decides nothing: what every contender pays for being asked. The fence is what a lock is to the
/// processor: the next key is not read before this one is.
pub(crate) struct KeysAlone;

impl Contender for KeysAlone {
    fn decide(&self, keys: &[String], order: &[u32]) {
        for index in order {
            black_box(keys[*index as usize].as_bytes().iter().fold(0, |sum, byte| sum ^ byte));
            fence(Ordering::SeqCst);
        }
    }
}

pub(crate) struct Governor {
    limiter: DefaultKeyedRateLimiter<String>,
    allows: bool,
}

impl Governor {
    pub(crate) fn new() -> Self {
        let burst = NonZeroU32::new(BURST).expect("not zero");
        let rate = NonZeroU32::new(1).expect("not zero");
        let quota = governor::Quota::per_minute(rate).allow_burst(burst);
        Governor { limiter: RateLimiter::dashmap(quota), allows: true }
    }

    /// One a day, which is taken: this key is refused.
    pub(crate) fn refusing(key: &str) -> Self {
        let refusing = Governor { limiter: RateLimiter::dashmap(one_a_day()), allows: false };
        assert!(refusing.limiter.check_key(&key.to_string()).is_ok());
        refusing
    }
}

fn one_a_day() -> governor::Quota {
    governor::Quota::with_period(Duration::from_secs(86_400)).expect("not zero")
}

impl Contender for Governor {
    fn decide(&self, keys: &[String], order: &[u32]) {
        for index in order {
            assert_eq!(black_box(self.limiter.check_key(&keys[*index as usize])).is_ok(), self.allows);
        }
    }
}

/// Without keys: one a day, which is taken.
pub(crate) struct RefusingDirectGovernor(DefaultDirectRateLimiter);

impl RefusingDirectGovernor {
    pub(crate) fn new() -> Self {
        let limiter = RateLimiter::direct(one_a_day());
        assert!(limiter.check().is_ok());
        RefusingDirectGovernor(limiter)
    }
}

impl Contender for RefusingDirectGovernor {
    fn decide(&self, _: &[String], order: &[u32]) {
        for _ in order {
            assert!(black_box(self.0.check()).is_err());
        }
    }
}

/// It decides by `&mut self`, so threads need a lock around it.
pub(crate) struct Throttlecrab(Mutex<throttlecrab::RateLimiter<PeriodicStore>>);

impl Throttlecrab {
    pub(crate) fn new(keys: usize) -> Self {
        let store = PeriodicStore::builder().capacity(keys).build();
        Throttlecrab(Mutex::new(throttlecrab::RateLimiter::new(store)))
    }
}

impl Contender for Throttlecrab {
    fn decide(&self, keys: &[String], order: &[u32]) {
        for index in order {
            let mut limiter = self.0.lock().expect("not poisoned");
            let key = &keys[*index as usize];
            let answer = limiter.rate_limit(key, BURST.into(), 1, 60, 1, SystemTime::now());
            assert!(answer.is_ok_and(|(allowed, _)| allowed));
        }
    }
}
