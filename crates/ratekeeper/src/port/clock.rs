//! The time.

use std::fmt::Debug;
use std::sync::Arc;

use crate::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + Debug {
    /// Returns the present instant.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
