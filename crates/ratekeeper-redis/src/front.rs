//! What stands before the scripts: a breaker, and a memory of refusals. Either can be left out.

use std::sync::Arc;

use ratekeeper::Nanos;
use ratekeeper::port::{Observer, Store};
use ratekeeper::store::{
    Breaker, BreakerChange, BreakerSettings, BreakerState, DenialCache, DenialStatistics, Guarded,
};

use crate::link::Link;
use crate::scripted;

type Scripted = Arc<scripted::Scripted<Link>>;

/// What is to stand before the scripts.
#[derive(Clone, Debug)]
pub(crate) struct FrontSettings {
    pub(crate) breaker: Option<BreakerSettings>,
    pub(crate) denials: Option<DenialSettings>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
}

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

impl Default for FrontSettings {
    fn default() -> Self {
        FrontSettings {
            breaker: Some(BreakerSettings::default()),
            denials: Some(DenialSettings::default()),
            observers: Vec::new(),
        }
    }
}

/// The scripts with what stands before them.
#[derive(Clone, Debug)]
pub(crate) enum Front {
    Bare(Scripted),
    Guarded(Arc<Guarded<Scripted>>),
    Remembering(Arc<DenialCache<Scripted>>),
    Both(Arc<DenialCache<Guarded<Scripted>>>),
}

impl Front {
    pub(crate) fn new(scripted: Scripted, settings: FrontSettings) -> Self {
        let guarded = |scripted, breaker| {
            let breaker = Breaker::new(breaker).observer(Arc::new(Log));
            let breaker = settings.observers.iter().cloned().fold(breaker, Breaker::observer);
            // The link keeps the time limit.
            Guarded::new(scripted, breaker).timeout(None)
        };
        match (settings.breaker, settings.denials) {
            (None, None) => Front::Bare(scripted),
            (Some(breaker), None) => Front::Guarded(Arc::new(guarded(scripted, breaker))),
            (None, Some(denials)) => Front::Remembering(Arc::new(remembering(scripted, denials))),
            (Some(breaker), Some(denials)) => {
                Front::Both(Arc::new(remembering(guarded(scripted, breaker), denials)))
            }
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match self {
            Front::Bare(store) => store,
            Front::Guarded(store) => &**store,
            Front::Remembering(store) => &**store,
            Front::Both(store) => &**store,
        }
    }

    pub(crate) fn breaker(&self) -> Option<Arc<Breaker>> {
        match self {
            Front::Bare(_) | Front::Remembering(_) => None,
            Front::Guarded(store) => Some(store.breaker()),
            Front::Both(store) => Some(store.inner().breaker()),
        }
    }

    pub(crate) fn denials(&self) -> Option<DenialStatistics> {
        match self {
            Front::Bare(_) | Front::Guarded(_) => None,
            Front::Remembering(store) => Some(store.statistics()),
            Front::Both(store) => Some(store.statistics()),
        }
    }
}

fn remembering<S: Store>(store: S, settings: DenialSettings) -> DenialCache<S> {
    DenialCache::new(store).capacity(settings.capacity).trust(settings.trust)
}

/// Logs the changes of a breaker, once each.
#[derive(Debug)]
struct Log;

impl Observer for Log {
    fn breaker_changed(&self, change: BreakerChange) {
        match change.to {
            BreakerState::Open => {
                tracing::warn!(
                    from = change.from.as_str(),
                    "the server fails: left alone, failure modes answer"
                );
            }
            BreakerState::HalfOpen => tracing::debug!("one request finds out whether the server is back"),
            BreakerState::Closed => tracing::info!("the server is back"),
        }
    }
}
