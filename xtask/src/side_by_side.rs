//! Several jobs at a time.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many processors there are.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does all jobs, in their order, at most so many at a time. Returns what came of each, in the same order.
pub(crate) fn run<J: Sync, R: Send>(jobs: &[J], at_a_time: usize, work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(place) else { return done };
            done.push((place, work(job)));
        }
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time.max(1)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|end| end.join().unwrap_or_else(|cause| resume_unwind(cause))).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn each_job_is_done_once_and_results_keep_their_order() {
        let jobs: Vec<u32> = (0..100).collect();
        assert_eq!(run(&jobs, 3, |job| job * 2), jobs.iter().map(|job| job * 2).collect::<Vec<_>>());
        assert!(run(&[], 3, |job: &u32| *job).is_empty());
    }

    /// Two jobs that wait for each other end only if both are begun.
    #[test]
    fn as_many_as_said_are_done_at_a_time() {
        let both = Barrier::new(2);
        assert_eq!(run(&[1, 2, 3, 4], 2, |_| both.wait().is_leader()).len(), 4);
        let running = AtomicUsize::new(0);
        let most = run(&[(); 50], 2, |()| {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            thread::yield_now();
            running.fetch_sub(1, Ordering::SeqCst);
            now
        });
        assert!(most.into_iter().max().unwrap_or_default() <= 2);
    }
}
