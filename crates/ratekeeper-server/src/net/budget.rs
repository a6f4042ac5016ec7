//! How much is done for one connection before the others of its event loop have their budget.
//!
//! An event loop serves whoever is ready until it has to wait. One client that always has more to ask would be served
//! for megabytes on end, and whoever shares its loop would wait for all of it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// Bytes, read and written, before the others are served: some hundred decisions, a tenth of a millisecond.
const BUDGET: usize = 32 * 1024;

/// Counts the bytes that were handled for a connection since it last waited.
#[derive(Debug, Default)]
pub(crate) struct LoopBudget {
    spent: usize,
}

impl LoopBudget {
    /// Counts bytes that were read or written, or that other work is worth.
    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// The connection had nothing to do, so others had their budget.
    #[inline]
    pub(crate) fn waited(&mut self) {
        self.spent = 0;
    }

    /// True once others are to have their budget. The next one begins with this.
    #[inline]
    pub(crate) fn is_spent(&mut self) -> bool {
        let is_spent = self.spent >= BUDGET;
        if is_spent {
            self.spent = 0;
        }
        is_spent
    }
}

/// Has the task polled again after the loop has looked at its sockets. Waking the task would not do: a task that wakes
/// itself is polled many times before that.
pub(crate) fn defer(context: &mut Context<'_>) {
    let polled = pin!(tokio::task::yield_now()).poll(context);
    debug_assert!(polled.is_pending(), "the first poll defers");
}

/// Waits for long work that wakes itself to yield, as a store in memory does, and lets the loop look at its sockets
/// between two polls.
pub(crate) async fn let_sockets_in<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let relay = Arc::new(Relay::default());
    let waker = Waker::from(Arc::clone(&relay));
    poll_fn(|context| {
        *relay.lock() = Wakeups::default();
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            let mut wakeups = relay.lock();
            if wakeups.is_woken {
                defer(context);
            } else {
                wakeups.task = Some(context.waker().clone());
            }
        }
        polled
    })
    .await
}

/// Notes whether work was woken while it was polled, and wakes its task if that happens later.
#[derive(Debug, Default)]
struct Relay(Mutex<Wakeups>);

#[derive(Debug, Default)]
struct Wakeups {
    is_woken: bool,
    /// The task to wake once the poll is over.
    task: Option<Waker>,
}

impl Relay {
    fn lock(&self) -> MutexGuard<'_, Wakeups> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let task = {
            let mut wakeups = self.lock();
            wakeups.is_woken = true;
            wakeups.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::sync::atomic::{AtomicU32, Ordering};
    #[cfg(unix)]
    use std::task::Poll;

    #[cfg(unix)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    #[cfg(unix)]
    use tokio::net::UnixStream;

    use super::*;

    #[cfg(unix)]
    const POLLS: u32 = 1_000;

    /// Wakes itself `POLLS` times, and counts.
    #[cfg(unix)]
    async fn long_work(polls: Arc<AtomicU32>) {
        poll_fn(|context| {
            if polls.fetch_add(1, Ordering::Relaxed) + 1 == POLLS {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Returns how often work is polled until the server has read a byte that was sent as the work began. Bytes of a Unix socket can be
    /// read as soon as they are written; those of TCP may be delayed by a busy kernel.
    #[cfg(unix)]
    fn polls_until_served(lets_in: bool) -> u32 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let polls = Arc::new(AtomicU32::new(0));
        let served_after = runtime.block_on(async {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            let counted = Arc::clone(&polls);
            // A task, as connections are: what the runtime itself waits for is polled in turns with the sockets.
            let work = tokio::spawn(async move {
                client.write_all(b"x").await.unwrap();
                let work = long_work(counted);
                if lets_in {
                    let_sockets_in(work).await;
                } else {
                    work.await;
                }
                client
            });
            server.read_exact(&mut [0]).await.unwrap();
            let served_after = polls.load(Ordering::Relaxed);
            work.await.unwrap();
            served_after
        });
        assert_eq!(polls.load(Ordering::Relaxed), POLLS);
        served_after
    }

    #[cfg(unix)]
    #[test]
    fn long_work_lets_in_whoever_sends_bytes() {
        let (polite, plain) = (polls_until_served(true), polls_until_served(false));
        assert!(polite < 10 && polite < plain, "after {polite} polls, and otherwise {plain}");
    }

    #[test]
    fn work_that_is_woken_from_elsewhere_goes_on() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || sender.send(7).unwrap());
        assert_eq!(runtime.block_on(let_sockets_in(receiver)), Ok(7));
        thread.join().unwrap();
    }

    #[test]
    fn a_budget_is_spent_unless_the_connection_waits() {
        let mut budget = LoopBudget::default();
        budget.spend(BUDGET - 1);
        assert!(!budget.is_spent());
        budget.waited();
        budget.spend(BUDGET - 1);
        assert!(!budget.is_spent());
        budget.spend(1);
        assert!(budget.is_spent());
        assert!(!budget.is_spent(), "and starts over");
    }
}
