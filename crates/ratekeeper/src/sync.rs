//! The primitives that stores, breakers and limiters synchronise with: real ones, or loom's, which try every interleaving.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use std::sync::{Arc, OnceLock};

    pub(crate) use parking_lot::{Mutex, MutexGuard};
}

#[cfg(loom)]
mod modelled {
    pub(crate) use std::sync::Arc;

    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

    /// The standard library's, with a lock that tells loom who saw it filled: loom has none of its own.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        lock: Mutex<()>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            OnceLock { value: std::sync::OnceLock::new(), lock: Mutex::new(()) }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            let _guard = self.lock.lock();
            self.value.get()
        }

        pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            let _guard = self.lock.lock();
            self.value.get_or_init(init)
        }
    }

    /// Loom's mutex with the methods of parking_lot's: no poisoning.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

#[cfg(loom)]
pub(crate) use modelled::*;
#[cfg(not(loom))]
pub(crate) use real::*;
