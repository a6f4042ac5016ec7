//! Threads that ask as fast as they can, and what they were admitted.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::bound::{Admission, Bound, breach};
use crate::random::Random;

/// How many ask at once, on what are often two cores. Each attack of a row takes the next of them.
pub(crate) const SIZES: [usize; 6] = [2, 16, 64, 4, 32, 8];

/// Asks from so many threads at once until the time is up. `ask` is told which thread it is and tells how much it was
/// admitted.
///
/// However busy the machine, there are as many calls as `least` in all: enough to be admitted what there is at once.
pub(crate) fn crowd(
    threads: usize,
    length: Duration,
    least: usize,
    ask: impl Fn(usize, &mut Random) -> u64 + Sync,
) -> Vec<Admission> {
    let (barrier, ask) = (&Barrier::new(threads), &ask);
    let started = Instant::now();
    let now = move || u64::try_from(started.elapsed().as_nanos()).unwrap();
    let least = least.div_ceil(threads);
    thread::scope(|scope| {
        let work = |number: usize| {
            move || {
                let mut random = Random::new(number as u64);
                let mut admitted = Vec::new();
                let mut calls = 0;
                barrier.wait();
                let begin = Instant::now();
                while calls < least || begin.elapsed() < length {
                    calls += 1;
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

/// What was found wrong, by the name of the attack. All attacks are made before a test fails: the list tells more
/// than its first line.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<String>);

impl Findings {
    /// Holds what was admitted to what every one of these bounds allows.
    pub(crate) fn check(&mut self, attack: &str, bounds: &[Bound], admitted: &[Admission]) {
        for bound in bounds {
            if let Some(breach) = breach(admitted, |span| bound.within(span)) {
                self.0.push(format!("{attack}: {breach}"));
            }
        }
        // The least that any of the rules admits at once: a store that says no to everybody proves nothing.
        let least = bounds.iter().map(Bound::at_least).min().unwrap_or(0);
        let total: u64 = admitted.iter().map(|admission| admission.cost).sum();
        if total < least {
            self.0.push(format!("{attack}: only {total} admitted, at least {least} should be"));
        }
    }

    pub(crate) fn none(self) {
        assert!(self.0.is_empty(), "{} attacks got through:\n{}", self.0.len(), self.0.join("\n"));
    }
}
