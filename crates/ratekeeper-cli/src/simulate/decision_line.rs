//! A decision as a line of JSON.

use std::io::{self, Write};

use ratekeeper::Decision;

use super::numbers::Seconds;
use super::policy::SimulatedPolicy;
use super::shadow_rule::ShadowRule;
use super::trace::TraceEntry;
use crate::when::retry_after_ms;

/// Writes one decision as a JSON object on a line of its own, with the name of the policy if `names_policy`.
///
/// A line that names units has `"costs"`, and a policy with rules in shadow has `"would_deny"`: the names of those that would
/// have denied what was admitted.
pub fn write_decision(
    out: &mut impl Write,
    entry: &TraceEntry<'_>,
    policy: &SimulatedPolicy,
    names_policy: bool,
    decision: &Decision,
) -> io::Result<()> {
    write!(out, "{{\"t\":{},\"key\":", Seconds(entry.at))?;
    match entry.key {
        [] => out.write_all(b"null")?,
        key => serde_json::to_writer(&mut *out, &String::from_utf8_lossy(key))?,
    }
    let Decision { allowed, limit, remaining, reset_after, .. } = decision;
    let (retry, reset) = (retry_after_ms(decision), reset_after.ceil_millis());
    write!(out, ",\"cost\":{}", entry.cost)?;
    if !entry.units.is_empty() {
        // The words of units need no escaping.
        let costs: Vec<String> =
            entry.units.iter().map(|(unit, amount)| format!("\"{unit}\":{amount}")).collect();
        write!(out, ",\"costs\":{{{}}}", costs.join(","))?;
    }
    write!(out, ",\"allowed\":{allowed},\"limit\":{limit},\"remaining\":{remaining}")?;
    write!(out, ",\"retry_after_ms\":{retry},\"reset_after_ms\":{reset}")?;
    if !policy.shadows().is_empty() {
        let denials: Vec<&str> = policy.last_denials().map(ShadowRule::name).collect();
        out.write_all(b",\"would_deny\":")?;
        serde_json::to_writer(&mut *out, &denials)?;
    }
    if names_policy {
        out.write_all(b",\"policy\":")?;
        serde_json::to_writer(&mut *out, policy.label())?;
    }
    out.write_all(b"}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::trace::{KeyField, TraceFormat, TraceParser};

    #[test]
    fn a_line_of_every_decision() {
        let mut parser = TraceParser::new(TraceFormat::Plain, KeyField::Client);
        let policy = SimulatedPolicy::parse("5/s").unwrap();
        let line = |entry: &TraceEntry<'_>, decision: Decision| {
            let mut out = Vec::new();
            write_decision(&mut out, entry, &policy, false, &decision).unwrap();
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
}
