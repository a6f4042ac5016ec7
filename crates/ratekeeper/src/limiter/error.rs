//! Why waiting ended without a grant.

use std::fmt;

use crate::Nanos;

/// Why waiting ended without a grant: what went wrong, at which sort of limiter, and when to try again. Nothing was
/// taken.
///
/// ```
/// use ratekeeper::limiter::{AcquireErrorKind, Limiter, LimiterKind};
/// let limiter = Limiter::builder("10/s burst 1".parse()?).queue(0).build()?;
/// assert!(limiter.try_acquire(1).allowed);
/// let error = limiter.acquire(1).wait().unwrap_err();
/// assert_eq!((error.kind(), error.limiter()), (AcquireErrorKind::QueueFull, LimiterKind::Rate));
/// assert_eq!(error.retry_after().unwrap().ceil_millis(), 100);
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireError {
    kind: AcquireErrorKind,
    limiter: LimiterKind,
    /// The longest time for none.
    retry_after: Nanos,
    part: Option<u16>,
}

/// What sort of failure an [`AcquireError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireErrorKind {
    /// The deadline passed, or could not be met and so was not waited for.
    Deadline,
    /// The limiter was closed.
    Closed,
    /// As many callers wait as may.
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

/// Which sort of limiter refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimiterKind {
    /// A [`Limiter`](super::Limiter) of a quota.
    Rate,
    /// A [`Limiter`](super::Limiter) of [`Ticks`](super::Ticks).
    Ticks,
    /// A key of a [`Keyed`](super::Keyed).
    Keyed,
    /// A [`Concurrency`](super::Concurrency).
    Concurrency,
    /// A [`LeakyQueue`](super::LeakyQueue).
    LeakyQueue,
    /// Several of them, as an [`All`](super::All).
    All,
    /// A [`Repository`](super::Repository) of limiters.
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
        AcquireError { kind, limiter, retry_after: Nanos::MAX, part: None }
    }

    /// The same, with the time after which to try again.
    pub(crate) fn retry_in(mut self, wait: Option<Nanos>) -> Self {
        self.retry_after = wait.unwrap_or(Nanos::MAX);
        self
    }

    /// The same, told by this part of several.
    pub(crate) fn of_part(mut self, part: usize) -> Self {
        self.part = u16::try_from(part).ok();
        self
    }

    /// Returns what went wrong.
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
    /// | `QueueFull` | there is a place in the queue |
    /// | `TooManyKeys` | the first key may be forgotten |
    /// | `Closed`, `NeverFits`, `ClockStopped` | none: it would fail again |
    ///
    /// When a permit comes back cannot be foreseen: a [`Concurrency`](super::Concurrency) tells none.
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
        write!(f, "{} limiter: ", self.limiter)?;
        f.write_str(match self.kind {
            AcquireErrorKind::Deadline => "not granted before the deadline",
            AcquireErrorKind::Closed => "closed",
            AcquireErrorKind::QueueFull => "the queue is full",
            AcquireErrorKind::NeverFits => "the cost is more than its capacity",
            AcquireErrorKind::TooManyKeys => "the key is new, and as many keys are limited as may be",
            AcquireErrorKind::ClockStopped => {
                "its clock does not move: tokio's time is paused; await the future instead of calling `wait`"
            }
        })?;
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
