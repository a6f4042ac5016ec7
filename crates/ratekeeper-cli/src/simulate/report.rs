//! What a replay amounts to: a line for every decision, or a summary.

use std::fmt;
use std::io::{self, Write};

use ratekeeper::{Decision, Timestamp};
use serde_json::{Value, json};

use super::trace::Entry;
use super::{Overview, Policy, Skipped, Source, retry_after_ms};
use crate::when::{Rfc3339, Span};

/// Before this, in nanoseconds, a time is one that somebody counted from zero, and not a date.
const FIRST_DATE: i64 = 100_000_000 * 1_000_000_000;

/// Writes one decision as an object on a line of its own. The policy is named if there are several.
pub fn write_line(
    out: &mut impl Write,
    entry: &Entry<'_>,
    policy: Option<&Policy>,
    decision: &Decision,
) -> io::Result<()> {
    write!(out, "{{\"t\":{},\"key\":", Seconds(entry.at))?;
    match entry.key {
        [] => out.write_all(b"null")?,
        key => serde_json::to_writer(&mut *out, &String::from_utf8_lossy(key))?,
    }
    let Decision { allowed, limit, remaining, reset_after, .. } = decision;
    let (retry, reset) = (retry_after_ms(decision), reset_after.ceil_millis());
    write!(
        out,
        ",\"cost\":{},\"allowed\":{allowed},\"limit\":{limit},\"remaining\":{remaining}",
        entry.cost
    )?;
    write!(out, ",\"retry_after_ms\":{retry},\"reset_after_ms\":{reset}")?;
    if let Some(policy) = policy {
        out.write_all(b",\"policy\":")?;
        serde_json::to_writer(&mut *out, policy.label())?;
    }
    out.write_all(b"}\n")
}

/// Seconds since the epoch, with as many decimals as there are.
struct Seconds(Timestamp);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (whole, fraction) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
        write!(f, "{}{whole}", if nanos < 0 { "-" } else { "" })?;
        if fraction > 0 {
            let digits = format!("{fraction:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// A time of the trace: a date, or seconds if it is counted from zero.
pub(super) struct Moment(pub(super) Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.as_nanos().abs() < FIRST_DATE {
            write!(f, "{} s", Seconds(self.0))
        } else {
            write!(f, "{}", Rfc3339(self.0))
        }
    }
}

/// A number with its thousands apart.
pub(super) struct Grouped(pub(super) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// A share of a whole in per cent.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// What happened, for a person.
#[derive(Debug)]
pub struct Summary<'a> {
    /// Where the trace came from.
    pub source: &'a Source,
    /// What it was.
    pub overview: &'a Overview,
    /// What was tried on it.
    pub policies: &'a [Policy],
    /// How many of the worst keys are named.
    pub top: usize,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace(f)?;
        self.table(f)?;
        self.policies.iter().try_for_each(|policy| self.hurt(f, policy))
    }
}

