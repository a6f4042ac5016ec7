//! Which tokens a connection has shown.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::{Mutex, MutexGuard};

/// The address of a connection, and the highest rank of the tokens it has shown.
#[derive(Debug)]
pub(crate) struct AuthState {
    peer: IpAddr,
    /// 0 before the first valid token.
    rank: AtomicU8,
    /// Held while a guess waits, so that the guesses of one connection wait one after the other.
    waiting: Mutex<()>,
}

impl AuthState {
    /// Returns the state of a connection that has shown no token.
    pub(super) fn new(peer: IpAddr) -> Self {
        AuthState { peer, rank: AtomicU8::new(0), waiting: Mutex::default() }
    }

    /// Returns the address of the client.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Returns the highest rank that was noted; 0 if none was.
    pub(crate) fn rank(&self) -> u8 {
        self.rank.load(Ordering::Relaxed)
    }

    /// Notes that a token of this rank was shown.
    pub(crate) fn note_rank(&self, rank: u8) {
        self.rank.fetch_max(rank, Ordering::Relaxed);
    }

    /// Waits until no other guess of this connection waits.
    pub(crate) async fn queue_guess(&self) -> MutexGuard<'_, ()> {
        self.waiting.lock().await
    }
}
