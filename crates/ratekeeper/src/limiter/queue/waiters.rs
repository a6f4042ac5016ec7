//! Who waits, in order.
//!
//! A doubly linked list inside a vector: entering, granting and leaving from the middle take constant time, and a
//! waiter costs one slot of 80 bytes. A slot belongs to its waiter until the waiter gives it back. An id names the
//! slot and who had it: one that was kept for too long finds nobody, never somebody else.

use std::collections::BTreeSet;
use std::task::Waker;

use super::charges::PendingCharge;
use crate::Timestamp;
use crate::limiter::error::AcquireErrorKind;

/// No slot.
const NIL: u32 = u32::MAX;

/// A vector of more slots than this is given back when it is no longer used.
const KEPT_SLOTS: usize = 64;

/// Names a waiter, for as long as it holds its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId {
    at: u32,
    /// Tells apart those who have had the same slot one after another.
    generation: u32,
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterPhase {
    /// In the queue.
    Waiting,
    /// In the queue, at its head, and woken because its turn has come; it decides by itself whether it can use it.
    Called,
    /// Out of the queue with a grant that it has not collected yet: a [`PendingCharge`], in its parts because that is
    /// smaller.
    Granted { at: Timestamp, resets: u32 },
    /// Out of the queue without a grant, for this reason.
    Failed(AcquireErrorKind),
}

/// What a waiter wants done when its turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterKind {
    /// The cost is charged for it.
    Single,
    /// It waits for several limiters: it is called, and charges them all or none.
    Composite,
}

/// One who waits, or has an outcome that it has not collected yet.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Its age, comparable between queues: those with a smaller ticket came earlier.
    pub(crate) ticket: u64,
    pub(crate) cost: u64,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) kind: WaiterKind,
    pub(crate) phase: WaiterPhase,
    pub(crate) waker: Option<Waker>,
    /// That of its id; given by the list.
    generation: u32,
}

impl WaiterPhase {
    /// Granted, by this charge.
    pub(crate) fn granted(PendingCharge { at, resets }: PendingCharge) -> Self {
        WaiterPhase::Granted { at, resets }
    }

    /// Returns the charge, if it was granted.
    pub(crate) fn charge(self) -> Option<PendingCharge> {
        match self {
            WaiterPhase::Granted { at, resets } => Some(PendingCharge { at, resets }),
            WaiterPhase::Waiting | WaiterPhase::Called | WaiterPhase::Failed(_) => None,
        }
    }
}

