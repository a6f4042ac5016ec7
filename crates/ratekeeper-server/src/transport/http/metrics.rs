//! What Prometheus reads. The names do not change: docs/wire.md §6.

use std::time::UNIX_EPOCH;

use ratekeeper::store::BreakerState;

use super::metrics_page::{MetricsPage, label};
use super::{front_metrics, rls_metrics};
use crate::engine::Engine;
use crate::watch::{RefusedKeys, SnapshotReading};

/// Returns the page, in the text format of Prometheus.
pub(super) fn render(engine: &Engine, tells_keys: bool) -> String {
    let mut page = MetricsPage::new();
    page.head("ratekeeper_build_info", "gauge", "1; which version this is, and what it was built with.");
    let features = [("otel", cfg!(feature = "otel")), ("tls", cfg!(feature = "tls"))];
    let features: Vec<&str> =
        features.into_iter().filter_map(|(name, is_on)| is_on.then_some(name)).collect();
    let features = features.join(",");
    let version = env!("CARGO_PKG_VERSION");
    page.line(&format!("ratekeeper_build_info{{version=\"{version}\",features=\"{features}\"}} 1"));
    page.head("process_start_time_seconds", "gauge", "When the server was started, as a Unix time.");
    let started = engine.started_at().duration_since(UNIX_EPOCH).unwrap_or_default();
    page.seconds("process_start_time_seconds", started);
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
    page.head("ratekeeper_max_connections", "gauge", "Connections that there may be (--max-connections).");
    for (transport, slots) in engine.metrics().slots() {
        page.line(&format!("ratekeeper_max_connections{{transport=\"{transport}\"}} {}", slots.most()));
    }
    page.head("ratekeeper_connections_total", "counter", "Connections that were accepted, or refused.");
    for (transport, slots) in engine.metrics().slots() {
        let (accepted, refused) = slots.history();
        for (result, count) in [("accepted", accepted), ("refused", refused)] {
            page.line(&format!(
                "ratekeeper_connections_total{{transport=\"{transport}\",result=\"{result}\"}} {count}"
            ));
        }
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
    front_metrics::render(&mut page, &engine.front_counts());
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
    page.head("ratekeeper_plan_near_limit_total", "counter", "Allowed with less than a fifth left.");
    for (plan, rule, count) in engine.plan_metrics().near_limits() {
        page.line(&format!("ratekeeper_plan_near_limit_total{{plan=\"{plan}\",rule=\"{rule}\"}} {count}"));
    }
    page.head("ratekeeper_failure_answers_total", "counter", "Answered by a failure mode, not the store.");
    for (plan, mode, count) in engine.plan_metrics().failure_answers() {
        page.line(&format!("ratekeeper_failure_answers_total{{plan=\"{plan}\",mode=\"{mode}\"}} {count}"));
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
    if let Some(snapshots) = engine.snapshots() {
        render_snapshots(&mut page, &snapshots.read());
    }
    if let Some(recorded) = engine.recorded() {
        let name = "ratekeeper_recorded_total";
        page.head(name, "counter", "Requests that --record has written, or had to leave out.");
        let (written, dropped) = recorded.read();
        for (result, count) in [("written", written), ("dropped", dropped)] {
            page.line(&format!("{name}{{result=\"{result}\"}} {count}"));
        }
    }
    if let Some(tracer) = engine.tracer() {
        page.head("ratekeeper_spans_total", "counter", "Spans that were sent to --otlp, or lost.");
        let (sent, dropped) = tracer.read();
        for (result, count) in [("sent", sent), ("dropped", dropped)] {
            page.line(&format!("ratekeeper_spans_total{{result=\"{result}\"}} {count}"));
        }
    }
    let top = if tells_keys { engine.metrics().top_denied() } else { Vec::new() };
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

fn render_snapshots(page: &mut MetricsPage, snapshots: &SnapshotReading) {
    page.head("ratekeeper_snapshots_total", "counter", "Snapshots of the store in memory by their result.");
    for (result, count) in [("success", snapshots.succeeded), ("error", snapshots.failed)] {
        page.line(&format!("ratekeeper_snapshots_total{{result=\"{result}\"}} {count}"));
    }
    let name = "ratekeeper_snapshots_unreadable_total";
    page.head(name, "counter", "Snapshots that could not be read at the start.");
    page.line(&format!("{name} {}", snapshots.unreadable));
    if let Some(last) = snapshots.last {
        let name = "ratekeeper_snapshot_timestamp_seconds";
        page.head(name, "gauge", "When the state in the newest snapshot was the store's, as a Unix time.");
        page.seconds(name, last);
    }
    page.head("ratekeeper_snapshot_interval_seconds", "gauge", "How often state is written; 0 for on stop.");
    page.seconds("ratekeeper_snapshot_interval_seconds", snapshots.interval);
    page.head("ratekeeper_snapshot_seconds", "gauge", "Time that the last snapshot took.");
    page.seconds("ratekeeper_snapshot_seconds", snapshots.took);
    page.head("ratekeeper_snapshot_bytes", "gauge", "Size of the last snapshot.");
    page.line(&format!("ratekeeper_snapshot_bytes {}", snapshots.bytes));
}
