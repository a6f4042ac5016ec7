//! What is counted for Envoy, under the names of the Go service and under ours.

use std::collections::BTreeMap;

use ratekeeper::port::Plans;

use super::metrics_page::{MetricsPage, label};
use crate::engine::Engine;
use crate::rls::{
    FoundRule, LimitPlan, RateLimitService, RlsReading, RuleLimit, RuleReading, StatName, ToldLimit,
};
use crate::watch::{TimesReading, TransportReading};

/// One of the numbers that are counted of a rule.
type OfRule = fn(&RuleReading) -> u64;

/// What is counted of a rule, as the Go service calls it.
const OF_RULES: [(&str, OfRule); 5] = [
    ("total_hits", |reading| reading.total_hits),
    ("over_limit", |reading| reading.over_limit),
    ("near_limit", |reading| reading.near_limit),
    ("within_limit", |reading| reading.within_limit),
    ("shadow_mode", |reading| reading.shadow_mode),
];

/// Writes the metrics of the service, if there is one.
pub(super) fn render(page: &mut MetricsPage, engine: &Engine, readings: &[(&'static str, TransportReading)]) {
    let Some(service) = engine.rls() else { return };
    let reading = service.read_counts();
    theirs(page, &reading, &Asked::of(readings));
    ours(page, &reading);
    limits(page, service, engine.registry());
}

/// How often the service was asked, and how long it took.
struct Asked {
    total: u64,
    times: TimesReading,
}

impl Asked {
    fn of(readings: &[(&'static str, TransportReading)]) -> Self {
        let mut asked = Asked { total: 0, times: TimesReading::default() };
        for (_, reading) in readings {
            asked.total += reading.rls_times.count() + reading.rls_errors;
            asked.times = asked.times.plus(&reading.rls_times);
        }
        asked
    }
}

/// Writes what the Go service exports, under its names.
fn theirs(page: &mut MetricsPage, reading: &RlsReading, asked: &Asked) {
    // Levels below the second are no labels there, so that rules which differ in those alone are added up.
    let mut rules: BTreeMap<String, RuleReading> = BTreeMap::new();
    for (name, counts) in &reading.rules {
        let mut labels = format!("domain=\"{}\"", label(name.domain().as_bytes()));
        for (level, value) in (1..=2).zip(name.levels()) {
            labels.push_str(&format!(",key{level}=\"{}\"", label(value.as_bytes())));
        }
        let sum = rules.entry(labels).or_default();
        *sum = sum.plus(*counts);
    }
    for (name, count) in OF_RULES {
        let name = format!("ratelimit_service_rate_limit_{name}");
        page.head(&name, "counter", "Hits, as envoyproxy/ratelimit counts them.");
        for (labels, counts) in &rules {
            page.line(&format!("{name}{{{labels}}} {}", count(counts)));
        }
    }
    let name = "ratelimit_service_should_rate_limit_error";
    page.head(name, "counter", "Requests of Envoy without an answer.");
    for (kind, count) in [("redis_error", reading.redis_error), ("service_error", reading.service_error)] {
        page.line(&format!("{name}{{err_type=\"{kind}\"}} {count}"));
    }
    page.head("ratelimit_service_total_requests", "counter", "Requests of Envoy.");
    page.line(&format!(
        "ratelimit_service_total_requests{{grpc_method=\"ShouldRateLimit\"}} {}",
        asked.total
    ));
    let name = "ratelimit_service_response_time_seconds";
    page.head(name, "histogram", "Time for one answer to Envoy.");
    page.histogram(name, "grpc_method=\"ShouldRateLimit\"", &asked.times);
    for (name, help, count) in [
        ("config_load_success", "Configurations that were loaded.", reading.config_load_success),
        ("config_load_error", "Configurations that were refused.", reading.config_load_error),
        (
            "global_shadow_mode",
            "Answers that are OK because of SHADOW_MODE alone.",
            reading.global_shadow_mode,
        ),
    ] {
        let name = format!("ratelimit_service_{name}");
        page.head(&name, "counter", help);
        page.line(&format!("{name} {count}"));
    }
}

/// Writes what is counted here, under our names.
fn ours(page: &mut MetricsPage, reading: &RlsReading) {
    let name = "ratekeeper_rls_hits_total";
    page.head(
        name,
        "counter",
        "Hits by the rule that they were held to; shadow: only a rule in shadow was against them.",
    );
    for (rule, counts) in &reading.rules {
        let labels = labels(rule);
        for (result, count) in [
            ("within", counts.total_hits.saturating_sub(counts.over_limit)),
            ("over", counts.over_limit.saturating_sub(counts.shadow_mode)),
            ("shadow", counts.shadow_mode.saturating_add(counts.over_shadow)),
        ] {
            page.line(&format!("{name}{{{labels},result=\"{result}\"}} {count}"));
        }
    }
    let name = "ratekeeper_rls_refunded_hits_total";
    page.head(name, "counter", "Negative hits: those that were given back.");
    for (rule, counts) in reading.rules.iter().filter(|(_, counts)| counts.total_negative_hits > 0) {
        page.line(&format!("{name}{{{}}} {}", labels(rule), counts.total_negative_hits));
    }
    let name = "ratekeeper_rls_unmatched_total";
    page.head(name, "counter", "Descriptors without a rule.");
    for (domain, counts) in &reading.domains {
        let domain = label(domain.as_bytes());
        for (why, count) in [("domain", counts.domain_not_found), ("rule", counts.rule_not_found)] {
            if count > 0 {
                page.line(&format!("{name}{{domain=\"{domain}\",why=\"{why}\"}} {count}"));
            }
        }
    }
    let name = "ratekeeper_rls_ignored_limits_total";
    page.head(name, "counter", "Limits of requests that were ignored because their unit is none.");
    page.line(&format!("{name} {}", reading.ignored_limits));
    if let Some(at) = reading.loaded_at {
        let name = "ratekeeper_rls_config_loaded_seconds";
        page.head(name, "gauge", "When the configuration in force was loaded, as a Unix time.");
        page.line(&format!("{name} {at}"));
    }
}

/// Writes what is configured.
fn limits(page: &mut MetricsPage, service: &RateLimitService, plans: &dyn Plans) {
    let Some(config) = service.config() else { return };
    let name = "ratekeeper_rls_limit";
    page.head(name, "gauge", "Hits that a rule allows in its period.");
    // Two rules may have one name: keys and values are joined in it.
    let limits: BTreeMap<String, u64> =
        config.rules().filter_map(|rule| Some((labels(rule.written()), limit(&rule, plans)?))).collect();
    for (labels, limit) in limits {
        page.line(&format!("{name}{{{labels}}} {limit}"));
    }
}

fn limit(found: &FoundRule<'_>, plans: &dyn Plans) -> Option<u64> {
    let limited = match &found.rule.limit {
        RuleLimit::Unlimited => return None,
        RuleLimit::Banned(_) => return Some(0),
        RuleLimit::Limited(limited) => limited,
    };
    match (limited.told, &limited.plan) {
        (ToldLimit::AsWritten { requests_per_unit, .. }, _) => Some(requests_per_unit.into()),
        (ToldLimit::ByBinding, LimitPlan::Own(plan)) => plan.rules().first().map(|rule| rule.quota().count()),
        (ToldLimit::ByBinding, LimitPlan::Named(name)) => {
            plans.find(name)?.rules().first().map(|rule| rule.quota().count())
        }
    }
}

fn labels(name: &StatName) -> String {
    let rule = name.as_str().get(name.domain().len() + 1..).unwrap_or_default();
    format!("domain=\"{}\",rule=\"{}\"", label(name.domain().as_bytes()), label(rule.as_bytes()))
}

/// Returns what is counted as `name: value` lines, under the names that the Go service has for statsd; none without a service.
pub(super) fn rls_stats_lines(engine: &Engine) -> Option<String> {
    let mut lines: Vec<_> =
        rls_stats(engine)?.into_iter().map(|(name, count)| format!("{name}: {count}\n")).collect();
    lines.sort_unstable();
    Some(lines.concat())
}

/// Returns what is counted, under the names that the Go service has for statsd, each once; none without a service.
pub(crate) fn rls_stats(engine: &Engine) -> Option<Vec<(String, u64)>> {
    let reading = engine.rls()?.read_counts();
    let asked = Asked::of(&engine.metrics().read());
    // Names that differ only in what statsd gives a meaning are one there, and counters of one name are added up.
    let mut stats: BTreeMap<String, u64> = BTreeMap::new();
    let mut line = |name: String, count: u64| {
        let sum = stats.entry(name).or_default();
        *sum = sum.wrapping_add(count);
    };
    for (name, counts) in reading.rules.iter().chain(&reading.gone) {
        let name = sanitized(name.as_str());
        for (counter, count) in OF_RULES {
            line(format!("ratelimit.service.rate_limit.{name}.{counter}"), count(counts));
        }
        if counts.total_negative_hits > 0 {
            line(
                format!("ratelimit.service.rate_limit.{name}.total_negative_hits"),
                counts.total_negative_hits,
            );
        }
    }
    for (domain, counts) in reading.domains.iter().filter(|(_, counts)| counts.domain_not_found > 0) {
        line(
            format!("ratelimit.service.rate_limit.{}.domain_not_found", sanitized(domain)),
            counts.domain_not_found,
        );
    }
    for (name, count) in [
        ("service.config_load_success", reading.config_load_success),
        ("service.config_load_error", reading.config_load_error),
        ("service.global_shadow_mode", reading.global_shadow_mode),
        ("service.call.should_rate_limit.redis_error", reading.redis_error),
        ("service.call.should_rate_limit.service_error", reading.service_error),
    ] {
        line(format!("ratelimit.{name}"), count);
    }
    line("ratelimit_server.ShouldRateLimit.total_requests".to_owned(), asked.total);
    Some(stats.into_iter().collect())
}

/// Returns a name as the Go service writes it: without what statsd gives a meaning, and an address is one part. One line it is
/// in any case.
fn sanitized(name: &str) -> String {
    let mut text: Vec<u8> = name
        .bytes()
        .map(|byte| if matches!(byte, b':' | b'|') || byte.is_ascii_control() { b'_' } else { byte })
        .collect();
    let mut at = 0;
    while at < text.len() {
        match address(&text[at..]) {
            Some(length) => {
                text[at..at + length].iter_mut().filter(|byte| **byte == b'.').for_each(|byte| *byte = b'_');
                at += length;
            }
            None => at += 1,
        }
    }
    // Only ASCII was replaced, by ASCII.
    String::from_utf8(text).unwrap_or_default()
}

/// Returns how long the four numbers of up to three digits are that this begins with, if it does.
fn address(text: &[u8]) -> Option<usize> {
    let mut length = 0;
    for part in 0..4 {
        if part > 0 {
            (text.get(length) == Some(&b'.')).then_some(())?;
            length += 1;
        }
        let digits = text[length..].iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0).then_some(())?;
        length += digits;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sanitized_as_the_go_service_does() {
        for (name, expected) in [
            ("edge.user_bob", "edge.user_bob"),
            ("edge.ip_10.0.0.1.path_/a:b|c", "edge.ip_10_0_0_1.path_/a_b_c"),
            ("edge.v_1.2.3", "edge.v_1.2.3"),
            ("1.2.3.4.5.6.7.8", "1_2_3_4.5_6_7_8"),
            ("1234.5.6.7", "1234_5_6_7"),
            ("a\nb.\u{fc}", "a_b.\u{fc}"),
            ("", ""),
        ] {
            assert_eq!(sanitized(name), expected);
        }
    }
}
