//! Adaptive limits against a simulated far side of which the optimum is known.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;

use ratekeeper::limiter::{Adaptive, Concurrency, OwnedPermit, PermitOutcome};
use ratekeeper::port::Clock;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Nanos, Quota, Timestamp};
use test_support::cases::is_thorough;

/// A far side of which the optimum is known: it does `workers` at once, each in `service`, and refuses whoever
/// would be more than `room` inside.
struct FarSide {
    workers: usize,
    service: Nanos,
    room: usize,
}

/// A closed loop: as many are sent as the limit allows, up to the demand.
struct Simulation {
    clock: FakeClock,
    upstream: Concurrency,
    far_side: FarSide,
    /// When each worker is free again.
    free_at: BinaryHeap<Reverse<Timestamp>>,
    /// Who is inside, by when they will be done.
    inside: BTreeMap<(Timestamp, u64), (OwnedPermit, PermitOutcome)>,
    sent: u64,
    done: u64,
}

impl Simulation {
    fn new(adaptive: Adaptive, initial: u64, far_side: FarSide) -> Self {
        let clock = FakeClock::at(Timestamp::from_secs(1_000));
        let builder = Concurrency::builder(Quota::concurrent(initial).build().unwrap());
        let upstream = builder.clock(clock.clone()).adaptive(adaptive).build().unwrap();
        let (free_at, inside) = (BinaryHeap::new(), BTreeMap::new());
        Simulation { clock, upstream, far_side, free_at, inside, sent: 0, done: 0 }
    }

    /// Until `answers` more have come back; the least and the greatest limit in the second half of it.
    fn run(&mut self, answers: u64, demand: usize) -> (u64, u64) {
        let (mut least, mut greatest) = (u64::MAX, 0);
        let end = self.done + answers;
        while self.done < end {
            while self.inside.len() < demand
                && let Ok(permit) = self.upstream.try_acquire_owned()
            {
                self.send(permit, self.clock.now());
            }
            let ((now, _), (permit, outcome)) = self.inside.pop_first().unwrap();
            self.clock.set(now);
            permit.finish(outcome);
            self.done += 1;
            if self.done > end - answers / 2 {
                least = least.min(self.upstream.limit());
                greatest = greatest.max(self.upstream.limit());
            }
        }
        (least, greatest)
    }

    fn send(&mut self, permit: OwnedPermit, now: Timestamp) {
        self.sent += 1;
        if self.inside.len() >= self.far_side.room {
            let refused = now + Nanos::from_millis(1);
            self.inside.insert((refused, self.sent), (permit, PermitOutcome::Overload));
            return;
        }
        // Workers that were taken away go as soon as they are free.
        while self.free_at.len() > self.far_side.workers {
            self.free_at.pop();
        }
        let begins = if self.free_at.len() < self.far_side.workers {
            now
        } else {
            self.free_at.pop().map_or(now, |Reverse(free)| free.max(now))
        };
        let ends = begins + self.far_side.service;
        self.free_at.push(Reverse(ends));
        self.inside.insert((ends, self.sent), (permit, PermitOutcome::Success));
    }
}

const MS: fn(u64) -> Nanos = Nanos::from_millis;

#[test]
fn aimd_converges_recovers_and_does_not_creep() {
    let far_side = FarSide { workers: 40, service: MS(10), room: 40 };
    let mut simulation = Simulation::new(Adaptive::aimd(), 5, far_side);
    let (least, greatest) = simulation.run(40_000, usize::MAX);
    assert!(least >= 33 && greatest <= 41, "the far side holds 40: {least}..{greatest}");

    simulation.far_side.room = 20;
    let (least, greatest) = simulation.run(40_000, usize::MAX);
    assert!(least >= 15 && greatest <= 21, "it holds 20 now: {least}..{greatest}");

    simulation.far_side.room = 40;
    let (least, greatest) = simulation.run(40_000, usize::MAX);
    assert!(least >= 33 && greatest <= 41, "it holds 40 again: {least}..{greatest}");

    simulation.run(1_000, 4);
    let before = simulation.upstream.limit();
    let (least, greatest) = simulation.run(40_000, 4);
    assert!((least, greatest) == (before, before), "nothing pushes against {before}: {least}..{greatest}");
}

#[test]
fn the_gradient_converges_recovers_and_does_not_creep() {
    let far_side = FarSide { workers: 40, service: MS(10), room: usize::MAX };
    let mut simulation = Simulation::new(Adaptive::gradient(), 4, far_side);
    // 40 at once, and a tenth of the limit as headroom: 44. A probe halves it for a moment.
    let near = |(least, greatest): (u64, u64), optimum: u64| {
        let settled = optimum + optimum / 9;
        assert!(
            least >= settled / 2 - 2 && greatest <= settled + 3,
            "optimum {optimum}: {least}..{greatest}"
        );
    };
    near(simulation.run(60_000, usize::MAX), 40);
    assert!(simulation.upstream.limit() >= 20);
    for _ in 0..if is_thorough() { 20 } else { 8 } {
        // A long time at the limit, with the queue that it keeps there: that must not be taken for normal.
        near(simulation.run(20_000, usize::MAX), 40);
    }
    simulation.far_side.workers = 10;
    near(simulation.run(60_000, usize::MAX), 10);
    simulation.far_side.workers = 40;
    near(simulation.run(60_000, usize::MAX), 40);
    // Slower, but no fuller: what an idle far side takes is measured anew.
    simulation.far_side.service = MS(25);
    near(simulation.run(60_000, usize::MAX), 40);
}

#[test]
fn the_gradient_finds_its_way_down_and_honours_drops() {
    let far_side = FarSide { workers: 10, service: MS(10), room: usize::MAX };
    let mut simulation = Simulation::new(Adaptive::gradient(), 400, far_side);
    let (_, greatest) = simulation.run(60_000, usize::MAX);
    assert!(greatest <= 14, "began at forty times the optimum: {greatest}");

    let far_side = FarSide { workers: 40, service: MS(10), room: 20 };
    let mut simulation = Simulation::new(Adaptive::gradient(), 4, far_side);
    let (_, greatest) = simulation.run(60_000, usize::MAX);
    assert!(greatest <= 24, "fast, but it refuses more than 20: {greatest}");
}
