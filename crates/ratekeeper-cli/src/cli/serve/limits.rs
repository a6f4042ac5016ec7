//! What requests that name no plan are held to, and which quotas they may bring.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Result;
use ratekeeper_server::duration::DurationText;
use ratekeeper_server::{Limits, QuotaBounds};

use super::layers::Layers;

/// Returns the defaults and bounds of quotas, checked now and not when the first request comes.
pub(super) fn limits(layers: Layers<'_>) -> Result<Limits> {
    let section = &layers.file.limits;
    let bounds = bounds(layers)?;
    let limits = Limits {
        burst: section.default_burst,
        rate: section.default_rate,
        period: section.default_period,
        bounds,
    };
    // What the file leaves to requests is assumed to be harmless. With `plans_only` the defaults are not used; but
    // once they are, they must be good ones.
    let one = |given: Option<i64>| given.unwrap_or(1);
    let used = Limits { bounds: QuotaBounds { plans_only: false, ..bounds }, ..limits };
    if let Err(refusal) = used.throttle(one(limits.burst), one(limits.rate), one(limits.period)) {
        let setting = match refusal.field() {
            "max_burst" => "limits.default_burst",
            "count_per_period" => "limits.default_rate",
            _ => "limits.default_period",
        };
        let message = refusal.to_string();
        let message = message.split_once(": ").map_or(message.as_str(), |(_, message)| message);
        return Err(layers.mistake(false, setting, setting, message));
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
