//! The two things that need `unsafe`: a lock that costs one atomic operation, and a prefetch. Under loom, the lock is loom's.
//!
//! This is the only module of the crate with `unsafe`, and measurements demanded it: see
//! `docs/adr/0002-memory-store.md`.
#![allow(unsafe_code, clippy::allow_attributes)]
#![cfg_attr(loom, allow(dead_code))]

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// A mutual exclusion lock for critical sections of some ten nanoseconds.
///
/// A mutex of the standard library or of `parking_lot` must ask on release whether anyone sleeps, with a second
/// atomic operation that costs as much as all the rest of a decision. Nobody sleeps here: whoever finds the lock
/// taken spins, and after a while lets other threads run.
#[cfg(not(loom))]
pub(super) type SpinLock<T> = lock_api::Mutex<RawSpin, T>;

/// Whoever has this holds the lock.
#[cfg(not(loom))]
pub(super) type SpinGuard<'a, T> = lock_api::MutexGuard<'a, RawSpin, T>;

#[cfg(loom)]
pub(super) use crate::sync::{Mutex as SpinLock, MutexGuard as SpinGuard};

/// The first pause before looking at a taken lock again, and the longest: each is twice the last. A pause is some
/// ten to forty nanoseconds, so the longest is a few microseconds: a hundred decisions.
const FIRST_PAUSE: u32 = 16;
const LONGEST_PAUSE: u32 = 128;

/// The lock itself; use it through [`SpinLock`].
pub(super) struct RawSpin {
    locked: AtomicBool,
}

// SAFETY: `lock` and a successful `try_lock` return only after they changed `locked` from false to true, which only
// one thread can do until `unlock` sets it back; the acquire and release orderings make what one holder did visible
// to the next. So at most one thread is between the two, as the trait demands.
unsafe impl lock_api::RawMutex for RawSpin {
    const INIT: RawSpin = RawSpin { locked: AtomicBool::new(false) };

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_slowly();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.locked.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }
}

impl RawSpin {
    /// Looks seldom, so that the holder keeps the cache lines and decides many times in a row: on a key that everybody
    /// asks for, handing the lines over for every decision costs more than the decisions.
    #[cold]
    fn lock_slowly(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            (0..pause).for_each(|_| spin_loop());
            if !self.locked.load(Ordering::Relaxed) && !self.locked.swap(true, Ordering::Acquire) {
                return;
            }
            if pause < LONGEST_PAUSE {
                pause *= 2;
            } else {
                // The holder may be waiting for this very processor.
                std::thread::yield_now();
            }
        }
    }
}

/// Waits for so long that whoever waits for a lock has looked at it, before it is taken again by who has just released it.
#[cold]
pub(super) fn let_others_in() {
    (0..2 * LONGEST_PAUSE).for_each(|_| spin_loop());
    std::thread::yield_now();
}

/// Asks the processor to fetch `value` into its cache, where it has an instruction for that.
#[inline]
pub(super) fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint. It reads nothing that the program could see, writes nothing and cannot fault,
    // whatever the address; this one is that of a live reference. SSE, which has it, is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_comes_between() {
        let total = SpinLock::new(0u64);
        let times = if cfg!(miri) { 100 } else { 100_000 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..times {
                        // A read and a write apart: a lost update would show.
                        let mut guard = total.lock();
                        let seen = *guard;
                        spin_loop();
                        *guard = seen + 1;
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * times);
    }

    #[test]
    fn a_taken_lock_is_not_taken_twice() {
        let lock = SpinLock::new(());
        let held = lock.try_lock();
        assert!(held.is_some() && lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
