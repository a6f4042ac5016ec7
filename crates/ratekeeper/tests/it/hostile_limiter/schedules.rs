//! Random schedules over several runtimes and threads at once: nothing hangs, and everything adds up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::limiter::{All, Concurrency, LeakyQueue};
use ratekeeper::{Limiter, all};

use test_support::bound::at_most;
use test_support::cases::each_seed;
use test_support::random::Random;

use crate::hostile_limiter::support::{
    current_thread, in_time, limiter, ms, multi_thread, passes, paused, poll,
};

/// How many may hold a slot at once.
const SLOTS: u64 = 2;

/// Limiters that everybody shares, and what everybody was granted.
struct World {
    rate: Limiter,
    /// Settled for more than was reserved, now and then.
    estimates: Limiter,
    windows: Limiter,
    slots: Concurrency,
    line: LeakyQueue,
    both: All,
    three: All,
    granted: Granted,
}

/// How often each limiter granted something, as counted by its callers.
#[derive(Default)]
struct Granted {
    rate: AtomicU64,
    /// What was taken of the rate, by whichever way.
    cost: AtomicU64,
    estimates: AtomicU64,
    windows: AtomicU64,
    slots: AtomicU64,
    line: AtomicU64,
    both: AtomicU64,
    three: AtomicU64,
    asked_both: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl World {
    fn new() -> Arc<Self> {
        let (rate, windows) = (limiter("4000/s burst 8"), limiter("20 per 5ms fixed"));
        let slots = Concurrency::new(SLOTS).unwrap();
        let both = all![&slots, &rate].unwrap();
        // In another order, and with one that is shared with nobody else.
        let three = all![&windows, &rate, &slots].unwrap();
        Arc::new(World {
            estimates: limiter("20000/s burst 20"),
            line: LeakyQueue::new("4000/s".parse().unwrap(), 20).unwrap(),
            rate,
            windows,
            slots,
            both,
            three,
            granted: Granted::default(),
        })
    }

    /// One thing that a task may do.
    async fn act(&self, dice: &mut Random) {
        let cost = 1 + dice.below(3);
        let patience = Duration::from_micros(dice.below(6_000));
        self.keeps_to_its_slots();
        match dice.below(14) {
            0 => self.count_rate(self.rate.try_acquire(cost).allowed, cost),
            1 => self.count_rate(self.rate.acquire(cost).await.is_ok(), cost),
            2 => self.count_rate(self.rate.acquire(cost).within(patience).await.is_ok(), cost),
            3 => {
                // Given up at any moment, also just when it is granted.
                let outcome = tokio::time::timeout(patience / 4, self.rate.acquire(cost)).await;
                self.count_rate(outcome.is_ok_and(|granted| granted.is_ok()), cost);
            }
            4 => {
                let mut kept = self.rate.acquire(cost);
                if poll(&mut kept).is_ready() {
                    self.count_rate(true, cost);
                } else {
                    // Nobody polls it for a while: it holds up nobody.
                    self.count_rate(self.rate.acquire(cost).within(patience).await.is_ok(), cost);
                    drop(kept);
                }
            }
            5 | 6 => self.estimate(dice, patience).await,
            7 => {
                if let Ok(permit) = self.slots.acquire().within(patience).await {
                    count(&self.granted.slots, 1);
                    self.keeps_to_its_slots();
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            }
            8 => {
                if let Ok(permit) = tokio::time::timeout(patience / 4, self.slots.acquire()).await {
                    count(&self.granted.slots, 1);
                    drop(permit.unwrap());
                }
            }
            9 => {
                count(&self.granted.asked_both, 1);
                let granted = self.both.acquire(cost).within(patience).await;
                self.count_both(granted.is_ok(), cost);
                self.keeps_to_its_slots();
                drop(granted);
            }
            10 => {
                count(&self.granted.asked_both, 1);
                let granted = tokio::time::timeout(patience / 4, self.both.acquire(cost)).await;
                let granted = granted.is_ok_and(|granted| granted.is_ok());
                self.count_both(granted, cost);
            }
            11 => self.count_three(self.three.acquire(1).within(patience).await.is_ok()),
            12 => self.count_three(self.three.try_acquire(1).is_ok()),
            _ => {
                if self.line.acquire().within(patience).await.is_ok() {
                    count(&self.granted.line, 1);
                }
            }
        }
    }

    /// One thing that a thread may do.
    fn act_on_a_thread(&self, dice: &mut Random) {
        let cost = 1 + dice.below(3);
        let patience = Duration::from_micros(dice.below(6_000));
        self.keeps_to_its_slots();
        match dice.below(7) {
            0 => self.count_rate(self.rate.acquire(cost).wait().is_ok(), cost),
            1 => self.count_rate(self.rate.acquire(cost).within(patience).wait().is_ok(), cost),
            2 => {
                if let Ok(permit) = self.slots.acquire().within(patience).wait() {
                    count(&self.granted.slots, 1);
                    self.keeps_to_its_slots();
                    thread::yield_now();
                    drop(permit);
                }
            }
            3 => {
                count(&self.granted.asked_both, 1);
                self.count_both(self.both.acquire(cost).within(patience).wait().is_ok(), cost);
            }
            4 => self.count_three(self.three.acquire(1).within(patience).wait().is_ok()),
            5 => {
                if self.line.acquire().within(patience).wait().is_ok() {
                    count(&self.granted.line, 1);
                }
            }
            _ => {
                if self.windows.acquire(cost).within(patience).wait().is_ok() {
                    count(&self.granted.windows, 1);
                }
            }
        }
    }

    async fn estimate(&self, dice: &mut Random, patience: Duration) {
        let mut reservation = self.estimates.reserve(1 + dice.below(6)).unwrap();
        match dice.below(4) {
            0 => drop(reservation),
            1 => {
                if reservation.ready().within(patience).await.is_ok() {
                    count(&self.granted.estimates, 1);
                    reservation.settle(dice.below(9));
                }
            }
            2 => {
                reservation.ready().await.unwrap();
                count(&self.granted.estimates, 1);
                reservation.settle(dice.below(6));
            }
            _ => {
                // Used before its turn.
                count(&self.granted.estimates, 1);
                reservation.settle(dice.below(4));
            }
        }
    }

    fn count_rate(&self, granted: bool, cost: u64) {
        count(&self.granted.rate, granted.into());
        count(&self.granted.cost, if granted { cost } else { 0 });
    }

    fn count_both(&self, granted: bool, cost: u64) {
        count(&self.granted.both, granted.into());
        count(&self.granted.cost, if granted { cost } else { 0 });
    }

    fn count_three(&self, granted: bool) {
        count(&self.granted.three, granted.into());
        count(&self.granted.cost, granted.into());
    }

    /// At no moment are more in flight than may be.
    fn keeps_to_its_slots(&self) {
        let in_flight = self.slots.in_flight();
        assert!(in_flight <= SLOTS, "{in_flight} in flight");
    }

    /// Nobody waits, nothing is held, and what was granted is what those who asked were granted.
    fn adds_up(&self, took: Duration) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let granted = &self.granted;
        let (both, three) = (of(&granted.both), of(&granted.three));
        let statistics = self.rate.statistics();
        assert_eq!(
            (statistics.acquired, statistics.queue_depth),
            (of(&granted.rate) + both + three, 0),
            "rate"
        );
        let statistics = self.estimates.statistics();
        assert_eq!((statistics.acquired, statistics.queue_depth), (of(&granted.estimates), 0), "estimates");
        let statistics = self.windows.statistics();
        assert_eq!(
            (statistics.acquired, statistics.queue_depth),
            (of(&granted.windows) + three, 0),
            "windows"
        );
        let statistics = self.line.statistics();
        assert_eq!((statistics.acquired, statistics.queue_depth), (of(&granted.line), 0), "line");
        let statistics = self.slots.statistics();
        assert_eq!(
            (statistics.acquired, statistics.queue_depth),
            (of(&granted.slots) + both + three, 0),
            "slots"
        );
        assert_eq!(self.slots.in_flight(), 0);
        let (both, asked) = (self.both.statistics(), of(&granted.asked_both));
        assert_eq!((both.acquired, both.queue_depth), (of(&granted.both), 0), "both");
        assert_eq!(both.acquired + both.rejected + both.cancelled, asked, "each has one outcome: {both:?}");
        let most = 8 + 4 * (at_most(u64::try_from(took.as_nanos()).unwrap()) / 1_000_000 + 1);
        assert!(of(&granted.cost) <= most, "{} in {took:?}, at most {most}", of(&granted.cost));
        // Without a deadline, every request is granted at last. With one, a busy machine may be too late for all of them.
        assert!(of(&granted.rate) > 0);
    }
}

#[test]
fn many_runtimes_and_threads_at_once() {
    each_seed(16, |seed| {
        let seed = seed + 1;
        let world = World::new();
        let start = Instant::now();
        in_time(&format!("seed {seed}"), {
            let world = Arc::clone(&world);
            move || one_schedule(&world, seed)
        });
        world.adds_up(start.elapsed());
    });
}

fn one_schedule(world: &Arc<World>, seed: u64) {
    // A runtime that polls once and is not driven any more, for as long as the others are at it.
    let idle = current_thread();
    let mut never_polled_again = world.rate.acquire(1);
    let seen = idle.block_on(async { poll(&mut never_polled_again).is_ready() });
    world.count_rate(seen, 1);
    thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || {
                let mut dice = Random::new(seed * 100 + number);
                (0..150).for_each(|_| world.act_on_a_thread(&mut dice));
            });
        }
        // In real time they share the limiters with everybody; a paused runtime must not hold anybody up.
        for (number, runtime) in
            [current_thread(), current_thread(), multi_thread(), paused()].into_iter().enumerate()
        {
            scope.spawn(move || drive(world, runtime, seed * 1_000 + number as u64 * 10));
        }
        scope.spawn(move || abandon_runtimes(world, seed));
    });
    drop(never_polled_again);
}

