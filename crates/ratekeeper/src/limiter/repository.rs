//! Limiters of any kind, by key, for as long as they are wanted.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use super::close::Close;
use super::error::{AcquireError, AcquireErrorKind, LimiterKind};

const CLOSED: AcquireError = AcquireError::new(AcquireErrorKind::Closed, LimiterKind::Repository);

/// A table of limiters of any kind, one for each key, made on demand. The repository owns their lives: one that is removed is
/// closed, so that nobody goes on waiting for what nobody else can reach.
///
/// Nothing is removed by itself: for keys that strangers choose, take [`Keyed`](super::Keyed), which is bounded.
///
/// ```
/// use ratekeeper::limiter::{Concurrency, Repository};
/// let tenants = Repository::new(|tenant: &String| Concurrency::new(if tenant == "big" { 64 } else { 4 }).unwrap());
/// assert_eq!(tenants.get_or_create("big")?.limit(), 64);
/// let small = tenants.get_or_create("small")?;
/// assert!(tenants.remove("small"));
/// assert!(small.try_acquire().is_err(), "it was closed");
/// assert_eq!(tenants.remove_where(|_, limit| limit.in_flight() == 0), 1);
/// # Ok::<(), ratekeeper::limiter::AcquireError>(())
/// ```
pub struct Repository<K, L: Close> {
    shared: Arc<Limiters<K, L>>,
}

struct Limiters<K, L: Close> {
    make: Box<dyn Fn(&K) -> L + Send + Sync>,
    /// `None` once it was closed.
    limiters: Mutex<Option<HashMap<K, L>>>,
}

impl<K: Hash + Eq, L: Close + Clone> Repository<K, L> {
    /// Returns an empty repository; `make` makes the limiter of a key.
    pub fn new(make: impl Fn(&K) -> L + Send + Sync + 'static) -> Self {
        let limiters = Mutex::new(Some(HashMap::new()));
        Repository { shared: Arc::new(Limiters { make: Box::new(make), limiters }) }
    }

    /// Returns the limiter of this key, which is made if there is none. One lock; two, and a call of `make` outside of them,
    /// for a new key.
    ///
    /// # Errors
    ///
    /// If the repository was closed.
    pub fn get_or_create<Q>(&self, key: &Q) -> Result<L, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(limiter) = self.get(key) {
            return Ok(limiter);
        }
        // Made outside of the lock: it is the caller's code. Of two that are made at once, one is thrown away unused.
        let key = key.to_owned();
        let made = (self.shared.make)(&key);
        let mut limiters = self.shared.limiters.lock();
        let limiters = limiters.as_mut().ok_or(CLOSED)?;
        Ok(limiters.entry(key).or_insert(made).clone())
    }

    /// Returns the limiter of this key, if there is one.
    pub fn get<Q>(&self, key: &Q) -> Option<L>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shared.limiters.lock().as_ref()?.get(key).cloned()
    }

    /// Removes and closes the limiter of this key; returns false if there is none.
    pub fn remove<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let removed = self.shared.limiters.lock().as_mut().and_then(|limiters| limiters.remove(key));
        removed.inspect(Close::close).is_some()
    }

    /// Removes and closes those of which the predicate is true; returns how many. The predicate is called under the
    /// repository's lock: it must not call the repository.
    pub fn remove_where(&self, mut predicate: impl FnMut(&K, &L) -> bool) -> usize {
        let removed: Vec<(K, L)> = match self.shared.limiters.lock().as_mut() {
            Some(limiters) => limiters.extract_if(|key, limiter| predicate(key, limiter)).collect(),
            None => Vec::new(),
        };
        removed.iter().for_each(|(_, limiter)| limiter.close());
        removed.len()
    }

    /// Returns how many limiters there are.
    pub fn len(&self) -> usize {
        self.shared.limiters.lock().as_ref().map_or(0, HashMap::len)
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes all limiters, now and for good.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl<K, L: Close> Limiters<K, L> {
    fn close(&self) {
        let limiters = self.limiters.lock().take();
        limiters.into_iter().flatten().for_each(|(_, limiter)| limiter.close());
    }
}

impl<K, L: Close> Drop for Limiters<K, L> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<K, L: Close> Clone for Repository<K, L> {
    fn clone(&self) -> Self {
        Repository { shared: Arc::clone(&self.shared) }
    }
}

impl<K, L: Close> fmt::Debug for Repository<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.shared.limiters.lock().as_ref().map(HashMap::len);
        f.debug_struct("Repository").field("len", &len).finish_non_exhaustive()
    }
}
