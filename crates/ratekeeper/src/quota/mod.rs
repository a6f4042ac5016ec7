//! Quotas: so many requests per period, with a burst, decided by one algorithm.
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
pub use zone::Zone;
