//! Rate limiting done right, once.

pub mod algorithm;
mod clock;
mod cost;
mod decision;
mod key;
pub mod limiter;
pub mod port;
pub mod quota;
pub mod state;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod time;

pub use algorithm::{Algorithm, Anchor, Calendar, CalendarUnit, Zone};
pub use clock::MonotonicClock;
pub use cost::Cost;
pub use decision::{Decision, Reason};
pub use key::{Key, KeyError};
pub use limiter::Limiter;
pub use quota::{Quota, QuotaError};
pub use state::State;
pub use time::{Nanos, Timestamp};
