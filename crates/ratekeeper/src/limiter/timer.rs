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
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Some(sleep) = tokio_keeper::sleep()
        {
            runtime.spawn(tokio_keeper::keep(tokio_keeper::Employment::new(core), sleep));
            return;
        }
        thread_keeper::hire(core);
    }
}

#[cfg(all(feature = "tokio", not(loom)))]
mod tokio_keeper {
    use std::future::{Future, poll_fn};
    use std::panic::catch_unwind;
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    use tokio::time::Sleep;

    use super::{Arc, Core};

    /// The longest sleep at a time; what is due later is looked at again.
    const LONGEST: Duration = Duration::from_secs(30 * 86_400);

    /// That there is a keeper. If its task ends before its work is done (the runtime was shut down), the oldest
    /// waiter is told, and hires another in its own runtime.
    pub(super) struct Employment {
        core: Arc<Core>,
        /// It has ended as it should: there may be a successor by now, which is not to be dismissed.
        is_over: bool,
    }

    impl Employment {
        pub(super) fn new(core: &Arc<Core>) -> Self {
            Employment { core: Arc::clone(core), is_over: false }
        }
    }

    impl Drop for Employment {
        fn drop(&mut self) {
            if !self.is_over {
                self.core.with(|desk, now, wakes| desk.abandon(now, wakes));
            }
        }
    }

    /// A timer of this runtime; none if it was built without (there is no way to ask but to try).
    pub(super) fn sleep() -> Option<Sleep> {
        catch_unwind(|| tokio::time::sleep(Duration::ZERO)).ok()
    }

    pub(super) async fn keep(mut employment: Employment, sleep: Sleep) {
        let core = &employment.core;
        let mut sleep = pin!(sleep);
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
        employment.is_over = true;
    }
}

#[cfg(not(loom))]
mod thread_keeper {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Wake;
    use std::time::{Duration, Instant};

    use parking_lot::{Condvar, Mutex, MutexGuard};

    use super::{Arc, Core};

    /// The longest sleep at a time; what is due later is looked at again.
    const LONGEST: Duration = Duration::from_secs(86_400);

    /// One thread for all limiters that are waited for outside of a runtime.
    static ALARMS: Mutex<Alarms> = Mutex::new(Alarms { due: BTreeMap::new(), number: 0, has_thread: false });

    /// Told when an alarm is set.
    static SET: Condvar = Condvar::new();

    struct Alarms {
        due: BTreeMap<Alarm, Arc<Clerk>>,
        /// Tells apart those that are due at the same instant.
        number: u64,
        has_thread: bool,
    }

    type Alarm = (Instant, u64);

    /// Keeps the time of one limiter, with one alarm at a time.
    struct Clerk {
        core: Arc<Core>,
        /// Changed only by who has locked the alarms.
        alarm: Mutex<Option<Alarm>>,
    }

    impl Wake for Clerk {
        fn wake(self: Arc<Self>) {
            self.set(Instant::now());
        }
    }

    impl Clerk {
        fn set(self: Arc<Self>, at: Instant) {
            let mut alarms = ALARMS.lock();
            alarms.number += 1;
            let alarm = (at, alarms.number);
            // The old one would keep the limiter in memory until it is due.
            let old = self.alarm.lock().replace(alarm);
            let old = old.and_then(|old| alarms.due.remove(&old));
            alarms.due.insert(alarm, self);
            drop(alarms);
            drop(old);
            SET.notify_one();
        }

        fn turn(self: Arc<Self>) {
            let waker = Arc::clone(&self).into();
            let turn = catch_unwind(AssertUnwindSafe(|| self.core.turn(&waker)));
            match turn {
                Ok(Some(wait)) => self.set(Instant::now() + wait.as_duration().min(LONGEST)),
                Ok(None) => {}
                // Somebody's waker has panicked, which is no reason not to serve the others.
                Err(_) => self.set(Instant::now()),
            }
        }
    }

    pub(super) fn hire(core: &Arc<Core>) {
        if let Err(error) = start() {
            // Whoever asks next may be luckier.
            core.with(|desk, _, _| desk.withdraw_promise());
            panic!("the process can start no more threads: {error}");
        }
        Arc::new(Clerk { core: Arc::clone(core), alarm: Mutex::new(None) }).set(Instant::now());
    }

    fn start() -> std::io::Result<()> {
        let mut alarms = ALARMS.lock();
        if !alarms.has_thread {
            std::thread::Builder::new().name("ratekeeper-timer".into()).spawn(run)?;
            alarms.has_thread = true;
        }
        Ok(())
    }

    fn run() {
        let mut alarms = ALARMS.lock();
        loop {
            match alarms.due.first_key_value().map(|((at, _), _)| *at) {
                None => SET.wait(&mut alarms),
                Some(at) if at > Instant::now() => drop(SET.wait_until(&mut alarms, at)),
                Some(_) => {
                    let Some((_, clerk)) = alarms.due.pop_first() else { continue };
                    *clerk.alarm.lock() = None;
                    MutexGuard::unlocked(&mut alarms, || clerk.turn());
                }
            }
        }
    }
}
