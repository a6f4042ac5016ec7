//! What a cost waits for.

use crate::{Nanos, Timestamp};

/// What one cost must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it would pass now.
    Ready,
    /// It would pass after just so long, and not a nanosecond earlier, if nobody else asked.
    After(Nanos),
    /// It can never pass.
    Never,
}

impl Wait {
    /// So long from now, unless that is beyond the end of time (or of what a span can hold, which is further): no
    /// clock will tell that instant, so it is never.
    pub(super) fn after(now: Timestamp, wait: Option<Nanos>) -> Wait {
        let told = wait.filter(|wait| *wait <= Timestamp::MAX.since(now));
        told.map_or(Wait::Never, Wait::After)
    }
}