impl Summary<'_> {
    fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overview = self.overview;
        let (requests, keys) = (Grouped(overview.requests), Grouped(overview.keys.len() as u64));
        write!(f, "{}: {requests} requests of {keys} keys", self.source.name())?;
        if let Some((first, last)) = overview.span {
            let span = Span(last.since(first).as_nanos());
            write!(f, ", {} to {} ({span})", Moment(first), Moment(last))?;
        }
        let (peak, at) = overview.peak();
        writeln!(f, "\npeak: {} requests in one second, at {}", Grouped(peak), Moment(at))?;
        if let Some(Skipped { lines, first, error }) = overview.skipped {
            writeln!(f, "skipped {} lines that could not be read; line {first}: {error}", Grouped(lines))?;
        }
        if let Some((lines, first)) = overview.out_of_order {
            let (lines, back) = (Grouped(lines), Span(overview.furthest_back.as_nanos()));
            writeln!(
                f,
                "{lines} lines out of order, by {back} at most, the first in line {first}; each was decided at its own time"
            )?;
        }
        if let Some(line) = overview.in_future {
            writeln!(f, "line {line} is in the future: is a clock or a time zone wrong?")?;
        }
        Ok(())
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |policy: &Policy| policy.label().chars().count();
        let width = self.policies.iter().map(label).max().unwrap_or(0).max("policy".len());
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
                percent(policy.denied(), self.overview.requests),
                Grouped(policy.keys_denied() as u64),
                Grouped(policy.peak.most),
            )?;
        }
        Ok(())
    }

    /// When it would have hurt, and whom.
    fn hurt(&self, f: &mut fmt::Formatter<'_>, policy: &Policy) -> fmt::Result {
        let Some((at, width, worst)) = policy.timeline().worst() else {
            return writeln!(f, "\n{}: nobody would have been denied", policy.label());
        };
        let width = Span(width);
        let share = percent(worst.denied, worst.asked());
        writeln!(
            f,
            "\n{}: would have hurt most at {} for {width}: {} of {} denied ({share:.1} %)",
            policy.label(),
            Moment(at),
            Grouped(worst.denied),
            Grouped(worst.asked()),
        )?;
        for (key, denied) in policy.worst_keys(self.top) {
            let (key, asked) = (self.overview.keys.show(key), self.overview.keys.asked(key));
            let share = percent(denied, asked);
            writeln!(f, "  {key}  {} of {} denied ({share:.1} %)", Grouped(denied), Grouped(asked))?;
        }
        Ok(())
    }

    /// The same as one object.
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
            "out_of_order": overview.out_of_order.map_or(0, |(lines, _)| lines),
            "policies": policies,
        })
    }

    fn policy_json(&self, policy: &Policy) -> Value {
        let keys = &self.overview.keys;
        let key = |(key, denied): (u32, u64)| json!({ "key": keys.show(key), "asked": keys.asked(key), "denied": denied });
        let worst = policy.timeline().worst().map(|(at, width, bucket)| {
            json!({
                "at": seconds(at),
                "seconds": nanos_as_seconds(width),
                "asked": bucket.asked(),
                "denied": bucket.denied,
            })
        });
        json!({
            "policy": policy.label(),
            "admitted": policy.admitted(),
            "denied": policy.denied(),
            "keys_denied": policy.keys_denied(),
            "peak_admitted_per_second": policy.peak.most,
            "worst": worst,
            "worst_keys": policy.worst_keys(self.top).into_iter().map(key).collect::<Vec<_>>(),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a double is what JSON has")]
fn seconds(at: Timestamp) -> f64 {
    at.as_nanos() as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "a double is what JSON has")]
fn nanos_as_seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::trace::{By, Format, Parser};

    #[test]
    fn a_line_of_every_decision() {
        let mut parser = Parser::new(Format::Plain, By::Client);
        let line = |entry: &Entry<'_>, decision: Decision| {
            let mut out = Vec::new();
            write_line(&mut out, entry, None, &decision).unwrap();
            String::from_utf8(out).unwrap()
        };
        let entry = parser.parse(b"1.25 a\"b 3").unwrap();
        let wait = ratekeeper::Nanos::from_nanos(1_000_001);
        assert_eq!(
            line(&entry, Decision::deny(5, 0, Some(wait), wait)),
            "{\"t\":1.25,\"key\":\"a\\\"b\",\"cost\":3,\"allowed\":false,\"limit\":5,\"remaining\":0,\
             \"retry_after_ms\":2,\"reset_after_ms\":2}\n"
        );
        let never = line(&parser.parse(b"0").unwrap(), Decision::deny(5, 5, None, ratekeeper::Nanos::ZERO));
        assert!(
            never.starts_with("{\"t\":0,\"key\":null,\"cost\":1,") && never.contains("\"retry_after_ms\":-1")
        );
    }

    #[test]
    fn numbers_for_people() {
        let grouped = |number| Grouped(number).to_string();
        assert_eq!(
            [grouped(0), grouped(999), grouped(1_000), grouped(12_345_678)],
            ["0", "999", "1,000", "12,345,678"]
        );
        assert_eq!(Moment(Timestamp::from_nanos(12_500_000_000)).to_string(), "12.5 s");
        assert_eq!(Moment(Timestamp::from_secs(1_761_884_055)).to_string(), "2025-10-31T04:14:15Z");
        assert_eq!(Seconds(Timestamp::from_nanos(-1_500_000_000)).to_string(), "-1.5");
    }
}
