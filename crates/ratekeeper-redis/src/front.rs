//! What stands before the scripts: a memory of refusals, unless it is left out.

use std::sync::Arc;

use ratekeeper::Nanos;
use ratekeeper::port::Store;
use ratekeeper::store::{DenialCache, DenialStatistics};

use crate::link::Link;
use crate::scripted;

type Scripted = Arc<scripted::Scripted<Link>>;

/// How much is remembered, and how long it is trusted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenialSettings {
    pub(crate) capacity: usize,
    pub(crate) trust: Nanos,
}

impl Default for DenialSettings {
    fn default() -> Self {
        DenialSettings {
            capacity: DenialCache::<Scripted>::DEFAULT_CAPACITY,
            trust: DenialCache::<Scripted>::DEFAULT_TRUST,
        }
    }
}

/// The scripts with what stands before them.
#[derive(Clone, Debug)]
pub(crate) enum Front {
    Bare(Scripted),
    Remembering(Arc<DenialCache<Scripted>>),
}

impl Front {
    pub(crate) fn new(scripted: Scripted, denials: Option<DenialSettings>) -> Self {
        match denials {
            None => Front::Bare(scripted),
            Some(DenialSettings { capacity, trust }) => {
                Front::Remembering(Arc::new(DenialCache::new(scripted).capacity(capacity).trust(trust)))
            }
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match self {
            Front::Bare(store) => store,
            Front::Remembering(store) => &**store,
        }
    }

    pub(crate) fn denials(&self) -> Option<DenialStatistics> {
        match self {
            Front::Bare(_) => None,
            Front::Remembering(store) => Some(store.statistics()),
        }
    }
}
