//! What Prometheus reads. The names do not change: docs/wire.md §6.

use ratekeeper::store::BreakerState;

use super::metrics_page::{MetricsPage, label};
use super::rls_metrics;
use crate::engine::Engine;
use crate::watch::RefusedKeys;

/// Returns the page, in the text format of Prometheus.
pub(super) fn render(engine: &Engine) -> String {
    let mut page = MetricsPage::new();
    let readings = engine.metrics().read();
    page.head("ratekeeper_requests_total", "counter", "Requests by their result.");
    for (transport, reading) in &readings {
        for (result, count) in
            [("allowed", reading.allowed), ("denied", reading.denied), ("error", reading.errors)]
        {
            page.line(&format!(
                "ratekeeper_requests_total{{transport=\"{transport}\",result=\"{result}\"}} {count}"
            ));
        }
    }
    page.head("ratekeeper_auth_failures_total", "counter", "Wrong tokens.");
    for (transport, reading) in &readings {
        let count = reading.auth_failures;
        page.line(&format!("ratekeeper_auth_failures_total{{transport=\"{transport}\"}} {count}"));
    }
    page.head("ratekeeper_floods_total", "counter", "Connections cut for control frames without requests.");
    for (transport, reading) in &readings {
        page.line(&format!("ratekeeper_floods_total{{transport=\"{transport}\"}} {}", reading.floods));
    }
    page.head("ratekeeper_decision_seconds", "histogram", "Time for one decision, share of its batch.");
    for (transport, reading) in &readings {
        page.histogram("ratekeeper_decision_seconds", &format!("transport=\"{transport}\""), &reading.times);
    }
    page.head("ratekeeper_connections", "gauge", "Connections now.");
    for (transport, slots) in engine.metrics().slots() {
        page.line(&format!("ratekeeper_connections{{transport=\"{transport}\"}} {}", slots.in_use()));
    }
    if let Some(expiry) = engine.metrics().certificate_expiry() {
        let name = "ratekeeper_tls_certificate_expiry_timestamp_seconds";
        page.head(name, "gauge", "When the TLS certificate in use expires, as a Unix time.");
        page.line(&format!("{name} {expiry}"));
    }
    if let Some(store) = engine.memory() {
        page.head("ratekeeper_keys", "gauge", "States held by the store in memory.");
        let statistics = store.statistics();
        page.line(&format!("ratekeeper_keys {}", statistics.keys));
        page.head("ratekeeper_keys_of_requests", "gauge", "Those of quotas that requests brought.");
        page.line(&format!("ratekeeper_keys_of_requests {}", statistics.keys_of_requests));
        page.head("ratekeeper_max_keys", "gauge", "States that the store may hold (--max-keys).");
        page.line(&format!("ratekeeper_max_keys {}", statistics.max_keys));
        page.head("ratekeeper_store_bytes", "gauge", "Bytes allocated by the store in memory.");
        page.line(&format!("ratekeeper_store_bytes {}", statistics.bytes));
        page.head("ratekeeper_store_bytes_of_requests", "gauge", "Those of quotas that requests brought.");
        page.line(&format!("ratekeeper_store_bytes_of_requests {}", statistics.bytes_of_requests));
        page.head("ratekeeper_store_max_bytes", "gauge", "Bytes that the store may allocate (--max-bytes).");
        page.line(&format!("ratekeeper_store_max_bytes {}", statistics.max_bytes));
        page.head(
            "ratekeeper_kept_for_plans_percent",
            "gauge",
            "What quotas of requests cannot take of both.",
        );
        page.line(&format!("ratekeeper_kept_for_plans_percent {}", statistics.kept_for_plans));
        page.head("ratekeeper_holds", "gauge", "Holds that are live in the store in memory.");
        page.line(&format!("ratekeeper_holds {}", store.live_hold_count()));
        page.head("ratekeeper_keys_refused_total", "counter", "New keys that found the store full.");
        let refused = RefusedKeys::of(&statistics);
        for (of, count) in [("plan", refused.plan), ("request", refused.request)] {
            page.line(&format!("ratekeeper_keys_refused_total{{of=\"{of}\"}} {count}"));
        }
    }
    let breakers = engine.breakers();
    if !breakers.is_empty() {
        let help = "Before each server of the store: 0 closed, 1 open, 2 half-open.";
        page.head("ratekeeper_breaker_state", "gauge", help);
    }
    for breaker in breakers {
        let state = match breaker.state() {
            BreakerState::Closed => 0,
            BreakerState::Open => 1,
            BreakerState::HalfOpen => 2,
        };
        let node = label(breaker.name().as_bytes());
        page.line(&format!("ratekeeper_breaker_state{{node=\"{node}\"}} {state}"));
    }
    page.head("ratekeeper_store_errors_total", "counter", "Failures of the store by their reason.");
    for (kind, count) in engine.plan_metrics().store_errors() {
        page.line(&format!("ratekeeper_store_errors_total{{kind=\"{kind}\"}} {count}"));
    }
    page.head(
        "ratekeeper_plan_decisions_total",
        "counter",
        "Decisions by the rule that bound them, or would have.",
    );
    for (plan, rule, result, count) in engine.plan_metrics().decisions() {
        // Names of plans and rules have no character that would need escaping.
        page.line(&format!(
            "ratekeeper_plan_decisions_total{{plan=\"{plan}\",rule=\"{rule}\",result=\"{result}\"}} {count}"
        ));
    }
    page.head("ratekeeper_forgiven_total", "counter", "What went beyond the bound of debts, in any unit.");
    page.line(&format!("ratekeeper_forgiven_total {}", engine.plan_metrics().forgiven()));
    page.head("ratekeeper_holds_total", "counter", "Holds by what became of them.");
    for (result, count) in engine.plan_metrics().holds() {
        page.line(&format!("ratekeeper_holds_total{{result=\"{result}\"}} {count}"));
    }
    if let Some(reloads) = engine.reloads().read() {
        page.head(
            "ratekeeper_reloads_total",
            "counter",
            "Reloads of the configuration file by their result.",
        );
        for (result, count) in [("success", reloads.succeeded), ("error", reloads.failed)] {
            page.line(&format!("ratekeeper_reloads_total{{result=\"{result}\"}} {count}"));
        }
        let name = "ratekeeper_reload_last_successful";
        page.head(
            name,
            "gauge",
            "1 if the configuration in force is the file's, 0 if the last reload failed.",
        );
        page.line(&format!("{name} {}", u8::from(!reloads.last_failed)));
        let name = "ratekeeper_reload_last_success_timestamp_seconds";
        page.head(name, "gauge", "When the configuration in force was read.");
        page.line(&format!("{name} {}", reloads.last_success));
    }
    let top = engine.metrics().top_denied();
    if !top.is_empty() {
        page.head("ratekeeper_top_denied", "gauge", "Denials of the keys with most of them, about.");
    }
    for (rank, denied) in (1..).zip(top) {
        let (key, count) = (label(&denied.key), denied.count);
        page.line(&format!("ratekeeper_top_denied{{key=\"{key}\",rank=\"{rank}\"}} {count}"));
    }
    rls_metrics::render(&mut page, engine, &readings);
    page.into_text()
}
