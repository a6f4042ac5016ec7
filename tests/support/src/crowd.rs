//! Threads that make requests as fast as they can, and what they were allowed.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::bound::{Admission, Bound, breach};
use crate::random::Random;

/// Crowd sizes for machines that often have two cores. Each attack of a row takes the next size.
pub const SIZES: [usize; 6] = [2, 16, 64, 4, 32, 8];

/// Makes `calls` calls in all from `threads` threads at once, each thread at least one.
///
/// `ask` receives the number of its thread and returns the cost that was allowed. The number of calls is fixed, so that a busy
/// machine makes the same requests as an idle one, only later.
pub fn crowd(threads: usize, calls: usize, ask: impl Fn(usize, &mut Random) -> u64 + Sync) -> Vec<Admission> {
    let (barrier, ask, started) = (&Barrier::new(threads), &ask, Instant::now());
    let now = move || u64::try_from(started.elapsed().as_nanos()).unwrap();
    let calls = calls.div_ceil(threads);
    thread::scope(|scope| {
        let work = |number: usize| {
            move || {
                let mut random = Random::new(number as u64);
                let mut admitted = Vec::new();
                barrier.wait();
                for _ in 0..calls {
                    let before = now();
                    let cost = ask(number, &mut random);
                    if cost > 0 {
                        admitted.push(Admission { before, after: now(), cost, refunded: None });
                    }
                }
                admitted
            }
        };
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(work(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// The attacks that were allowed too much or too little. A test makes all its attacks before it fails: the whole list says more
/// than its first line.
#[derive(Debug, Default)]
pub struct Findings(Vec<String>);

impl Findings {
    /// Checks that no span of time had more than each of these bounds allows, and that the least of the bursts was allowed.
    ///
    /// The second holds on any machine if the attack asked for more than that burst: a request is denied only once the burst is
    /// used up. It catches a store that denies everything.
    pub fn check(&mut self, attack: &str, bounds: &[Bound], admitted: &[Admission]) {
        self.check_bounds(attack, bounds, admitted);
        let least = bounds.iter().map(Bound::at_least).min().unwrap_or(0);
        let total: u64 = admitted.iter().map(|admission| admission.cost).sum();
        if total < least {
            self.0.push(format!("{attack}: only {total} allowed, at least {least} expected"));
        }
    }

    /// Checks that no span of time had more than each of these bounds allows.
    pub fn check_bounds(&mut self, attack: &str, bounds: &[Bound], admitted: &[Admission]) {
        for bound in bounds {
            if let Some(breach) = breach(admitted, |span| bound.within(span)) {
                self.0.push(format!("{attack}: {breach}"));
            }
        }
    }

    /// Panics with all findings, if there are any.
    pub fn none(self) {
        assert!(self.0.is_empty(), "{} attacks failed:\n{}", self.0.len(), self.0.join("\n"));
    }
}
