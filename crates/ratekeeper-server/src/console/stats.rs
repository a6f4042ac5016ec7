//! The message: what the server does at present, as JSON.

use ratekeeper::store::BreakerState;
use serde::Serialize;

use super::history::MINUTE;
use super::percentile::percentile;
use super::points::{PlanPoint, ServerPoint, TrafficCounts};
use super::sampled::SampledState;
use super::streams::MOST_STREAMS;
use super::top_keys::ShownKey;
use super::tracked_plans::OTHER;
use crate::engine::Engine;
use crate::watch::{PlanRuleReading, ProbeReading, RefusedKeys, shown_key};

/// How old a probe of the store may be to be told.
const FRESH_PROBE: std::time::Duration = std::time::Duration::from_secs(5);

/// What a message tells besides what was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatsAbout<'a> {
    /// The name of the server.
    pub(super) name: &'a str,
    /// How many event loops it has.
    pub(super) loops: usize,
    /// When it was started, in milliseconds since the epoch.
    pub(super) started: u64,
    /// How many streams there are.
    pub(super) streams: usize,
    /// How many holds are live; none for a remote store.
    pub(super) holds: Option<usize>,
}

/// The message, for one who is an administrator or not.
#[derive(Debug, Serialize)]
pub(super) struct Stats<'a> {
    time: u64,
    server: ServerStats<'a>,
    rights: Rights,
    store: StoreStats,
    second: Traffic,
    minute: Traffic,
    total: TrafficCounts,
    plans: Vec<PlanStats<'a>>,
    other_plans: Option<OtherPlans>,
    transports: Vec<TransportStats>,
    top_denied: Option<Vec<TopKey>>,
    streams: OpenStreams,
    last_event: u64,
}

#[derive(Debug, Serialize)]
struct ServerStats<'a> {
    name: &'a str,
    version: &'static str,
    started: u64,
    uptime_s: u64,
    draining: bool,
    loops: usize,
    config: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Rights {
    admin: bool,
}

#[derive(Debug, Serialize)]
struct StoreStats {
    kind: &'static str,
    status: &'static str,
    reason: Option<&'static str>,
    latency_ms: Option<f64>,
    keys: Option<usize>,
    max_keys: Option<usize>,
    keys_of_requests: Option<usize>,
    bytes: Option<usize>,
    max_bytes: Option<usize>,
    holds: Option<usize>,
    refused_keys: Option<u64>,
    refusing_new_keys: Option<Vec<&'static str>>,
    breakers: Vec<BreakerStats>,
}

#[derive(Debug, Serialize)]
struct BreakerStats {
    node: String,
    state: &'static str,
}

