//! What a store can be made of.

use std::fmt::Debug;
use std::sync::Arc;

use super::answer::Answer;
use crate::Nanos;

/// Any key-value store with an atomic compare-and-set. [`CasStore`](crate::store::CasStore) makes a
/// [`Store`](super::Store) of it.
pub trait KeyValue: Send + Sync + Debug {
    /// Returns the value, unless it is absent or has expired.
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>>;

    /// Sets `new` if the value is still exactly `old` (`None`: absent), to expire after `ttl`, rounded up to what the
    /// store counts in. True if it was set.
    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool>;

    /// Forgets the key. True if there was one.
    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool>;
}

impl<V: KeyValue + ?Sized> KeyValue for Arc<V> {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>> {
        (**self).get(key)
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool> {
        (**self).compare_and_set(key, old, new, ttl)
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        (**self).delete(key)
    }
}
