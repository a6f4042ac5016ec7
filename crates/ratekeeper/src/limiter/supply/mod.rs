//! What a limiter takes from, as data: no locks, no clock, nobody waiting.
//!
//! ```text
//! rate         a quota and the state of its algorithm: the engine's views, and reading on under another quota
//! ticks        whole tokens at whole intervals
//! leaky_line   one every interval
//! debt         when what was used beyond what there was will have been paid
//! capacity     any of these, or permits, behind the same questions
//! ```

mod capacity;
mod debt;
mod leaky_line;
mod rate;
mod ticks;

pub(crate) use capacity::{Capacity, Outlook, Supply};
pub(crate) use leaky_line::LeakyLine;
pub use rate::Inherit;
pub(crate) use rate::{check_rate, later};
pub use ticks::Ticks;
