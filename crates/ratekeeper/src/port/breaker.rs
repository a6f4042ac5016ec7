//! The states of a [breaker](crate::store::Breaker), and the changes that its observers are called with.

use std::sync::Arc;

use crate::StoreError;

/// The state of a breaker: whether the store behind it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Requests reach the store.
    Closed,
    /// The store has failed too often and is not asked until its rest has passed: failure modes answer.
    Open,
    /// One request at a time finds out whether the store is back; failure modes answer the others.
    HalfOpen,
}

impl BreakerState {
    /// Returns the state as metrics spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

/// One change of a breaker's state, and its cause.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BreakerChange {
    /// What the breaker is [named](crate::store::Breaker::named) after, such as the address of a server; empty if it has
    /// no name.
    pub name: Arc<str>,
    /// The state before the change.
    pub from: BreakerState,
    /// The state from now on.
    pub to: BreakerState,
    /// The failure that opened it last; none once it is closed.
    pub cause: Option<Arc<StoreError>>,
}
