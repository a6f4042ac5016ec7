//! Counters by names that requests bring: at most so many, because whoever asks could make more without end.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;

/// The longest name that has a counter of its own, in bytes: header fields of callers stand in names, and those may be long.
const MAX_NAME: usize = 512;
/// The most bytes of all names together: each stands in many lines of a page of metrics.
const MAX_NAMES: usize = 1024 * 1024;

/// Counters by name.
#[derive(Debug)]
pub(super) struct Series<N, C> {
    known: RwLock<Known<N, C>>,
    most: usize,
}

#[derive(Debug)]
struct Known<N, C> {
    by_name: HashMap<N, Arc<C>, RandomState>,
    /// Bytes of all names.
    bytes: usize,
}

impl<N: Hash + Eq + Clone, C: Default> Series<N, C> {
    /// Returns counters for so many names.
    pub(super) fn new(most: usize) -> Self {
        Series { known: RwLock::new(Known { by_name: HashMap::default(), bytes: 0 }), most }
    }

    /// Returns the counter of a name that is so long. Names that are too long, and beyond the bound those that are not known
    /// yet, share the counter of what `other` returns.
    pub(super) fn get<Q>(&self, name: &Q, length: usize, other: impl FnOnce() -> N) -> Arc<C>
    where
        N: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = N> + ?Sized,
    {
        if let Some(counter) = self.known.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name) {
            return Arc::clone(counter);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let bytes = known.bytes + length;
        if known.by_name.len() >= self.most || length > MAX_NAME || bytes > MAX_NAMES {
            return Arc::clone(known.by_name.entry(other()).or_default());
        }
        if !known.by_name.contains_key(name) {
            known.bytes = bytes;
        }
        Arc::clone(known.by_name.entry(name.to_owned()).or_default())
    }

    /// Returns every name with what `read` says of its counter.
    pub(super) fn read<R>(&self, read: impl Fn(&C) -> R) -> Vec<(N, R)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.by_name.iter().map(|(name, counter)| (name.clone(), read(counter))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn names_beyond_the_bound_share_a_counter() {
        let series: Series<String, AtomicU64> = Series::new(2);
        let long = "x".repeat(MAX_NAME + 1);
        for name in [&*long, "a", "b", "c", "d", "a"] {
            series.get(name, name.len(), || "_other".to_owned()).fetch_add(1, Ordering::Relaxed);
        }
        let mut read = series.read(|counter| counter.load(Ordering::Relaxed));
        read.sort();
        assert_eq!(read, [("_other".to_owned(), 4), ("a".to_owned(), 2)]);
    }

    #[test]
    fn names_together_are_bounded_too() {
        let series: Series<String, AtomicU64> = Series::new(usize::MAX);
        for number in 0..10_000 {
            let name = format!("{number:0300}");
            for _ in 0..2 {
                series.get(&*name, name.len(), || "_other".to_owned()).fetch_add(1, Ordering::Relaxed);
            }
        }
        let read = series.read(|counter| counter.load(Ordering::Relaxed));
        assert_eq!(read.len(), MAX_NAMES / 300 + 1);
        assert_eq!(read.iter().map(|(_, count)| count).sum::<u64>(), 20_000);
    }
}
