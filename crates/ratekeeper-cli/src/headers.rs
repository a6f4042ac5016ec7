//! Explains what response headers say about limits, for people and for programs.

use std::fmt;
use std::time::Duration;

use ratekeeper_http::headers::{QuotaPolicy, ServerLimit, ServerLimits};
use serde_json::{Value, json};

use crate::when::HumanSpan;

/// What the headers of one response say about limits.
#[derive(Clone, Debug)]
pub struct HeaderReport(pub ServerLimits);

impl HeaderReport {
    /// Returns `{"limits":[…],"policies":[…],"retry_after_ms"}`, with `null` for what the headers do not say.
    pub fn to_json(&self) -> Value {
        let limit = |limit: &ServerLimit| {
            json!({
                "name": limit.name,
                "limit": limit.limit,
                "remaining": limit.remaining,
                "reset_ms": limit.reset.map(millis),
            })
        };
        let policy = |policy: &QuotaPolicy| {
            json!({
                "name": policy.name,
                "quota": policy.quota,
                "window_ms": policy.window.map(millis),
                "unit": policy.unit.as_str(),
            })
        };
        json!({
            "limits": self.0.limits.iter().map(limit).collect::<Vec<_>>(),
            "policies": self.0.policies.iter().map(policy).collect::<Vec<_>>(),
            "retry_after_ms": self.0.retry_after.map(millis),
        })
    }
}

/// Returns milliseconds, rounded up as every wait is.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn span(duration: Duration) -> HumanSpan {
    HumanSpan(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl fmt::Display for HeaderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServerLimits { limits, policies, retry_after, cached } = &self.0;
        if self.0.is_empty() {
            return writeln!(f, "no rate-limit headers: they say nothing about limits");
        }
        if *cached {
            writeln!(f, "answered by a cache: the numbers may be old")?;
        }
        if let Some(wait) = retry_after {
            writeln!(f, "retry after {}", span(*wait))?;
        }
        for limit in limits {
            write!(f, "{}:", limit.name.as_deref().map_or("limit".into(), |name| format!("limit `{name}`")))?;
            match (limit.remaining, limit.limit) {
                (Some(remaining), Some(limit)) => write!(f, " {remaining} of {limit} left")?,
                (Some(remaining), None) => write!(f, " {remaining} left")?,
                (None, Some(limit)) => write!(f, " {limit} in all")?,
                (None, None) => {}
            }
            match limit.reset {
                Some(reset) => writeln!(f, ", more in {}", span(reset))?,
                None => writeln!(f)?,
            }
        }
        for policy in policies {
            let name = policy.name.as_deref().map_or("policy".into(), |name| format!("policy `{name}`"));
            write!(f, "{name}: {} {}", policy.quota, policy.unit)?;
            match policy.window {
                Some(window) => writeln!(f, " every {}", span(window))?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
