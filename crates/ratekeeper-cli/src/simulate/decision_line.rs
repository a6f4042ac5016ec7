//! A decision as a line of JSON.

use std::io::{self, Write};

use ratekeeper::Decision;

use super::numbers::Seconds;
use super::policy::SimulatedPolicy;
use super::trace::TraceEntry;
use crate::when::retry_after_ms;

/// Writes one decision as a JSON object on a line of its own, with the policy if one is given.
pub fn write_decision(
    out: &mut impl Write,
    entry: &TraceEntry<'_>,
    policy: Option<&SimulatedPolicy>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::trace::{KeyField, TraceFormat, TraceParser};

    #[test]
    fn a_line_of_every_decision() {
        let mut parser = TraceParser::new(TraceFormat::Plain, KeyField::Client);
        let line = |entry: &TraceEntry<'_>, decision: Decision| {
            let mut out = Vec::new();
            write_decision(&mut out, entry, None, &decision).unwrap();
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
