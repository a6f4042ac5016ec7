//! What measurements amount to, for people and for programs.

use std::fmt;

use serde_json::{Value, json};

use super::measurement::Measurement;
use super::target::LoadTarget;

/// What was measured of one target, over all rounds.
#[derive(Debug)]
pub struct TargetReport {
    target: LoadTarget,
    all: Measurement,
    /// Answers per second of each round.
    rounds: Vec<f64>,
}

impl TargetReport {
    /// Returns the report of a target that was not measured yet.
    pub fn new(target: LoadTarget) -> Self {
        TargetReport { target, all: Measurement::default(), rounds: Vec::new() }
    }

    /// Adds a round.
    pub fn add(&mut self, measurement: &Measurement) {
        self.rounds.push(measurement.throughput());
        self.all.append(measurement);
    }

    /// Returns the target.
    pub fn target(&self) -> &LoadTarget {
        &self.target
    }

    /// Returns what all rounds measured together.
    pub fn measurement(&self) -> &Measurement {
        &self.all
    }

    /// Returns the report as an object.
    pub fn to_json(&self) -> Value {
        let all = &self.all;
        json!({
            "target": self.target.to_string(),
            "seconds": all.elapsed.as_secs_f64(),
            "answered": all.answered(),
            "allowed": all.allowed,
            "denied": all.denied,
            "errors": all.errors,
            "per_second": all.throughput(),
            "latency_us": {
                "p50": all.micros_at(0.5),
                "p90": all.micros_at(0.9),
                "p99": all.micros_at(0.99),
                "p99.9": all.micros_at(0.999),
                "max": all.micros_at(1.0),
            },
        })
    }
}

impl fmt::Display for TargetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.all;
        writeln!(
            f,
            "{}: {:.0} a second ({} allowed, {} denied, {} errors in {:.1} s)",
            self.target,
            all.throughput(),
            all.allowed,
            all.denied,
            all.errors,
            all.elapsed.as_secs_f64(),
        )?;
        let at = |quantile| all.micros_at(quantile);
        let (p50, p90, p99, p999, max) = (at(0.5), at(0.9), at(0.99), at(0.999), at(1.0));
        writeln!(f, "  latency µs: p50 {p50:.1}  p90 {p90:.1}  p99 {p99:.1}  p99.9 {p999:.1}  max {max:.1}")
    }
}

/// The ratio of two targets that were measured in alternating rounds.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The ratio of answers per second: the median over the rounds.
    pub throughput: f64,
    /// The ratio of median latencies.
    pub p50: f64,
    /// The ratio of 99th percentiles of latency.
    pub p99: f64,
}

impl Ratio {
    /// Returns the ratio of the first to the second.
    pub fn of(first: &TargetReport, second: &TargetReport) -> Self {
        let mut ratios: Vec<f64> = first.rounds.iter().zip(&second.rounds).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let throughput = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
        let latency = |quantile| first.all.micros_at(quantile) / second.all.micros_at(quantile);
        Ratio { throughput, p50: latency(0.5), p99: latency(0.99) }
    }

    /// Returns the ratio as an object.
    pub fn to_json(self) -> Value {
        json!({ "per_second": self.throughput, "p50": self.p50, "p99": self.p99 })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio { throughput, p50, p99 } = self;
        writeln!(
            f,
            "ratio, first to second: {throughput:.2} × answers a second, {p50:.2} × p50, {p99:.2} × p99"
        )
    }
}
