//! Counters by names that requests bring: at most so many, because whoever asks could make more without end.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;

/// Counters by name.
#[derive(Debug)]
pub(super) struct Series<N, C> {
    by_name: RwLock<HashMap<N, Arc<C>, RandomState>>,
    most: usize,
}

impl<N: Hash + Eq + Clone, C: Default> Series<N, C> {
    /// Returns counters for so many names.
    pub(super) fn new(most: usize) -> Self {
        Series { by_name: RwLock::default(), most }
    }

    /// Returns the counter of a name. Beyond the bound, names that are not known yet share the counter of what `other`
    /// returns.
    pub(super) fn get<Q>(&self, name: &Q, other: impl FnOnce() -> N) -> Arc<C>
    where
        N: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = N> + ?Sized,
    {
        let known = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = known.get(name) {
            return Arc::clone(counter);
        }
        let is_full = known.len() >= self.most;
        drop(known);
        let name = if is_full { other() } else { name.to_owned() };
        let mut known = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(name).or_default())
    }

    /// Returns every name with what `read` says of its counter.
    pub(super) fn read<R>(&self, read: impl Fn(&C) -> R) -> Vec<(N, R)> {
        let known = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(name, counter)| (name.clone(), read(counter))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn names_beyond_the_bound_share_a_counter() {
        let series: Series<String, AtomicU64> = Series::new(2);
        for name in ["a", "b", "c", "d", "a"] {
            series.get(name, || "_other".to_owned()).fetch_add(1, Ordering::Relaxed);
        }
        let mut read = series.read(|counter| counter.load(Ordering::Relaxed));
        read.sort();
        assert_eq!(read, [("_other".to_owned(), 2), ("a".to_owned(), 2), ("b".to_owned(), 1)]);
    }
}
