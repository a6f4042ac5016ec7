//! How long a cost must wait.

use crate::{Nanos, Timestamp};

/// How long one cost must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The cost would pass now.
    Ready,
    /// It would pass after exactly so long, and not a nanosecond earlier, if nobody else asked.
    After(Nanos),
    /// The cost can never pass: it is more than the capacity, or its time lies beyond the last instant.
    Never,
}

impl Wait {
    /// Returns a wait of so long from now, or never if that is beyond [`Timestamp::MAX`] (or beyond what a span can hold,
    /// which is further): no clock will show that instant.
    pub(super) fn after(now: Timestamp, wait: Option<Nanos>) -> Wait {
        let told = wait.filter(|wait| *wait <= Timestamp::MAX.since(now));
        told.map_or(Wait::Never, Wait::After)
    }
}
