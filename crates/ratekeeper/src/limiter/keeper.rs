//! Who keeps the time of a limiter: one timer for all who wait, or none when nobody does.

use std::task::Waker;

use super::desk::Desk;
use super::queue::{Phase, Place};
use super::tank::Contents;
use super::wakes::Wakes;
use crate::{Cost, Nanos, Timestamp};

/// Who sleeps until the next thing is due: the head's grant, or the earliest deadline.
///
/// Not the head's own future: a future that its task does not poll (it sits in a `select!` whose other branch runs)
/// would hold up everybody behind it.
#[derive(Debug)]
pub(crate) enum Keeper {
    Nobody,
    /// A task, or an entry with the process's timer thread. Its waker, once it sleeps.
    Task(Option<Waker>),
    /// A thread that waits itself, at this place. Only while nobody else waits than threads: these come when they are
    /// woken, and whoever of them is told that nobody keeps the time any more does so. A task may not be polled.
    Waiter(Place),
}

/// Who was told that nobody keeps the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nobody,
    /// The thread at this place, which has not come yet.
    One(Place),
    /// There was none to tell: whoever comes sees for itself before it sleeps.
    NoneThere,
}

/// What a keeper is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// To come back after this time, or when it is woken.
    Sleep(Nanos),
    /// To come back when it is woken: nothing will be due by itself, but somebody waits for what may be one day.
    Idle,
    /// To go home.
    Over,
}

impl Desk {
    /// The next instant at which something is due without anybody doing anything.
    pub(crate) fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let waiting = self.queue.first().filter(|head| head.phase == Phase::Waiting);
        let wait = waiting.and_then(|head| self.tank.outlook(Cost::new(head.cost), now).wait());
        let grant = wait.map(|wait| now + wait);
        let deadline = self.queue.first_deadline().map(|(deadline, _)| deadline);
        [grant, deadline].into_iter().flatten().min()
    }

    /// True if somebody waits for something that time brings, now or later. Permits come by themselves.
    fn needs_time(&self) -> bool {
        let comes_by_itself = matches!(self.tank.contents, Contents::Permits { .. });
        !self.queue.is_empty() && (!comes_by_itself || self.queue.first_deadline().is_some())
    }

    /// Promises a keeper, if one is needed: whoever did so has to [hire](super::timer::hire) it. A thread that waits
    /// itself is none for others: when it leaves, it could tell only those who may not come.
    pub(crate) fn promise_keeper(&mut self) -> bool {
        let needed = !matches!(self.keeper, Keeper::Task(_)) && self.needs_time();
        if needed {
            self.keep_by(Keeper::Task(None));
        }
        needed
    }

    fn keep_by(&mut self, keeper: Keeper) {
        self.keeper = keeper;
        self.told = Told::Nobody;
    }

    /// Nobody keeps the time any more.
    fn orphan(&mut self) {
        self.keep_by(Keeper::Nobody);
        self.armed = None;
    }

    /// A keeper's turn: does what is due, and tells what to do next.
    pub(crate) fn turn(&mut self, waker: &Waker, now: Timestamp, wakes: &mut Wakes) -> Turn {
        // It is awake: nobody needs to wake it for what it is about to see itself.
        self.keep_by(Keeper::Task(None));
        self.pump(now, wakes);
        if !self.needs_time() {
            self.orphan();
            return Turn::Over;
        }
        self.armed = self.next_event(now);
        self.keep_by(Keeper::Task(Some(waker.clone())));
        self.armed.map_or(Turn::Idle, |next| Turn::Sleep(next.since(now)))
    }

    /// The turn of a thread that waits at this place. It keeps the time if nobody does. If a task does, it sees to
    /// what is due all the same: that task may never run again, or be waiting for this very thread. Only if another
    /// thread keeps the time it is told to sleep until it is woken.
    pub(crate) fn turn_of(&mut self, place: Place, now: Timestamp, wakes: &mut Wakes) -> Option<Timestamp> {
        self.pump(now, wakes);
        // It has come: whatever it was told, it sees for itself.
        if self.told == Told::One(place) {
            self.told = Told::Nobody;
        }
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
        if keeps {
            self.orphan();
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
    pub(crate) fn abandon(&mut self, wakes: &mut Wakes) {
        self.orphan();
        // Everybody is told, because any of them may not come. Whoever comes first finds another keeper.
        self.queue
            .waiters()
            .filter_map(|(_, waiter)| waiter.waker.clone())
            .for_each(|waker| wakes.push(waker));
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
            // Only threads wait to be woken: one of them is told, and the next one if that has left before it came.
            Keeper::Nobody => {
                match self.told {
                    Told::One(place) if self.waits(place) => return,
                    Told::NoneThere => return,
                    Told::One(_) | Told::Nobody => {}
                }
                let mut waiters = self.queue.waiters();
                let found = waiters.find_map(|(place, waiter)| Some((place, waiter.waker.clone()?)));
                self.told = found.as_ref().map_or(Told::NoneThere, |(place, _)| Told::One(*place));
                found.into_iter().for_each(|(_, waker)| wakes.push(waker));
            }
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
