//! What stands before a store that is far away: a cache of denials, and leases.

use std::sync::Arc;

use super::denials::{DenialCache, DenialStatistics};
use super::leased::{LeaseStatistics, Leased};
use crate::port::Store;
use crate::{Lease, Nanos};

/// How many refusals a [denial cache](DenialCache) remembers, and how long it trusts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenialSettings {
    /// How many refusals are remembered.
    pub capacity: usize,
    /// How long one is trusted at most.
    pub trust: Nanos,
}

impl Default for DenialSettings {
    fn default() -> Self {
        DenialSettings {
            capacity: DenialCache::<Arc<dyn Store>>::DEFAULT_CAPACITY,
            trust: DenialCache::<Arc<dyn Store>>::DEFAULT_TRUST,
        }
    }
}

/// How many keys are [leased](Leased), and the lease of requests that bring their own quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// How many keys are leased; none at all if it is 0.
    pub keys: usize,
    /// The lease of requests that bring their own quota. Plans have their own.
    pub own: Lease,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        LeaseSettings { keys: Leased::<Arc<dyn Store>>::DEFAULT_KEYS, own: Lease::OFF }
    }
}

/// A store, and before it the layers that are not left out, the innermost first: a cache of denials, and leases.
#[derive(Debug)]
pub struct StoreFront<S> {
    denials: Option<Arc<DenialCache<Arc<S>>>>,
    leases: Option<Arc<Leased<Arc<dyn Store>>>>,
    outermost: Arc<dyn Store>,
}

impl<S: Store + 'static> StoreFront<S> {
    /// Returns the store behind these layers; without denials, none of its refusals is remembered.
    pub fn new(store: Arc<S>, denials: Option<DenialSettings>, leases: LeaseSettings) -> Self {
        let trust = denials.unwrap_or_default().trust;
        let denials = denials.map(|DenialSettings { capacity, trust }| {
            Arc::new(DenialCache::new(Arc::clone(&store)).capacity(capacity).trust(trust))
        });
        let mut outermost: Arc<dyn Store> = match &denials {
            Some(cached) => Arc::clone(cached) as _,
            None => store,
        };
        let LeaseSettings { keys, own } = leases;
        let leases = (keys > 0)
            .then(|| Arc::new(Leased::new(Arc::clone(&outermost)).keys(keys).lease(own).trust(trust)));
        if let Some(leased) = &leases {
            outermost = Arc::clone(leased) as _;
        }
        StoreFront { denials, leases, outermost }
    }

    /// Returns the store with all its layers.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.outermost
    }

    /// Returns the counts of the cache of denials; none if it was left out.
    pub fn denials(&self) -> Option<DenialStatistics> {
        self.denials.as_ref().map(|denials| denials.statistics())
    }

    /// Returns what is leased, and what became of it; none if leases were left out.
    pub fn leases(&self) -> Option<LeaseStatistics> {
        self.leases.as_ref().map(|leases| leases.statistics())
    }

    /// Gives back what is left of all leases: for a program that stops.
    pub async fn close(&self) {
        if let Some(leases) = &self.leases {
            leases.close().await;
        }
    }
}

impl<S> Clone for StoreFront<S> {
    fn clone(&self) -> Self {
        let StoreFront { denials, leases, outermost } = self;
        StoreFront { denials: denials.clone(), leases: leases.clone(), outermost: Arc::clone(outermost) }
    }
}
