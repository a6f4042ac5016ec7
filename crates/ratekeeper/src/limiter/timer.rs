//! Hiring someone to keep a limiter's time: a task of the tokio runtime that the waiter runs in, or else the
//! process's timer thread. Either lives only while somebody waits.

use super::core::Core;
use super::sync::Arc;

/// Hires a keeper for a limiter that was promised one.
pub(crate) fn hire(core: &Arc<Core>) {
    #[cfg(loom)]
    let _ = core;
    #[cfg(not(loom))]
    {
        #[cfg(all(feature = "tokio", not(loom)))]
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio_keeper::keep(tokio_keeper::Employment(Arc::clone(core))));
            return;
        }
        thread_keeper::hire(core);
    }
}

#[cfg(all(feature = "tokio", not(loom)))]
mod tokio_keeper {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    use super::{Arc, Core};

    /// The longest sleep at a time; what is due later is looked at again.
    const LONGEST: Duration = Duration::from_secs(30 * 86_400);

    /// That there is a keeper. If its task ends before its work is done (the runtime was shut down), the oldest
    /// waiter is told, and hires another in its own runtime.
    pub(super) struct Employment(pub(super) Arc<Core>);

    impl Drop for Employment {
        fn drop(&mut self) {
            self.0.with(|desk, now, wakes| desk.abandon(now, wakes));
        }
    }

    pub(super) async fn keep(employment: Employment) {
        let core = &employment.0;
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        poll_fn(|cx| {
            loop {
                let Some(wait) = core.turn(cx.waker()) else { return Poll::Ready(()) };
                sleep.as_mut().reset(tokio::time::Instant::now() + wait.as_duration().min(LONGEST));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }
}

#[cfg(not(loom))]
mod thread_keeper {
    use std::cmp::Ordering as Order;
    use std::collections::BinaryHeap;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;
    use std::time::{Duration, Instant};

    use parking_lot::{Condvar, Mutex};

    use super::{Arc, Core};

    /// The longest sleep at a time; what is due later is looked at again.
    const LONGEST: Duration = Duration::from_secs(86_400);

    /// One thread for all limiters that are waited for outside of a runtime.
    static ALARMS: OnceLock<Alarms> = OnceLock::new();

    struct Alarms {
        due: Mutex<BinaryHeap<Alarm>>,
        earlier: Condvar,
    }

    struct Alarm {
        at: Instant,
        clerk: Arc<Clerk>,
        number: u64,
    }

    /// Keeps the time of one limiter. Only its latest alarm counts.
    struct Clerk {
        core: Arc<Core>,
        latest: AtomicU64,
    }

    impl Wake for Clerk {
        fn wake(self: Arc<Self>) {
            self.set(Instant::now());
        }
    }

    impl Clerk {
        fn set(self: Arc<Self>, at: Instant) {
            let alarms = ALARMS.get_or_init(Alarms::start);
            let number = self.latest.fetch_add(1, Ordering::Relaxed) + 1;
            alarms.due.lock().push(Alarm { at, clerk: self, number });
            alarms.earlier.notify_one();
        }

        fn turn(self: Arc<Self>) {
            let waker = Arc::clone(&self).into();
            if let Some(wait) = self.core.turn(&waker) {
                self.set(Instant::now() + wait.as_duration().min(LONGEST));
            }
        }
    }

    pub(super) fn hire(core: &Arc<Core>) {
        Arc::new(Clerk { core: Arc::clone(core), latest: AtomicU64::new(0) }).set(Instant::now());
    }

    impl Alarms {
        fn start() -> Self {
            let thread = std::thread::Builder::new().name("ratekeeper-timer".into());
            thread.spawn(run).expect("the process can start no more threads");
            Alarms { due: Mutex::new(BinaryHeap::new()), earlier: Condvar::new() }
        }
    }

    fn run() {
        let alarms = ALARMS.wait();
        let mut due = alarms.due.lock();
        loop {
            match due.peek().map(|alarm| alarm.at) {
                None => alarms.earlier.wait(&mut due),
                Some(at) if at > Instant::now() => drop(alarms.earlier.wait_until(&mut due, at)),
                Some(_) => {
                    let Some(Alarm { clerk, number, .. }) = due.pop() else { continue };
                    parking_lot::MutexGuard::unlocked(&mut due, || {
                        if clerk.latest.load(Ordering::Relaxed) == number {
                            clerk.turn();
                        }
                    });
                }
            }
        }
    }

    impl Ord for Alarm {
        /// The earliest is the greatest: that is what a heap gives out first.
        fn cmp(&self, other: &Self) -> Order {
            (other.at, other.number).cmp(&(self.at, self.number))
        }
    }

    impl PartialOrd for Alarm {
        fn partial_cmp(&self, other: &Self) -> Option<Order> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Alarm {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Order::Equal
        }
    }

    impl Eq for Alarm {}
}
