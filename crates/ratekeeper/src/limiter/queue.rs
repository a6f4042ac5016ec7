//! The queue as data: who waits, in order. It knows nothing of locks, tasks, threads or time.
//!
//! A doubly linked list inside a vector: entering, granting and leaving from the middle take constant time, and a
//! waiter costs one slot of 64 bytes. A slot belongs to its waiter until the waiter gives it back, so an index never
//! comes to mean somebody else.

use std::collections::BTreeSet;
use std::task::Waker;

use crate::Timestamp;

/// No slot.
const NIL: u32 = u32::MAX;

/// A vector of more slots than this is given back when it is no longer used.
const KEPT_SLOTS: usize = 64;

/// A waiter's slot, for as long as the waiter holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u32);

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In the queue.
    Waiting,
    /// In the queue, at its head, and told that its turn has come; it decides by itself whether it can use it.
    Called,
    /// Out of the queue with a grant that it has not yet taken up, and the tank's mark of the charge.
    Granted(Timestamp),
    /// Out of the queue without one.
    Failed(Fault),
}

/// Why a waiter was sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Deadline,
    Closed,
    NeverFits,
}

/// What a waiter wants done when its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The cost is charged for it.
    Solo,
    /// It waits for several limiters: it is called, and charges them all or none.
    Group,
    /// Nobody waits: the cost was used before it was paid for.
    Debt,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    /// Its place in time, comparable between queues.
    pub(crate) ticket: u64,
    pub(crate) cost: u64,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    pub(crate) waker: Option<Waker>,
}

#[derive(Debug)]
struct Slot {
    /// None while the slot is free.
    waiter: Option<Waiter>,
    previous: u32,
    /// The next in the queue, or the next free slot.
    next: u32,
}

/// Who waits, in the order of their tickets.
#[derive(Debug)]
pub(crate) struct Queue {
    slots: Vec<Slot>,
    free: u32,
    head: u32,
    tail: u32,
    len: usize,
    /// How many of them are debts.
    debts: usize,
    occupied: usize,
    /// The deadlines of those in the queue.
    deadlines: BTreeSet<(Timestamp, Place)>,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            slots: Vec::new(),
            free: NIL,
            head: NIL,
            tail: NIL,
            len: 0,
            debts: 0,
            occupied: 0,
            deadlines: BTreeSet::new(),
        }
    }
}

