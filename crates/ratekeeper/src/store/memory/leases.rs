//! Which lease runs out next: a heap of positions, each of which knows its place in it.
//!
//! Ordered by when the leases end, four children to a parent. A hold that ends or is prolonged is found at once, so that
//! there is nothing in here but what is live.

use super::hold_record::HoldRecord;
use super::slab::Slab;
use crate::Timestamp;

/// Children of a parent.
const WIDTH: usize = 4;

/// The live holds of a shard, the one whose lease runs out next first.
#[derive(Debug)]
pub(super) struct Leases {
    heap: Vec<u32>,
    /// When the first one runs out.
    next: Timestamp,
}

impl Default for Leases {
    fn default() -> Self {
        Leases { heap: Vec::new(), next: Timestamp::MAX }
    }
}

impl Leases {
    /// Returns when the next lease runs out; none ever, if there is none.
    #[inline]
    pub(super) fn next(&self) -> Timestamp {
        self.next
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns the hold whose lease runs out next.
    pub(super) fn first(&self) -> Option<u32> {
        self.heap.first().copied()
    }

    /// Returns the bytes that are allocated.
    pub(super) fn bytes(&self) -> usize {
        self.heap.capacity() * size_of::<u32>()
    }

    /// Returns the bytes that [`reserve`](Leases::reserve) will allocate, before it gives the old ones back.
    #[inline]
    pub(super) fn growth(&self) -> usize {
        self.more().map_or(0, |capacity| capacity * size_of::<u32>())
    }

    /// Allocates what one more needs.
    pub(super) fn reserve(&mut self) {
        if let Some(capacity) = self.more() {
            self.heap.reserve_exact(capacity - self.heap.len());
        }
    }

    fn more(&self) -> Option<usize> {
        let (len, capacity) = (self.heap.len(), self.heap.capacity());
        (len == capacity).then(|| capacity + (capacity / 4).max(8))
    }

    /// Adds a hold, for which there is room.
    pub(super) fn push(&mut self, hold: u32, records: &mut Slab<HoldRecord>) {
        self.heap.push(hold);
        self.rise(self.heap.len() - 1, records);
        self.look(records);
    }

    /// Takes out the hold in this place.
    pub(super) fn remove(&mut self, place: u32, records: &mut Slab<HoldRecord>) {
        let place = place as usize;
        if place >= self.heap.len() {
            return;
        }
        self.heap.swap_remove(place);
        self.settle(place, records);
    }

    /// Finds the place of a hold again whose lease has changed.
    pub(super) fn settle(&mut self, place: usize, records: &mut Slab<HoldRecord>) {
        if place < self.heap.len() && self.rise(place, records) == place {
            self.sink(place, records);
        }
        self.look(records);
    }

    fn look(&mut self, records: &Slab<HoldRecord>) {
        self.next = self.first().map_or(Timestamp::MAX, |first| end(first, records));
    }

    /// Moves a hold towards the first. Returns where it comes to rest.
    fn rise(&mut self, mut place: usize, records: &mut Slab<HoldRecord>) -> usize {
        let hold = self.heap[place];
        let own = end(hold, records);
        while place > 0 {
            let parent = (place - 1) / WIDTH;
            if end(self.heap[parent], records) <= own {
                break;
            }
            self.put(place, self.heap[parent], records);
            place = parent;
        }
        self.put(place, hold, records);
        place
    }

    /// Moves a hold towards the last.
    fn sink(&mut self, mut place: usize, records: &mut Slab<HoldRecord>) {
        let hold = self.heap[place];
        let own = end(hold, records);
        loop {
            let children = (place * WIDTH + 1)..(place * WIDTH + 1 + WIDTH).min(self.heap.len());
            let first = children.min_by_key(|child| end(self.heap[*child], records));
            let Some(first) = first.filter(|first| end(self.heap[*first], records) < own) else { break };
            self.put(place, self.heap[first], records);
            place = first;
        }
        self.put(place, hold, records);
    }

    fn put(&mut self, place: usize, hold: u32, records: &mut Slab<HoldRecord>) {
        self.heap[place] = hold;
        if let Some(record) = records.get_mut(hold) {
            // No more than there are positions.
            record.link = u32::try_from(place).unwrap_or(u32::MAX);
        }
    }
}

fn end(hold: u32, records: &Slab<HoldRecord>) -> Timestamp {
    records.get(hold).map_or(Timestamp::MAX, |record| record.lease_end)
}