#[derive(Debug, Serialize)]
struct Traffic {
    #[serde(flatten)]
    counts: TrafficCounts,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PlanStats<'a> {
    plan: &'a str,
    /// How many rules it has; none for a plan that is not in the registry.
    rules: Option<usize>,
    #[serde(flatten)]
    counts: PlanCounts,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct PlanCounts {
    second: PlanTraffic,
    minute: PlanTraffic,
    total: PlanTraffic,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct PlanTraffic {
    allowed: u64,
    denied: u64,
    would_deny: u64,
}

#[derive(Debug, Serialize)]
struct OtherPlans {
    plans: usize,
    #[serde(flatten)]
    counts: PlanCounts,
}

#[derive(Debug, Serialize)]
struct TransportStats {
    transport: &'static str,
    second: TransportTraffic,
    minute: TransportTraffic,
    total: TransportTraffic,
    connections: usize,
    refused_connections: u64,
    auth_failures: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct TransportTraffic {
    allowed: u64,
    denied: u64,
    errors: u64,
}

#[derive(Debug, Serialize)]
struct TopKey {
    key: String,
    plan: Option<String>,
    denied: u64,
    second: u64,
    recent: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct OpenStreams {
    open: usize,
    most: usize,
}

impl<'a> Stats<'a> {
    /// Returns the message.
    pub(super) fn of(
        engine: &Engine,
        state: &'a SampledState,
        about: StatsAbout<'a>,
        is_admin: bool,
    ) -> Self {
        let second = state.history.last_seconds(1);
        let config =
            engine.reloads().read().map(|reloads| if reloads.last_failed { "reload_failed" } else { "ok" });
        let tells_top = is_admin && engine.metrics().most_denied() > 0;
        let plans = plans(engine, state);
        let others =
            state.registered.saturating_sub(plans.iter().filter(|plan| plan.rules.is_some()).count());
        let other_counts = plan_counts(state, OTHER);
        let total = other_counts.total;
        let has_others = others > 0 || (total.allowed, total.denied, total.would_deny) != (0, 0, 0);
        Stats {
            time: state.read_at,
            server: ServerStats {
                name: about.name,
                version: env!("CARGO_PKG_VERSION"),
                started: about.started,
                uptime_s: engine.uptime(),
                draining: engine.is_draining(),
                loops: about.loops,
                config,
            },
            rights: Rights { admin: is_admin },
            store: StoreStats { holds: about.holds, ..store(engine, state, &second) },
            second: traffic(&second),
            minute: traffic(&state.history.last_seconds(MINUTE)),
            total: state.last.traffic,
            plans,
            other_plans: has_others.then_some(OtherPlans { plans: others, counts: other_counts }),
            transports: transports(state),
            top_denied: tells_top.then(|| state.top.shown().into_iter().map(top_key).collect()),
            streams: OpenStreams { open: about.streams, most: MOST_STREAMS },
            last_event: engine.events().last(),
        }
    }

    /// Returns it as JSON.
    pub(super) fn to_json(&self) -> String {
        // Nothing in it can fail to be JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn traffic(point: &ServerPoint) -> Traffic {
    Traffic {
        counts: point.traffic,
        p50_us: percentile(&point.times, 50),
        p99_us: percentile(&point.times, 99),
    }
}

fn store(engine: &Engine, state: &SampledState, second: &ServerPoint) -> StoreStats {
    let statistics = state.last.statistics.as_ref();
    let memory = engine.memory();
    let breakers: Vec<_> =
        engine.breakers().iter().map(|breaker| (breaker.name().to_owned(), breaker.state())).collect();
    let probe = engine.last_probe().filter(|probe| probe.age < FRESH_PROBE);
    let is_any_open = breakers.iter().any(|(_, state)| *state != BreakerState::Closed);
    let (status, reason) = match probe {
        Some(ProbeReading { failure: Some(reason), .. }) => ("failing", Some(reason)),
        _ if is_any_open || second.traffic.store_errors > 0 => ("degraded", None),
        _ => ("ok", None),
    };
    let kind = match (memory, breakers.is_empty()) {
        (Some(_), _) => "memory",
        (None, false) => engine.remote_kind(),
        (None, true) => "remote",
    };
    let took = probe.filter(|probe| memory.is_none() && probe.failure.is_none()).map(|probe| probe.took);
    StoreStats {
        kind,
        status,
        reason,
        latency_ms: took.map(|took| (took.as_secs_f64() * 1_000_000.0).round() / 1_000.0),
        keys: statistics.map(|statistics| statistics.keys),
        max_keys: statistics.map(|statistics| statistics.max_keys),
        keys_of_requests: statistics.map(|statistics| statistics.keys_of_requests),
        bytes: statistics.map(|statistics| statistics.bytes),
        max_bytes: statistics.map(|statistics| statistics.max_bytes),
        holds: None,
        refused_keys: statistics.map(|statistics| {
            let refused = RefusedKeys::of(statistics);
            refused.plan + refused.request
        }),
        refusing_new_keys: memory.map(|_| engine.refusing_new_keys()),
        breakers: breakers
            .into_iter()
            .map(|(node, state)| BreakerStats { node, state: state.as_str() })
            .collect(),
    }
}

/// Returns the plans that have a lane, those that were asked for most in the last minute first.
fn plans<'a>(engine: &Engine, state: &'a SampledState) -> Vec<PlanStats<'a>> {
    use ratekeeper::port::Plans;
    let stats = |(name, lane): (&'a ratekeeper::Name, usize)| PlanStats {
        plan: name.as_str(),
        rules: engine.registry().find(name.as_str()).map(|plan| plan.rules().len()),
        counts: plan_counts(state, lane),
    };
    let mut all: Vec<_> = state.plans.lanes().map(stats).collect();
    let asked = |plan: &PlanStats<'_>| plan.counts.minute.allowed + plan.counts.minute.denied;
    all.sort_by(|one, other| asked(other).cmp(&asked(one)).then_with(|| one.plan.cmp(other.plan)));
    all
}

fn plan_counts(state: &SampledState, lane: usize) -> PlanCounts {
    let sum = |seconds| {
        let points = state.history.seconds().plan(lane, seconds).flatten();
        points.fold(PlanTraffic::default(), |sum, PlanPoint { allowed, denied, would_deny }| PlanTraffic {
            allowed: sum.allowed + u64::from(allowed),
            denied: sum.denied + u64::from(denied),
            would_deny: sum.would_deny + u64::from(would_deny),
        })
    };
    let PlanRuleReading { allowed, denied, would_deny } = state.plans.total(lane);
    PlanCounts { second: sum(1), minute: sum(MINUTE), total: PlanTraffic { allowed, denied, would_deny } }
}

fn transports(state: &SampledState) -> Vec<TransportStats> {
    let stats = |(lane, counts): (usize, &super::reading::TransportCounts)| {
        let sum = |seconds| {
            let points = state.history.seconds().transport(lane, seconds).flatten();
            points.fold(TransportTraffic::default(), |sum, point| TransportTraffic {
                allowed: sum.allowed + u64::from(point.allowed),
                denied: sum.denied + u64::from(point.denied),
                errors: sum.errors + u64::from(point.errors),
            })
        };
        TransportStats {
            transport: counts.transport,
            second: sum(1),
            minute: sum(MINUTE),
            total: TransportTraffic { allowed: counts.allowed, denied: counts.denied, errors: counts.errors },
            connections: counts.connections,
            refused_connections: counts.refused,
            auth_failures: counts.auth_failures,
        }
    };
    state.last.transports.iter().enumerate().map(stats).collect()
}

fn top_key(ShownKey { key, recent }: ShownKey) -> TopKey {
    TopKey {
        key: shown_key(&key.key),
        plan: key.plan.map(|plan| plan.as_str().to_owned()),
        denied: key.count,
        second: recent.last().copied().unwrap_or(0),
        recent,
    }
}
