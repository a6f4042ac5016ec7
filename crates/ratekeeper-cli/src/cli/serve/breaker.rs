//! When a Redis that fails is left alone: `--redis-breaker`, or `[store.breaker]`.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use ratekeeper::store::BreakerSettings;

use super::layers::Layers;

/// The bounds of how long a Redis that fails is left alone, and of what failures are counted over.
const BREAKER_TIME: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3_600);
/// The defaults of [`BreakerSettings::failed_percent`], which sets both.
const BREAKER_PERCENT: u8 = 50;
const BREAKER_LEAST: u32 = 20;

/// Returns when a Redis that fails is left alone, or `None` for never; each part from the flag, the file or the default.
pub(super) fn breaker(layers: Layers<'_>) -> anyhow::Result<Option<BreakerSettings>> {
    let flag = layers.flags.redis_breaker.map(|breaker| breaker.0).unwrap_or_default();
    let section = &layers.file.store.breaker;
    let percent =
        layers.pick(("--redis-breaker percent", flag.percent), ("store.breaker.percent", section.percent));
    let share = percent.value.unwrap_or(BREAKER_PERCENT);
    if !(1..=100).contains(&share) {
        return Err(percent.wrong(format_args!("{share}; must be from 1 to 100")));
    }
    let least = flag.least.or(section.least).map_or(BREAKER_LEAST, NonZeroU32::get);
    let mut settings = BreakerSettings::default().failed_percent(share, least);
    if let Some(failures) = flag.failures.or(section.failures) {
        settings = settings.failures_in_a_row(failures.get());
    }
    let window =
        layers.pick(("--redis-breaker window", flag.window), ("store.breaker.window", section.window));
    if let Some(window) = window.within(BREAKER_TIME)? {
        settings = settings.window(window);
    }
    let rest = layers.pick(("--redis-breaker rest", flag.rest), ("store.breaker.rest", section.rest));
    if let Some(rest) = rest.within(BREAKER_TIME)? {
        settings = settings.rest(rest);
    }
    Ok(flag.enabled.or(section.enabled).unwrap_or(true).then_some(settings))
}
