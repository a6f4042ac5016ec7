//! Rate limiting done right, once: the engine.
//!
//! A [`Quota`] says how much, an [algorithm] decides, a [store] remembers, and a [`Keeper`] puts
//! them together for keys and named [plans](Plan). The same question gets the same answer in process, through a
//! middleware, over a wire and inside a Redis script.
//!
//! ```
//! use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plans = Registry::new([Plan::parse("free", "10/s burst 20; 1000/day")?]);
//! let keeper = Keeper::new(MemoryStore::default(), plans);
//! let decision = keeper.acquire("user:42", "free", 1).await?;
//! assert!(decision.allowed && decision.remaining == 19);
//! # Ok(()) }
//! ```
//!
//! # What it never does
//!
//! It knows nothing of networks, of HTTP or of Redis: those are adapters, in crates of their own. No algorithm reads
//! a clock. No input makes it panic, wrap or let a limit lapse. It never holds more keys than it was told to.
//!
//! # Layout
//!
//! Floors, from the ground up: a module uses those above it in this list, and never one below.
//!
//! ```text
//! time cost key name unit amounts   values that cannot be built wrong
//! error failure_mode     why a store could not decide, and what is answered then
//! quota/                 so many per period, checked when it is built; the algorithms and calendars that it names
//! decision charged       the answer to a request; when its cost was charged
//! algorithm/             the algorithms, pure, each with its state
//! plan/ state/           named lists of rules; states as text and as bytes, and the keys they are stored at
//! port/                  what the engine asks of the world: stores, clocks, plans, observers
//! clock/ sync            the time in process; locks and atomics
//! store/                 in memory, and on any compare-and-set; a breaker and a cache of denials in front of a store
//! limiter/               what waits in turn
//! keeper/                the use case: plans, a store, a failure mode, one answer
//! testkit/               to test your limits, and your stores
//! ```
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `tokio` (default) | waiting by tokio's timers |
//! | `adaptive` | concurrency limits that find themselves |
//! | `timezones` | calendar windows in named time zones; UTC is always there |
//! | `testkit` | the fake clock, the reference model, the conformance suite |

pub mod algorithm;
mod amounts;
mod charged;
mod clock;
mod cost;
mod decision;
mod error;
mod failure_mode;
pub mod keeper;
mod key;
pub mod limiter;
mod name;
mod plan;
pub mod port;
pub mod quota;
mod quote;
pub mod state;
pub mod store;
mod sync;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod time;
mod unit;

pub use algorithm::State;
pub use amounts::Amounts;
pub use charged::{Charged, When};
pub use clock::MonotonicClock;
#[cfg(all(feature = "tokio", not(loom)))]
pub use clock::TokioClock;
pub use cost::Cost;
pub use decision::{Decision, Reason};
pub use error::{StoreError, StoreErrorKind};
pub use failure_mode::FailureMode;
pub use keeper::{Hold, Keeper, Registry, Ruling};
pub use key::{IntoKey, Key, KeyError};
pub use limiter::Limiter;
pub use name::{Name, NameError};
pub use plan::{
    Lease, LeaseSettingError, Leasing, NotLeased, OnLapse, OwnedRules, Plan, PlanError, Rule, RuleId, Rules,
};
pub use quota::{Algorithm, Anchor, Calendar, CalendarUnit, Quota, QuotaError, Zone};
pub use store::{CasStore, MemoryStore};
pub use time::{Nanos, Timestamp};
pub use unit::{Unit, UnitError};
