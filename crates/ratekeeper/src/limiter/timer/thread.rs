//! The process's timer thread: one for all limiters that somebody waits for.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Wake;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::Timestamp;
use crate::limiter::core::LimiterCore;
use crate::limiter::queue::NextTurn;
use crate::sync::Arc;

/// The longest sleep at a time; what is due later is looked at again.
const LONGEST: Duration = Duration::from_secs(86_400);

/// How long to wait at least for a clock that has not moved: it is moved by hand, or its runtime is gone.
const STOPPED: Duration = Duration::from_millis(1);

static TIMERS: Mutex<Timers> = Mutex::new(Timers { due: BTreeMap::new(), number: 0, has_thread: false });

/// Notified when an entry is set.
static SET: Condvar = Condvar::new();

/// When each limiter is due.
struct Timers {
    due: BTreeMap<DueAt, Arc<TimerEntry>>,
    /// Tells apart those that are due at the same instant.
    number: u64,
    has_thread: bool,
}

type DueAt = (Instant, u64);

/// One limiter, which is due at one instant at a time.
struct TimerEntry {
    core: Arc<LimiterCore>,
    /// Changed only by who has locked the timers.
    due_at: Mutex<Option<DueAt>>,
    /// What the limiter's clock has shown at the last turn.
    seen: Mutex<Option<Timestamp>>,
}

impl Wake for TimerEntry {
    fn wake(self: Arc<Self>) {
        self.set(Instant::now());
    }
}

impl TimerEntry {
    fn set(self: Arc<Self>, at: Instant) {
        let mut timers = TIMERS.lock();
        timers.number += 1;
        let due_at = (at, timers.number);
        // The old one would keep the limiter in memory until it is due.
        let old = self.due_at.lock().replace(due_at);
        let old = old.and_then(|old| timers.due.remove(&old));
        timers.due.insert(due_at, self);
        drop(timers);
        drop(old);
        SET.notify_one();
    }

    fn turn(self: Arc<Self>) {
        let waker = Arc::clone(&self).into();
        match catch_unwind(AssertUnwindSafe(|| (self.core.turn_of_timer(&waker), self.core.now()))) {
            Ok((NextTurn::Sleep(wait), now)) => {
                let stands_still = self.seen.lock().replace(now) == Some(now);
                let least = if stands_still { STOPPED } else { Duration::ZERO };
                self.set(Instant::now() + wait.as_duration().clamp(least, LONGEST));
            }
            // Whoever waits has the waker.
            Ok((NextTurn::Idle | NextTurn::Over, _)) => {}
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

/// Keeps the time of a limiter. Fails if the process can start no more threads.
pub(super) fn add(core: &Arc<LimiterCore>) -> std::io::Result<()> {
    let mut timers = TIMERS.lock();
    if !timers.has_thread {
        spawn()?;
        timers.has_thread = true;
    }
    drop(timers);
    let entry = TimerEntry { core: Arc::clone(core), due_at: Mutex::new(None), seen: Mutex::new(None) };
    Arc::new(entry).set(Instant::now());
    Ok(())
}

fn spawn() -> std::io::Result<()> {
    std::thread::Builder::new().name("ratekeeper-timer".into()).spawn(run).map(drop)
}

/// That there is a thread. Nothing ends it; if something does all the same, there is another, or the next one who
/// waits starts one.
struct TimerThread;

impl Drop for TimerThread {
    fn drop(&mut self) {
        TIMERS.lock().has_thread = spawn().is_ok();
    }
}

fn run() {
    let _thread = TimerThread;
    let mut timers = TIMERS.lock();
    loop {
        match timers.due.first_key_value().map(|((at, _), _)| *at) {
            None => SET.wait(&mut timers),
            Some(at) if at > Instant::now() => drop(SET.wait_until(&mut timers, at)),
            Some(_) => {
                let Some((_, entry)) = timers.due.pop_first() else { continue };
                *entry.due_at.lock() = None;
                MutexGuard::unlocked(&mut timers, || {
                    // It may be the last to know its limiter: what that is made of, a clock for one, is the
                    // caller's, and may panic when it is dropped.
                    catch_unwind(AssertUnwindSafe(|| entry.turn())).unwrap_or_else(discard);
                });
            }
        }
    }
}
