//! Waiting a little longer after every lost race, and never twice the same.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The first wait is at most this many microseconds; each later one at most twice the last.
#[cfg(all(feature = "tokio", not(loom)))]
const FIRST_MICROS: u64 = 50;

/// No wait is longer than the first, doubled so often: 3.2 ms.
const MOST_DOUBLINGS: u32 = 6;

/// The wait of one who has lost a race. Dropping it ends it.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    lost: u32,
}

impl Backoff {
    /// Waits: under a tokio runtime some microseconds, elsewhere for some turns of whatever polls this.
    pub(super) async fn wait(&mut self) {
        let doublings = self.lost.min(MOST_DOUBLINGS);
        self.lost = self.lost.saturating_add(1);
        // Racers that wait equally long meet again: the jitter is what tells them apart.
        let jitter = RandomState::new().hash_one(self.lost);
        #[cfg(all(feature = "tokio", not(loom)))]
        if tokio::runtime::Handle::try_current().is_ok() {
            let micros = jitter % (FIRST_MICROS << doublings);
            return tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
        }
        for _ in 0..=(jitter % (1 << doublings)) {
            YieldOnce(false).await;
        }
    }
}

/// A future that lets other tasks run once before it is ready.
struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
