//! A snapshot of a store in memory: how much is in it, and what is held.

use std::fmt;

use ratekeeper::store::{ListedHold, SnapshotError};
use ratekeeper::{MemoryStore, Rule, Timestamp};
use serde_json::{Map, Value, json};

use crate::when::{Ago, Rfc3339};

/// What is in a snapshot. Its states lie under hashes of their keys, so they are only counted.
#[derive(Clone, Debug)]
pub struct InspectedSnapshot {
    states: usize,
    holds: Vec<ListedHold>,
    now: Timestamp,
}

impl InspectedSnapshot {
    /// Reads the bytes of a snapshot. What had expired by now is left out.
    ///
    /// # Errors
    ///
    /// The bytes are no snapshot, or damaged.
    pub fn from_bytes(bytes: &[u8], now: Timestamp) -> Result<Self, SnapshotError> {
        // A state takes 25 bytes at the least: there is room for all, whatever the file claims.
        let builder = MemoryStore::builder()
            .max_keys(bytes.len() / 16 + 1_000)
            .max_bytes(bytes.len().saturating_mul(64).saturating_add(64 << 20));
        let store = builder.restore(bytes)?;
        let holds = store.live_holds().into_iter().filter(|hold| hold.lease_end > now).collect();
        Ok(InspectedSnapshot { states: store.len(), holds, now })
    }

    /// Returns `{"states","holds"}`: every live hold with its plans, what each of their rules was charged, and its times.
    pub fn to_json(&self) -> Value {
        json!({ "states": self.states, "holds": self.holds.iter().map(hold_json).collect::<Vec<_>>() })
    }
}

/// Returns the rules of a hold's plans, with the names of plan and rule and with what each was charged.
fn charges(hold: &ListedHold) -> impl Iterator<Item = (String, &Rule, Option<u64>)> {
    let rules = hold.plans.iter().flat_map(|plan| plan.rules().iter().map(move |rule| (plan.name(), rule)));
    rules
        .zip(&hold.estimates)
        .map(|((plan, rule), estimate)| (format!("{plan}/{}", rule.name()), rule, *estimate))
}

fn hold_json(hold: &ListedHold) -> Value {
    let estimates: Map<String, Value> =
        charges(hold).map(|(name, _, estimate)| (name, estimate.into())).collect();
    json!({
        "id": hold.id.to_string(),
        "plans": hold.plans.iter().map(|plan| plan.name().as_str()).collect::<Vec<_>>(),
        "estimates": estimates,
        "charged_at_ns": hold.charged_at.as_nanos(),
        "charged_at": Rfc3339(hold.charged_at).to_string(),
        "lease_end_ns": hold.lease_end.as_nanos(),
        "lease_end": Rfc3339(hold.lease_end).to_string(),
    })
}

impl fmt::Display for InspectedSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "snapshot of {} states, {} holds", self.states, self.holds.len())?;
        for hold in &self.holds {
            let plans: Vec<&str> = hold.plans.iter().map(|plan| plan.name().as_str()).collect();
            writeln!(f, "hold {} of {}", hold.id, plans.join(", "))?;
            for (name, rule, estimate) in charges(hold) {
                match estimate {
                    Some(estimate) => writeln!(f, "  {name}  {estimate} {}", rule.unit())?,
                    None => writeln!(f, "  {name}  nothing: in shadow, it would have denied")?,
                }
            }
            for (word, at) in [("charged", hold.charged_at), ("lease ends", hold.lease_end)] {
                writeln!(f, "  {word} {}  ({})", Rfc3339(at), Ago { then: at, now: self.now })?;
            }
        }
        Ok(())
    }
}
