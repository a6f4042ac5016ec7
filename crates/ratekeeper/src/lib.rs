//! Rate limiting done right, once.

pub mod algorithm;
mod clock;
mod cost;
mod decision;
mod error;
mod key;
pub mod limiter;
mod name;
mod plan;
pub mod port;
pub mod quota;
pub mod state;
pub mod store;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod time;

pub use algorithm::{Algorithm, Anchor, Calendar, CalendarUnit, Zone};
pub use clock::MonotonicClock;
pub use cost::Cost;
pub use decision::{Decision, Reason};
pub use error::{StoreError, StoreErrorKind};
pub use key::{Key, KeyError};
pub use limiter::Limiter;
pub use name::Name;
pub use plan::{Plan, Rule, RuleId, Rules};
pub use quota::{Quota, QuotaError};
pub use state::State;
pub use store::MemoryStore;
pub use time::{Nanos, Timestamp};
