//! What a call for a leased key asks, when nobody waits for it.

use crate::port::Request;
use crate::{Cost, Key, OwnedRules, RuleId, Rules};

/// A key and its rules, without who asked.
#[derive(Debug)]
pub(super) struct OwnedRequest {
    key: Box<[u8]>,
    rules: OwnedRules,
}

impl OwnedRequest {
    pub(super) fn of(request: &Request<'_>) -> Self {
        OwnedRequest { key: request.key.as_bytes().into(), rules: request.rules.into() }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns true if one of these rules has the same states.
    pub(super) fn shares_a_rule_with(&self, rules: Rules<'_>) -> bool {
        self.rules.rules().iter().any(|(held, _)| rules.iter().any(|(id, _)| id == held))
    }

    /// Returns true if one of these rules is one of its own that has changed.
    pub(super) fn is_replaced_by(&self, rules: Rules<'_>) -> bool {
        let mut held = self.rules.rules().iter().filter(|(id, _)| *id != RuleId::AD_HOC);
        held.any(|(held, before)| rules.iter().any(|(id, quota)| id == held && quota != before))
    }

    /// Returns the question for so much.
    pub(super) fn at_cost(&self, cost: u64) -> Request<'_> {
        Request::new(Key::again(&self.key), self.rules.rules(), Cost::new(cost))
    }
}
