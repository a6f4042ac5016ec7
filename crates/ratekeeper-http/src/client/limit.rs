//! The limit of a client's own.

use std::sync::Arc;

use ratekeeper::limiter::{
    AcquireError, All, AnyLimiter, Concurrency, Keyed, LeakyQueue, Limiter, LimiterStatistics,
};
use ratekeeper::{Algorithm, Quota, QuotaError};

/// A limiter that a [`Pace`](super::Pace) keeps to: one for all hosts together, or one for each.
///
/// Made from a [`Limiter`], [`LeakyQueue`], [`Concurrency`] or [`All`], or from any `Arc<dyn AnyLimiter>`, which all
/// hosts then share, also with whoever else uses a clone of it; or from a [`Keyed`], which has a limit for each host.
#[derive(Clone, Debug)]
pub struct PaceLimit(PaceLimitKind);

#[derive(Clone, Debug)]
enum PaceLimitKind {
    /// One for all hosts, or none.
    Shared(HostLimit),
    Rates(Keyed<String>),
    /// So many at once for each host.
    Permits(u64),
}

impl PaceLimit {
    /// No limit of the client's own.
    pub(super) const NONE: PaceLimit = PaceLimit(PaceLimitKind::Shared(HostLimit::None));

    /// Creates a limit of this quota for each host.
    pub(super) fn of(quota: Quota) -> Result<Self, QuotaError> {
        Ok(PaceLimit(match quota.algorithm() {
            Algorithm::Concurrency => PaceLimitKind::Permits(quota.burst()),
            _ => PaceLimitKind::Rates(Keyed::new(quota)?),
        }))
    }

    /// Returns the limit of one host.
    pub(super) fn of_host(&self, key: &str) -> Result<HostLimit, AcquireError> {
        Ok(match &self.0 {
            PaceLimitKind::Shared(limit) => limit.clone(),
            PaceLimitKind::Rates(keyed) => HostLimit::Rate(keyed.limiter(key)?),
            // The number came from a quota, which has none that cannot be.
            PaceLimitKind::Permits(limit) => {
                Concurrency::new(*limit).map_or(HostLimit::None, HostLimit::OwnPermits)
            }
        })
    }
}

impl From<Limiter> for PaceLimit {
    fn from(limiter: Limiter) -> Self {
        PaceLimit(PaceLimitKind::Shared(HostLimit::Rate(limiter)))
    }
}

impl From<Arc<dyn AnyLimiter>> for PaceLimit {
    fn from(limiter: Arc<dyn AnyLimiter>) -> Self {
        PaceLimit(PaceLimitKind::Shared(HostLimit::Any(limiter)))
    }
}

impl From<LeakyQueue> for PaceLimit {
    fn from(queue: LeakyQueue) -> Self {
        PaceLimit::from(Arc::new(queue) as Arc<dyn AnyLimiter>)
    }
}

impl From<Concurrency> for PaceLimit {
    fn from(permits: Concurrency) -> Self {
        PaceLimit::from(Arc::new(permits) as Arc<dyn AnyLimiter>)
    }
}

impl From<All> for PaceLimit {
    fn from(all: All) -> Self {
        PaceLimit::from(Arc::new(all) as Arc<dyn AnyLimiter>)
    }
}

impl From<Keyed<String>> for PaceLimit {
    fn from(keyed: Keyed<String>) -> Self {
        PaceLimit(PaceLimitKind::Rates(keyed))
    }
}

/// The limit that one host is held to.
#[derive(Clone, Debug)]
pub(super) enum HostLimit {
    None,
    /// By itself, because it takes back what was not used after all.
    Rate(Limiter),
    /// Of this host alone.
    OwnPermits(Concurrency),
    /// Shared with other hosts, and may be or hold permits.
    Any(Arc<dyn AnyLimiter>),
}

impl HostLimit {
    /// Returns true if it is taken before the server is waited for, and held meanwhile. Only permits of the host's own
    /// are: a rate is charged when the request is sent, and permits that others share would keep them waiting for a
    /// server that is not theirs.
    pub(super) fn is_held_while_waiting(&self) -> bool {
        matches!(self, HostLimit::OwnPermits(_))
    }

    /// Returns the limiter to ask, if there is a limit.
    pub(super) fn limiter(&self) -> Option<&dyn AnyLimiter> {
        match self {
            HostLimit::None => None,
            HostLimit::Rate(limiter) => Some(limiter),
            HostLimit::OwnPermits(permits) => Some(permits),
            HostLimit::Any(limiter) => Some(&**limiter),
        }
    }

    pub(super) fn statistics(&self) -> Option<LimiterStatistics> {
        self.limiter().map(AnyLimiter::statistics)
    }
}
