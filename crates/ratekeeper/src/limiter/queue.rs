//! The queue as data: who waits, in order. It knows nothing of locks, tasks, threads or time.
//!
//! A doubly linked list inside a vector: entering, granting and leaving from the middle take constant time, and a
//! waiter costs one slot of 80 bytes. A slot belongs to its waiter until the waiter gives it back. A place names the
//! slot and who had it: one that was kept for too long finds nobody, never somebody else.

use std::collections::BTreeSet;
use std::task::Waker;

use crate::Timestamp;

/// No slot.
const NIL: u32 = u32::MAX;

/// A vector of more slots than this is given back when it is no longer used.
const KEPT_SLOTS: usize = 64;

/// A waiter's slot, for as long as the waiter holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    at: u32,
    /// Tells apart those who have had the same slot one after another.
    generation: u32,
}

/// A charge that may be given back: when it was made, and after how many resets and changes of
/// quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) at: Timestamp,
    /// Either forgets every charge before it. Counted, because two things may happen at one instant.
    pub(crate) resets: u32,
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In the queue.
    Waiting,
    /// In the queue, at its head, and told that its turn has come; it decides by itself whether it can use it.
    Called,
    /// Out of the queue with a grant that it has not yet taken up: a [`Charge`], in its parts because that is smaller.
    Granted { at: Timestamp, resets: u32 },
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
    /// That of its place; given by the queue.
    generation: u32,
}

impl Phase {
    pub(crate) fn granted(Charge { at, resets }: Charge) -> Self {
        Phase::Granted { at, resets }
    }

    /// What was charged, if it was granted.
    pub(crate) fn charge(self) -> Option<Charge> {
        match self {
            Phase::Granted { at, resets } => Some(Charge { at, resets }),
            Phase::Waiting | Phase::Called | Phase::Failed(_) => None,
        }
    }
}

impl Waiter {
    pub(crate) fn new(ticket: u64, cost: u64, deadline: Option<Timestamp>, kind: Kind) -> Self {
        Waiter { ticket, cost, deadline, kind, phase: Phase::Waiting, waker: None, generation: 0 }
    }
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
    /// What all in the queue want together.
    wanted: u128,
    occupied: usize,
    /// Of the last one that was given a slot.
    generation: u32,
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
            wanted: 0,
            occupied: 0,
            generation: 0,
            deadlines: BTreeSet::new(),
        }
    }
}

impl Queue {
    /// How many are in the queue.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What all in the queue want together.
    pub(crate) fn wanted(&self) -> u128 {
        self.wanted
    }

    /// True if nobody holds a slot, in the queue or out of it.
    pub(crate) fn is_unused(&self) -> bool {
        self.occupied == 0
    }

    pub(crate) fn head(&self) -> Option<Place> {
        self.place(self.head)
    }

    /// The one that everybody else is behind.
    pub(crate) fn first(&self) -> Option<&Waiter> {
        self.get(self.head()?)
    }

