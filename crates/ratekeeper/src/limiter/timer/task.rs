//! A timer as a task of a tokio runtime.

use std::future::{Future, poll_fn};
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Sleep;

use crate::limiter::core::LimiterCore;
use crate::limiter::queue::NextTurn;
use crate::sync::Arc;

/// The longest sleep at a time; what is due later is looked at again.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// Keeps the time of a limiter in this runtime; false if it has no timers, or was shut down.
pub(super) fn spawn(core: &Arc<LimiterCore>, runtime: &Handle) -> bool {
    let _entered = runtime.enter();
    let Some(sleep) = sleep() else { return false };
    // A runtime that was shut down drops a task at once. One that is done so early has found nothing to do, and it
    // does no harm if somebody else looks once more.
    let is_gone = runtime.spawn(keep_time(TimerTask::new(core), sleep)).is_finished();
    if is_gone {
        // It has broken the promise, which is renewed, or everybody who comes would start another one.
        core.with(|queue, _| queue.promise_timer());
    }
    !is_gone
}

/// That there is a task. If it ends before its work is done (the runtime was shut down), those who wait are woken, and
/// the first to come starts another in its own runtime.
struct TimerTask {
    core: Arc<LimiterCore>,
    /// It has ended as it should: there may be a successor by now, which is not to be dismissed.
    is_over: bool,
}

impl TimerTask {
    fn new(core: &Arc<LimiterCore>) -> Self {
        TimerTask { core: Arc::clone(core), is_over: false }
    }
}

impl Drop for TimerTask {
    fn drop(&mut self) {
        if !self.is_over {
            self.core.with(|queue, at| queue.abandon_timer(at.wakes));
        }
    }
}

/// A timer of this runtime; none if it was built without (there is no way to ask but to try).
fn sleep() -> Option<Sleep> {
    catch_unwind(|| tokio::time::sleep(Duration::ZERO)).ok()
}

async fn keep_time(mut task: TimerTask, sleep: Sleep) {
    let core = &task.core;
    let mut sleep = pin!(sleep);
    poll_fn(|cx| {
        loop {
            let wait = match core.turn_of_timer(cx.waker()) {
                NextTurn::Sleep(wait) => wait,
                // Without a timer: a paused clock would be moved to it.
                NextTurn::Idle => return Poll::Pending,
                NextTurn::Over => return Poll::Ready(()),
            };
            sleep.as_mut().reset(tokio::time::Instant::now() + wait.as_duration().min(LONGEST));
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
    task.is_over = true;
}
