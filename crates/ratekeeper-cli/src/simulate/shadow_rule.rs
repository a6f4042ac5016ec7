//! A rule in shadow: what it would have denied of what was admitted.

use ratekeeper::{Rule, Timestamp};

use super::peak::Peak;

/// A rule in shadow, and what it would have denied of the requests that were admitted.
#[derive(Debug)]
pub struct ShadowRule {
    name: String,
    text: String,
    would_deny: u64,
    /// How often each key would have been denied, by the number of the key.
    keys: Vec<u64>,
    peak: Peak,
}

impl ShadowRule {
    pub(super) fn new(rule: &Rule) -> Self {
        let (name, text) = (rule.name().to_string(), rule.to_string());
        ShadowRule { name, text, would_deny: 0, keys: Vec::new(), peak: Peak::default() }
    }

    /// Counts a request that was admitted.
    pub(super) fn count(&mut self, key: u32, now: Timestamp, allowed: bool) {
        if allowed {
            return self.peak.count(now);
        }
        self.would_deny += 1;
        let key = key as usize;
        if self.keys.len() <= key {
            self.keys.resize(key + 1, 0);
        }
        self.keys[key] += 1;
    }

    /// Returns its name in the plan.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its text: `5/s`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns how many of the requests that were admitted it would have denied.
    pub fn would_deny(&self) -> u64 {
        self.would_deny
    }

    /// Returns how many keys it would have denied something that was admitted.
    pub fn keys_denied(&self) -> usize {
        self.keys.iter().filter(|denied| **denied > 0).count()
    }

    /// Returns how often it would have denied each key, by the number of the key.
    pub(super) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Returns the most requests in one second that it would have left.
    pub(super) fn peak(&self) -> u64 {
        self.peak.most
    }
}
