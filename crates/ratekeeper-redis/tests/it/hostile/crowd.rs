//! A crowd that asks as fast as it can, and what it got, by the clock on the wall.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Charged, Cost, Key, Nanos, Plan, Quota, Rules, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};

use test_support::bound::{Admission, Bound, breach};
use test_support::random::Random;
use test_support::wait::PATIENCE;

/// How often each thread asks at least: all of them together more often than any burst.
const LEAST_ASKED: u32 = 20;

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

/// What a crowd got.
#[derive(Debug)]
pub(crate) struct Outcome {
    crowd: Crowd,
    quota: Quota,
    admitted: Vec<Admission>,
    denied: u64,
}

impl Crowd {
    pub(crate) fn storm(self, url: &str) -> Outcome {
        let quota: Quota = self.quota.parse().unwrap();
        let plan = Plan::parse("crowd", &format!("rule={}", self.quota)).unwrap();
        let stores = [false, true].map(|remembers| {
            let builder = RedisStore::builder(url).encoding(self.encoding);
            let builder = builder.command_timeout(PATIENCE).connect_timeout(PATIENCE);
            if remembers { builder.build().unwrap() } else { builder.without_denial_cache().build().unwrap() }
        });
        let key = format!("{self:?}");
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
                    let request = Request::new(Key::new(key).unwrap(), rules, Cost::ONE);
                    runtime.block_on(self.ask(store, request, start, Random::new(number as u64)))
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let denied = answers.iter().map(|answer| answer.1).sum();
        let admitted = answers.into_iter().flat_map(|answer| answer.0).collect();
        Outcome { crowd: self, quota, admitted, denied }
    }

    async fn ask(
        self,
        store: &RedisStore,
        request: Request<'_>,
        start: Instant,
        mut random: Random,
    ) -> (Vec<Admission>, u64) {
        let now = || u64::try_from(start.elapsed().as_nanos()).unwrap();
        let (mut admitted, mut denied) = (Vec::<Admission>::new(), 0);
        // An age is short by the time that it is under way. What flows back all the time does not mind; a window, or a
        // log, may take it for one that is later, which is why who can tells the instant.
        let knows_instant = request.rules.iter().any(|(_, quota)| quota.algorithm().counts_in_windows());
        let mut held: Vec<(usize, Timestamp)> = Vec::new();
        let (deadline, mut asked) = (Instant::now() + self.run, 0);
        // However slow the machine is: often enough, all threads together, to be refused.
        while asked < LEAST_ASKED || Instant::now() < deadline {
            asked += 1;
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
                let charged = match knows_instant || random.once_in(2) {
                    true => Charged::at(charged),
                    false => Charged::ago(Nanos::from_nanos(returned - admitted[which].before)),
                };
                store.refund(request, charged).await.unwrap();
            }
        }
        (admitted, denied)
    }
}

impl Outcome {
    /// In no span was more admitted than one caller alone could get. What was charged before a span and is given back
    /// in it makes no room there.
    pub(crate) fn check(&self) {
        let crowd = self.crowd;
        assert!(!self.admitted.is_empty(), "{crowd:?}: no crowd at all");
        // A quota that refills fast may refill faster than a busy machine asks.
        let refills_fast = self.quota.period() < Nanos::from_secs(60);
        assert!(self.denied > 0 || refills_fast || crowd.refunds, "{crowd:?}: more than the quota");
        let bound = Bound::of(&self.quota);
        if let Some(breach) = breach(&self.admitted, |span| bound.within(span)) {
            panic!("{crowd:?}: {breach}");
        }
    }
}
