//! Many instances under one limit, in virtual time: what leases admit, miss and ask, beside a store that is asked for every
//! request on the same arrivals. The runtime has `start_paused = true`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "rates and counts of a simulation"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::store::Leased;
use ratekeeper::{Cost, Key, MemoryStore, Plan, Rules};

use crate::fake_store::FakeStore;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Nine tenths of the limit.
    Under,
    /// 1.2 times the limit, as the next three.
    Steady,
    /// Each instance is on for about 100 ms and off for 200.
    Bursty,
    /// One instance has nine tenths of it.
    Skewed,
    /// A quarter of the instances is gone in the second third.
    Crash,
    /// Ten times the limit.
    Attack,
    /// Just below the limit, 60 ms of silence, then 38 times the limit for 40 ms.
    Hoard,
}

impl Traffic {
    pub const ALL: [Traffic; 7] = [
        Traffic::Under,
        Traffic::Steady,
        Traffic::Bursty,
        Traffic::Skewed,
        Traffic::Attack,
        Traffic::Crash,
        Traffic::Hoard,
    ];

    fn load(self) -> f64 {
        match self {
            Traffic::Under => 0.9,
            Traffic::Attack => 10.0,
            Traffic::Hoard => 0.95,
            Traffic::Steady | Traffic::Bursty | Traffic::Skewed | Traffic::Crash => 1.2,
        }
    }

    /// Whether it begins with a full quota; else what is missed cannot hide in the burst.
    fn meets_a_full_quota(self) -> bool {
        matches!(self, Traffic::Under | Traffic::Attack | Traffic::Hoard)
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub traffic: Traffic,
    pub instances: usize,
    /// A second, and as large a burst.
    pub rate: u64,
    /// In milliseconds.
    pub life: u64,
    pub tick: Duration,
    pub ticks: usize,
}

/// What became of it.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The most, over all spans of 20 ms, 100 ms and 1 s, of what was admitted by what burst and rate allow.
    pub worst: f64,
    /// How much more than that is allowed was admitted at most in one of them.
    pub excess: f64,
    /// What was missed, in percent of what a store admits that is asked for every request, after the first third.
    pub under: f64,
    /// Calls of the store a second.
    pub calls: f64,
    /// Requests that were answered without waiting, in percent.
    pub local: f64,
}

/// Chance that is the same in every run.
#[derive(Clone, Copy, Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 up to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// How many arrive where so many do on average.
    fn poisson(&mut self, mean: f64) -> u64 {
        if mean <= 0.0 {
            return 0;
        }
        if mean > 40.0 {
            let sum: f64 = (0..12).map(|_| self.fraction()).sum();
            return (mean + (sum - 6.0) * mean.sqrt()).round().max(0.0) as u64;
        }
        let (least, mut product, mut count) = ((-mean).exp(), self.fraction(), 0);
        while product > least {
            product *= self.fraction();
            count += 1;
        }
        count
    }
}

impl Run {
    fn is_down(&self, instance: usize, tick: usize) -> bool {
        let third = self.ticks / 3;
        self.traffic == Traffic::Crash
            && instance < (self.instances / 4).max(1)
            && (third..2 * third).contains(&tick)
    }

    /// Arrivals, tick by tick, for each instance.
    fn arrivals(&self) -> Vec<Vec<u32>> {
        let mut chance = Chance(1);
        let dt = self.tick.as_secs_f64();
        let total = self.rate as f64 * self.traffic.load() * dt;
        let mut on: Vec<bool> = (0..self.instances).map(|_| chance.fraction() < 1.0 / 3.0).collect();
        let gone = (self.instances / 4).max(1);
        let rows = (0..self.ticks).map(|tick| {
            let row = (0..self.instances).map(|instance| {
                let others = self.instances.max(2) - 1;
                let mean = match self.traffic {
                    Traffic::Skewed if instance == 0 => total * 0.9,
                    Traffic::Skewed => total * 0.1 / others as f64,
                    _ => total / self.instances as f64,
                };
                let mean = match self.traffic {
                    Traffic::Bursty => {
                        let spell = if on[instance] { 0.1 } else { 0.2 };
                        on[instance] ^= chance.fraction() < dt / spell;
                        if on[instance] { 3.0 * mean } else { 0.0 }
                    }
                    Traffic::Hoard => match (tick as f64 * dt) % 1.5 {
                        into if into < 1.2 => mean,
                        into if into < 1.26 => 0.0,
                        into if into < 1.3 => 40.0 * mean,
                        _ => 0.0,
                    },
                    Traffic::Crash if self.is_down(instance, tick) => 0.0,
                    Traffic::Crash if self.is_down(0, tick) => {
                        mean * self.instances as f64 / (self.instances - gone) as f64
                    }
                    _ => mean,
                };
                u32::try_from(chance.poisson(mean)).unwrap_or(u32::MAX)
            });
            row.collect()
        });
        rows.collect()
    }

