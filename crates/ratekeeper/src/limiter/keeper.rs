//! Who keeps the time of a limiter: one timer for all who wait, or none when nobody does.

use std::task::Waker;

use super::desk::Desk;
use super::queue::{Phase, Place};
use super::tank::Outlook;
use super::wakes::Wakes;
use crate::{Cost, Timestamp};

/// Who sleeps until the next thing is due: the head's grant, or the earliest deadline.
///
/// Not the head's own future: a future that its task does not poll (it sits in a `select!` whose other branch runs)
/// would hold up everybody behind it.
#[derive(Debug)]
pub(crate) enum Keeper {
    Nobody,
    /// A task, or an entry with the process's timer thread. Its waker, once it sleeps.
    Task(Option<Waker>),
    /// A thread that waits itself, at this place.
    Waiter(Place),
}

impl Desk {
    /// The next instant at which something is due without anybody doing anything.
    pub(crate) fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let head = self.queue.head().and_then(|head| self.queue.get(head));
        let grant = head.filter(|head| head.phase == Phase::Waiting).and_then(|head| {
            match self.tank.outlook(Cost::new(head.cost), now) {
                Outlook::Ready => Some(now),
                Outlook::After(wait) => Some(now + wait),
                Outlook::OnRelease | Outlook::Never => None,
            }
        });
        let deadline = self.queue.first_deadline().map(|(deadline, _)| deadline);
        [grant, deadline].into_iter().flatten().min()
    }

    /// True if something will be due, and nobody will notice.
    fn needs_keeper(&self, now: Timestamp) -> bool {
        matches!(self.keeper, Keeper::Nobody) && self.next_event(now).is_some()
    }

    /// Promises a keeper, if one is needed: whoever did so has to [hire](super::timer::hire) it.
    pub(crate) fn promise_keeper(&mut self, now: Timestamp) -> bool {
        let needed = self.needs_keeper(now);
        if needed {
            self.keep_by(Keeper::Task(None));
        }
        needed
    }

    fn keep_by(&mut self, keeper: Keeper) {
        self.keeper = keeper;
        self.orphaned = false;
    }

    /// Nobody keeps the time any more.
    fn orphan(&mut self) {
        self.keeper = Keeper::Nobody;
        self.armed = None;
        self.orphaned = true;
    }

    /// A keeper's turn: does what is due, and tells until when to sleep. None: there is nothing left to wait for,
    /// and the keeper is dismissed.
    pub(crate) fn turn(&mut self, waker: &Waker, now: Timestamp, wakes: &mut Wakes) -> Option<Timestamp> {
        // It is awake: nobody needs to wake it for what it is about to see itself.
        self.keeper = Keeper::Task(None);
        self.pump(now, wakes);
        self.armed = self.next_event(now);
        self.keeper = match self.armed {
            Some(_) => Keeper::Task(Some(waker.clone())),
            None => Keeper::Nobody,
        };
        self.armed
    }

    /// The turn of a thread that waits at this place. It keeps the time if nobody does. If a task does, it sees to
    /// what is due all the same: that task may never run again, or be waiting for this very thread. Only if another
    /// thread keeps the time it is told to sleep until it is woken.
    pub(crate) fn turn_of(&mut self, place: Place, now: Timestamp, wakes: &mut Wakes) -> Option<Timestamp> {
        self.pump(now, wakes);
        let keeps = match self.keeper {
            Keeper::Nobody => true,
            Keeper::Waiter(keeper) => keeper == place,
            Keeper::Task(_) => false,
        };
        let next = self.next_event(now);
        if keeps && self.waits(place) && next.is_some() {
            self.keep_by(Keeper::Waiter(place));
            self.armed = next;
            return next;
        }
        next.filter(|_| matches!(self.keeper, Keeper::Task(_)) || self.queue.head() == Some(place))
    }

    /// Nobody could be hired.
    #[cfg_attr(loom, expect(dead_code, reason = "nobody keeps the time in a model"))]
    pub(crate) fn withdraw_promise(&mut self) {
        self.orphan();
    }

    /// The keeper is gone, whatever the reason (its runtime was shut down).
    #[cfg_attr(
        not(all(feature = "tokio", not(loom))),
        expect(dead_code, reason = "the timer thread never ends")
    )]
    pub(crate) fn abandon(&mut self, now: Timestamp, wakes: &mut Wakes) {
        self.orphan();
        self.poke(now, wakes);
    }

    /// Sees to it that whatever is due next will be noticed in time.
    pub(crate) fn poke(&mut self, now: Timestamp, wakes: &mut Wakes) {
        if let Keeper::Waiter(place) = self.keeper
            && !self.waits(place)
        {
            self.orphan();
        }
        if self.queue.is_empty() {
            self.projection = None;
            self.dismiss_keeper(wakes);
            return;
        }
        if let Keeper::Task(None) = self.keeper {
            return;
        }
        let Some(next) = self.next_event(now) else { return };
        if self.armed.is_some_and(|armed| armed <= next) {
            return;
        }
        match &mut self.keeper {
            Keeper::Task(waker) => waker.take().into_iter().for_each(|waker| wakes.push(waker)),
            Keeper::Waiter(place) => {
                let place = *place;
                if let Some(waker) = self.queue.get(place).and_then(|waiter| waiter.waker.clone()) {
                    wakes.push(waker);
                }
            }
            // Whoever is polled first becomes the keeper, or hires one. Who has no waker will do so when it is polled,
            // and is passed over only once.
            Keeper::Nobody if self.orphaned => {
                let places = std::iter::successors(self.queue.head(), |place| self.queue.next(*place));
                let waker = places.filter_map(|place| self.queue.get(place)?.waker.clone()).next();
                self.orphaned = waker.is_some();
                waker.into_iter().for_each(|waker| wakes.push(waker));
            }
            Keeper::Nobody => {}
        }
    }

    /// Lets a sleeping keeper go home, rather than sleep for nothing.
    pub(crate) fn dismiss_keeper(&mut self, wakes: &mut Wakes) {
        self.armed = None;
        if let Keeper::Task(waker) = &mut self.keeper {
            waker.take().into_iter().for_each(|waker| wakes.push(waker));
        }
    }

    pub(super) fn waits(&self, place: Place) -> bool {
        self.queue.get(place).is_some_and(|waiter| matches!(waiter.phase, Phase::Waiting | Phase::Called))
    }
}