    /// Everybody in the queue, in order.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (Place, &Waiter)> {
        let places = std::iter::successors(self.head(), |place| self.next(*place));
        places.filter_map(|place| Some((place, self.get(place)?)))
    }

    /// The one behind.
    pub(crate) fn next(&self, place: Place) -> Option<Place> {
        self.place(self.slot(place)?.next)
    }

    pub(crate) fn get(&self, place: Place) -> Option<&Waiter> {
        self.slot(place)?.waiter.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Waiter> {
        let waiter = self.slots.get_mut(index(place.at))?.waiter.as_mut();
        waiter.filter(|waiter| waiter.generation == place.generation)
    }

    /// The earliest deadline, and whose it is.
    pub(crate) fn first_deadline(&self) -> Option<(Timestamp, Place)> {
        self.deadlines.first().copied()
    }

    /// Enters the queue behind everybody with an earlier ticket, which is behind everybody unless the waiter has
    /// waited elsewhere before. `None` if there are 2^32 − 1 waiters already.
    pub(crate) fn insert(&mut self, waiter: Waiter) -> Option<Place> {
        let before = self.last_before(waiter.ticket);
        let (deadline, cost) = (waiter.deadline, waiter.cost);
        let place = self.allocate(waiter)?;
        self.wanted += u128::from(cost);
        self.link(place.at, before);
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, place));
        }
        Some(place)
    }

    /// The last one whose ticket is earlier. Looked for from both ends at once: who has waited elsewhere is either
    /// hardly older than the last, or older than nearly all.
    fn last_before(&self, ticket: u64) -> u32 {
        let is_earlier = |at: u32| {
            let waiter = self.slots[index(at)].waiter.as_ref();
            waiter.is_none_or(|waiter| waiter.ticket <= ticket)
        };
        let (mut from_tail, mut from_head) = (self.tail, self.head);
        loop {
            if from_tail == NIL || is_earlier(from_tail) {
                return from_tail;
            }
            if !is_earlier(from_head) {
                return self.slots[index(from_head)].previous;
            }
            from_tail = self.slots[index(from_tail)].previous;
            from_head = self.slots[index(from_head)].next;
        }
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
        let Some(waiter) = self.get(place) else { return };
        let (deadline, cost) = (waiter.deadline, waiter.cost);
        let Slot { previous, next, .. } = self.slots[index(place.at)];
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, place));
        }
        match previous {
            NIL => self.head = next,
            _ => self.slots[index(previous)].next = next,
        }
        match next {
            NIL => self.tail = previous,
            _ => self.slots[index(next)].previous = previous,
        }
        self.wanted -= u128::from(cost);
        self.len -= 1;
    }

    /// Gives a slot back. The waiter must have been [unlinked](Queue::unlink).
    pub(crate) fn release(&mut self, place: Place) -> Option<Waiter> {
        self.get(place)?;
        let slot = &mut self.slots[index(place.at)];
        let waiter = slot.waiter.take()?;
        slot.next = self.free;
        self.free = place.at;
        self.occupied -= 1;
        if self.occupied == 0 && self.slots.capacity() > KEPT_SLOTS {
            *self = Queue { generation: self.generation, ..Queue::default() };
        }
        Some(waiter)
    }

    fn slot(&self, place: Place) -> Option<&Slot> {
        let slot = self.slots.get(index(place.at))?;
        slot.waiter.as_ref().is_some_and(|waiter| waiter.generation == place.generation).then_some(slot)
    }

    fn place(&self, at: u32) -> Option<Place> {
        let waiter = self.slots.get(index(at))?.waiter.as_ref()?;
        Some(Place { at, generation: waiter.generation })
    }

    fn allocate(&mut self, mut waiter: Waiter) -> Option<Place> {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        waiter.generation = generation;
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
        Some(Place { at, generation })
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

fn index(at: u32) -> usize {
    at as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(ticket: u64) -> Waiter {
        Waiter::new(ticket, 1, Some(Timestamp::from_secs(ticket.cast_signed())), Kind::Solo)
    }

    fn order(queue: &Queue) -> Vec<u64> {
        queue.waiters().map(|(_, waiter)| waiter.ticket).collect()
    }

    #[test]
    fn who_leaves_from_the_middle_leaves_the_others_in_order() {
        let mut queue = Queue::default();
        let places: Vec<_> = (0..5).map(|ticket| queue.insert(waiter(ticket)).unwrap()).collect();
        for leaving in [2, 0, 4] {
            queue.unlink(places[leaving]);
            queue.release(places[leaving]);
        }
        assert_eq!((order(&queue), queue.len(), queue.wanted()), (vec![1, 3], 2, 2));
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
        for ticket in (10..20).chain([8, 19, 2]) {
            queue.insert(waiter(ticket)).unwrap();
        }
        assert!(order(&queue).is_sorted());
        assert_eq!(queue.len(), 17);
    }

    #[test]
    fn a_place_that_was_given_back_is_nobodys() {
        for count in [1, 1_000] {
            let mut queue = Queue::default();
            let stale: Vec<_> = (0..count).map(|ticket| queue.insert(waiter(ticket)).unwrap()).collect();
            for place in &stale {
                queue.unlink(*place);
                queue.release(*place);
            }
            let newer = queue.insert(waiter(5_000)).unwrap();
            for place in stale {
                assert!(queue.get(place).is_none() && queue.get_mut(place).is_none());
                assert!(queue.next(place).is_none());
                queue.unlink(place);
                assert!(queue.release(place).is_none());
            }
            assert_eq!((order(&queue), queue.get(newer).unwrap().ticket), (vec![5_000], 5_000));
        }
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
