//! What stands before the scripts: a cache of denials, and leases.

use std::sync::Arc;

use ratekeeper::port::Store;
use ratekeeper::store::{DenialCache, DenialStatistics, LeaseStatistics, Leased};
use ratekeeper::{Lease, Nanos};

use crate::link::Link;
use crate::scripted::ScriptedStore;

/// What decides behind the front.
type Scripts = Arc<ScriptedStore<Link>>;

/// How many refusals a denial cache remembers, and how long it trusts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenialSettings {
    pub(crate) capacity: usize,
    pub(crate) trust: Nanos,
}

impl Default for DenialSettings {
    fn default() -> Self {
        DenialSettings {
            capacity: DenialCache::<Scripts>::DEFAULT_CAPACITY,
            trust: DenialCache::<Scripts>::DEFAULT_TRUST,
        }
    }
}

/// How many keys are leased, none at all if it is 0, and the lease of requests that bring their own quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSettings {
    pub(crate) keys: usize,
    pub(crate) own: Lease,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        LeaseSettings { keys: Leased::<Scripts>::DEFAULT_KEYS, own: Lease::OFF }
    }
}

/// The scripts, and before them the layers that are not left out, the innermost first.
#[derive(Clone, Debug)]
pub(crate) struct StoreFront {
    denials: Option<Arc<DenialCache<Scripts>>>,
    leases: Option<Arc<Leased<Arc<dyn Store>>>>,
    outermost: Arc<dyn Store>,
}

impl StoreFront {
    pub(crate) fn new(scripted: Scripts, denials: Option<DenialSettings>, leases: LeaseSettings) -> Self {
        let trust = denials.unwrap_or_default().trust;
        let denials = denials.map(|DenialSettings { capacity, trust }| {
            Arc::new(DenialCache::new(Arc::clone(&scripted)).capacity(capacity).trust(trust))
        });
        let mut outermost: Arc<dyn Store> = match &denials {
            Some(cached) => Arc::clone(cached) as _,
            None => scripted,
        };
        let LeaseSettings { keys, own } = leases;
        let leases = (keys > 0)
            .then(|| Arc::new(Leased::new(Arc::clone(&outermost)).keys(keys).lease(own).trust(trust)));
        if let Some(leased) = &leases {
            outermost = Arc::clone(leased) as _;
        }
        StoreFront { denials, leases, outermost }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.outermost
    }

    pub(crate) fn denials(&self) -> Option<DenialStatistics> {
        self.denials.as_ref().map(|denials| denials.statistics())
    }

    pub(crate) fn leases(&self) -> Option<LeaseStatistics> {
        self.leases.as_ref().map(|leases| leases.statistics())
    }

    /// Gives back what is left of all leases.
    pub(crate) async fn close(&self) {
        if let Some(leases) = &self.leases {
            leases.close().await;
        }
    }
}
