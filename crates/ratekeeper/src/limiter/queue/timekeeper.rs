//! Who keeps the time of a limiter: one sleeper for all who wait, or none when nobody does.

use std::task::Waker;

use super::waiters::{WaiterId, WaiterList};
use super::wake_list::WakeList;
use crate::{Nanos, Timestamp};

/// Who sleeps until the next thing is due: the head's grant, or the earliest deadline.
///
/// Not the head's own future: a future that its task does not poll (it sits in a `select!` whose other branch runs)
/// would hold up everybody behind it.
#[derive(Debug)]
enum Sleeper {
    Nobody,
    /// A timer: a task, or an entry with the process's timer thread. Its waker, once it sleeps.
    Timer(Option<Waker>),
    /// A thread that waits itself. Only while nobody else waits than threads: these come when they are woken, and whoever
    /// of them is woken because nobody keeps the time any more does so. A task may not be polled.
    Thread(WaiterId),
}

/// Who was woken because nobody keeps the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Substitute {
    NotSought,
    /// This thread, which has not come yet.
    Woken(WaiterId),
    /// There was nobody to wake: whoever comes sees for itself before it sleeps.
    NotFound,
}

/// What a timer is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTurn {
    /// Come back after this time, or when woken.
    Sleep(Nanos),
    /// Come back when woken: nothing will be due by itself, but somebody waits for what may be one day.
    Idle,
    /// End: nobody needs a timer any more.
    Over,
}

/// Who keeps the time, and until when it sleeps.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    sleeper: Sleeper,
    substitute: Substitute,
    armed: Option<Timestamp>,
}

impl Default for Timekeeper {
    fn default() -> Self {
        Timekeeper { sleeper: Sleeper::Nobody, substitute: Substitute::NotSought, armed: None }
    }
}

impl Timekeeper {
    /// Returns true if nobody keeps the time.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.sleeper, Sleeper::Nobody)
    }

    /// Returns true if a timer does not sleep: it is about to look for itself what is due.
    pub(super) fn is_awake(&self) -> bool {
        matches!(self.sleeper, Sleeper::Timer(None))
    }

    /// Promises a timer, unless there is one; true if the caller has to start it. A thread that waits itself is none
    /// for others: when it leaves, it could wake only those who may not come.
    pub(super) fn promise_timer(&mut self) -> bool {
        let is_new = !matches!(self.sleeper, Sleeper::Timer(_));
        if is_new {
            self.keep_by(Sleeper::Timer(None));
        }
        is_new
    }

    fn keep_by(&mut self, sleeper: Sleeper) {
        self.sleeper = sleeper;
        self.substitute = Substitute::NotSought;
    }

    /// Nobody keeps the time any more.
    pub(super) fn leave(&mut self) {
        self.keep_by(Sleeper::Nobody);
        self.armed = None;
    }

    /// A timer is awake: nobody needs to wake it for what it is about to see itself.
    pub(super) fn wake_up(&mut self) {
        self.keep_by(Sleeper::Timer(None));
    }

    /// A timer sleeps until then, or until it is woken.
    pub(super) fn sleep_until(&mut self, next: Option<Timestamp>, waker: &Waker) {
        self.armed = next;
        self.keep_by(Sleeper::Timer(Some(waker.clone())));
    }

    /// The turn of a thread that waits: how long it is to sleep, `None` for until it is woken. It keeps the time if nobody
    /// does. If a timer does, it sees to what is due all the same: that timer may never run again, or be waiting for
    /// this very thread. Only if another thread keeps the time it sleeps until it is woken.
    pub(super) fn turn_of_thread(
        &mut self,
        id: WaiterId,
        waiters: &WaiterList,
        next: Option<Timestamp>,
    ) -> Option<Timestamp> {
        // It has come: whatever it was woken for, it sees for itself.
        if self.substitute == Substitute::Woken(id) {
            self.substitute = Substitute::NotSought;
        }
        let keeps = match self.sleeper {
            Sleeper::Nobody => true,
            Sleeper::Thread(keeper) => keeper == id,
            Sleeper::Timer(_) => false,
        };
        if keeps && waiters.is_waiting(id) && next.is_some() {
            self.keep_by(Sleeper::Thread(id));
            self.armed = next;
            return next;
        }
        if keeps {
            self.leave();
        }
        next.filter(|_| matches!(self.sleeper, Sleeper::Timer(_)) || waiters.head() == Some(id))
    }

    /// The timer is gone before its work was done (its runtime was shut down). Everybody is woken, because any of them
    /// may not come; whoever comes first starts another.
    pub(super) fn abandon(&mut self, waiters: &WaiterList, wakes: &mut WakeList) {
        self.leave();
        waiters.waiters().filter_map(|(_, waiter)| waiter.waker.clone()).for_each(|waker| wakes.push(waker));
    }

    /// A thread that kept the time, and has left the queue, keeps it no longer.
    pub(super) fn release(&mut self, waiters: &WaiterList) {
        if let Sleeper::Thread(id) = self.sleeper
            && !waiters.is_waiting(id)
        {
            self.leave();
        }
    }

    /// Sees to it that what is due next will be noticed in time: whoever sleeps for too long is woken.
    pub(super) fn alert(&mut self, next: Timestamp, waiters: &WaiterList, wakes: &mut WakeList) {
        if self.armed.is_some_and(|armed| armed <= next) {
            return;
        }
        match &mut self.sleeper {
            Sleeper::Timer(waker) => waker.take().into_iter().for_each(|waker| wakes.push(waker)),
            Sleeper::Thread(id) => {
                let waker = waiters.get(*id).and_then(|waiter| waiter.waker.clone());
                waker.into_iter().for_each(|waker| wakes.push(waker));
            }
            // Only threads wait to be woken: one of them is, and the next one if that has left before it came.
            Sleeper::Nobody => {
                match self.substitute {
                    Substitute::Woken(id) if waiters.is_waiting(id) => return,
                    Substitute::NotFound => return,
                    Substitute::Woken(_) | Substitute::NotSought => {}
                }
                let found = waiters.waiters().find_map(|(id, waiter)| Some((id, waiter.waker.clone()?)));
                self.substitute =
                    found.as_ref().map_or(Substitute::NotFound, |(id, _)| Substitute::Woken(*id));
                found.into_iter().for_each(|(_, waker)| wakes.push(waker));
            }
        }
    }

    /// Lets a sleeping timer end, rather than sleep for nothing.
    pub(super) fn dismiss(&mut self, wakes: &mut WakeList) {
        self.armed = None;
        if let Sleeper::Timer(waker) = &mut self.sleeper {
            waker.take().into_iter().for_each(|waker| wakes.push(waker));
        }
    }
}
