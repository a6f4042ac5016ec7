//! The time.

use std::fmt::Debug;
use std::sync::Arc;

use crate::Timestamp;

/// A source of the present time. Implement it to bring a clock of your own.
pub trait Clock: Send + Sync + Debug {
    /// Returns the present instant. Called for every decision, so it must not block.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
