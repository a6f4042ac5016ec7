//! Quotas: so many requests per period, with a burst, decided by one algorithm.
//!
//! A [`Quota`] is built by a [`QuotaBuilder`] or parsed from text, and checked once, then. Whatever holds one can rely on it:
//! no count is zero, no product overflows, no window is empty, and no refill takes longer than 200 years.
//!
//! ```
//! use ratekeeper::{Algorithm, Quota};
//!
//! let daily: Quota = "1000/day fixed calendar".parse()?;
//! assert_eq!(daily.algorithm().word(), "fixed");
//! let error = Quota::per_second(5).burst(9).algorithm(Algorithm::SlidingWindow).build().unwrap_err();
//! assert_eq!((error.field(), error.value()), ("burst", "9"));
//! assert_eq!(error.remedy(), "a window's capacity is its count, 5: leave `burst` out");
//! # Ok::<(), ratekeeper::QuotaError>(())
//! ```
//!
//! ```text
//! error      why a quota cannot be                 zone       time zones
//! calendar   the windows of the calendar           algorithm  what a quota may name to decide it
//! quota      the quota                             builder    where every quota is checked
//! text       the text form
//! ```

mod algorithm;
mod builder;
mod calendar;
mod error;
mod quota;
mod text;
mod zone;

pub use algorithm::{Algorithm, Anchor};
pub use builder::QuotaBuilder;
pub use calendar::{Calendar, CalendarUnit};
pub use error::{QuotaError, QuotaErrorKind};
pub use quota::Quota;
pub(crate) use text::unit_word;
pub use zone::Zone;
