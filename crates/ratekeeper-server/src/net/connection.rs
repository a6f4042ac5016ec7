//! What the server knows of a connection, and the bounds on how many there may be.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::stop::Stop;
use crate::guesses::Visitor;

/// One connection, as the server sees it and as its transport reports on it.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    stop: Arc<Stop>,
    clock: Arc<Tick>,
    /// When it last made progress.
    seen: AtomicU32,
    /// Since when it owes us something: the rest of a request, or room for a reply. 0 if it owes nothing.
    debt: AtomicU32,
    visitor: Visitor,
    _place: Place,
}

impl Connection {
    pub(super) fn new(id: u64, peer: IpAddr, stop: Arc<Stop>, clock: Arc<Tick>, place: Place) -> Self {
        let seen = AtomicU32::new(clock.now());
        let visitor = Visitor::new(peer);
        Connection { id, stop, clock, seen, debt: AtomicU32::new(0), visitor, _place: place }
    }

    /// Different for each connection of this process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Where it comes from, and whether it has shown the token.
    pub(crate) fn visitor(&self) -> &Visitor {
        &self.visitor
    }

    /// The signal that it is over.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The client did something.
    #[inline]
    pub(crate) fn seen(&self) {
        self.seen.store(self.clock.now(), Ordering::Relaxed);
    }

    /// The client has done its part: whatever it owed is there.
    #[inline]
    pub(crate) fn settled(&self) {
        self.seen();
        self.debt.store(0, Ordering::Relaxed);
    }

    /// The client has begun something that it must finish. Doing more of it does not prolong its time.
    #[inline]
    pub(crate) fn owes(&self) {
        self.seen();
        if self.debt.load(Ordering::Relaxed) == 0 {
            self.debt.store(self.clock.now(), Ordering::Relaxed);
        }
    }

    /// Seconds since the client did anything, and seconds for which it has owed something.
    pub(super) fn silence(&self) -> (u32, u32) {
        let now = self.clock.now();
        let since = |tick: u32| now.saturating_sub(tick);
        let debt = match self.debt.load(Ordering::Relaxed) {
            0 => 0,
            tick => since(tick),
        };
        (since(self.seen.load(Ordering::Relaxed)), debt)
    }
}

/// A clock of whole seconds that costs nothing to read: somebody else moves it.
#[derive(Debug)]
pub(super) struct Tick(AtomicU32);

impl Default for Tick {
    /// Not 0, which says that something has not begun.
    fn default() -> Self {
        Tick(AtomicU32::new(1))
    }
}

impl Tick {
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many connections of one transport there are and may be, over all event loops.
#[derive(Debug)]
pub struct Places {
    taken: AtomicUsize,
    most: usize,
    served: AtomicU64,
    refused: AtomicU64,
}

impl Places {
    /// So many, and no more.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Places {
            taken: AtomicUsize::new(0),
            most,
            served: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// How many there are now.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many were ever let in, and how many were turned away.
    pub fn history(&self) -> (u64, u64) {
        (self.served.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// A place, if there is one.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        if self.taken.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.taken.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        Some(Place(Arc::clone(self)))
    }
}

/// One connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_back_exactly_once() {
        let places = Places::new(1);
        let place = places.take();
        assert!(place.is_some() && places.take().is_none());
        drop(place);
        assert_eq!((places.taken(), places.history()), (0, (1, 1)));
        assert!(places.take().is_some());
    }

    #[test]
    fn silence_is_counted_from_the_last_progress() {
        let tick = Arc::new(Tick::default());
        let place = Places::new(1).take().unwrap();
        let connection = Connection::new(1, [127, 0, 0, 1].into(), Arc::default(), Arc::clone(&tick), place);
        tick.advance();
        assert_eq!(connection.silence(), (1, 0));
        connection.owes();
        tick.advance();
        connection.owes();
        tick.advance();
        assert_eq!(connection.silence(), (1, 2), "a trickle of bytes is no excuse");
        connection.settled();
        assert_eq!(connection.silence(), (0, 0));
    }
}