impl Waiter {
    pub(crate) fn new(ticket: u64, cost: u64, deadline: Option<Timestamp>, kind: WaiterKind) -> Self {
        Waiter { ticket, cost, deadline, kind, phase: WaiterPhase::Waiting, waker: None, generation: 0 }
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
pub(crate) struct WaiterList {
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
    deadlines: BTreeSet<(Timestamp, WaiterId)>,
}

impl Default for WaiterList {
    fn default() -> Self {
        WaiterList {
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

impl WaiterList {
    /// Returns how many are in the queue.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns what all in the queue want together.
    pub(crate) fn wanted(&self) -> u128 {
        self.wanted
    }

    /// Returns true if nobody holds a slot, in the queue or out of it.
    pub(crate) fn is_unused(&self) -> bool {
        self.occupied == 0
    }

    pub(crate) fn head(&self) -> Option<WaiterId> {
        self.id_at(self.head)
    }

    /// Returns the one that everybody else is behind.
    pub(crate) fn first(&self) -> Option<&Waiter> {
        self.get(self.head()?)
    }

    /// Returns everybody in the queue, in order.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (WaiterId, &Waiter)> {
        let ids = std::iter::successors(self.head(), |id| self.next(*id));
        ids.filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Returns the one behind.
    pub(crate) fn next(&self, id: WaiterId) -> Option<WaiterId> {
        self.id_at(self.slot(id)?.next)
    }

    pub(crate) fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.slot(id)?.waiter.as_ref()
    }

    /// Returns true if this waiter is in the queue.
    pub(crate) fn is_waiting(&self, id: WaiterId) -> bool {
        self.get(id).is_some_and(|waiter| matches!(waiter.phase, WaiterPhase::Waiting | WaiterPhase::Called))
    }

    pub(crate) fn get_mut(&mut self, id: WaiterId) -> Option<&mut Waiter> {
        let waiter = self.slots.get_mut(index(id.at))?.waiter.as_mut();
        waiter.filter(|waiter| waiter.generation == id.generation)
    }

    /// Returns the earliest deadline, and whose it is.
    pub(crate) fn first_deadline(&self) -> Option<(Timestamp, WaiterId)> {
        self.deadlines.first().copied()
    }

    /// Enters the queue behind everybody with an earlier ticket, which is behind everybody unless the waiter has
    /// waited elsewhere before. `None` if there are 2^32 − 1 waiters already.
    pub(crate) fn insert(&mut self, waiter: Waiter) -> Option<WaiterId> {
        let before = self.last_before(waiter.ticket);
        let (deadline, cost) = (waiter.deadline, waiter.cost);
        let id = self.allocate(waiter)?;
        self.wanted += u128::from(cost);
        self.link(id.at, before);
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        Some(id)
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

    /// Sets the deadline of one that is in the queue.
    pub(crate) fn set_deadline(&mut self, id: WaiterId, deadline: Timestamp) {
        let Some(waiter) = self.get_mut(id) else { return };
        if let Some(old) = waiter.deadline.replace(deadline) {
            self.deadlines.remove(&(old, id));
        }
        self.deadlines.insert((deadline, id));
    }

    /// Takes a waiter out of the queue; it keeps its slot, to learn what became of it.
    pub(crate) fn unlink(&mut self, id: WaiterId) {
        let Some(waiter) = self.get(id) else { return };
        let (deadline, cost) = (waiter.deadline, waiter.cost);
        let Slot { previous, next, .. } = self.slots[index(id.at)];
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, id));
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

    /// Gives a slot back. The waiter must have been [unlinked](WaiterList::unlink).
    pub(crate) fn release(&mut self, id: WaiterId) -> Option<Waiter> {
        self.get(id)?;
        let slot = &mut self.slots[index(id.at)];
        let waiter = slot.waiter.take()?;
        slot.next = self.free;
        self.free = id.at;
        self.occupied -= 1;
        if self.occupied == 0 && self.slots.capacity() > KEPT_SLOTS {
            *self = WaiterList { generation: self.generation, ..WaiterList::default() };
        }
        Some(waiter)
    }

    fn slot(&self, id: WaiterId) -> Option<&Slot> {
        let slot = self.slots.get(index(id.at))?;
        slot.waiter.as_ref().is_some_and(|waiter| waiter.generation == id.generation).then_some(slot)
    }

    fn id_at(&self, at: u32) -> Option<WaiterId> {
        let waiter = self.slots.get(index(at))?.waiter.as_ref()?;
        Some(WaiterId { at, generation: waiter.generation })
    }

    fn allocate(&mut self, mut waiter: Waiter) -> Option<WaiterId> {
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
        Some(WaiterId { at, generation })
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
        Waiter::new(ticket, 1, Some(Timestamp::from_secs(ticket.cast_signed())), WaiterKind::Single)
    }

    fn order(queue: &WaiterList) -> Vec<u64> {
        queue.waiters().map(|(_, waiter)| waiter.ticket).collect()
    }

    #[test]
    fn who_leaves_from_the_middle_leaves_the_others_in_order() {
        let mut queue = WaiterList::default();
        let ids: Vec<_> = (0..5).map(|ticket| queue.insert(waiter(ticket)).unwrap()).collect();
        for leaving in [2, 0, 4] {
            queue.unlink(ids[leaving]);
            queue.release(ids[leaving]);
        }
        assert_eq!((order(&queue), queue.len(), queue.wanted()), (vec![1, 3], 2, 2));
        queue.insert(waiter(9)).unwrap();
        assert_eq!(order(&queue), [1, 3, 9]);
        assert_eq!(queue.first_deadline().unwrap().0, Timestamp::from_secs(1));
    }

    #[test]
    fn an_earlier_ticket_goes_ahead() {
        let mut queue = WaiterList::default();
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
    fn an_id_that_was_given_back_is_nobodys() {
        for count in [1, 1_000] {
            let mut queue = WaiterList::default();
            let stale: Vec<_> = (0..count).map(|ticket| queue.insert(waiter(ticket)).unwrap()).collect();
            for id in &stale {
                queue.unlink(*id);
                queue.release(*id);
            }
            let newer = queue.insert(waiter(5_000)).unwrap();
            for id in stale {
                assert!(queue.get(id).is_none() && queue.get_mut(id).is_none());
                assert!(queue.next(id).is_none());
                queue.unlink(id);
                assert!(queue.release(id).is_none());
            }
            assert_eq!((order(&queue), queue.get(newer).unwrap().ticket), (vec![5_000], 5_000));
        }
    }

    #[test]
    fn a_slot_is_small_and_is_given_back() {
        assert!(size_of::<Slot>() <= 80, "{}", size_of::<Slot>());
        let mut queue = WaiterList::default();
        let ids: Vec<_> = (0..1000).map(|ticket| queue.insert(waiter(ticket)).unwrap()).collect();
        for id in ids {
            queue.unlink(id);
            queue.release(id);
        }
        assert!(queue.is_unused() && queue.slots.capacity() == 0);
    }
}
