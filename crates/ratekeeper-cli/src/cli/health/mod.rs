//! `ratekeeper health`: asks a running server whether it is healthy, for health checks without another tool.

mod ask;
mod flags;
mod target;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod trust;

pub(super) use ask::run;
pub(super) use flags::HealthFlags;
