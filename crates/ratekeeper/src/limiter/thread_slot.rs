//! A small number for each thread that counts.

use std::cell::Cell;
use std::collections::BTreeSet;

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
static SLOTS: Mutex<FreeSlots> = Mutex::new(FreeSlots::new());
#[cfg(not(loom))]
thread_local! {
    // Two variables: one that is freed with its thread costs a look at its state, and this is read for every decision.
    static KNOWN: Cell<u32> = const { Cell::new(0) };
    static HELD: HeldSlot = const { HeldSlot(Cell::new(0)) };
}

#[cfg(loom)]
loom::lazy_static! {
    static ref SLOTS: Mutex<FreeSlots> = Mutex::new(FreeSlots::new());
}
#[cfg(loom)]
loom::thread_local! {
    static KNOWN: Cell<u32> = Cell::new(0);
    static HELD: HeldSlot = HeldSlot(Cell::new(0));
}

/// Gives the number back when its thread ends.
struct HeldSlot(Cell<u32>);

impl Drop for HeldSlot {
    fn drop(&mut self) {
        // Other variables of this thread may be dropped after this one, and count: without a number.
        let _ = KNOWN.try_with(|known| known.set(0));
        if self.0.get() > 0 {
            SLOTS.lock().free.insert(self.0.get());
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
        let slot = HELD.try_with(|held| {
            if held.0.get() == 0 {
                held.0.set(SLOTS.lock().take());
            }
            held.0.get()
        });
        let slot = slot.ok()?;
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
    use super::*;

    #[test]
    fn no_two_living_threads_have_the_same_number_and_it_is_given_on() {
        let mine = ThreadSlot::own().unwrap();
        assert_eq!((ThreadSlot::own(), ThreadSlot::known()), (Some(mine), mine));
        let numbers = || {
            let threads: Vec<_> =
                (0..20).map(|_| std::thread::spawn(|| ThreadSlot::own().unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().get()).collect::<Vec<_>>()
        };
        // Tests that run beside this one have numbers too, but never a thousand threads.
        for _ in 0..50 {
            assert!(numbers().iter().all(|number| *number < 1_000 && *number != mine.get()));
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
