//! The age of a request that waits.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers every request that waits, in the order in which they came, over all limiters of the process.
static TICKETS: AtomicU64 = AtomicU64::new(1);

/// Returns the next number.
pub(crate) fn ticket() -> u64 {
    TICKETS.fetch_add(1, Ordering::Relaxed)
}