impl Queue {
    /// How many are in the queue and wait: a debt is nobody's.
    pub(crate) fn waiting(&self) -> usize {
        self.len - self.debts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if nobody holds a slot, in the queue or out of it.
    pub(crate) fn is_unused(&self) -> bool {
        self.occupied == 0
    }

    pub(crate) fn head(&self) -> Option<Place> {
        place(self.head)
    }

    /// The one behind.
    pub(crate) fn next(&self, place_of: Place) -> Option<Place> {
        self.slot(place_of).and_then(|slot| place(slot.next))
    }

    pub(crate) fn get(&self, place: Place) -> Option<&Waiter> {
        self.slot(place)?.waiter.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Waiter> {
        self.slots.get_mut(index(place.0))?.waiter.as_mut()
    }

    /// The earliest deadline, and whose it is.
    pub(crate) fn first_deadline(&self) -> Option<(Timestamp, Place)> {
        self.deadlines.first().copied()
    }

    /// Enters the queue behind everybody with an earlier ticket, which is behind everybody unless the waiter has
    /// waited elsewhere before. `None` if there are 2^32 − 1 waiters already.
    pub(crate) fn insert(&mut self, waiter: Waiter) -> Option<Place> {
        let mut before = self.tail;
        while let Some(ahead) = place(before).and_then(|ahead| self.get(ahead)) {
            if ahead.ticket <= waiter.ticket {
                break;
            }
            before = self.slots[index(before)].previous;
        }
        let (deadline, is_debt) = (waiter.deadline, waiter.kind == Kind::Debt);
        let at = self.allocate(waiter)?;
        self.debts += usize::from(is_debt);
        self.link(at, before);
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, Place(at)));
        }
        Some(Place(at))
    }

    /// Gives one that is in the queue a deadline, or another one.
    pub(crate) fn set_deadline(&mut self, place: Place, deadline: Timestamp) {
        let Some(waiter) = self.get_mut(place) else { return };
        if let Some(old) = waiter.deadline.replace(deadline) {
            self.deadlines.remove(&(old, place));
        }
        self.deadlines.insert((deadline, place));
    }

    /// Takes a waiter out of the queue; it keeps its slot, to learn what became of it.
    pub(crate) fn unlink(&mut self, place: Place) {
        let Some(slot) = self.slot(place) else { return };
        let (previous, next) = (slot.previous, slot.next);
        let is_debt = slot.waiter.as_ref().is_some_and(|waiter| waiter.kind == Kind::Debt);
        if let Some(deadline) = slot.waiter.as_ref().and_then(|waiter| waiter.deadline) {
            self.deadlines.remove(&(deadline, place));
        }
        self.debts -= usize::from(is_debt);
        match previous {
            NIL => self.head = next,
            _ => self.slots[index(previous)].next = next,
        }
        match next {
            NIL => self.tail = previous,
            _ => self.slots[index(next)].previous = previous,
        }
        self.len -= 1;
    }

    /// Gives a slot back. The waiter must have been [unlinked](Queue::unlink).
    pub(crate) fn release(&mut self, place: Place) -> Option<Waiter> {
        let slot = self.slots.get_mut(index(place.0))?;
        let waiter = slot.waiter.take()?;
        slot.next = self.free;
        self.free = place.0;
        self.occupied -= 1;
        if self.occupied == 0 && self.slots.capacity() > KEPT_SLOTS {
            *self = Queue::default();
        }
        Some(waiter)
    }

    fn slot(&self, place: Place) -> Option<&Slot> {
        self.slots.get(index(place.0))
    }

    fn allocate(&mut self, waiter: Waiter) -> Option<u32> {
        let at = match self.free {
            NIL => {
                let at = u32::try_from(self.slots.len()).ok().filter(|at| *at != NIL)?;
                self.slots.push(Slot { waiter: Some(waiter), previous: NIL, next: NIL });
                at
            }
            free => {
                let slot = &mut self.slots[index(free)];
                self.free = slot.next;
                slot.waiter = Some(waiter);
                free
            }
        };
        self.occupied += 1;
        Some(at)
    }

    fn link(&mut self, at: u32, before: u32) {
        let after = match before {
            NIL => std::mem::replace(&mut self.head, at),
            _ => std::mem::replace(&mut self.slots[index(before)].next, at),
        };
        match after {
            NIL => self.tail = at,
            _ => self.slots[index(after)].previous = at,
        }
        let slot = &mut self.slots[index(at)];
        (slot.previous, slot.next) = (before, after);
        self.len += 1;
    }
}

fn place(at: u32) -> Option<Place> {
    (at != NIL).then_some(Place(at))
}

fn index(at: u32) -> usize {
    at as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(ticket: u64) -> Waiter {
        Waiter {
            ticket,
            cost: 1,
            deadline: Some(Timestamp::from_secs(ticket.cast_signed())),
            kind: Kind::Solo,
            phase: Phase::Waiting,
            waker: None,
        }
    }

    fn order(queue: &Queue) -> Vec<u64> {
        let places = std::iter::successors(queue.head(), |place| queue.next(*place));
        places.filter_map(|place| queue.get(place)).map(|waiter| waiter.ticket).collect()
    }

    #[test]
    fn who_leaves_from_the_middle_leaves_the_others_in_order() {
        let mut queue = Queue::default();
        let places: Vec<_> = (0..5).map(|ticket| queue.insert(waiter(ticket)).unwrap()).collect();
        for leaving in [2, 0, 4] {
            queue.unlink(places[leaving]);
            queue.release(places[leaving]);
        }
        assert_eq!((order(&queue), queue.waiting()), (vec![1, 3], 2));
        queue.insert(waiter(9)).unwrap();
        assert_eq!(order(&queue), [1, 3, 9]);
        assert_eq!(queue.first_deadline().unwrap().0, Timestamp::from_secs(1));
    }

    #[test]
    fn an_earlier_ticket_goes_ahead() {
        let mut queue = Queue::default();
        for ticket in [5, 7, 6, 1] {
            queue.insert(waiter(ticket)).unwrap();
        }
        assert_eq!(order(&queue), [1, 5, 6, 7]);
    }

    #[test]
    fn a_slot_is_small_and_is_given_back() {
        assert!(size_of::<Slot>() <= 80, "{}", size_of::<Slot>());
        let mut queue = Queue::default();
        let places: Vec<_> = (0..1000).map(|ticket| queue.insert(waiter(ticket)).unwrap()).collect();
        for place in places {
            queue.unlink(place);
            queue.release(place);
        }
        assert!(queue.is_unused() && queue.slots.capacity() == 0);
    }
}
