//! A cache of denials in front of a store that is far away: a key that was denied until some time is denied until then
//! without asking.
//!
//! ```text
//! cache     the store in front of the store
//! set       the denials of the keys that share a lock
//! denial    one denial, and how long it holds
//! crowd     those who ask together for a key whose denials are too short to be repeated
//! ```

mod cache;
mod crowd;
mod denial;
mod set;

pub use cache::{DenialCache, DenialStatistics};
