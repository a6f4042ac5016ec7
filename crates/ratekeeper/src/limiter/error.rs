//! Why a limiter did not grant, or could not be changed or built.

use std::fmt;

use crate::{Nanos, QuotaError};

/// The error of a caller who waited, or would have waited, in vain: what went wrong, at which sort of limiter, and when
/// to try again. Nothing was taken.
///
/// ```
/// use ratekeeper::limiter::{AcquireErrorKind, Limiter, LimiterKind};
/// let limiter = Limiter::builder("1/day".parse()?).queue(0).build()?;
/// assert!(limiter.try_acquire(1).allowed);
/// let error = limiter.acquire(1).wait().unwrap_err();
/// assert_eq!((error.kind(), error.limiter()), (AcquireErrorKind::QueueFull, LimiterKind::Rate));
/// assert_eq!(error.retry_after().unwrap().ceil_secs().div_ceil(3_600), 24, "hours");
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireError {
    kind: AcquireErrorKind,
    limiter: LimiterKind,
    /// The longest time for none.
    retry_after: Nanos,
    part: Option<u16>,
    /// How many there are, and how many there may be, of what has run out.
    count: u64,
    bound: u64,
}

/// What sort of failure an [`AcquireError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireErrorKind {
    /// The deadline passed, or could not be met and so was not waited for.
    Deadline,
    /// The limiter was closed, before the request or while it waited.
    Closed,
    /// As many callers are waiting as may wait.
    QueueFull,
    /// The cost is more than the limiter can ever grant.
    NeverFits,
    /// A [`Keyed`](super::Keyed) limiter holds as many keys as it may, none of them could be forgotten, and this one is
    /// new.
    TooManyKeys,
    /// A thread waits for a clock that does not move: tokio's time is paused, and the thread itself keeps the runtime
    /// from moving it. Await the future in a task instead.
    ClockStopped,
}

/// Which sort of limiter it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimiterKind {
    /// A [`Limiter`](super::Limiter) of a quota.
    Rate,
    /// A [`Limiter`](super::Limiter) of [`Ticks`](super::Ticks), which refills at whole intervals.
    Ticks,
    /// A key of a [`Keyed`](super::Keyed).
    Keyed,
    /// A [`Concurrency`](super::Concurrency), which limits how many are in flight.
    Concurrency,
    /// A [`LeakyQueue`](super::LeakyQueue), which grants at a constant rate.
    LeakyQueue,
    /// Several of them, as an [`All`](super::All).
    All,
    /// A [`Repository`](super::Repository), which holds limiters by key.
    Repository,
}

impl LimiterKind {
    /// Returns the kind as metrics and logs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            LimiterKind::Rate => "rate",
            LimiterKind::Ticks => "ticks",
            LimiterKind::Keyed => "keyed",
            LimiterKind::Concurrency => "concurrency",
            LimiterKind::LeakyQueue => "leaky_queue",
            LimiterKind::All => "all",
            LimiterKind::Repository => "repository",
        }
    }
}

impl fmt::Display for LimiterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl AcquireError {
    pub(crate) const fn new(kind: AcquireErrorKind, limiter: LimiterKind) -> Self {
        AcquireError { kind, limiter, retry_after: Nanos::MAX, part: None, count: 0, bound: 0 }
    }

    /// Adds the time after which to try again.
    pub(crate) fn retry_in(mut self, wait: Option<Nanos>) -> Self {
        self.retry_after = wait.unwrap_or(Nanos::MAX);
        self
    }

    /// Adds how many there are, and how many there may be, of what has run out.
    pub(crate) fn counted(mut self, count: u64, bound: u64) -> Self {
        (self.count, self.bound) = (count, bound);
        self
    }

    /// Adds which part of several it was.
    pub(crate) fn of_part(mut self, part: usize) -> Self {
        self.part = u16::try_from(part).ok();
        self
    }

    /// Returns why nothing was granted.
    pub const fn kind(&self) -> AcquireErrorKind {
        self.kind
    }

    /// Returns the sort of limiter that refused; of an [`All`](super::All), that of the part.
    pub const fn limiter(&self) -> LimiterKind {
        self.limiter
    }

    /// Returns which part of an [`All`](super::All) refused, counted from 0.
    pub fn part(&self) -> Option<usize> {
        self.part.map(usize::from)
    }

    /// Returns when to try again, as far as that can be foreseen.
    ///
    /// | kind | the time until |
    /// |---|---|
    /// | `Deadline` | this cost would have been granted, or would be if it entered the queue now |
    /// | `QueueFull` | the queue has room for one more |
    /// | `TooManyKeys` | the first key may be forgotten |
    /// | `Closed`, `NeverFits`, `ClockStopped` | none: it would fail again |
    ///
    /// When a permit comes back cannot be foreseen: a [`Concurrency`](super::Concurrency) returns `None`.
    pub fn retry_after(&self) -> Option<Nanos> {
        (self.retry_after < Nanos::MAX).then_some(self.retry_after)
    }

    /// Returns true if asking again later may succeed.
    pub const fn is_transient(&self) -> bool {
        match self.kind {
            AcquireErrorKind::Deadline | AcquireErrorKind::QueueFull | AcquireErrorKind::TooManyKeys => true,
            AcquireErrorKind::Closed | AcquireErrorKind::NeverFits | AcquireErrorKind::ClockStopped => false,
        }
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AcquireError { kind, limiter, count, bound, .. } = self;
        write!(f, "{limiter} limiter: ")?;
        match kind {
            AcquireErrorKind::Deadline => f.write_str("not granted before the deadline"),
            AcquireErrorKind::Closed => f.write_str("closed"),
            AcquireErrorKind::QueueFull => {
                let callers = if *count == 1 { "caller is" } else { "callers are" };
                write!(f, "queue is full: {count} {callers} waiting (limit {bound})")
            }
            AcquireErrorKind::NeverFits => f.write_str("the cost is more than its capacity"),
            AcquireErrorKind::TooManyKeys => {
                write!(f, "no room for a new key: {count} keys are limited (limit {bound})")
            }
            AcquireErrorKind::ClockStopped => f.write_str(
                "its clock does not move: tokio's time is paused; await the future instead of calling `wait`",
            ),
        }?;
        if let Some(part) = self.part {
            write!(f, " (part {part})")?;
        }
        match self.retry_after() {
            Some(wait) => write!(f, "; try again in {wait}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for AcquireError {}

/// Why a limiter's quota was not changed. It goes on under the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetQuotaError {
    /// The quota is not one of a rate.
    Quota(QuotaError),
    /// The limiter is not decided by a quota: it counts [`Ticks`](super::Ticks).
    NoQuota,
    /// The key is new, and there is no room for it, or the limiter is closed.
    Key(AcquireError),
}

impl fmt::Display for SetQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetQuotaError::Quota(error) => error.fmt(f),
            SetQuotaError::NoQuota => f.write_str("a limiter of ticks has no quota: build another limiter"),
            SetQuotaError::Key(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetQuotaError {}

/// The same limiter was given twice to one [`All`](super::All): it is not clear what it would be charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuplicatePart {
    /// The part that it was first, counted from 0.
    pub first: usize,
    /// The part that it was again.
    pub second: usize,
}

impl fmt::Display for DuplicatePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DuplicatePart { first, second } = self;
        write!(f, "part {second} is the same limiter as part {first}: give it once, with the cost of both")
    }
}

impl std::error::Error for DuplicatePart {}
