//! What a replay amounts to, for people and for programs.

use std::fmt;

use ratekeeper::Timestamp;
use serde_json::{Value, json};

use super::numbers::{Grouped, TraceMoment, percent};
use super::overview::{RecordedAnswers, SkippedLines, TraceOverview};
use super::policy::SimulatedPolicy;
use super::shadow_rule::ShadowRule;
use super::source::TraceSource;
use crate::when::HumanSpan;

/// What a replay amounts to.
#[derive(Debug)]
pub struct ReplaySummary<'a> {
    /// The source of the trace.
    pub source: &'a TraceSource,
    /// What is remembered of the trace.
    pub overview: &'a TraceOverview,
    /// The policies that it was replayed against.
    pub policies: &'a [SimulatedPolicy],
    /// How many of the most denied keys are listed.
    pub top: usize,
}

impl fmt::Display for ReplaySummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace(f)?;
        self.table(f)?;
        self.policies.iter().try_for_each(|policy| self.worst(f, policy))
    }
}

impl ReplaySummary<'_> {
    fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overview = self.overview;
        let (requests, keys) = (Grouped(overview.requests), Grouped(overview.keys.len() as u64));
        write!(f, "{}: {requests} requests of {keys} keys", self.source.name())?;
        if let Some((first, last)) = overview.span {
            let span = HumanSpan(last.since(first).as_nanos());
            write!(f, ", {} to {} ({span})", TraceMoment(first), TraceMoment(last))?;
        }
        let (peak, at) = overview.peak();
        writeln!(f, "\npeak: {} requests in one second, at {}", Grouped(peak), TraceMoment(at))?;
        if let Some(SkippedLines { lines, first, error }) = overview.skipped {
            writeln!(f, "skipped {} lines that could not be read; line {first}: {error}", Grouped(lines))?;
        }
        if let Some((lines, first)) = overview.out_of_order {
            let (lines, back) = (Grouped(lines), HumanSpan(overview.furthest_back.as_nanos()));
            writeln!(
                f,
                "{lines} lines out of order, by {back} at most, the first in line {first}; each was decided at the time that it tells"
            )?;
        }
        if let Some(RecordedAnswers { allowed, denied, of_several_plans }) = overview.recorded {
            let (allowed, denied) = (Grouped(allowed), Grouped(denied));
            writeln!(f, "recorded: {allowed} allowed, {denied} denied")?;
            if of_several_plans > 0 {
                let requests = Grouped(of_several_plans);
                writeln!(f, "{requests} requests named several plans; each plan is tried by itself")?;
            }
        }
        if let Some(line) = overview.in_future {
            writeln!(
                f,
                "line {line} is in the future; check the clock and the time zone of whoever wrote it"
            )?;
        }
        Ok(())
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = |policy: &SimulatedPolicy| {
            let shadows = policy.shadows().iter().map(|rule| shadow_label(rule).chars().count());
            shadows.chain([policy.label().chars().count()]).max()
        };
        let width = self.policies.iter().filter_map(labels).max().unwrap_or(0).max("policy".len());
        writeln!(
            f,
            "\n{:<width$}  {:>13}  {:>13}  {:>8}  {:>11}  {:>10}",
            "policy", "admitted", "denied", "denied %", "keys denied", "peak in 1s"
        )?;
        for policy in self.policies {
            writeln!(
                f,
                "{:<width$}  {:>13}  {:>13}  {:>7.2}%  {:>11}  {:>10}",
                policy.label(),
                Grouped(policy.admitted()),
                Grouped(policy.denied()),
                percent(policy.denied(), policy.decided()),
                Grouped(policy.keys_denied() as u64),
                Grouped(policy.peak.most),
            )?;
            for rule in policy.shadows() {
                writeln!(
                    f,
                    "{:<width$}  {:>13}  {:>13}  {:>7.2}%  {:>11}  {:>10}",
                    shadow_label(rule),
                    Grouped(policy.admitted() - rule.would_deny()),
                    Grouped(policy.denied() + rule.would_deny()),
                    percent(policy.denied() + rule.would_deny(), policy.decided()),
                    Grouped(policy.keys_denied_with(rule) as u64),
                    Grouped(rule.peak()),
                )?;
            }
        }
        Ok(())
    }

    /// When and whom it would have denied most, and what its rules in shadow would have added.
    fn worst(&self, f: &mut fmt::Formatter<'_>, policy: &SimulatedPolicy) -> fmt::Result {
        self.worst_denials(f, policy)?;
        let (label, admitted) = (policy.label(), policy.admitted());
        for rule in policy.shadows() {
            let (name, text, denied) = (rule.name(), rule.text(), rule.would_deny());
            let (denied, share) = (Grouped(denied), percent(denied, admitted));
            let admitted = Grouped(admitted);
            writeln!(
                f,
                "{label}: `{name}`, in shadow ({text}), would have denied {denied} of the {admitted} admitted ({share:.1} %)"
            )?;
        }
        for rule in policy.left_out() {
            writeln!(f, "{label}: `{rule}` is left out: a trace does not tell how long a request takes")?;
        }
        Ok(())
    }

    fn worst_denials(&self, f: &mut fmt::Formatter<'_>, policy: &SimulatedPolicy) -> fmt::Result {
        let Some((at, width, worst)) = policy.timeline().worst() else {
            return writeln!(f, "\n{}: no request would have been denied", policy.label());
        };
        let width = HumanSpan(width);
        let share = percent(worst.denied, worst.asked());
        writeln!(
            f,
            "\n{}: most denials at {} for {width}: {} of {} denied ({share:.1} %)",
            policy.label(),
            TraceMoment(at),
            Grouped(worst.denied),
            Grouped(worst.asked()),
        )?;
        for (key, denied) in policy.worst_keys(self.top) {
            let asked = policy.asked(key, self.overview.keys.asked(key));
            let key = self.overview.keys.show(key);
            let share = percent(denied, asked);
            writeln!(f, "  {key}  {} of {} denied ({share:.1} %)", Grouped(denied), Grouped(asked))?;
        }
        Ok(())
    }

    /// Returns the summary as one object.
    pub fn to_json(&self) -> Value {
        let overview = self.overview;
        let policies: Vec<Value> = self.policies.iter().map(|policy| self.policy_json(policy)).collect();
        json!({
            "trace": self.source.name(),
            "requests": overview.requests,
            "keys": overview.keys.len(),
            "first": overview.span.map(|(first, _)| seconds(first)),
            "last": overview.span.map(|(_, last)| seconds(last)),
            "peak_per_second": overview.peak().0,
            "peak_at": seconds(overview.peak().1),
            "skipped": overview.skipped.map_or(0, |skipped| skipped.lines),
            "recorded": overview.recorded.map(|recorded| {
                json!({ "allowed": recorded.allowed, "denied": recorded.denied })
            }),
            "out_of_order": overview.out_of_order.map_or(0, |(lines, _)| lines),
            "policies": policies,
        })
    }

    fn policy_json(&self, policy: &SimulatedPolicy) -> Value {
        let keys = &self.overview.keys;
        let key = |(key, denied): (u32, u64)| json!({ "key": keys.show(key), "asked": policy.asked(key, keys.asked(key)), "denied": denied });
        let worst = policy.timeline().worst().map(|(at, width, bucket)| {
            json!({
                "at": seconds(at),
                "seconds": nanos_as_seconds(width),
                "asked": bucket.asked(),
                "denied": bucket.denied,
            })
        });
        let shadow = |rule: &ShadowRule| {
            json!({
                "rule": rule.name(),
                "text": rule.text(),
                "would_deny": rule.would_deny(),
                "keys_denied": rule.keys_denied(),
                "peak_admitted_per_second": rule.peak(),
            })
        };
        json!({
            "policy": policy.label(),
            "admitted": policy.admitted(),
            "denied": policy.denied(),
            "keys_denied": policy.keys_denied(),
            "peak_admitted_per_second": policy.peak.most,
            "shadow": policy.shadows().iter().map(shadow).collect::<Vec<_>>(),
            "left_out": policy.left_out(),
            "worst": worst,
            "worst_keys": policy.worst_keys(self.top).into_iter().map(key).collect::<Vec<_>>(),
        })
    }
}

/// What stands before a rule in shadow in the table, below its policy: as if it denied, too.
fn shadow_label(rule: &ShadowRule) -> String {
    format!("  with {}", rule.text())
}

#[expect(clippy::cast_precision_loss, reason = "a double is what JSON has")]
fn seconds(at: Timestamp) -> f64 {
    at.as_nanos() as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "a double is what JSON has")]
fn nanos_as_seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
