//! What a call for a leased key asks, when nobody waits for it.

use crate::port::Request;
use crate::{Cost, Key, OwnedRules};

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

    /// Returns the question for so much.
    pub(super) fn at_cost(&self, cost: u64) -> Request<'_> {
        Request::new(Key::again(&self.key), self.rules.rules(), Cost::new(cost))
    }
}
