//! `ratekeeper health`: asks a running server whether it is healthy, for health checks without another tool.

mod ask;
mod flags;

pub(super) use ask::run;
pub(super) use flags::HealthFlags;
