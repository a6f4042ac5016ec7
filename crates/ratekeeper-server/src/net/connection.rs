//! What the server knows of one connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::auth_state::AuthState;
use super::slots::ConnectionSlot;
use super::stop::Stop;

/// Fields by which a proxy says that it passes on what somebody else asks, in lower case.
pub(crate) const FORWARDING_FIELDS: [&str; 8] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-envoy-external-address",
];

/// One connection, as the event loop watches it and as its transport reports on it.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    stop: Arc<Stop>,
    clock: Arc<CoarseClock>,
    /// When the client last made progress.
    last_progress: AtomicU32,
    /// Since when the client has left something unfinished: a request it began, or a reply it does not read. 0 if
    /// nothing is unfinished.
    unfinished_since: AtomicU32,
    /// True from when a stream is begun until its socket was told.
    begins_stream: AtomicBool,
    auth: AuthState,
    _slot: ConnectionSlot,
}

impl Connection {
    pub(super) fn new(
        id: u64,
        peer: IpAddr,
        stop: Arc<Stop>,
        clock: Arc<CoarseClock>,
        slot: ConnectionSlot,
    ) -> Self {
        let last_progress = AtomicU32::new(clock.now());
        let (unfinished_since, auth) = (AtomicU32::new(0), AuthState::new(peer));
        let begins_stream = AtomicBool::new(false);
        Connection { id, stop, clock, last_progress, unfinished_since, begins_stream, auth, _slot: slot }
    }

    /// Returns a number that no other connection of this process has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the client's address and which tokens it has shown.
    pub(crate) fn auth(&self) -> &AuthState {
        &self.auth
    }

    /// Returns true if the client is on this machine, or a proxy there, which may say so by [`FORWARDING_FIELDS`]: it came in by loopback, or by a Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        self.auth.peer().to_canonical().is_loopback()
    }

    /// Returns the signal that the server stops.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Notes that the client is going to be sent messages for as long as it takes them.
    pub(crate) fn begin_stream(&self) {
        self.begins_stream.store(true, Ordering::Relaxed);
    }

    /// Returns true once after a stream was [begun](Connection::begin_stream).
    #[inline]
    pub(crate) fn takes_stream_begin(&self) -> bool {
        self.begins_stream.load(Ordering::Relaxed) && self.begins_stream.swap(false, Ordering::Relaxed)
    }

    #[inline]
    fn progressed(&self) {
        self.last_progress.store(self.clock.now(), Ordering::Relaxed);
    }

    /// Notes that the client has finished whatever it had begun.
    #[inline]
    pub(crate) fn settled(&self) {
        self.progressed();
        self.unfinished_since.store(0, Ordering::Relaxed);
    }

    /// Notes that the client must finish something. Doing more of it does not prolong its time.
    #[inline]
    pub(crate) fn owes(&self) {
        self.progressed();
        if self.unfinished_since.load(Ordering::Relaxed) == 0 {
            self.unfinished_since.store(self.clock.now(), Ordering::Relaxed);
        }
    }

    /// Returns the seconds since the client made progress, and the seconds for which something is unfinished.
    pub(super) fn silence(&self) -> (u32, u32) {
        let now = self.clock.now();
        let since = |second: u32| now.saturating_sub(second);
        let unfinished = match self.unfinished_since.load(Ordering::Relaxed) {
            0 => 0,
            second => since(second),
        };
        (since(self.last_progress.load(Ordering::Relaxed)), unfinished)
    }
}

#[cfg(any(test, fuzzing))]
impl Connection {
    /// Returns a connection of nobody, from this machine.
    pub(crate) fn alone() -> Arc<Self> {
        Self::alone_from([127, 0, 0, 1].into())
    }

    /// Returns a connection of nobody, from this address.
    ///
    /// # Panics
    ///
    /// There is no slot among one that nobody has.
    pub(crate) fn alone_from(peer: IpAddr) -> Arc<Self> {
        let Some(slot) = super::slots::ConnectionSlots::new(1).take() else { panic!("a slot") };
        Arc::new(Connection::new(1, peer, Arc::default(), Arc::default(), slot))
    }
}

/// A clock of whole seconds. Reading it is one relaxed load, because the event loop advances it.
#[derive(Debug)]
pub(super) struct CoarseClock(AtomicU32);

impl Default for CoarseClock {
    /// Starts at 1: 0 means "not begun" in the fields that hold its readings.
    fn default() -> Self {
        CoarseClock(AtomicU32::new(1))
    }
}

impl CoarseClock {
    /// Advances the clock by one second.
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current second.
    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::ConnectionSlots;
    use super::*;

    #[test]
    fn silence_is_counted_from_the_last_progress() {
        let clock = Arc::new(CoarseClock::default());
        let slot = ConnectionSlots::new(1).take().unwrap();
        let connection = Connection::new(1, [127, 0, 0, 1].into(), Arc::default(), Arc::clone(&clock), slot);
        clock.advance();
        assert_eq!(connection.silence(), (1, 0));
        connection.owes();
        clock.advance();
        connection.owes();
        clock.advance();
        assert_eq!(connection.silence(), (1, 2), "a trickle of bytes is no excuse");
        connection.settled();
        assert_eq!(connection.silence(), (0, 0));
    }
}