    /// What a store admits in each tick that is asked for every request.
    fn exact(&self, arrivals: &[Vec<u32>]) -> Vec<u64> {
        let mut level = if self.traffic.meets_a_full_quota() { self.rate as f64 } else { 0.0 };
        let admitted = arrivals.iter().map(|row| {
            let asked: u64 = row.iter().map(|count| u64::from(*count)).sum();
            let got = asked.min(level as u64);
            level = (level - got as f64 + self.rate as f64 * self.tick.as_secs_f64()).min(self.rate as f64);
            got
        });
        admitted.collect()
    }

    pub fn figures(&self) -> Figures {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let arrivals = self.arrivals();
        let (admitted, calls, local) = runtime.block_on(self.play(&arrivals));
        self.judge(&arrivals, &admitted, calls, local)
    }

    async fn play(&self, arrivals: &[Vec<u32>]) -> (Vec<u64>, u64, u64) {
        let plan = Plan::parse("api", &format!("{}/s", self.rate)).unwrap();
        let plan = Arc::new(plan.lease(format!("{}ms", self.life).parse().unwrap()).unwrap());
        let shared = Arc::new(MemoryStore::default());
        if !self.traffic.meets_a_full_quota() {
            shared.acquire(hot(&plan, self.rate)).await.unwrap();
        }
        // It decides at once, and the answer takes a tick.
        let far = FakeStore::over(shared).delays(Duration::ZERO, self.tick);
        let mut seeds = Chance(9);
        let mut instance = || Arc::new(Leased::new(far.clone()).keys(4).seed(seeds.next()));
        let mut instances: Vec<_> = (0..self.instances).map(|_| instance()).collect();
        let admitted = Arc::new(Mutex::new(vec![0_u64; arrivals.len() + 1_000]));
        let tick_now = Arc::new(AtomicU64::new(0));
        let (mut local, mut chance) = (0, Chance(5));
        let one = hot(&plan, 1);
        for (tick, row) in arrivals.iter().enumerate() {
            tick_now.store(tick as u64, Ordering::Relaxed);
            let (first, mut got) = (chance.next() as usize % self.instances, 0);
            for at in (0..self.instances).map(|at| (at + first) % self.instances) {
                if self.is_down(at, tick) {
                    instances[at] = instance();
                    continue;
                }
                for _ in 0..row[at] {
                    match instances[at].acquire(one).now() {
                        Ok(answer) => {
                            local += 1;
                            got += u64::from(answer.unwrap().allowed);
                        }
                        Err(_) => {
                            let (instance, plan) = (Arc::clone(&instances[at]), Arc::clone(&plan));
                            let (admitted, now) = (Arc::clone(&admitted), Arc::clone(&tick_now));
                            tokio::spawn(async move {
                                let allowed = instance.acquire(hot(&plan, 1)).await.unwrap().allowed;
                                let now = usize::try_from(now.load(Ordering::Relaxed)).unwrap();
                                admitted.lock().unwrap()[now] += u64::from(allowed);
                            });
                        }
                    }
                }
            }
            admitted.lock().unwrap()[tick] += got;
            tokio::time::sleep(self.tick).await;
            // What comes back in this tick is there before its requests.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
        let admitted = std::mem::take(&mut *admitted.lock().unwrap());
        (admitted, far.all_calls(), local)
    }

    fn judge(&self, arrivals: &[Vec<u32>], admitted: &[u64], calls: u64, local: u64) -> Figures {
        let exact = self.exact(arrivals);
        let mut sums = vec![0_u64];
        sums.extend(admitted.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        let (mut worst, mut excess) = (0.0_f64, f64::MIN);
        for span in [0.02, 0.1, 1.0] {
            let step = (span / self.tick.as_secs_f64()).round() as usize;
            let allowed = self.rate as f64 * (1.0 + span);
            let most = sums.windows(step + 1).map(|span| span[step] - span[0]).max().unwrap_or(0) as f64;
            worst = worst.max(most / allowed);
            excess = excess.max(most - allowed);
        }
        let warm = self.ticks / 3;
        let ours: u64 = admitted[warm..].iter().sum();
        let theirs: u64 = exact[warm..].iter().sum();
        let offered: u64 = arrivals.iter().flatten().map(|count| u64::from(*count)).sum();
        Figures {
            worst,
            excess,
            under: 100.0 * (1.0 - ours as f64 / theirs.max(1) as f64),
            calls: calls as f64 / (self.ticks as f64 * self.tick.as_secs_f64()),
            local: 100.0 * local as f64 / offered.max(1) as f64,
        }
    }
}

fn hot(plan: &Plan, cost: u64) -> Request<'_> {
    Request::new(Key::new("hot").unwrap(), Rules::Plan(plan), Cost::new(cost))
}
