//! One question to a store, and the answer to one that takes what there is.

use crate::{Cost, Decision, Key, Rules};

/// One question to a store: may `key` take `cost` under all of these rules?
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The key that the cost is counted for.
    pub key: Key<'a>,
    /// What they are held to.
    pub rules: Rules<'a>,
    /// How much the request takes if it is allowed; 0 asks without taking.
    pub cost: Cost,
}

/// What was granted of a cost, and the decision that granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How much was taken; nothing if the decision denies.
    pub granted: Cost,
    /// The decision for what was taken.
    pub decision: Decision,
}
