//! A request that is willing to wait, and what becomes of it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::charges::PendingCharge;
use super::waiters::{WaiterId, WaiterKind};
use crate::limiter::error::AcquireError;
use crate::{Cost, Decision, Timestamp};

/// Numbers every request that waits, in the order in which they came, over all limiters of the process.
static TICKETS: AtomicU64 = AtomicU64::new(1);

/// Returns the age of a request that comes now, comparable between queues.
pub(crate) fn ticket() -> u64 {
    TICKETS.fetch_add(1, Ordering::Relaxed)
}

/// What became of a request that is willing to wait.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It was taken, without waiting.
    Granted(Decision),
    /// It waits, as this one.
    Waiting(WaiterId),
}

/// How waiting ended.
#[derive(Debug)]
pub(crate) enum WaitOutcome {
    Granted(Decision, PendingCharge),
    Failed(AcquireError),
}

/// A request that is willing to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitRequest {
    pub(crate) cost: Cost,
    /// By the limiter's clock.
    pub(crate) deadline: Option<Timestamp>,
    /// Its age, comparable between queues.
    pub(crate) ticket: u64,
    pub(crate) kind: WaiterKind,
}
