//! A crowd that asks as fast as it can, and what it got, by the clock on the wall.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Charged, Cost, Key, Nanos, Plan, Quota, Rules, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};

use crate::bound::{Admission, Bound, breach};
use crate::random::Random;

/// Whether the quota is a plan's or comes with the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeldTo {
    Plan,
    Quota,
}

/// Threads on two instances that ask for one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) quota: &'static str,
    pub(crate) encoding: Encoding,
    pub(crate) held_to: HeldTo,
    pub(crate) threads: usize,
    pub(crate) run: Duration,
    /// Whether some of what is taken is given back, at once or later.
    pub(crate) refunds: bool,
}

/// What a crowd got, or one of its threads.
#[derive(Debug, Default)]
struct Outcome {
    admitted: Vec<Admission>,
    denied: u64,
    /// The longest that a refund took, in nanoseconds.
    slowest_refund: u64,
}

/// How long a refund may be under way, for who says how long ago something was charged: an age that is too short is that
/// of a later slot, or of a later entry of a log, which is somebody else's.
const UNDER_WAY: Nanos = Nanos::from_millis(100);

/// How often a crowd is gathered until no refund took longer than that.
const TRIES: usize = 10;

impl Crowd {
    /// In no span does the crowd get more than one caller alone could. What was charged before a span and is given back
    /// in it makes no room there.
    pub(crate) fn storm(self, url: &str) {
        let mut tries = (0..TRIES).map(|number| self.attempt(url, number));
        let outcome = tries.find(|outcome| outcome.slowest_refund < UNDER_WAY.as_nanos());
        let outcome = outcome.unwrap_or_else(|| panic!("{self:?}: no refund is in time on this machine"));
        assert!(outcome.denied > 0 && !outcome.admitted.is_empty(), "{self:?}: no crowd at all");
        let bound = Bound::of(&self.quota.parse().unwrap());
        if let Some(breach) = breach(&outcome.admitted, |span| bound.within(span)) {
            panic!("{self:?}: {breach}");
        }
    }

    fn attempt(self, url: &str, number: usize) -> Outcome {
        let quota: Quota = self.quota.parse().unwrap();
        let plan = Plan::parse("crowd", &format!("rule={}", self.quota)).unwrap();
        let stores = [false, true].map(|remembers| {
            let builder =
                RedisStore::builder(url).encoding(self.encoding).command_timeout(Duration::from_secs(10));
            if remembers { builder.build().unwrap() } else { builder.without_denial_cache().build().unwrap() }
        });
        let key = format!("{self:?}, {number}");
        let barrier = Barrier::new(self.threads);
        let start = Instant::now();
        let answers = thread::scope(|scope| {
            let threads = (0..self.threads).map(|number| {
                let (store, plan, quota) = (&stores[number % 2], &plan, &quota);
                let (key, barrier) = (key.as_str(), &barrier);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async { store.check().await.unwrap() });
                    barrier.wait();
                    let rules = match self.held_to {
                        HeldTo::Plan => Rules::Plan(plan),
                        HeldTo::Quota => Rules::Quota(quota),
                    };
                    let request = Request { key: Key::new(key).unwrap(), rules, cost: Cost::ONE };
                    runtime.block_on(self.ask(store, request, start, Random::new(number as u64)))
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        answers.into_iter().fold(Outcome::default(), |mut all, one| {
            all.admitted.extend(one.admitted);
            all.denied += one.denied;
            all.slowest_refund = all.slowest_refund.max(one.slowest_refund);
            all
        })
    }

    async fn ask(
        self,
        store: &RedisStore,
        request: Request<'_>,
        start: Instant,
        mut random: Random,
    ) -> Outcome {
        let now = || u64::try_from(start.elapsed().as_nanos()).unwrap();
        let Outcome { mut admitted, mut denied, mut slowest_refund } = Outcome::default();
        let rounding = match request.rules.iter().any(|(_, quota)| quota.algorithm().counts_in_windows()) {
            true => UNDER_WAY,
            false => Nanos::ZERO,
        };
        let mut held: Vec<(usize, Timestamp)> = Vec::new();
        let deadline = Instant::now() + self.run;
        while Instant::now() < deadline {
            let before = now();
            let decision = store.acquire(request).await.unwrap();
            if decision.allowed {
                let charged = decision.charged_at().expect("it was taken");
                held.push((admitted.len(), charged));
                admitted.push(Admission { before, after: now(), cost: 1, refunded: None });
            } else {
                denied += 1;
            }
            if self.refunds && !held.is_empty() && random.once_in(3) {
                let (which, charged) = held.swap_remove(random.index(held.len()));
                let returned = now();
                admitted[which].refunded = Some(returned);
                // Who does not know the instant says how long ago it was, rounded up.
                let charged = match random.once_in(2) {
                    true => Charged::at(charged),
                    false => {
                        let age = Nanos::from_nanos(returned - admitted[which].before);
                        Charged::ago(age.saturating_add(rounding))
                    }
                };
                store.refund(request, charged).await.unwrap();
                slowest_refund = slowest_refund.max(now() - returned);
            }
        }
        Outcome { admitted, denied, slowest_refund }
    }
}
