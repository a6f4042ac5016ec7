//! A circuit breaker: a store that fails is left alone for a while, and nobody waits for it.
//!
//! ```text
//! breaker    what threads share, and its permits     settings   when it opens, and for how long
//! machine    the breaker as data                     window     how many failed of late
//! ```

mod breaker;
mod machine;
mod settings;
mod window;

pub use breaker::{Breaker, BreakerPermit};
pub use settings::BreakerSettings;
