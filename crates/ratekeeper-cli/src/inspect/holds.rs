//! What is held for a key in Redis.

use std::fmt;

use ratekeeper_redis::{InspectedHold, InspectedHolds};
use serde_json::{Map, Value, json};

use crate::when::{Ago, Rfc3339};

/// What is held for one key. Rules are known by the numbers of their identifiers: their names are in the configuration.
#[derive(Clone, Debug)]
pub struct HoldsOfKey {
    key: String,
    found: InspectedHolds,
}

impl HoldsOfKey {
    /// Returns what was found for a key.
    pub fn new(key: &str, found: InspectedHolds) -> Self {
        HoldsOfKey { key: key.to_owned(), found }
    }

    /// Returns `{"key","in_flight","holds"}`.
    pub fn to_json(&self) -> Value {
        let holds: Vec<Value> = self.found.holds.iter().map(|hold| self.hold_json(hold)).collect();
        json!({ "key": self.key, "in_flight": by_rule(&self.found.in_flight), "holds": holds })
    }

    fn hold_json(&self, hold: &InspectedHold) -> Value {
        json!({
            "id": hold.id.to_string(),
            "state": self.state(hold),
            "plans": hold.plans,
            "amounts": by_rule(&hold.amounts),
            "since_ns": hold.since.as_nanos(),
            "since": Rfc3339(hold.since).to_string(),
            "lease_end_ns": hold.lease_end.as_nanos(),
            "lease_end": Rfc3339(hold.lease_end).to_string(),
        })
    }

    fn state(&self, hold: &InspectedHold) -> &'static str {
        match hold.ended {
            Some(state) => state.as_str(),
            None if hold.lease_end <= self.found.now => "lapsed",
            None => "live",
        }
    }
}

fn by_rule(amounts: &[(u64, u64)]) -> Map<String, Value> {
    amounts.iter().map(|(rule, amount)| (format!("{rule:016x}"), (*amount).into())).collect()
}

impl fmt::Display for HoldsOfKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted| self.found.holds.iter().filter(|hold| self.state(hold) == wanted).count();
        let (live, all) = (count("live"), self.found.holds.len());
        writeln!(f, "{:?}: {live} live holds, {} that have ended", self.key, all - live)?;
        for (rule, amount) in &self.found.in_flight {
            writeln!(f, "  rule {rule:016x}  {amount} in flight")?;
        }
        for hold in &self.found.holds {
            writeln!(f, "hold {} of {}: {}", hold.id, hold.plans.join(", "), self.state(hold))?;
            for (rule, amount) in &hold.amounts {
                writeln!(f, "  rule {rule:016x}  {amount}")?;
            }
            let since = if hold.ended.is_some() { "ended" } else { "charged" };
            for (word, at) in [(since, hold.since), ("lease ends", hold.lease_end)] {
                writeln!(f, "  {word} {}  ({})", Rfc3339(at), Ago { then: at, now: self.found.now })?;
            }
        }
        Ok(())
    }
}
