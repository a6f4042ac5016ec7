//! A crowd that asks as fast as it can, and what it got, by the clock on the wall.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Algorithm, Charged, Cost, Key, Plan, Quota, Rules, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};

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

/// Something that was admitted: when it was asked for, and when the answer was there. It was decided in between.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    asked: Instant,
    heard: Instant,
    /// When it was given back, if it was.
    returned: Option<Instant>,
}

/// What a crowd got.
#[derive(Debug)]
pub(crate) struct Outcome {
    crowd: Crowd,
    quota: Quota,
    start: Instant,
    end: Instant,
    admitted: Vec<Admitted>,
    denied: u64,
}

impl Crowd {
    pub(crate) fn storm(self, url: &str) -> Outcome {
        let quota: Quota = self.quota.parse().unwrap();
        let plan = Plan::parse("crowd", &format!("rule={}", self.quota)).unwrap();
        let stores = [false, true].map(|remembers| {
            let builder =
                RedisStore::builder(url).encoding(self.encoding).command_timeout(Duration::from_secs(10));
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
                    let request = Request { key: Key::new(key).unwrap(), rules, cost: Cost::ONE };
                    runtime.block_on(self.ask(store, request, number as u64 + 1))
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let denied = answers.iter().map(|answer| answer.1).sum();
        let admitted = answers.into_iter().flat_map(|answer| answer.0).collect();
        Outcome { crowd: self, quota, start, end: Instant::now(), admitted, denied }
    }

    async fn ask(self, store: &RedisStore, request: Request<'_>, seed: u64) -> (Vec<Admitted>, u64) {
        let (mut admitted, mut denied, mut random) = (Vec::new(), 0, Random(seed));
        let mut held: Vec<(usize, Timestamp)> = Vec::new();
        let deadline = Instant::now() + self.run;
        while Instant::now() < deadline {
            let asked = Instant::now();
            let decision = store.acquire(request).await.unwrap();
            if decision.allowed {
                let charged = decision.charged_at().expect("it was taken");
                held.push((admitted.len(), charged));
                admitted.push(Admitted { asked, heard: Instant::now(), returned: None });
            } else {
                denied += 1;
            }
            if self.refunds && !held.is_empty() && random.below(3) == 0 {
                let (which, charged) = held.swap_remove(random.below(held.len()));
                admitted[which].returned = Some(Instant::now());
                let age = admitted[which].heard.elapsed();
                // Who does not know the instant says how long ago it was, rounded up.
                let charged = match random.below(2) {
                    0 => Charged::at(charged),
                    _ => Charged::ago(
                        (age + admitted[which].heard.duration_since(admitted[which].asked)).into(),
                    ),
                };
                store.refund(request, charged).await.unwrap();
            }
        }
        (admitted, denied)
    }
}

impl Outcome {
    /// The most that one caller alone could get within a span.
    fn most_in(&self, span: Duration) -> f64 {
        let (burst, period) = (self.quota.burst(), self.quota.period());
        let windows = span.as_nanos() as f64 / period.as_nanos() as f64;
        let burst = burst as f64;
        match self.quota.algorithm() {
            Algorithm::SlidingLog => burst * (windows.floor() + 1.0),
            // Any span begins and ends within a window.
            Algorithm::FixedWindow(_) | Algorithm::SlidingWindow => burst * (windows.ceil() + 1.0),
            _ => burst + self.quota.rate() * span.as_secs_f64(),
        }
    }

    /// How much of an admitted request may have been given back: what had not come back by itself.
    fn given_back(&self, admitted: &Admitted) -> f64 {
        let Some(returned) = admitted.returned else { return 0.0 };
        let age = returned.duration_since(admitted.heard).as_secs_f64();
        match self.quota.algorithm() {
            Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog => 1.0,
            _ => (1.0 - self.quota.rate() * age).max(0.0),
        }
    }

    pub(crate) fn check(&self) {
        let crowd = self.crowd;
        assert!(self.denied > 0 && !self.admitted.is_empty(), "{crowd:?}: no crowd at all");
        let spans = [
            self.end - self.start,
            self.crowd.run / 2,
            Duration::from_millis(250),
            Duration::from_millis(50),
        ];
        for span in spans {
            for first in self.admitted.iter().step_by(1 + self.admitted.len() / 200) {
                let begin = if span == spans[0] { self.start } else { first.asked };
                // Of what was decided within the span for certain.
                let within = |admitted: &&Admitted| admitted.asked >= begin && admitted.heard <= begin + span;
                let (mut admitted, mut kept, mut returned) = (0.0, 0.0, 0.0);
                for one in self.admitted.iter().filter(within) {
                    admitted += 1.0;
                    kept += f64::from(u8::from(one.returned.is_none()));
                }
                // What made room within the span may have been charged before it.
                for one in &self.admitted {
                    if one.returned.is_some_and(|at| at >= begin && at <= begin + span) {
                        returned += self.given_back(one);
                    }
                }
                let most = self.most_in(span);
                // A microsecond, the unit of the server's clock, may hold one more.
                assert!(kept <= most + 1.0, "{crowd:?}: {kept} kept of {most} in {span:?}");
                let all = most + returned + 1.0;
                assert!(admitted <= all, "{crowd:?}: {admitted} admitted of {all} in {span:?}");
            }
        }
    }
}

/// Xorshift: good enough to be unpredictable.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap_or(0)
    }
}
