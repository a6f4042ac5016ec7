//! How much is done for one connection before the others of its event loop have their turn.
//!
//! An event loop serves whoever is ready until it has to wait. One client that always has more to ask would be served
//! for megabytes on end, and whoever shares its loop would wait for all of it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Bytes, read and written, of one turn: some hundred decisions, a tenth of a millisecond.
const TURN: usize = 32 * 1024;

/// What was done for a connection since it last waited.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    spent: usize,
}

impl Turn {
    /// So many bytes were read, written, or are what some other work is worth.
    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// The connection had nothing to do, so others had their turn.
    #[inline]
    pub(crate) fn waited(&mut self) {
        self.spent = 0;
    }

    /// True once others are to have their turn. The next one begins with this.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        let is_over = self.spent >= TURN;
        if is_over {
            self.spent = 0;
        }
        is_over
    }

    /// Ends a poll if the turn is over: pending, and to be polled again when the others were, those included whose
    /// bytes are only now looked for.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_over() {
            return Poll::Ready(());
        }
        defer(context);
        Poll::Pending
    }
}

/// Has the task polled again when the loop has looked at its sockets. Not merely woken: a task that wakes itself is
/// polled many times before that.
fn defer(context: &mut Context<'_>) {
    let polled = pin!(tokio::task::yield_now()).poll(context);
    debug_assert!(polled.is_pending(), "the first poll defers");
}

/// Waits for long work that wakes itself to let others run, as a store in memory does: those included whose bytes the
/// loop has yet to look for.
pub(crate) async fn let_sockets_in<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let relay = Arc::new(Relay::default());
    let waker = Waker::from(Arc::clone(&relay));
    poll_fn(|context| {
        *relay.lock() = Heard::default();
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            let mut heard = relay.lock();
            if heard.is_woken {
                defer(context);
            } else {
                heard.task = Some(context.waker().clone());
            }
        }
        polled
    })
    .await
}

/// Hears whether work was woken while it was polled, and wakes its task if later.
#[derive(Debug, Default)]
struct Relay(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    is_woken: bool,
    /// Whom to wake, once the poll is over.
    task: Option<Waker>,
}

impl Relay {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let task = {
            let mut heard = self.lock();
            heard.is_woken = true;
            heard.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const POLLS: u32 = 1_000;

    /// Wakes itself so often, and counts.
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

    /// How often work is polled until somebody is served who sent a byte as it began.
    fn polls_until_served(lets_in: bool) -> u32 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let polls = Arc::new(AtomicU32::new(0));
        let served_after = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
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
    fn a_turn_ends_unless_the_connection_waits() {
        let mut turn = Turn::default();
        turn.spend(TURN - 1);
        assert!(!turn.is_over());
        turn.waited();
        turn.spend(TURN - 1);
        assert!(!turn.is_over());
        turn.spend(1);
        assert!(turn.is_over());
        assert!(!turn.is_over(), "and another begins");
    }
}
