//! Hiring someone to keep a limiter's time, for as long as somebody waits.
//!
//! Real time is kept by one thread of the process for all limiters: a runtime may be alive and not driven, or be shut
//! down, and those who wait elsewhere would wait for it. Paused time can be kept only by a task of the runtime that
//! paused it, because that moves it from one of its timers to the next.

use super::core::Core;
#[cfg(not(loom))]
use super::keeper::Turn;
use crate::sync::Arc;

/// Hires a keeper for a limiter that was promised one.
pub(crate) fn hire(core: &Arc<Core>) {
    #[cfg(loom)]
    let _ = core;
    #[cfg(not(loom))]
    {
        #[cfg(feature = "tokio")]
        if tokio_keeper::hire(core) {
            return;
        }
        let Err(error) = thread_keeper::hire(core) else { return };
        #[cfg(feature = "tokio")]
        if tokio_keeper::stand_in(core) {
            return;
        }
        // Whoever asks next may be luckier.
        core.with(|desk, _, _| desk.withdraw_promise());
        panic!("the process can start no more threads: {error}");
    }
}

#[cfg(all(feature = "tokio", not(loom)))]
mod tokio_keeper {
    use std::future::{Future, poll_fn};
    use std::panic::catch_unwind;
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    use tokio::runtime::Handle;
    use tokio::time::Sleep;

    use super::{Arc, Core, Turn};

    /// Spawns a keeper, if the limiter's time is a runtime's; false if it is everybody's.
    pub(super) fn hire(core: &Arc<Core>) -> bool {
        core.clock.runtime().is_some_and(|runtime| spawn(core, &runtime))
    }

    /// Spawns a keeper in the runtime that this is called in, if it has a timer: better than nobody, where the process
    /// can start no more threads.
    pub(super) fn stand_in(core: &Arc<Core>) -> bool {
        Handle::try_current().is_ok_and(|runtime| spawn(core, &runtime))
    }

    fn spawn(core: &Arc<Core>, runtime: &Handle) -> bool {
        let _entered = runtime.enter();
        let Some(sleep) = sleep() else { return false };
        // A runtime that was shut down drops a task at once. One that is done so early has found nothing to do, and it
        // does no harm if somebody else looks once more.
        let is_gone = runtime.spawn(keep(Employment::new(core), sleep)).is_finished();
        if is_gone {
            // It has broken the promise, which is renewed, or everybody who comes would hire another one.
            core.with(|desk, _, _| desk.promise_keeper());
        }
        !is_gone
    }

    /// The longest sleep at a time; what is due later is looked at again.
    const LONGEST: Duration = Duration::from_secs(30 * 86_400);

    /// That there is a keeper. If its task ends before its work is done (the runtime was shut down), those who wait are
    /// told, and the first to come hires another in its own runtime.
    struct Employment {
        core: Arc<Core>,
        /// It has ended as it should: there may be a successor by now, which is not to be dismissed.
        is_over: bool,
    }

    impl Employment {
        fn new(core: &Arc<Core>) -> Self {
            Employment { core: Arc::clone(core), is_over: false }
        }
    }

    impl Drop for Employment {
        fn drop(&mut self) {
            if !self.is_over {
                self.core.with(|desk, _, wakes| desk.abandon(wakes));
            }
        }
    }

    /// A timer of this runtime; none if it was built without (there is no way to ask but to try).
    fn sleep() -> Option<Sleep> {
        catch_unwind(|| tokio::time::sleep(Duration::ZERO)).ok()
    }

    async fn keep(mut employment: Employment, sleep: Sleep) {
        let core = &employment.core;
        let mut sleep = pin!(sleep);
        poll_fn(|cx| {
            loop {
                let wait = match core.turn(cx.waker()) {
                    Turn::Sleep(wait) => wait,
                    // Without a timer: a paused clock would be moved to it.
                    Turn::Idle => return Poll::Pending,
                    Turn::Over => return Poll::Ready(()),
                };
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
    use std::any::Any;
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Wake;
    use std::time::{Duration, Instant};

    use parking_lot::{Condvar, Mutex, MutexGuard};

    use super::{Arc, Core, Turn};
    use crate::Timestamp;

    /// The longest sleep at a time; what is due later is looked at again.
    const LONGEST: Duration = Duration::from_secs(86_400);

    /// How long to wait at least for a clock that has not moved: it is moved by hand, or its runtime is gone.
    const STOPPED: Duration = Duration::from_millis(1);

    /// One thread for all limiters that are waited for.
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
        /// What the limiter's clock has shown at the last turn.
        seen: Mutex<Option<Timestamp>>,
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
            match catch_unwind(AssertUnwindSafe(|| (self.core.turn(&waker), self.core.now()))) {
                Ok((Turn::Sleep(wait), now)) => {
                    let stands_still = self.seen.lock().replace(now) == Some(now);
                    let least = if stands_still { STOPPED } else { Duration::ZERO };
                    self.set(Instant::now() + wait.as_duration().clamp(least, LONGEST));
                }
                // Whoever waits knows how to wake it.
                Ok((Turn::Idle | Turn::Over, _)) => {}
                // Somebody's waker has panicked, which is no reason not to serve the others.
                Err(panic) => {
                    self.set(Instant::now());
                    discard(panic);
                }
            }
        }
    }

    /// Drops what somebody has panicked with, which may panic too.
    fn discard(panic: Box<dyn Any + Send>) {
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(another);
        }
    }

    /// Fails if the process can start no more threads.
    pub(super) fn hire(core: &Arc<Core>) -> std::io::Result<()> {
        start()?;
        Arc::new(Clerk { core: Arc::clone(core), alarm: Mutex::new(None), seen: Mutex::new(None) })
            .set(Instant::now());
        Ok(())
    }

    fn start() -> std::io::Result<()> {
        let mut alarms = ALARMS.lock();
        if !alarms.has_thread {
            spawn()?;
            alarms.has_thread = true;
        }
        Ok(())
    }

    fn spawn() -> std::io::Result<()> {
        std::thread::Builder::new().name("ratekeeper-timer".into()).spawn(run).map(drop)
    }

    /// That there is a thread. Nothing ends it; if something does all the same, there is another, or the next one who
    /// waits starts one.
    struct Running;

    impl Drop for Running {
        fn drop(&mut self) {
            ALARMS.lock().has_thread = spawn().is_ok();
        }
    }

    fn run() {
        let _running = Running;
        let mut alarms = ALARMS.lock();
        loop {
            match alarms.due.first_key_value().map(|((at, _), _)| *at) {
                None => SET.wait(&mut alarms),
                Some(at) if at > Instant::now() => drop(SET.wait_until(&mut alarms, at)),
                Some(_) => {
                    let Some((_, clerk)) = alarms.due.pop_first() else { continue };
                    *clerk.alarm.lock() = None;
                    MutexGuard::unlocked(&mut alarms, || {
                        // It may be the last to know its limiter: what that is made of, a clock for one, is the
                        // caller's, and may panic when it is dropped.
                        catch_unwind(AssertUnwindSafe(|| clerk.turn())).unwrap_or_else(discard);
                    });
                }
            }
        }
    }
}
