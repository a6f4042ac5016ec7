//! A server with the settings that the environment amounts to.

use std::process::ExitCode;

use anyhow::Result;
use ratekeeper::Registry;
use ratekeeper_server::StoreLocation;

use super::super::serve;
use super::environment::{self, RatelimitEnvironment};
use super::flags::RatelimitFlags;
use super::variables::Variables;
use crate::log;

/// Serves until the process is told to stop.
pub(in crate::cli) fn run(flags: &RatelimitFlags) -> Result<ExitCode> {
    let read = environment::read(&Variables::of_process(), flags.redis_layout.into())?;
    let RatelimitEnvironment { settings, log_level, log_format, unused } = read;
    log::start(log_level, log_format);
    for unused in unused {
        tracing::warn!(
            variables = unused.names,
            "ratelimit: these variables mean nothing here: {}",
            unused.why
        );
    }
    if settings.store == StoreLocation::Memory {
        tracing::warn!(
            "ratelimit: REDIS_URL is not set, so counters are in the memory of this process alone"
        );
    }
    serve::start(&settings, Registry::default(), |_| Ok(Vec::new()))
}
