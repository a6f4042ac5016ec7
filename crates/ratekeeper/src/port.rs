//! Every port on one page: what the engine asks of the world.

use std::fmt::Debug;

use crate::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + Debug {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
