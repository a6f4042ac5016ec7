//! The denial cache before the scripts, unless it is left out.

use std::sync::Arc;

use ratekeeper::Nanos;
use ratekeeper::port::Store;
use ratekeeper::store::{DenialCache, DenialStatistics};

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

/// The scripts, with or without a denial cache before them.
#[derive(Clone, Debug)]
pub(crate) enum StoreFront {
    Bare(Scripts),
    Cached(Arc<DenialCache<Scripts>>),
}

impl StoreFront {
    pub(crate) fn new(scripted: Scripts, denials: Option<DenialSettings>) -> Self {
        match denials {
            None => StoreFront::Bare(scripted),
            Some(DenialSettings { capacity, trust }) => {
                StoreFront::Cached(Arc::new(DenialCache::new(scripted).capacity(capacity).trust(trust)))
            }
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match self {
            StoreFront::Bare(store) => store,
            StoreFront::Cached(store) => &**store,
        }
    }

    pub(crate) fn denials(&self) -> Option<DenialStatistics> {
        match self {
            StoreFront::Bare(_) => None,
            StoreFront::Cached(store) => Some(store.statistics()),
        }
    }
}
