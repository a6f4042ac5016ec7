//! The limit of a client's own.

use ratekeeper::limiter::{AcquireError, Concurrency, Keyed, LeakyQueue, Limiter, Statistics};
use ratekeeper::{Algorithm, Quota, QuotaError};

/// A limiter that a [`Pace`](super::Pace) keeps to: one for all hosts together, or one for each.
///
/// Made from a [`Limiter`], a [`LeakyQueue`] or a [`Concurrency`], which all hosts then share, also with whoever else
/// uses a clone of it; or from a [`Keyed`], which has a limit for each host.
#[derive(Clone, Debug)]
pub struct PaceLimit(Kind);

#[derive(Clone, Debug)]
enum Kind {
    None,
    Shared(HostLimit),
    Rates(Keyed<String>),
    /// So many at once for each host.
    Permits(u64),
}

impl PaceLimit {
    /// Whatever the servers say.
    pub(super) const NONE: PaceLimit = PaceLimit(Kind::None);

    /// This quota for each host.
    pub(super) fn of(quota: Quota) -> Result<Self, QuotaError> {
        Ok(PaceLimit(match quota.algorithm() {
            Algorithm::Concurrency => Kind::Permits(quota.burst()),
            _ => Kind::Rates(Keyed::new(quota)?),
        }))
    }

    /// The limit of one host.
    pub(super) fn of_host(&self, key: &str) -> Result<HostLimit, AcquireError> {
        Ok(match &self.0 {
            Kind::None => HostLimit::None,
            Kind::Shared(limit) => limit.clone(),
            Kind::Rates(keyed) => HostLimit::Rate(keyed.limiter(key)?),
            // The number came from a quota, which has none that cannot be.
            Kind::Permits(limit) => Concurrency::new(*limit).map_or(HostLimit::None, HostLimit::Permits),
        })
    }
}

impl From<Limiter> for PaceLimit {
    fn from(limiter: Limiter) -> Self {
        PaceLimit(Kind::Shared(HostLimit::Rate(limiter)))
    }
}

impl From<LeakyQueue> for PaceLimit {
    fn from(queue: LeakyQueue) -> Self {
        PaceLimit(Kind::Shared(HostLimit::Queue(queue)))
    }
}

impl From<Concurrency> for PaceLimit {
    fn from(permits: Concurrency) -> Self {
        PaceLimit(Kind::Shared(HostLimit::Permits(permits)))
    }
}

impl From<Keyed<String>> for PaceLimit {
    fn from(keyed: Keyed<String>) -> Self {
        PaceLimit(Kind::Rates(keyed))
    }
}

/// The limit that one host is held to.
#[derive(Clone, Debug)]
pub(super) enum HostLimit {
    None,
    Rate(Limiter),
    Queue(LeakyQueue),
    Permits(Concurrency),
}

impl HostLimit {
    pub(super) fn statistics(&self) -> Option<Statistics> {
        match self {
            HostLimit::None => None,
            HostLimit::Rate(limiter) => Some(limiter.statistics()),
            HostLimit::Queue(queue) => Some(queue.statistics()),
            HostLimit::Permits(permits) => Some(permits.statistics()),
        }
    }
}
