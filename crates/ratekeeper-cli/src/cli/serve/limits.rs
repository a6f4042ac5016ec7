//! What requests that name no plan are held to, and which quotas they may bring.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Result;
use ratekeeper_server::config::DurationText;
use ratekeeper_server::{QuotaBounds, RequestLimits};

use super::layers::Layers;

/// Returns the defaults and bounds of quotas, checked now and not when the first request comes.
pub(super) fn limits(layers: Layers<'_>) -> Result<RequestLimits> {
    let section = &layers.file.limits;
    let bounds = bounds(layers)?;
    let limits = RequestLimits {
        burst: section.default_burst,
        rate: section.default_rate,
        period: section.default_period,
        bounds,
    };
    if let Err(error) = limits.check_defaults() {
        let setting = format!("limits.{}", error.setting);
        return Err(layers.mistake(false, &setting, &setting, error.problem));
    }
    Ok(limits)
}

fn bounds(layers: Layers<'_>) -> Result<QuotaBounds> {
    let (flags, section, default) = (layers.flags, &layers.file.limits, QuotaBounds::default());
    let max_period =
        layers.pick(("--max-period", flags.max_period), ("limits.max_period", section.max_period));
    let max_period = match max_period.value {
        Some(DurationText(span)) if span < Duration::from_secs(1) => {
            return Err(max_period
                .wrong(format_args!("{span:?}; must be at least 1s, the shortest period of THROTTLE")));
        }
        Some(DurationText(span)) => span.into(),
        None => default.max_period,
    };
    let max_log_entries = flags.max_log_entries.or(section.max_log_entries);
    Ok(QuotaBounds {
        max_period,
        allow_log: flags.allow_log.or(section.allow_log).unwrap_or(default.allow_log),
        max_log_entries: max_log_entries.map_or(default.max_log_entries, NonZeroU32::get),
        plans_only: flags.plans_only.or(section.plans_only).unwrap_or(default.plans_only),
    })
}