/// Several tasks at once, some of which are aborted.
fn drive(world: &Arc<World>, runtime: tokio::runtime::Runtime, seed: u64) {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..6)
            .map(|number| {
                let (world, mut dice) = (Arc::clone(world), Random::new(seed + number));
                tokio::spawn(async move {
                    for _ in 0..120 {
                        world.act(&mut dice).await;
                    }
                })
            })
            .collect();
        let aborted: Vec<_> = (0..10)
            .map(|number| {
                let (world, mut dice) = (Arc::clone(world), Random::new(seed * 7 + number));
                tokio::spawn(async move {
                    loop {
                        world.act(&mut dice).await;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        aborted.iter().for_each(tokio::task::JoinHandle::abort);
        for task in aborted {
            assert!(task.await.unwrap_err().is_cancelled());
        }
    });
}

/// Runtimes that are shut down while their tasks wait.
fn abandon_runtimes(world: &Arc<World>, seed: u64) {
    let mut dice = Random::new(seed * 31);
    for number in 0..10 {
        let runtime = current_thread();
        for task in 0..4 {
            let (world, mut dice) = (Arc::clone(world), Random::new(seed * 77 + number * 10 + task));
            runtime.spawn(async move {
                loop {
                    world.act(&mut dice).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        let polls = dice.below(200);
        runtime.block_on(async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        });
        drop(runtime);
    }
}

/// In paused time nothing happens but what is due: the same, with limiters of its own.
#[test]
fn in_paused_time_too() {
    each_seed(16, |seed| {
        let seed = seed + 1;
        in_time(&format!("paused, seed {seed}"), move || {
            paused().block_on(async {
                let (world, start) = (World::new(), tokio::time::Instant::now());
                let tasks: Vec<_> = (0..8)
                    .map(|number| {
                        let (world, mut dice) = (Arc::clone(&world), Random::new(seed * 1_000 + number));
                        tokio::spawn(async move {
                            for _ in 0..150 {
                                world.act(&mut dice).await;
                            }
                        })
                    })
                    .collect();
                // A thread outside waits for the same time.
                let outside = thread::spawn({
                    let world = Arc::clone(&world);
                    move || {
                        let mut dice = Random::new(seed);
                        (0..40).for_each(|_| world.act_on_a_thread(&mut dice));
                    }
                });
                for task in tasks {
                    task.await.unwrap();
                }
                while !outside.is_finished() {
                    passes(ms(1)).await;
                }
                outside.join().unwrap();
                world.adds_up(start.elapsed());
            });
        });
    });
}
