//! A small number for each thread that counts.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;

use numbers::{HELD, KNOWN, SlotsRef, slots};

use crate::sync::Mutex;

/// A number that no other living thread has, as small as can be: that of a thread which has ended is given to the next.
///
/// Numbers are handed over under a lock, so whoever gets one sees all that was written by those who had it before: what
/// belongs to a number has one writer at a time, and needs no atomic addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadSlot(u32);

/// The numbers in use are 1 to `highest`, without the free ones.
struct FreeSlots {
    highest: u32,
    free: BTreeSet<u32>,
}

impl FreeSlots {
    const fn new() -> Self {
        FreeSlots { highest: 0, free: BTreeSet::new() }
    }

    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.highest += 1;
            self.highest
        })
    }
}

#[cfg(not(loom))]
mod numbers {
    use super::*;

    pub(super) type SlotsRef = &'static Mutex<FreeSlots>;

    static SLOTS: Mutex<FreeSlots> = Mutex::new(FreeSlots::new());
    thread_local! {
        // Two variables: one that is dropped with its thread costs a look at its state, and the other is read for every
        // decision.
        pub(super) static KNOWN: Cell<u32> = const { Cell::new(0) };
        pub(super) static HELD: HeldSlot = const { HeldSlot(OnceCell::new()) };
    }

    pub(super) fn slots() -> SlotsRef {
        &SLOTS
    }
}

#[cfg(loom)]
mod numbers {
    use std::sync::Arc;

    use super::*;

    // Shared, because a model drops its statics before the variables of its first thread.
    pub(super) type SlotsRef = Arc<Mutex<FreeSlots>>;

    loom::lazy_static! {
        static ref SLOTS: SlotsRef = Arc::new(Mutex::new(FreeSlots::new()));
    }
    loom::thread_local! {
        pub(super) static KNOWN: Cell<u32> = Cell::new(0);
        pub(super) static HELD: HeldSlot = HeldSlot(OnceCell::new());
    }

    pub(super) fn slots() -> SlotsRef {
        Arc::clone(&SLOTS)
    }
}

/// A number, and where it is given back when its thread ends.
struct HeldSlot(OnceCell<(u32, SlotsRef)>);

impl HeldSlot {
    fn get(&self) -> u32 {
        let (slot, _) = self.0.get_or_init(|| {
            let slots = slots();
            let slot = slots.lock().take();
            (slot, slots)
        });
        *slot
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        // Other variables of this thread may be dropped after this one, and count: without a number.
        let _ = KNOWN.try_with(|known| known.set(0));
        if let Some((slot, slots)) = self.0.get() {
            slots.lock().free.insert(*slot);
        }
    }
}

impl ThreadSlot {
    /// Equals no thread's.
    pub(crate) const NOBODY: ThreadSlot = ThreadSlot(u32::MAX);

    /// Returns this thread's number if it has been given one, else one that equals nobody's, not even
    /// [`NOBODY`](ThreadSlot::NOBODY)'s.
    #[inline(always)]
    pub(crate) fn known() -> Self {
        ThreadSlot(KNOWN.try_with(Cell::get).unwrap_or(0))
    }

    /// Returns this thread's number; `None` if the thread is ending and has given it back.
    #[inline]
    pub(crate) fn own() -> Option<Self> {
        let known = ThreadSlot::known();
        if known.0 > 0 { Some(known) } else { ThreadSlot::give() }
    }

    #[cold]
    fn give() -> Option<Self> {
        let slot = HELD.try_with(HeldSlot::get).ok()?;
        KNOWN.try_with(|known| known.set(slot)).ok()?;
        Some(ThreadSlot(slot))
    }

    /// Returns the number, counted from 0; one beyond everything for a thread that has not been given one.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.0 as usize).wrapping_sub(1)
    }

    /// Returns the number, from 1.
    #[inline]
    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn no_two_living_threads_have_the_same_number_and_it_is_given_on() {
        let mine = ThreadSlot::own().unwrap();
        assert_eq!((ThreadSlot::own(), ThreadSlot::known()), (Some(mine), mine));
        let number = |all_live: &Barrier| {
            let slot = ThreadSlot::own().unwrap();
            all_live.wait();
            slot.get()
        };
        let numbers = || {
            let all_live = Barrier::new(20);
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..20).map(|_| scope.spawn(|| number(&all_live))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<BTreeSet<_>>()
            })
        };
        // Tests that run beside this one have numbers too, but never a thousand threads.
        for _ in 0..50 {
            let numbers = numbers();
            assert_eq!(numbers.len(), 20);
            assert!(numbers.iter().all(|number| *number < 1_000 && *number != mine.get()));
        }
    }

    #[test]
    fn a_thread_that_ends_counts_without_a_number() {
        struct Last;
        impl Drop for Last {
            fn drop(&mut self) {
                assert_eq!((ThreadSlot::own(), ThreadSlot::known()), (None, ThreadSlot(0)));
            }
        }
        thread_local!(static LAST: Last = const { Last });
        // Dropped in the reverse order of their first use.
        let thread = std::thread::spawn(|| LAST.with(|_| ThreadSlot::own().map(ThreadSlot::get)));
        assert!(thread.join().unwrap().is_some());
    }
}
