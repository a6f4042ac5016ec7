//! Starting a timer for a limiter, for as long as somebody waits.
//!
//! Real time is kept by one thread of the process for all limiters: a runtime may be alive and not driven, or be shut
//! down, and those who wait elsewhere would wait for it. Paused time can be kept only by a task of the runtime that
//! paused it, because that moves it from one of its timers to the next.
//!
//! ```text
//! task     a timer as a task of a tokio runtime
//! thread   the process's timer thread
//! start    which of the two
//! ```

mod start;
#[cfg(all(feature = "tokio", not(loom)))]
mod task;
#[cfg(not(loom))]
mod thread;

pub(crate) use start::start;
