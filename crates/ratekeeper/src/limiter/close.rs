//! What can be closed.

use std::hash::Hash;
use std::sync::Arc;

use super::all::All;
use super::concurrency::Concurrency;
use super::direct::Limiter;
use super::keyed::Keyed;
use super::leaky_queue::LeakyQueue;

/// Something that can be closed: whoever waits for it fails.
pub trait Close {
    /// Closes it: everybody who waits fails now, and everybody who comes later.
    fn close(&self);
}

macro_rules! close {
    ($($limiter:ty),+ $(,)?) => {$(
        impl Close for $limiter {
            fn close(&self) {
                <$limiter>::close(self);
            }
        }
    )+};
}

close!(Limiter, Concurrency, LeakyQueue, All);

impl<K: Hash + Eq> Close for Keyed<K> {
    fn close(&self) {
        Keyed::close(self);
    }
}

/// A limiter behind a pointer is closed for all who hold it.
impl<L: Close + ?Sized> Close for Arc<L> {
    fn close(&self) {
        (**self).close();
    }
}
